//! Users with recurring messages, and what they may expect: one message pending at a time, every time of the rule as
//! the policy says, each once, and no other.

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::record::recurring::CatchUp;
use delaymq_core::record::terms::IfExists;
use delaymq_core::store::Outcome;
use delaymq_core::units::{Millis, Sequence, SubjectNumber};

use super::{Kept, World};
use crate::node::{NewRecurring, ProposedOccurrence};

/// Series of each subject.
const NAMES: u64 = 2;
/// Rounds in which all that is owed must be proposed when nothing disturbs any more.
const ROUNDS_MAX: u64 = 4_000;

/// When a series happens: the times that are `phase_ms` after a multiple of its step.
#[derive(Clone, Copy, Debug)]
struct Pace {
    step_ms: u64,
    phase_ms: u64,
    catch_up: CatchUp,
    after: Millis,
}

impl Pace {
    fn first_after(&self, time: Millis) -> Millis {
        let steps = (time.0 + self.step_ms - self.phase_ms) / self.step_ms;
        Millis(steps * self.step_ms + self.phase_ms)
    }

    /// The next time of what is stored at `now`, by the policy.
    fn expected(&self, last: Millis, now: Millis) -> Millis {
        let next = self.first_after(last);
        if next > now || self.catch_up == CatchUp::All {
            return next;
        }
        let after_now = self.first_after(now);
        if self.catch_up == CatchUp::Skip { after_now } else { Millis(after_now.0 - self.step_ms) }
    }
}

/// A series as it was asked for.
#[derive(Clone, Debug)]
struct Asked {
    pace: Pace,
    subject: SubjectNumber,
    body: Vec<u8>,
}

/// An occurrence whose answer is not known.
#[derive(Clone, Debug)]
struct Proposed {
    series: Sequence,
    after: Millis,
    kept: delaymq_core::store::Receipt,
}

/// What users and the judge know of series.
#[derive(Default)]
pub(super) struct Recurs {
    /// By the fact that asked for it.
    asked: BTreeMap<Sequence, Asked>,
    ends: BTreeSet<Sequence>,
    proposed: BTreeMap<Sequence, Proposed>,
    /// What is stored of each series: the message, and when it was due by the rule.
    stored: BTreeMap<Sequence, Vec<(Sequence, Millis)>>,
}

impl Recurs {
    /// The log goes on at `first`.
    pub(super) fn reopened(&mut self, first: Sequence) {
        self.asked.retain(|sequence, _| *sequence < first);
        self.ends.retain(|sequence| *sequence < first);
        self.proposed.retain(|sequence, _| *sequence < first);
        self.stored.values_mut().for_each(|stored| stored.retain(|(sequence, _)| *sequence < first));
    }
}

impl World {
    /// Something that has to do with series.
    pub(super) fn go_on_with_series(&mut self) {
        match self.chance.below(10) {
            0 => self.begin_or_end_series(),
            1..=2 => self.clock.advance(self.chance.between(500, 6_000)),
            3..=4 => self.settle(),
            5 => self.step(),
            _ => {
                let series_max = usize::try_from(self.chance.one_of(&[1, 1, 100])).unwrap_or(1);
                let now = self.clock.read();
                if let Some(node) = &mut self.node {
                    node.look(now);
                }
                // Now and then it forgets that it has proposed something, and does so again.
                let is_told_twice = self.chance.percent(20);
                self.propose_occurrences(series_max, is_told_twice);
            }
        }
    }

    fn begin_or_end_series(&mut self) {
        let subject = Self::subject_name(self.chance.below(self.plan.subjects));
        let name = format!("series-{}", self.chance.below(NAMES));
        if self.chance.percent(25) {
            return self.end_series(&subject, &name);
        }
        let step_ms = self.chance.one_of(&[2_000, 3_000, 5_000]);
        let now = self.node.as_ref().map_or(Millis(0), |node| node.reading().now);
        let after = Millis(now.0.saturating_sub(self.chance.one_of(&[0, 0, 1_999, 7_000])));
        let is_cron = self.chance.percent(40);
        let rule = if is_cron { format!("*/{} * * * * *", step_ms / 1_000) } else { format!("every {step_ms}ms") };
        let may_have_all = !self.plan.wrong_boots && !self.plan.clock_steps;
        let catch_up = match self.chance.below(3) {
            0 if may_have_all => CatchUp::All,
            1 => CatchUp::Skip,
            _ => CatchUp::One,
        };
        let if_exists = match self.chance.below(4) {
            0 => IfExists::Keep,
            1 => IfExists::Refuse,
            _ => IfExists::Replace,
        };
        let body = self.short_body();
        let new = NewRecurring { subject: &subject, name: &name, if_exists, rule: &rule, catch_up, after, body: &body };
        let Some(node) = &mut self.node else { return };
        let result = node.begin_series(&new);
        let number = node.subject_number(&subject);
        let Some(asked) = self.survive("begin series", result) else { return };
        let (Some(fact), Some(number)) = (asked, number) else { return self.prepare() };
        self.note(&format!("begin {subject} {name} {rule} {catch_up:?} {if_exists:?} after {after} by {fact}"));
        let phase_ms = if is_cron { 0 } else { after.0 % step_ms };
        let pace = Pace { step_ms, phase_ms, catch_up, after };
        self.recurs.asked.insert(fact, Asked { pace, subject: number, body });
        self.commands.insert(fact);
    }

