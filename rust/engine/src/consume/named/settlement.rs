//! How deliveries of named consumers end, and how the consumers end.

use std::ops::Range;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{Class, Submission};
use delaymq_core::record::limits::{check_name, check_qmq_subject};
use delaymq_core::record::queue::NumberRange;
use delaymq_core::record::retry::Death;
use delaymq_core::store::{Delivery, GoesOn, Outcome, RetryPlaces, RetryRule, Settlement, goes_on};
use delaymq_core::units::{GroupNumber, Millis, PullOffset, Sequence};

use crate::commit::inbox::CommitUrgency;
use crate::commit::submissions::submission;
use crate::consume::member::GroupConsumer;
use crate::consume::named::consumer::NamedConsumer;
use crate::drive::driver::LockedOwner;
use crate::held;
use crate::invalid;
use crate::names::Subject;
use crate::options::StartAt;
use crate::shared::Shared;
use crate::store::Store;

/// The most bytes that one delivery and one range take in the log together.
const ENDED_BYTES: usize = 512;
/// How often the reset of a live group is tried again because a consumer began meanwhile.
const RESETS_MAX: usize = 100;

/// The deliveries that one submission ends.
#[derive(Clone, Copy, Default)]
struct Part<'a> {
    done: &'a [NumberRange],
    passed_over: &'a [Delivery],
    is_end: bool,
}

/// The subjects to which the deliveries of one settlement move, by name.
struct Targets {
    rule: RetryRule,
    now: Millis,
    from: Millis,
    again: Subject,
    dead: Option<Subject>,
    death: Death,
}

impl Targets {
    fn places(&self) -> RetryPlaces<'_> {
        let Self { rule, now, from, again, dead, death } = self;
        let dead = dead.as_ref().map(|dead| dead.number);
        RetryPlaces { rule: *rule, now: *now, from: *from, again: again.number, dead, death: death.destination() }
    }

    /// The new subjects among them, whose facts must go along.
    fn new_subjects(&self, passed_over: &[Delivery]) -> Vec<Subject> {
        let places = self.places();
        let any_dead = passed_over.iter().any(|one| places.is_dead(one));
        let any_again = passed_over.iter().any(|one| !places.is_dead(one));
        let needed = [any_again.then_some(&self.again), self.dead.as_ref().filter(|_| any_dead)];
        needed.into_iter().flatten().filter(|one| one.needs_fact).cloned().collect()
    }
}

impl NamedConsumer {
    /// Finishes these offsets, and moves these deliveries to the group's retry subject or to the dead letters. That is
    /// one submission, all or nothing, which is durable when everything below the position is visible. Offsets that are
    /// not held change nothing. `None` if it would have to wait; then nothing was done.
    ///
    /// # Errors
    /// `InvalidArgument` naming `delay`, if there are deliveries; `Poisoned`, `ForkedProcess`; `Closed`, also if the
    /// consumer is gone.
    pub fn try_settle(
        &self,
        done: &[Range<PullOffset>],
        passed_over: &[Delivery],
        rule: RetryRule,
    ) -> Result<Option<Sequence>> {
        self.check()?;
        let targets = self.targets(rule, passed_over)?;
        let done = ranges(done);
        let [part] = self.parts(&done, passed_over, false)[..] else { return Ok(None) };
        let Some(mut guard) = self.shared.try_lock_owner()? else { return Ok(None) };
        let end = self.submit_part(guard.get()?, part, targets.as_ref())?;
        drop(guard);
        Ok(end.inspect(|end| self.shared.hasten(*end)))
    }

    /// As [`Self::try_settle`], but waits for room and for other threads, never for the disk. With a small log it may
    /// take several submissions, in the order given.
    pub fn settle(&self, done: &[Range<PullOffset>], passed_over: &[Delivery], rule: RetryRule) -> Result<Sequence> {
        self.check()?;
        self.settle_all(&ranges(done), passed_over, self.targets(rule, passed_over)?.as_ref(), false)
    }

