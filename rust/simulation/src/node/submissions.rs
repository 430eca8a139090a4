//! Requests of users: publish, cancel, subscribe. Each is submitted at once and answered when applied.

use std::ops::Range;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Class;
use delaymq_core::record::attach::{Attach, encode_attach};
use delaymq_core::record::command::{Cancel, Move, encode_cancel, encode_move};
use delaymq_core::record::message::{Message, encode_message};
use delaymq_core::record::name::{GroupStart, encode_consumer, encode_group, encode_subject};
use delaymq_core::store::{NamedSubject, Receipt, retry_subject};
use delaymq_core::units::{ConsumerNumber, DueKey, GroupNumber, Millis, Sequence, SubjectNumber};

use super::{Label, Node};

/// When a message is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// So many milliseconds after the trusted time of the publish.
    After(u64),
    /// At this time.
    At(Millis),
}

/// A message to publish.
#[derive(Clone, Copy, Debug)]
pub struct NewMessage<'a> {
    /// Its subject's name.
    pub subject: &'a str,
    /// When it is due.
    pub due: Due,
    /// Its body.
    pub body: &'a [u8],
}

/// A publish that the log's queue has accepted.
#[derive(Clone, Debug)]
pub struct Published {
    /// Visible when all below `end` is.
    pub end: Sequence,
    /// One for each message, in order.
    pub receipts: Vec<Receipt>,
}

impl Node {
    /// Publishes messages, all or none. `None` where they must wait for room.
    ///
    /// # Errors
    /// As [`Self::submit`]; `InvalidArgument` for a due time that is too far ahead.
    pub fn publish(&mut self, messages: &[NewMessage<'_>]) -> Result<Option<Published>> {
        let now = self.reading.now;
        let mut facts: Vec<(NamedSubject, &str)> = Vec::new();
        let mut named = Vec::new();
        for message in messages {
            let subject = self.names.assign(message.subject)?;
            if subject.needs_fact && facts.iter().all(|(known, _)| known.number != subject.number) {
                facts.push((subject, message.subject));
            }
            named.push((subject.number, self.due_time(message.due)?));
        }
        let mut records = Vec::new();
        for (subject, name) in &facts {
            encode_subject(&mut records, subject.number, name);
        }
        for (message, (subject, due)) in messages.iter().zip(&named) {
            let stored =
                Message { due: *due, published: now, subject: *subject, opaque: true, meta: b"", body: message.body };
            encode_message(&mut records, &stored);
        }
        let count = messages.len().saturating_add(facts.len());
        let Some(range) = self.submit(&records, count_of(count), Class::Growing, false)? else { return Ok(None) };
        for (_, name) in &facts {
            self.names.confirm(name);
        }
        let first = range.start.plus(facts.len() as u64);
        let receipts = messages.iter().zip(&named).zip(0_u64..).map(|((message, (subject, due)), index)| {
            let key = DueKey { due: *due, sequence: first.plus(index) };
            let size = u32::try_from(message.body.len()).unwrap_or(u32::MAX);
            Receipt::new(self.identity.stream.id, self.epoch, key, *subject, size, &self.nonce)
        });
        Ok(Some(Published { end: range.end, receipts: receipts.collect() }))
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

    /// True where the receipt may name a message of this store; if not, no cancel needs asking.
    ///
    /// # Errors
    /// `InvalidArgument` where this store never gave it out.
    pub fn may_be_here(&self, receipt: &Receipt) -> Result<bool> {
        self.receipts.may_be_here(receipt)
    }

    /// Asks to cancel a message. The sequence is that of the command, under which the outcome is
    /// found once it is applied; `None` where it must wait for room.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn cancel(&mut self, receipt: &Receipt) -> Result<Option<Sequence>> {
        let mut records = Vec::new();
        let cancel = Cancel { target: receipt.key, subject: receipt.subject, size: receipt.size };
        encode_cancel(&mut records, cancel);
        Ok(self.submit(&records, 1, Class::Finishing, false)?.map(|range| range.start))
    }

    /// Asks to move a message to another time, as [`Self::cancel`] asks. Beside the sequence of the command:
    /// when the message is due if it is moved.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub fn move_to(&mut self, receipt: &Receipt, due: Due) -> Result<Option<DueKey>> {
        let delay_ms = match due {
            Due::After(delay_ms) => Some(delay_ms),
            Due::At(_) => None,
        };
        let due = self.due_time(due)?;
        let mut records = Vec::new();
        let (target, subject, size) = (receipt.key, receipt.subject, receipt.size);
        encode_move(&mut records, &Move { target, due, delay_ms, subject, size });
        let range = self.submit(&records, 1, Class::Finishing, false)?;
        Ok(range.map(|range| DueKey { due, sequence: range.start }))
    }