    fn end_series(&mut self, subject: &str, name: &str) {
        let Some(node) = &mut self.node else { return };
        let result = node.end_series(subject, name);
        let Some(asked) = self.survive("end series", result) else { return };
        let Some(fact) = asked else { return self.prepare() };
        self.note(&format!("end {subject} {name} by {fact}"));
        self.recurs.ends.insert(fact);
        self.commands.insert(fact);
    }

    /// The store looks at what is owed.
    fn propose_occurrences(&mut self, series_max: usize, is_told_twice: bool) {
        let Some(node) = &mut self.node else { return };
        let mut proposed = Vec::new();
        let result = node.propose_occurrences(series_max, is_told_twice, &mut proposed);
        // What was accepted before an error is in the queue, or was, all the same.
        for one in proposed {
            self.was_proposed(one);
        }
        self.survive("propose occurrences", result);
    }

    fn was_proposed(&mut self, one: ProposedOccurrence) {
        let ProposedOccurrence { owed, now, receipt } = one;
        let Some(Asked { pace, subject, body }) = self.recurs.asked.get(&owed.series).cloned() else {
            return self.oracle.blame(format!("series {} owes an occurrence, and nobody asked for it", owed.series));
        };
        let expected = pace.expected(owed.after, now);
        let Some(receipt) = receipt.filter(|receipt| receipt.key.due == expected) else {
            let found = format!("{receipt:?}");
            return self
                .oracle
                .blame(format!("drift: {pace:?} after {} at {now}: {expected}, not {found}", owed.after));
        };
        let key = receipt.key;
        self.note(&format!("occurrence {} of {} due {} proposed at {now}", key.sequence, owed.series, key.due));
        // As it was asked for, whatever the store has made of it.
        let entry = Self::entry(subject, key.due, &body);
        self.oracle.submitted_on_terms(key.sequence, entry);
        self.dues.insert(key.due);
        self.commands.insert(key.sequence);
        let proposed = Proposed { series: owed.series, after: owed.after, kept: receipt };
        self.recurs.proposed.insert(key.sequence, proposed);
    }

    /// True where it was an answer to what has to do with series.
    pub(super) fn series_answered(&mut self, command: Sequence, outcome: Outcome) -> bool {
        if self.recurs.ends.remove(&command) || self.recurs.asked.contains_key(&command) {
            if let Outcome::SeriesBegun(Some(key)) | Outcome::SeriesEnded(Some(key)) = outcome {
                self.oracle.cancel_submitted(command, key.sequence);
                self.oracle.cancel_answered(command, Outcome::Done);
            }
            return true;
        }
        let Some(Proposed { series, after, kept }) = self.recurs.proposed.remove(&command) else { return false };
        if outcome != Outcome::Done {
            self.oracle.was_not_stored(command);
            return true;
        }
        self.oracle.was_stored(command);
        let first = self.recurs.asked.get(&series).map(|asked| asked.pace.after);
        let stored = self.recurs.stored.entry(series).or_default();
        let last = stored.last().map(|(_, due)| *due).or(first);
        stored.push((command, kept.key.due));
        if last != Some(after) {
            self.oracle.blame(format!("{command} of {series} comes after {after}, and the last one was {last:?}"));
        }
        self.receipts.push(Kept { receipt: kept, is_here: true });
        true
    }

    /// Nothing disturbs any more: what is owed is proposed until nothing is, and then all series end.
    pub(super) fn end_all_series(&mut self) {
        if self.recurs.asked.is_empty() {
            return;
        }
        let is_owing = |world: &Self| {
            let state = world.node.as_ref().map(|node| node.owner().state());
            state.is_some_and(|state| state.recurring.owing().next().is_some())
        };
        let mut rounds = 0;
        while rounds == 0 || (rounds < ROUNDS_MAX && self.is_sound() && is_owing(self)) {
            rounds += 1;
            if let Some(node) = &mut self.node {
                node.release_clock();
            }
            self.prepare();
            self.settle();
            self.propose_occurrences(usize::MAX, false);
            self.settle();
        }
        if is_owing(self) {
            self.oracle.blame("a series owes what nobody proposes".to_owned());
        }
        for subject in 0..self.plan.subjects {
            for name in 0..NAMES {
                self.prepare();
                self.end_series(&Self::subject_name(subject), &format!("series-{name}"));
                self.settle();
            }
        }
        let left = self.node.as_ref().map_or(0, |node| node.owner().state().recurring.len());
        if left > 0 && self.is_sound() {
            self.oracle.blame(format!("{left} series go on although all were ended"));
        }
    }
}
