//! Facts whose outcome a caller waits for: submitted, made durable, applied, answered.

use std::ops::Range;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{Class, Submission};
use delaymq_core::record::name::{encode_consumer, encode_group, encode_subject};
use delaymq_core::store::Outcome;
use delaymq_core::units::{ConsumerNumber, GroupNumber, Sequence, SubjectNumber};

use crate::commit::inbox::CommitUrgency;
use crate::consume::member::GroupConsumer;
use crate::drive::driver::LockedOwner;
use crate::held;
use crate::names::Subject;
use crate::options::StartAt;
use crate::shared::Shared;
use crate::sync::Instant;

/// How often a registration is tried again because an operator reset or removed the group meanwhile. With few tries, an
/// operator who does nothing else sometimes wins.
const REGISTRATIONS_MAX: usize = 1_000;

/// A group that was registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RegisteredGroup {
    pub(crate) number: GroupNumber,
    /// False if it existed before.
    pub(crate) is_new: bool,
}

/// A subject whose group is to be registered, and the subject of the retries of that group.
pub(crate) struct Registering {
    pub(crate) subject: Subject,
    pub(crate) retries: Subject,
}

/// Facts whose outcomes are expected. Dropping it drops the outcomes.
pub(crate) struct Expected {
    pub(crate) shared: Arc<Shared>,
    pub(crate) range: Range<Sequence>,
}

impl Drop for Expected {
    fn drop(&mut self) {
        for sequence in self.range.start.0..self.range.end.0 {
            self.shared.outcomes.take(Sequence(sequence));
        }
    }
}

/// The submission of so many records, without a sync of its own.
pub(crate) fn submission(records: &[u8], count: usize, class: Class) -> Submission<'_> {
    let record_count = u32::try_from(count).unwrap_or(u32::MAX);
    Submission { records, record_count, adopts: 0, class, must_sync: false }
}

impl Shared {
    /// Submits `count` records and waits for their outcomes, in order.
    pub(crate) fn ask(
        &self,
        records: &[u8],
        count: usize,
        class: Class,
        must_sync: bool,
    ) -> Result<Vec<Option<Outcome>>> {
        let submission = Submission { must_sync, ..submission(records, count, class) };
        let range = self.begin_asking(submission, CommitUrgency::URGENT)?;
        range.map_or_else(|| Ok(Vec::new()), |range| self.answers(range))
    }

    /// Submits records whose outcomes are expected, and has them written, here if no other thread does it. `None` if there
    /// are no records.
    pub(crate) fn begin_asking(
        &self,
        submission: Submission<'_>,
        urgency: CommitUrgency,
    ) -> Result<Option<Range<Sequence>>> {
        if submission.record_count == 0 {
            return Ok(None);
        }
        let range = self.submit_expected(submission, urgency)?;
        self.lead(range.end);
        Ok(Some(range))
    }

    /// True if a thread waits for something that is queued.
    pub(crate) fn has_urgent(&self) -> bool {
        held(&self.queue).urgency.urgent
    }

    /// Submits at least one record, whose outcomes are expected. Waits for room only.
    pub(crate) fn submit_expected(
        &self,
        submission: Submission<'_>,
        urgency: CommitUrgency,
    ) -> Result<Range<Sequence>> {
        loop {
            let seen = self.room.count();
            if let Some(range) = self.try_submit_expected(submission, urgency)? {
                return Ok(range);
            }
            self.await_room(seen);
        }
    }

    /// As [`Self::submit_expected`], but `None` if there is no room now.
    pub(crate) fn try_submit_expected(
        &self,
        submission: Submission<'_>,
        urgency: CommitUrgency,
    ) -> Result<Option<Range<Sequence>>> {
        self.outcomes.expect(submission.adopts, || self.try_submit(submission, urgency))
    }

    /// Waits for the outcomes of these facts, in order.
    pub(crate) fn answers(&self, range: Range<Sequence>) -> Result<Vec<Option<Outcome>>> {
        self.wait_visible(range.end, None)?;
        self.apply_until(range.end)?;
        Ok((range.start.0..range.end.0).map(|sequence| self.outcomes.take(Sequence(sequence))).collect())
    }

    /// Hands records to the log's queue behind all earlier decisions, under the owner lock. `None` if there is no room
    /// for them now; then none of them is in the log.
    /// Fails with `Poisoned`, `Closed`, `TooLarge`.
    pub(crate) fn submit_in_order(
        &self,
        locked: &mut LockedOwner,
        records: &[u8],
        count: usize,
        urgency: CommitUrgency,
    ) -> Result<Option<Range<Sequence>>> {
        if !self.sends_all(locked)? {
            return Ok(None);
        }
        self.try_submit(submission(records, count, Class::Finishing), urgency)
    }

    /// Sends all earlier decisions. Returns false if the log has no room for all of them now.
    pub(crate) fn sends_all(&self, locked: &mut LockedOwner) -> Result<bool> {
        self.send(locked, CommitUrgency::URGENT)?;
        Ok(locked.proposals.is_empty())
    }

    /// Sends all earlier decisions, and waits for room if the log has none. Returns the sequence at which they end;
    /// `None` if that took longer than until `end`.
    /// Fails with `Poisoned`, `Closed`, `DiskFull`, `ForkedProcess`.
    pub(crate) fn send_all(&self, end: Option<Instant>) -> Result<Option<Sequence>> {
        loop {
            let seen = self.room.count();
            let (sent, is_all) = {
                let mut guard = self.lock_owner()?;
                let is_all = self.sends_all(guard.get()?)?;
                (self.with_commits(|commits| commits.next_sequence()), is_all)
            };
            if is_all {
                return Ok(Some(sent));
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(None);
            }
            self.lead(sent);
            self.await_room(seen);
        }
    }

