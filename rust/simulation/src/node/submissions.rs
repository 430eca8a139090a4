//! Requests of users: publish, cancel, subscribe. Each is submitted at once and answered when applied.

use std::ops::Range;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Class;
use delaymq_core::record::attach::{Attach, encode_attach};
use delaymq_core::record::command::{Cancel, Move, encode_cancel, encode_move};
use delaymq_core::record::expire::{Expires, Expiry, OnExpiry};
use delaymq_core::record::message::{Message, encode_message};
use delaymq_core::record::name::{GroupStart, encode_consumer, encode_group};
use delaymq_core::store::{Receipt, StartAt, retry_subject};
use delaymq_core::units::{ConsumerNumber, DueKey, GroupNumber, Millis, Sequence, SubjectNumber};

use super::draft::{Draft, last_of};
use super::{Label, Node};

/// The due time of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// So many milliseconds after the trusted time of the publish.
    After(u64),
    /// At this time.
    At(Millis),
}

impl Due {
    /// The delay in milliseconds, if it is one.
    pub fn delay_ms(self) -> Option<u64> {
        match self {
            Self::After(delay_ms) => Some(delay_ms),
            Self::At(_) => None,
        }
    }
}

/// A message to publish.
#[derive(Clone, Copy, Debug)]
pub struct NewMessage<'a> {
    /// Its subject's name.
    pub subject: &'a str,
    /// Its due time.
    pub due: Due,
    /// Its body.
    pub body: &'a [u8],
    /// When it expires, and the effect.
    pub expires: Option<(Expires, OnExpiry)>,
    /// Its encoded meta.
    pub meta: &'a [u8],
}

impl NewMessage<'_> {
    /// The expiry of the message if it is due at this time.
    pub fn expiry(&self, due: Millis) -> Option<Expiry> {
        self.expires.map(|(expires, then)| Expiry { at: expires.at(due), then })
    }
}

/// A publish that the log's queue has accepted.
#[derive(Clone, Debug)]
pub struct Published {
    /// The messages are visible when everything below this sequence is.
    pub end: Sequence,
    /// One for each message, in order.
    pub receipts: Vec<Receipt>,
}