    /// Makes messages that had expired dead letters, without waiting for the disk.
    pub(crate) fn put_away_expired(&self, expired: &[Delivery], received: bool) -> Result<()> {
        let rule = RetryRule { delay_ms: 0, attempts_max: 0, reason: None };
        let targets = self.targets(rule, expired)?;
        let targets = targets.map(|targets| Targets { death: Death::Expired { received }, ..targets });
        self.settle_all(&[], expired, targets.as_ref(), false).map(drop)
    }

    /// Ends the consumer: the messages that it holds go to the group's retry subject or become dead letters, as the
    /// rule says, and then it is gone. A broadcast consumer ends with its group, and its messages go nowhere. That is
    /// one submission, durable when everything below the position is visible. Waits for the disk. `None` if it had
    /// ended before.
    ///
    /// # Errors
    /// `InvalidArgument` naming `delay`; `Storage` if the disk cannot be read, and then the consumer goes on;
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn end(&self, rule: RetryRule) -> Result<Option<Sequence>> {
        Ok(self.end_counted(rule)?.map(|(end, _)| end))
    }

    /// As [`Self::end`], with how many messages it held.
    pub(crate) fn end_counted(&self, rule: RetryRule) -> Result<Option<(Sequence, u64)>> {
        self.shared.check()?;
        let mut hands = held(&self.hands);
        if self.is_gone() {
            return Ok(None);
        }
        let Some((_, deliveries)) = self.everything_held()? else {
            self.went();
            return Ok(None);
        };
        let end = match self.end_broadcast()? {
            Some(end) => end,
            None => self.settle_all(&[], &deliveries, self.targets(rule, &deliveries)?.as_ref(), true)?,
        };
        hands.unread.clear();
        self.went();
        Ok(Some((end, deliveries.len() as u64)))
    }

    fn settle_all(
        &self,
        done: &[NumberRange],
        passed_over: &[Delivery],
        targets: Option<&Targets>,
        is_end: bool,
    ) -> Result<Sequence> {
        let mut last = Sequence(0);
        for part in self.parts(done, passed_over, is_end) {
            last = loop {
                let seen = self.shared.room.count();
                let submitted = self.submit_part(self.shared.lock_owner()?.get()?, part, targets)?;
                match submitted {
                    Some(end) => break end,
                    None => self.shared.await_room(seen),
                }
            };
        }
        self.shared.hasten(last);
        Ok(last)
    }

    /// The subjects to which these move; `None` if there are no deliveries, so that finishing alone needs no rule.
    fn targets(&self, rule: RetryRule, passed_over: &[Delivery]) -> Result<Option<Targets>> {
        if passed_over.is_empty() {
            return Ok(None);
        }
        self.shared.options.check_delay(rule.delay_ms)?;
        let (now, from) = self.shared.now();
        let GoesOn { again, dead } = goes_on(&self.subject.name, &self.group);
        let again = self.shared.names.subject(&again)?;
        let dead = dead.map(|dead| self.shared.names.subject(&dead)).transpose()?;
        let delivered = || format!("not finished in {} deliveries", rule.attempts_max);
        let reason = rule.reason.map_or_else(delivered, str::to_owned);
        Ok(Some(Targets { rule, now, from, again, dead, death: Death::Reason(reason.into()) }))
    }

    /// The submissions of one settlement, in order; mostly one.
    fn parts<'a>(&self, done: &'a [NumberRange], passed_over: &'a [Delivery], is_end: bool) -> Vec<Part<'a>> {
        let count_max = (self.shared.submission_bytes_max() / ENDED_BYTES).max(1);
        let (mut done, mut passed_over) = (done.chunks(count_max), passed_over.chunks(count_max));
        let count = done.len().max(passed_over.len()).max(1);
        let part = |place: usize| Part {
            done: done.next().unwrap_or_default(),
            passed_over: passed_over.next().unwrap_or_default(),
            is_end: is_end && place == count,
        };
        (1..=count).map(part).collect()
    }