    /// Asks for a group of a subject and its retry subject; made where they are not there. The
    /// sequence is that of the group fact.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn subscribe(&mut self, subject: &str, group: &str, start: GroupStart) -> Result<Option<Sequence>> {
        let mut records = Vec::new();
        let mut facts = 0_usize;
        let main = self.names.assign(subject)?;
        let retries = retry_subject(subject, group);
        let retry = self.names.assign(&retries)?;
        for (named, name) in [(main, subject), (retry, retries.as_str())] {
            if named.needs_fact {
                encode_subject(&mut records, named.number, name);
                facts = facts.saturating_add(1);
            }
        }
        encode_group(&mut records, main.number, start, group);
        let is_there = self.owner.state().group_named(main.number, group).is_some();
        let class = if is_there && !main.needs_fact { Class::Finishing } else { Class::Growing };
        let Some(range) = self.submit(&records, count_of(facts.saturating_add(1)), class, true)? else {
            return Ok(None);
        };
        self.names.confirm(subject);
        self.names.confirm(&retries);
        Ok(Some(range.start.plus(facts as u64)))
    }

    /// Asks for a consumer of a group; where consumers outlive their process, as one that a client named
    /// and with this much reserved. The sequence is that of the fact.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn begin_consumer(&mut self, group: GroupNumber, name: &str, block: u32) -> Result<Option<Sequence>> {
        if let Some(there) = self.owner.state().groups.get(&group).filter(|_| self.options.keeps_consumers) {
            let (subject, there) = (there.subject, there.name.clone());
            return self.attach(&Attach { subject, start: GroupStart::Earliest, block, group: &there, consumer: name });
        }
        let mut records = Vec::new();
        encode_consumer(&mut records, group, name);
        Ok(self.submit(&records, 1, Class::Finishing, false)?.map(|range: Range<Sequence>| range.start))
    }

    /// Asks for a consumer that a client names, and for its group. The sequence is that of the fact.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn attach(&mut self, attach: &Attach<'_>) -> Result<Option<Sequence>> {
        let mut records = Vec::new();
        encode_attach(&mut records, attach);
        Ok(self.submit(&records, 1, Class::Finishing, true)?.map(|range| range.start))
    }

    /// Ends a consumer: what it holds goes to others. `ask` labels the fact.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn end_consumer(&mut self, group: GroupNumber, consumer: ConsumerNumber, ask: u64) -> Result<()> {
        self.unread.remove(&(group, consumer));
        self.owner.end_consumer(group, consumer, &mut self.proposals);
        self.label(Label::Asked(ask));
        self.send().map(drop)
    }

    /// Removes a group. `ask` labels the fact.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn end_group(&mut self, group: GroupNumber, ask: u64) -> Result<()> {
        self.owner.end_group(group, &mut self.proposals);
        self.label(Label::Asked(ask));
        self.send().map(drop)
    }
}

fn count_of(records: usize) -> u32 {
    u32::try_from(records).unwrap_or(u32::MAX)
}
