//! Publishing: a batch, encoded as it is filled, and a ticket for a publish under way.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::message_log::Class;
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::record::expire::Expiry;
use delaymq_core::record::limits::{at_most, check_batch, check_body, check_meta, check_qmq_subject, group_subject};
use delaymq_core::record::message::{Message, encode_checked_message, encode_message};
use delaymq_core::record::name::{GroupStart, encode_group, encode_subject};
use delaymq_core::store::{is_of_users, sent_retry_due};
use delaymq_core::units::{Millis, Sequence, SubjectNumber};

use crate::commit::inbox::CommitUrgency;
use crate::commit::submissions::submission;
use crate::names::{Subject, check_name};
use crate::options::{Due, Expires, OnExpiry, PublishTerms};
use crate::publish::receipts::{ReceiptFields, ReceiptRows};
use crate::publish::terms::{AwaitedOutcomes, BatchConditions};
use crate::shared::Shared;

pub use crate::publish::receipts::Receipts;

/// Messages on their way into the store, checked and encoded one by one. [`crate::Store::batch`] makes one. It is
/// reused after each publish. If there was no room, or the store failed, it keeps its messages.
pub struct PublishBatch {
    pub(crate) shared: Arc<Shared>,
    pub(crate) records: Vec<u8>,
    pub(crate) notes: Vec<ReceiptFields>,
    /// The terms of its messages.
    pub(crate) terms: BatchConditions,
    pub(crate) new_subjects: Vec<Subject>,
    /// Groups that must exist before the messages, which are for them alone.
    new_groups: Vec<(SubjectNumber, String)>,
    last_subject: Option<Subject>,
    /// The trusted time, and the time from which delays count, as of the first message.
    now: Option<(Millis, Millis)>,
    pub(crate) earliest_due: Millis,
}