impl Node {
    /// Publishes messages, all or none. `InvalidArgument` for a due time that is too far ahead.
    pub fn publish(&mut self, messages: &[NewMessage<'_>]) -> Result<Option<Published>> {
        let (mut draft, mut named) = (Draft::default(), Vec::new());
        for message in messages {
            let subject = self.subject_in(&mut draft, message.subject)?;
            named.push((*message, subject, self.due_time(message.due)?));
        }
        let submitted = self.submit_messages(draft, &named)?;
        Ok(submitted.map(|(range, receipts)| Published { end: range.end, receipts }))
    }

    /// Queues a draft with these messages behind its records.
    pub(super) fn submit_messages(
        &mut self,
        mut draft: Draft,
        messages: &[(NewMessage<'_>, SubjectNumber, Millis)],
    ) -> Result<Option<(Range<Sequence>, Vec<Receipt>)>> {
        let (before, published) = (u64::from(draft.count), self.reading.now);
        for (message, subject, due) in messages {
            let (expiry, body) = (message.expiry(*due), message.body);
            expiry.map_or(Ok(()), |expiry| expiry.check(*due))?;
            let (subject, meta) = (*subject, message.meta);
            let stored = Message { due: *due, published, subject, opaque: true, expiry, meta, body };
            draft.add(|records| encode_message(records, &stored));
        }
        let Some(range) = self.submit_draft(&draft, Class::Growing, false)? else { return Ok(None) };
        let first = range.start.plus(before);
        let receipts = messages.iter().zip(0_u64..).map(|((message, subject, due), place)| {
            let key = DueKey { due: *due, sequence: first.plus(place) };
            let size = u32::try_from(message.body.len()).unwrap_or(u32::MAX);
            Receipt::new(self.identity.stream.id, self.epoch, key, *subject, size, &self.nonce)
        });
        let receipts = receipts.collect();
        Ok(Some((range, receipts)))
    }

    /// The number of a subject's name, as publishers know it.
    pub fn subject_number(&self, name: &str) -> Option<SubjectNumber> {
        self.names.get(name).map(|named| named.number)
    }

    pub(super) fn due_time(&self, due: Due) -> Result<Millis> {
        let now = self.reading.now;
        let time = match due {
            Due::After(delay_ms) => now.plus(delay_ms),
            Due::At(time) => time,
        };
        if time.since(now) > self.options.delay_ms_max {
            return Err(Error::InvalidArgument {
                argument: "due",
                expected: format!("at most {} ms ahead", self.options.delay_ms_max),
                found: format!("{} ms ahead", time.since(now)),
            });
        }
        Ok(time)
    }

    /// The receipt that a message was published with.
    pub fn receipt_of(&self, key: DueKey, subject: SubjectNumber, size: u32) -> Option<Receipt> {
        self.receipts.receipt_of(key, subject, size)
    }

    /// False if the receipt names no message of this store, so that a cancel need not be submitted. `InvalidArgument`
    /// if this store never returned the receipt.
    pub fn may_be_here(&self, receipt: &Receipt) -> Result<bool> {
        self.receipts.may_be_here(receipt)
    }

    /// Submits a cancel.
    pub fn cancel(&mut self, receipt: &Receipt) -> Result<Option<Sequence>> {
        let cancel = Cancel { target: receipt.key, subject: receipt.subject, size: receipt.size };
        self.submit_one(Class::Finishing, false, |records| encode_cancel(records, cancel))
    }

    /// Submits a move to another time. Returns the due time after the move with the sequence of the command.
    pub fn move_to(&mut self, receipt: &Receipt, due: Due) -> Result<Option<DueKey>> {
        let (delay_ms, due) = (due.delay_ms(), self.due_time(due)?);
        let moved = Move { target: receipt.key, due, delay_ms, subject: receipt.subject, size: receipt.size };
        let command = self.submit_one(Class::Finishing, false, |records| encode_move(records, &moved))?;
        Ok(command.map(|sequence| DueKey { due, sequence }))
    }

    /// Submits a group of a subject, and names its retry subject. Both subjects are made if they do not exist.
    pub fn subscribe(&mut self, subject: &str, group: &str, start: StartAt) -> Result<Option<Sequence>> {
        let mut draft = Draft::default();
        let main = self.subject_in(&mut draft, subject)?;
        let is_new = draft.count > 0;
        self.subject_in(&mut draft, &retry_subject(subject, group))?;
        let start = self.start_of(main, start)?;
        draft.add(|records| encode_group(records, main, start, group));
        let is_there = self.owner.state().group_named(main, group).is_some();
        let class = if is_there && !is_new { Class::Finishing } else { Class::Growing };
        Ok(self.submit_draft(&draft, class, true)?.map(last_of))
    }

    /// Submits a consumer of a group. With [`super::NodeOptions::keeps_consumers`] it is one that a client named, with
    /// a reserved block of offsets.
    pub fn begin_consumer(&mut self, group: GroupNumber, name: &str, block: u32) -> Result<Option<Sequence>> {
        if let Some(there) = self.owner.state().groups.get(&group).filter(|_| self.options.keeps_consumers) {
            let (subject, there) = (there.subject, there.name.clone());
            return self.attach(&Attach {
                subject,
                start: GroupStart::Unfinished,
                block,
                is_broadcast: false,
                group: &there,
                consumer: name,
            });
        }
        self.submit_one(Class::Finishing, false, |records| encode_consumer(records, group, name))
    }

    /// Submits a consumer that a client named, and its group.
    pub fn attach(&mut self, attach: &Attach<'_>) -> Result<Option<Sequence>> {
        self.submit_one(Class::Finishing, true, |records| encode_attach(records, attach))
    }

    /// Ends a consumer; its messages go to other consumers. `ask` labels the fact.
    pub fn end_consumer(&mut self, group: GroupNumber, consumer: ConsumerNumber, ask: u64) -> Result<()> {
        self.unread.remove(&(group, consumer));
        self.owner.end_consumer(group, consumer, &mut self.proposals);
        self.label(Label::Asked(ask));
        self.send().map(drop)
    }

    /// Removes a group. `ask` labels the fact.
    pub fn end_group(&mut self, group: GroupNumber, ask: u64) -> Result<()> {
        self.owner.end_group(group, &mut self.proposals);
        self.label(Label::Asked(ask));
        self.send().map(drop)
    }
}