    /// Hands one part to the log's queue, if there is room. Returns its end.
    fn submit_part(
        &self,
        locked: &mut LockedOwner,
        part: Part<'_>,
        targets: Option<&Targets>,
    ) -> Result<Option<Sequence>> {
        let shared = &self.shared;
        let GroupConsumer { group, consumer } = self.consuming;
        let there = locked.owner.state().groups.get(&group);
        if there.is_none_or(|there| !there.consumers.contains_key(&consumer)) {
            self.went();
            return Err(Error::Closed);
        }
        let new_subjects = targets.map(|targets| targets.new_subjects(part.passed_over)).unwrap_or_default();
        let subjects: Vec<_> = new_subjects.iter().map(|one| (one.number, &*one.name)).collect();
        let places = targets.map(Targets::places);
        let retried: Vec<_> = match &places {
            Some(places) => part.passed_over.iter().map(|one| places.retried(one)).collect(),
            None => Vec::new(),
        };
        let Part { done, is_end, .. } = part;
        let settlement = Settlement { group, consumer, subjects: &subjects, done, retried: &retried, is_end };
        let mut records = Vec::new();
        let count = settlement.encode(&mut records);
        if count == 0 {
            return Ok(Some(shared.with_commits(|commits| commits.next_sequence())));
        }
        let earliest_due = retried.iter().map(|one| one.due).min().unwrap_or(CommitUrgency::URGENT.earliest_due);
        let urgency = CommitUrgency { earliest_due, ..CommitUrgency::URGENT };
        let Some(range) = shared.submit_in_order(locked, &records, count, urgency)? else { return Ok(None) };
        shared.names.submitted(&new_subjects);
        if is_end {
            locked.owner.consumer_ends(group, consumer);
        }
        Ok(Some(range.end))
    }
}

fn ranges(done: &[Range<PullOffset>]) -> Vec<NumberRange> {
    let filled = done.iter().filter(|range| !range.is_empty());
    filled.map(|range| NumberRange { first: range.start.0, count: range.end.since(range.start) }).collect()
}

impl Store {
    /// Resets a group although named consumers use it. They end, the group has what they hold, and it starts again with
    /// the earliest kept message or with the next one. The consumers are gone then ([`NamedConsumer::is_gone`]) and
    /// begin again as new ones, with offsets above all that they had. Returns when it is durable.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` or `group`, if it does not exist or has consumers that no client named;
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn reset_live_group(&self, subject: &str, group: &str, start: StartAt) -> Result<()> {
        let shared = &self.shared;
        shared.check()?;
        check_qmq_subject("subject", subject)?;
        check_name("group", group)?;
        for _ in 0..RESETS_MAX {
            let number = self.group_number(subject, group)?;
            let Some(range) = shared.submit_reset(number, start, subject, group)? else { continue };
            shared.lead(range.end);
            let outcome = shared.answers(range)?.pop().flatten();
            shared.named.of_group(number).iter().for_each(|one| one.went());
            // Otherwise a consumer began meanwhile, or the group has ended.
            if matches!(outcome, Some(Outcome::Group(_))) {
                return Ok(());
            }
        }
        Err(refused(group, subject, "consumers that begin all the time"))
    }
}

impl Shared {
    /// Hands the end of all consumers of a group, and its reset, to the log's queue; `None` if there was no room, or
    /// the group has ended.
    /// Fails with `InvalidArgument` naming `group` if it has consumers that no client named.
    fn submit_reset(
        &self,
        group: GroupNumber,
        start: StartAt,
        subject: &str,
        name: &str,
    ) -> Result<Option<Range<Sequence>>> {
        let start = self.restart_of(group, start)?;
        let seen = self.room.count();
        let mut guard = self.lock_owner()?;
        let locked = guard.get()?;
        let Some(there) = locked.owner.state().groups.get(&group) else { return Ok(None) };
        if !there.consumers.are_all_lasting() {
            return Err(refused(name, subject, "consumers of subscriptions; close these first"));
        }
        if self.sends_all(locked)? {
            let mut records = Vec::new();
            let count = locked.owner.encode_reset_with_consumers(group, start, &mut records);
            let submission = Submission { must_sync: true, ..submission(&records, count, Class::Finishing) };
            let range = self.try_submit_expected(submission, CommitUrgency::URGENT)?;
            if range.is_some() {
                locked.owner.consumers_end(group);
                return Ok(range);
            }
        }
        drop(guard);
        self.await_room(seen);
        Ok(None)
    }
}

fn refused(group: &str, subject: &str, found: &str) -> Error {
    invalid("group", "a group that only named consumers have", format!("{group:?} of {subject:?} with {found}"))
}