impl PublishBatch {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            records: Vec::new(),
            notes: Vec::new(),
            terms: BatchConditions::default(),
            new_subjects: Vec::new(),
            new_groups: Vec::new(),
            last_subject: None,
            now: None,
            earliest_due: NEVER,
        }
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.notes.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        self.records.clear();
        self.notes.clear();
        self.terms.clear();
        self.new_subjects.clear();
        self.new_groups.clear();
        self.now = None;
        self.earliest_due = NEVER;
    }

    /// The delays of messages that are added from here on count from the time at which the next one is added.
    pub fn renew_time(&mut self) {
        self.now = None;
    }

    /// Adds a message. `meta` is encoded by `record::message::encode_meta`. Delays count from the first message that
    /// was added since the batch was empty.
    ///
    /// # Errors
    /// `InvalidArgument` or `TooLarge` naming `subject`, `due`, `meta`, `message_id`, `tags`, `attributes`, `body` or
    /// `messages`; the batch is as it was.
    pub fn push(&mut self, subject: &str, due: Due, meta: &[u8], body: &[u8]) -> Result<()> {
        self.push_with(subject, due, (meta, body), None, encode_message)
    }

    /// As [`Self::push`], with the CRC-32 of meta and body, which was checked before: it is stored.
    pub fn push_checked(&mut self, subject: &str, due: Due, parts: (&[u8], &[u8]), check: u32) -> Result<()> {
        self.push_with(subject, due, parts, None, |out, message| encode_checked_message(out, message, check))
    }

    /// As [`Self::push_checked`], with terms.
    ///
    /// # Errors
    /// As [`Self::push`]; `InvalidArgument` naming `key`, `message_id` or `expires`.
    pub fn push_on_terms(
        &mut self,
        subject: &str,
        due: Due,
        (meta, body): (&[u8], &[u8]),
        terms: &PublishTerms<'_>,
    ) -> Result<()> {
        let row = self.terms.row(self.notes.len(), subject, meta, terms)?;
        self.push_with(subject, due, (meta, body), terms.expires, encode_message)?;
        self.terms.add(row);
        Ok(())
    }

    fn push_with(
        &mut self,
        subject: &str,
        due: Due,
        (meta, body): (&[u8], &[u8]),
        expires: Option<(Expires, OnExpiry)>,
        encode: impl FnOnce(&mut Vec<u8>, &Message<'_>),
    ) -> Result<()> {
        let (now, from) = self.now.unwrap_or_else(|| self.shared.now());
        let due = self.shared.due_time(due, now, from)?;
        let expiry = expires.map(|(expires, then)| Expiry { at: expires.at(due), then });
        expiry.map_or(Ok(()), |expiry| expiry.check(due))?;
        check_meta(meta)?;
        check_body(body.len())?;
        self.check_room(meta.len().saturating_add(body.len()))?;
        let number = self.subject_number(subject, check_name, u32::MAX)?;
        self.add(&Message { due, published: now, subject: number, opaque: true, expiry, meta, body }, encode);
        self.now = Some((now, from));
        Ok(())
    }

    /// Adds a message of QMQ as it came, `whole` being all its bytes as [`Sent::judge`] found them
    /// sound. Without a time it is due `undelayed_ms` from now, on a subject of its own; QMQ's delay
    /// server, which is nothing else, makes it ten seconds. One that a consumer sent to the retry subject of its group
    /// is seen a little after it is due, as QMQ has it, and the group is there before it is.
    ///
    /// [`Sent::judge`]: delaymq_core::wire::qmq::send::Sent::judge
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` or `due`; `TooLarge` naming `messages`, or `subjects` where no
    /// more may be made for clients ([`crate::CreationLimits`]); the batch is as it was.
    pub fn push_qmq(&mut self, subject: &str, due: Option<Millis>, undelayed_ms: u64, whole: &[u8]) -> Result<()> {
        let (now, from) = self.now.unwrap_or_else(|| self.shared.now());
        let owner = group_subject(subject);
        let undelayed_ms = if is_on(Planted::UndelayedWaits) { 10_000 } else { undelayed_ms };
        let undelayed = Due::After(if owner.is_some() { 0 } else { undelayed_ms });
        let due = self.shared.due_time(due.map_or(undelayed, Due::At), now, from)?;
        self.check_room(whole.len())?;
        let limit = self.shared.named.limits().subjects_max;
        let number = self.subject_number(subject, check_qmq_subject, limit)?;
        if let Some(owner) = &owner
            && !self.new_groups.iter().any(|(group, _)| *group == number)
        {
            self.new_groups.push((number, owner.group.to_owned()));
        }
        let due = owner.map_or(due, |owner| sent_retry_due(&owner, due.max(now)));
        let message =
            Message { due, published: now, subject: number, opaque: false, expiry: None, meta: &[], body: whole };
        self.add(&message, encode_message);
        self.now = Some((now, from));
        Ok(())
    }

    /// Fails with `TooLarge` naming `messages`.
    fn check_room(&self, payload_bytes: usize) -> Result<()> {
        check_batch(self.notes.len().saturating_add(1))?;
        let bytes_after = self.records.len().saturating_add(payload_bytes);
        at_most("messages", self.shared.submission_bytes_max(), bytes_after.saturating_add(RECORD_OVERHEAD))
    }

    fn add(&mut self, message: &Message<'_>, encode: impl FnOnce(&mut Vec<u8>, &Message<'_>)) {
        encode(&mut self.records, message);
        let size = u32::try_from(message.body.len()).unwrap_or(u32::MAX);
        self.notes.push(ReceiptFields { due: message.due, subject: message.subject, size });
        self.earliest_due = self.earliest_due.min(message.due);
    }

    /// Adds a message as another store had it, on a subject whose name users may not choose.
    /// Fails with `TooLarge` naming `messages` if the batch is full; it is as it was.
    pub(crate) fn push_salvaged(&mut self, subject: &str, due: Millis, message: &Message<'_>) -> Result<()> {
        self.check_room(message.meta.len().saturating_add(message.body.len()))?;
        let subject = self.shared.names.subject(subject)?;
        let number = subject.number;
        if subject.needs_fact && !self.new_subjects.iter().any(|new| new.number == number) {
            self.new_subjects.push(subject);
        }
        self.add(&Message { due, subject: number, ..*message }, encode_message);
        Ok(())
    }

    fn subject_number(
        &mut self,
        name: &str,
        check: fn(&'static str, &str) -> Result<()>,
        subjects_max: u32,
    ) -> Result<SubjectNumber> {
        if let Some(last) = &self.last_subject
            && &*last.name == name
            && !last.needs_fact
            && is_of_users(name)
        {
            return Ok(last.number);
        }
        check("subject", name)?;
        let subject = self.shared.names.subject_within(name, subjects_max)?;
        let number = subject.number;
        if subject.needs_fact && !self.new_subjects.iter().any(|new| new.number == number) {
            self.new_subjects.push(subject.clone());
        }
        self.last_subject = Some(subject);
        Ok(number)
    }

    /// Hands all messages to the log's queue, in order and as one submission. Waits for room. The batch is empty
    /// afterwards.
    pub(crate) fn submit(&mut self) -> Result<Ticket> {
        loop {
            let seen = self.shared.room.count();
            if let Some(ticket) = self.try_submit()? {
                return Ok(ticket);
            }
            self.shared.await_room(seen);
        }
    }

    /// As `submit`, but `None` if it would have to wait; then the batch keeps its messages.
    pub(crate) fn try_submit(&mut self) -> Result<Option<Ticket>> {
        if self.is_empty() {
            let receipts = Receipts {
                issuer: Arc::clone(&self.shared.issuer),
                first: Sequence(0),
                notes: ReceiptRows::none(),
                there: None,
            };
            return Ok(Some(Ticket { shared: Arc::clone(&self.shared), end: Sequence(0), receipts, awaited: None }));
        }
        self.shared.check_intake()?;
        if self.shared.must_stall()? {
            return Ok(None);
        }
        if self.is_on_terms() {
            return self.try_submit_conditional();
        }
        let facts = self.new_subjects.len().saturating_add(self.new_groups.len());
        let range = if facts == 0 {
            let Some(range) = self.submit_records(&self.records, self.notes.len())? else { return Ok(None) };
            range
        } else {
            let mut records = Vec::with_capacity(self.records.len().saturating_add(facts.saturating_mul(160)));
            for subject in &self.new_subjects {
                encode_subject(&mut records, subject.number, &subject.name);
            }
            for (subject, group) in &self.new_groups {
                encode_group(&mut records, *subject, GroupStart::Unfinished, group);
            }
            records.extend_from_slice(&self.records);
            let count = self.notes.len().saturating_add(facts);
            let Some(range) = self.submit_records(&records, count)? else { return Ok(None) };
            self.shared.names.submitted(&self.new_subjects);
            range
        };
        self.shared.metrics.published.add(self.notes.len() as u64);
        let first = range.start.plus(facts as u64);
        let notes = match self.notes.as_slice() {
            [note] => ReceiptRows::One(*note),
            _ => ReceiptRows::Many(Arc::new(std::mem::take(&mut self.notes))),
        };
        let receipts = Receipts { issuer: Arc::clone(&self.shared.issuer), first, notes, there: None };
        self.is_submitted();
        Ok(Some(Ticket { shared: Arc::clone(&self.shared), end: range.end, receipts, awaited: None }))
    }

    /// All of it is in the log's queue, with the facts of its subjects.
    pub(crate) fn is_submitted(&mut self) {
        self.last_subject = self.last_subject.take().map(|last| Subject { needs_fact: false, ..last });
        self.clear();
    }

    fn submit_records(&self, records: &[u8], count: usize) -> Result<Option<Range<Sequence>>> {
        let urgency = CommitUrgency { urgent: false, earliest_due: self.earliest_due };
        self.shared.try_submit(submission(records, count, Class::Growing), urgency)
    }
}

/// Later than everything.
const NEVER: Millis = Millis(u64::MAX);

/// The bytes of a record without meta and body, rounded up.
const RECORD_OVERHEAD: usize = 64;

/// A publish under way.
pub struct Ticket {
    pub(crate) shared: Arc<Shared>,
    pub(crate) end: Sequence,
    pub(crate) receipts: Receipts,
    /// The outcomes that decide the receipts, for a batch with terms.
    pub(crate) awaited: Option<Box<AwaitedOutcomes>>,
}

impl Ticket {
    /// True if the publish is as durable as the store's durability promises.
    pub fn is_done(&self) -> bool {
        self.shared.is_visible(self.end)
    }

    /// Waits until it is durable; `None` if that took longer than `timeout`.
    ///
    /// # Errors
    /// `Poisoned` if a write or sync failed: then only the next opening says whether the messages are stored.
    /// `ForkedProcess` in a forked child; as [`Self::receipts`].
    pub fn wait(&self, timeout: Duration) -> Result<Option<Receipts>> {
        self.shared.guard.check()?;
        if self.is_done_within(timeout)? { self.receipts().map(Some) } else { Ok(None) }
    }

    /// Waits until it is durable; false if that took longer than `timeout`.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn is_done_within(&self, timeout: Duration) -> Result<bool> {
        self.shared.wait_visible(self.end, Some(timeout)).map_err(|error| self.shared.left_open(error))
    }

    /// The receipts. They mean nothing before the publish is durable. For a batch with terms, this waits until it is
    /// applied.
    ///
    /// # Errors
    /// For a batch with terms `KeyTaken`, `NamesFull`: none of it was stored; `Poisoned`, `Closed`. `NotEnoughCopies` if
    /// it is on too few copies: it may be stored or not.
    pub fn receipts(&self) -> Result<Receipts> {
        match &self.awaited {
            None => self.shared.check_kept(self.end).map(|()| self.receipts.clone()),
            Some(awaited) => self.receipts_found(awaited),
        }
    }

    /// True if the receipts are known only once the batch is applied.
    pub fn is_on_terms(&self) -> bool {
        self.awaited.is_some()
    }

    /// As [`Self::wait`], for as long as it takes.
    pub fn finish(self) -> Result<Receipts> {
        self.shared.guard.check()?;
        self.settle()
    }

    /// As [`Self::finish`], for a caller that has checked the process.
    pub(crate) fn settle(self) -> Result<Receipts> {
        if !is_on(Planted::AnswerBeforeVisible) {
            self.shared.wait_visible(self.end, None).map_err(|error| self.shared.left_open(error))?;
        }
        self.receipts()
    }

    /// The publish is durable when everything below this position is visible.
    pub fn end(&self) -> Sequence {
        self.end
    }
}
