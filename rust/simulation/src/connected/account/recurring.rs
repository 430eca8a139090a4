//! What users expect of their series: each time of the rule as the policy says, once, with one message pending at a
//! time, until they end it.

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::record::recurring::CatchUp;
use delaymq_core::units::{DueKey, Millis, Sequence};

use super::{Account, Came, Place};
use crate::node::ProposedOccurrence;

/// When a series happens: at its start, and so many milliseconds after each time before.
#[derive(Clone, Copy, Debug)]
pub(in crate::connected) struct Rhythm {
    pub(in crate::connected) start: Millis,
    pub(in crate::connected) step_ms: u64,
    pub(in crate::connected) catch_up: CatchUp,
}

impl Rhythm {
    fn has(&self, due: Millis) -> bool {
        due >= self.start && due.since(self.start).is_multiple_of(self.step_ms)
    }

    /// The last time of it that is not after `now`.
    fn last(&self, now: Millis) -> Option<Millis> {
        let since = now.0.checked_sub(self.start.0)?;
        Some(self.start.plus(since - since % self.step_ms))
    }

    /// The time behind `after` of what is proposed at `now`.
    fn expected(&self, after: Millis, now: Millis) -> Millis {
        let behind = |time: Millis| self.last(time).map_or(self.start, |last| last.plus(self.step_ms));
        let next = behind(after);
        match self.catch_up {
            CatchUp::One => self.last(now).map_or(next, |last| next.max(last)),
            CatchUp::Skip if next <= now => behind(now),
            CatchUp::Skip | CatchUp::All => next,
        }
    }

    /// Its times up to the last one that is not after `now`.
    fn times(self, now: Millis) -> impl Iterator<Item = Millis> {
        let step = usize::try_from(self.step_ms).unwrap_or(usize::MAX);
        (self.start.0..=now.0).step_by(step).map(Millis)
    }
}

/// A series as its user knows it.
#[derive(Clone, Debug)]
struct Told {
    subject: String,
    name: String,
    body: Vec<u8>,
    rhythm: Rhythm,
    /// It had begun for sure at this time. What of its times is before it began is not caught up with.
    begun: Option<Millis>,
    /// Its user has asked for something since that ends it.
    is_over: bool,
    /// It had ended for sure at this time.
    ended: Option<Millis>,
    /// Nothing was owed any more at this time of the store, and it went on.
    rested: Option<Millis>,
    /// What came of it, by the time of its rule.
    came: BTreeMap<Millis, Sequence>,
    /// What waited of it when somebody was told.
    waited: Vec<DueKey>,
}

/// All series that were ever asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    /// By the numbers in their bodies.
    all: BTreeMap<u64, Told>,
    /// The names of those of which an answer was lost: nobody knows which one goes on.
    unknown: BTreeSet<String>,
}

impl Series {
    pub(super) fn is_of(&self, number: u64) -> bool {
        self.all.contains_key(&number)
    }

    fn named(&mut self, name: &str) -> impl Iterator<Item = &mut Told> {
        self.all.values_mut().filter(move |told| told.name == name)
    }
}

impl Account {
    /// A series is asked for, in place of the one that has its name.
    pub(in crate::connected) fn series_asked(
        &mut self,
        number: u64,
        subject: &str,
        name: &str,
        body: Vec<u8>,
        rhythm: Rhythm,
    ) {
        self.series_end_asked(name);
        let (subject, name) = (subject.to_owned(), name.to_owned());
        let told = Told {
            subject,
            name,
            body,
            rhythm,
            begun: None,
            is_over: false,
            ended: None,
            rested: None,
            came: BTreeMap::new(),
            waited: Vec::new(),
        };
        self.series.all.insert(number, told);
    }

    /// The series of this name is asked to end.
    pub(in crate::connected) fn series_end_asked(&mut self, name: &str) {
        self.series.named(name).for_each(|told| told.is_over = true);
    }

    /// The answer to what was asked of the series of this name was lost.
    pub(in crate::connected) fn series_lost(&mut self, name: &str) {
        self.series.unknown.insert(name.to_owned());
    }

    /// The answer says that it has begun, and what waits of it; the one before has ended.
    pub(in crate::connected) fn series_begun(&mut self, number: u64, waits: Option<DueKey>) {
        let Some(name) = self.series.all.get(&number).map(|told| told.name.clone()) else { return };
        self.series_ended(&name);
        let now = self.now;
        let Some(told) = self.series.all.get_mut(&number) else { return };
        told.begun = Some(now);
        told.waited.extend(waits);
    }

