//! Series as users expect them: each time of the rule once, by the catch-up policy, with one message pending at a time,
//! until they end the series.

use std::collections::BTreeMap;

use delaymq_core::record::recurring::CatchUp;
use delaymq_core::units::{DueKey, Millis};

use super::known::Told;
use super::{Account, Came, Place};
use crate::node::ProposedOccurrence;
use crate::rhythm::Rhythm;

impl Account {
    /// A series is sent, which replaces the series of its name.
    pub(crate) fn series_asked(&mut self, number: u64, subject: &str, name: &str, body: Vec<u8>, rhythm: Rhythm) {
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

    /// The end of the series of this name is sent.
    pub(crate) fn series_end_asked(&mut self, name: &str) {
        self.series.named(name).for_each(|told| told.is_over = true);
    }

    /// The answer to a request about the series of this name was lost.
    pub(crate) fn series_lost(&mut self, name: &str) {
        self.series.unknown.insert(name.to_owned());
    }

    /// The answer says that the series has begun, and names its pending message. The series before has ended.
    pub(crate) fn series_begun(&mut self, number: u64, waits: Option<DueKey>) {
        let Some(name) = self.series.all.get(&number).map(|told| told.name.clone()) else { return };
        self.series_ended(&name);
        let now = self.now;
        let Some(told) = self.series.all.get_mut(&number) else { return };
        told.begun = Some(now);
        told.waited.extend(waits);
    }

    /// The answer says that the series of this name have ended.
    pub(crate) fn series_ended(&mut self, name: &str) {
        let now = self.now;
        for told in self.series.named(name).filter(|told| told.begun.is_some() && told.ended.is_none()) {
            told.ended = Some(now);
        }
    }

    /// The store proposes an occurrence. Its time must be the one that the rule and the policy give.
    pub(crate) fn occurrence_proposed(&mut self, one: &ProposedOccurrence) {
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
        // A message that was given back has another due time, and has come before.
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

    /// No occurrence is due at this time.
    pub(crate) fn series_rested(&mut self, now: Millis) {
        self.series.all.values_mut().filter(|told| told.begun.is_some()).for_each(|told| told.rested = Some(now));
    }

    /// At the end: each group must have got the same occurrences, and all that must have come.
    pub(super) fn judge_the_series(&mut self, groups: &[(String, String)]) {
        let mut wrong = Vec::new();
        for (number, told) in &self.series.all {
            let wants = |group: &str| self.is_wanted(group, *number);
            let of_subject = groups.iter().filter(|(subject, group)| *subject == told.subject && wants(group));
            if of_subject.clone().next().is_none() {
                continue;
            }
            for (due, sequence) in &told.came {
                let is_lost = |group: &String| {
                    !matches!(
                        self.place(group, *sequence),
                        Some(Place::Done | Place::Acknowledging(_) | Place::Dead(_))
                    )
                };
                let lost = of_subject.clone().filter(|(_, group)| is_lost(group));
                wrong.extend(lost.map(|(_, group)| format!("lost: series {number} at {due} in {group}")));
            }
            let missing = self.owed_of(told).filter(|due| !told.came.contains_key(due));
            wrong.extend(missing.map(|due| format!("lost: {due} of series {number}, {told:?}")));
        }
        self.violations.extend(wrong);
    }

    /// The times that must have come, except for messages with a cancel.
    fn owed_of<'a>(&'a self, told: &'a Told) -> impl Iterator<Item = Millis> + 'a {
        let goes_on = !told.is_over && !self.series.unknown.contains(&told.name);
        let rested = told.rested.filter(|_| goes_on);
        let until = rested.and_then(|now| told.rhythm.last(now));
        let last = told.came.last_key_value().map(|(due, _)| *due).max(until);
        let all = told.rhythm.catch_up == CatchUp::All;
        let every = last.filter(|_| all).into_iter().flat_map(|last| told.rhythm.times(last));
        // The last missed time, or the last time.
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