    /// Waits until all earlier decisions are written and applied.
    pub(crate) fn catch_up(&self) -> Result<()> {
        self.send_all(None)?.map_or(Ok(()), |end| self.finish(end))
    }

    /// Has everything below `end` committed, here if no other thread does it, and waits until it is applied.
    pub(crate) fn finish(&self, end: Sequence) -> Result<()> {
        self.lead(end);
        self.wait_visible(end, None)?;
        self.apply_until(end)
    }

    /// Waits until what is on its way to the log is applied, at most for `patience`, so that a caller that cannot wait
    /// misses nothing that is ready.
    pub(crate) fn bring_in(&self, patience: Duration) -> Result<()> {
        let end = self.with_commits(|commits| commits.next_sequence());
        self.lead(end);
        if self.wait_visible(end, Some(patience))? { self.apply_until(end) } else { Ok(()) }
    }

    /// Registers the group, its subject and its retry subject, as far as they do not exist.
    pub(crate) fn register_group(&self, of: &Registering, group: &str, start: StartAt) -> Result<RegisteredGroup> {
        let found = self.register_groups(slice::from_ref(of), group, start, None)?;
        found.first().copied().flatten().ok_or(Error::Closed)
    }

    /// The same of many subjects, by one submission. The class is [`Class::Growing`] if one of them is new.
    fn register_groups(
        &self,
        subjects: &[Registering],
        group: &str,
        start: StartAt,
        class: Option<Class>,
    ) -> Result<Vec<Option<RegisteredGroup>>> {
        let (mut records, mut count, mut new, mut places) = (Vec::new(), 0_usize, Vec::new(), Vec::new());
        let mut grows = false;
        // An existing group goes on where it was, even if the message of a receipt is not kept any more.
        let new_groups: Vec<SubjectNumber> = {
            let mut guard = self.lock_owner()?;
            let state = guard.get()?.owner.state();
            let all = subjects.iter().map(|of| of.subject.number);
            all.filter(|subject| state.group_named(*subject, group).is_none()).collect()
        };
        let starts = self.starts_of(&new_groups, start)?;
        let mut new_groups = new_groups.into_iter().peekable();
        for Registering { subject, retries } in subjects {
            let is_new = new_groups.next_if_eq(&subject.number).is_some();
            for one in [subject, retries].into_iter().filter(|one| one.needs_fact) {
                encode_subject(&mut records, one.number, &one.name);
                count = count.saturating_add(1);
                new.push(one.clone());
            }
            encode_group(&mut records, subject.number, starts.of(subject.number), group);
            places.push(count);
            count = count.saturating_add(1);
            // The retry subject of an existing group is needed to finish what is stored.
            grows |= is_new || subject.needs_fact;
        }
        let class = class.unwrap_or(if grows { Class::Growing } else { Class::Finishing });
        let found = self.ask(&records, count, class, true)?;
        self.names.submitted(&new);
        let registered = places.into_iter().map(|place| match found.get(place) {
            Some(Some(Outcome::Group(number))) => Some(RegisteredGroup { number: *number, is_new: true }),
            Some(Some(Outcome::GroupThere(number))) => Some(RegisteredGroup { number: *number, is_new: false }),
            _ => None,
        });
        Ok(registered.collect())
    }

    /// Registers a consumer in the group of this name. Returns whether the group is new. If the group is reset or
    /// removed between the two facts, both are tried again.
    fn register_in_group(&self, of: &Registering, group: &str, start: StartAt) -> Result<(GroupConsumer, bool)> {
        for _ in 0..REGISTRATIONS_MAX {
            let RegisteredGroup { number: group, is_new } = self.register_group(of, group, start)?;
            match self.register_consumers(&[group])?.first() {
                Some(Some(consumer)) => return Ok((GroupConsumer { group, consumer: *consumer }, is_new)),
                _ => self.check()?,
            }
        }
        Err(Error::Closed)
    }

    /// Registers a consumer in the group of this name of each of these subjects, in two submissions. Returns whether
    /// each group is new.
    pub(crate) fn register_in_groups(
        &self,
        subjects: &[Registering],
        group: &str,
        start: StartAt,
        class: Option<Class>,
    ) -> Result<Vec<(GroupConsumer, bool)>> {
        let registered = self.register_groups(subjects, group, start, class)?;
        let numbers: Vec<GroupNumber> = registered.iter().flatten().map(|one| one.number).collect();
        let mut consumers = self.register_consumers(&numbers)?.into_iter();
        let mut begun = Vec::with_capacity(subjects.len());
        for (of, registered) in subjects.iter().zip(registered) {
            let consumer = if registered.is_some() { consumers.next().flatten() } else { None };
            if let (Some(RegisteredGroup { number: group, is_new }), Some(consumer)) = (registered, consumer) {
                begun.push((GroupConsumer { group, consumer }, is_new));
            } else {
                self.check()?;
                begun.push(self.register_in_group(of, group, start)?);
            }
        }
        Ok(begun)
    }

    /// Registers a consumer of each of these groups, under a name that no other has; `None` for a group that does not
    /// exist any more.
    pub(crate) fn register_consumers(&self, groups: &[GroupNumber]) -> Result<Vec<Option<ConsumerNumber>>> {
        let mut records = Vec::new();
        for group in groups {
            let ordinal = self.consumers.fetch_add(1, Ordering::Relaxed);
            encode_consumer(&mut records, *group, &format!("{}-{ordinal}", self.issuer.epoch));
        }
        let found = self.ask(&records, groups.len(), Class::Finishing, false)?;
        let number = |outcome| if let Some(Outcome::Consumer(number)) = outcome { Some(number) } else { None };
        Ok(found.into_iter().map(number).collect())
    }
}