    /// The answer says that it has ended: all that were known to have begun.
    pub(in crate::connected) fn series_ended(&mut self, name: &str) {
        let now = self.now;
        for told in self.series.named(name).filter(|told| told.begun.is_some() && told.ended.is_none()) {
            told.ended = Some(now);
        }
    }

    /// The store proposes an occurrence: at a time of the rule, by the policy.
    pub(in crate::connected) fn occurrence_proposed(&mut self, one: &ProposedOccurrence) {
        let number = one.owed.recurs.body.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let Some(told) = self.series.all.get(&number) else {
            return self.blame(format!("series {number} owes an occurrence, and nobody asked for it"));
        };
        let expected = told.rhythm.expected(one.owed.after, one.now);
        let due = one.receipt.map(|receipt| receipt.key.due);
        if due != Some(expected) {
            let rhythm = told.rhythm;
            let after = one.owed.after;
            self.blame(format!("drift: {rhythm:?} after {after} at {}: {expected}, not {due:?}", one.now));
        }
    }

    /// An occurrence came to a group.
    pub(super) fn occurrence_came(&mut self, number: u64, came: &Came<'_>) {
        let is_retry = came.is_retry;
        let Some(told) = self.series.all.get_mut(&number) else { return };
        let fits = told.body == came.body && told.subject == came.subject && came.due <= came.now;
        // What was given back is due when it may come again, and has come before.
        if is_retry && fits && told.came.values().any(|sequence| *sequence == came.sequence) {
            return;
        }
        let is_new = told.came.get(&came.due) != Some(&came.sequence);
        let before = told.came.range(..came.due).next_back().is_none_or(|(_, sequence)| *sequence < came.sequence);
        let behind = told.came.range(came.due.plus(1)..).next().is_none_or(|(_, sequence)| *sequence > came.sequence);
        let is_once = told.came.insert(came.due, came.sequence).is_none_or(|sequence| sequence == came.sequence);
        let is_timely = told.ended.is_none_or(|ended| came.due <= ended);
        if !(fits && told.rhythm.has(came.due) && before && behind && is_once && is_timely) {
            let words = format!("series {number}: fits {fits}, in order {before} and {behind}, once {is_once}, ");
            let told = format!("before its end {is_timely}: {came:?} of {told:?}");
            return self.blame(words + &told);
        }
        self.counts.occurrences += u64::from(is_new);
    }

    /// Nothing is owed, and no series has come to its end for this.
    pub(in crate::connected) fn series_rested(&mut self, now: Millis) {
        self.series.all.values_mut().filter(|told| told.begun.is_some()).for_each(|told| told.rested = Some(now));
    }

    /// At the end: what came of series came to each group, and what must have come did.
    pub(super) fn judge_the_series(&mut self, groups: &[(String, String)]) {
        let mut wrong = Vec::new();
        for (number, told) in &self.series.all {
            let of_subject = groups.iter().filter(|(subject, _)| *subject == told.subject);
            for (due, sequence) in &told.came {
                let is_lost = |group: &String| {
                    !matches!(self.place(group, *sequence), Some(Place::Done | Place::Acknowledging(_)))
                };
                let lost = of_subject.clone().filter(|(_, group)| is_lost(group));
                wrong.extend(lost.map(|(_, group)| format!("lost: series {number} at {due} in {group}")));
            }
            let missing = self.owed_of(told).filter(|due| !told.came.contains_key(due));
            wrong.extend(missing.map(|due| format!("lost: {due} of series {number}, {told:?}")));
        }
        self.violations.extend(wrong);
    }

    /// The times that must have come, but for what somebody wanted to cancel.
    fn owed_of<'a>(&'a self, told: &'a Told) -> impl Iterator<Item = Millis> + 'a {
        let goes_on = !told.is_over && !self.series.unknown.contains(&told.name);
        let rested = told.rested.filter(|_| goes_on);
        let until = rested.and_then(|now| told.rhythm.last(now));
        let last = told.came.last_key_value().map(|(due, _)| *due).max(until);
        let all = told.rhythm.catch_up == CatchUp::All;
        let every = last.filter(|_| all).into_iter().flat_map(|last| told.rhythm.times(last));
        // The last of what was missed, or what came in time.
        let newest = until.filter(|_| told.rhythm.catch_up == CatchUp::One);
        let first = told.came.first_key_value().map(|(due, _)| *due);
        let is_behind = move |due: &Millis| {
            first.is_some_and(|first| *due >= first) || told.begun.is_some_and(|begun| *due > begun)
        };
        let is_cancelled =
            |due: &Millis| told.waited.iter().any(|key| key.due == *due && self.cancels.contains_key(&key.sequence));
        every.chain(newest).filter(move |due| is_behind(due) && !is_cancelled(due))
    }
}
