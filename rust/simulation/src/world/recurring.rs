//! Users with recurring series. They expect each time of the rule once, by the catch-up policy, with one message
//! pending at a time.

use delaymq_core::record::recurring::CatchUp;
use delaymq_core::store::{Outcome, Receipt};
use delaymq_core::units::{Millis, Sequence};

use super::World;
use super::asked::{Command, Series};
use crate::node::{NewRecurring, ProposedOccurrence};
use crate::rhythm::Rhythm;

/// Series of each subject.
const NAMES: u64 = 2;
/// Rounds in which all due occurrences must be proposed once the troubles are over.
const ROUNDS_MAX: u64 = 4_000;

impl World {
    /// An operation about series.
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
                // Sometimes the store forgets that it has proposed an occurrence, and proposes it again.
                let is_told_twice = self.chance.percent(20);
                self.propose_occurrences(series_max, is_told_twice);
            }
        }
    }

    fn begin_or_end_series(&mut self) {
        let subject = self.some_subject();
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
        let if_exists = self.some_if_exists();
        let body = self.short_body();
        let new = NewRecurring { subject: &subject, name: &name, if_exists, rule: &rule, catch_up, after, body: &body };
        let Some(asked) = self.call("begin series", |node| node.begin_series(&new)) else { return };
        let (Some(fact), Some(number)) = (asked, self.subject_number(&subject)) else { return self.prepare() };
        self.note(&format!("begin {subject} {name} {rule} {catch_up:?} {if_exists:?} after {after} by {fact}"));
        let start = if is_cron { Millis((after.0 / step_ms + 1) * step_ms) } else { after.plus(step_ms) };
        let rhythm = Rhythm { start, step_ms, catch_up };
        self.recurs.asked.insert(fact, Series { rhythm, after, subject: number, body });
        self.await_outcome(fact, Command::Series);
    }

    fn end_series(&mut self, subject: &str, name: &str) {
        let Some(asked) = self.call("end series", |node| node.end_series(subject, name)) else { return };
        let Some(fact) = asked else { return self.prepare() };
        self.note(&format!("end {subject} {name} by {fact}"));
        self.await_outcome(fact, Command::Series);
    }

    /// The store proposes the occurrences that are due.
    fn propose_occurrences(&mut self, series_max: usize, is_told_twice: bool) {
        let Some(node) = &mut self.node else { return };
        let mut proposed = Vec::new();
        let result = node.propose_occurrences(series_max, is_told_twice, &mut proposed);
        // Occurrences that were accepted before an error are in the queue.
        for one in proposed {
            self.was_proposed(one);
        }
        self.survive("propose occurrences", result);
    }

    fn was_proposed(&mut self, one: ProposedOccurrence) {
        let ProposedOccurrence { owed, now, receipt } = one;
        let Some(Series { rhythm, subject, body, .. }) = self.recurs.asked.get(&owed.series).cloned() else {
            return self.oracle.blame(format!("series {} owes an occurrence, and nobody asked for it", owed.series));
        };
        let expected = rhythm.expected(owed.after, now);
        let Some(receipt) = receipt.filter(|receipt| receipt.key.due == expected) else {
            let found = format!("{receipt:?}");
            return self
                .oracle
                .blame(format!("drift: {rhythm:?} after {} at {now}: {expected}, not {found}", owed.after));
        };
        let key = receipt.key;
        self.note(&format!("occurrence {} of {} due {} proposed at {now}", key.sequence, owed.series, key.due));
        // The entry as the user asked for it, whatever the store has made of it.
        let entry = Self::entry(subject, key.due, &body);
        self.oracle.submitted_on_terms(key.sequence, entry);
        self.dues.insert(key.due);
        let occurrence = Command::Occurrence { series: owed.series, after: owed.after, receipt };
        self.await_outcome(key.sequence, occurrence);
    }

    /// The beginning or the end of a series may have cancelled its pending message.
    pub(super) fn series_answered(&mut self, fact: Sequence, outcome: Outcome) {
        if let Outcome::SeriesBegun(Some(key)) | Outcome::SeriesEnded(Some(key)) = outcome {
            self.oracle.cancel_submitted(fact, key.sequence);
            self.oracle.cancel_answered(fact, Outcome::Done);
        }
    }

    pub(super) fn occurrence_answered(
        &mut self,
        fact: Sequence,
        (series, after): (Sequence, Millis),
        receipt: Receipt,
        outcome: Outcome,
    ) {
        if outcome != Outcome::Done {
            return self.oracle.was_not_stored(fact);
        }
        self.oracle.was_stored(fact);
        let first = self.recurs.asked.get(&series).map(|asked| asked.after);
        let stored = self.recurs.stored.entry(series).or_default();
        let last = stored.last().map(|(_, due)| *due).or(first);
        stored.push((fact, receipt.key.due));
        if last != Some(after) {
            self.oracle.blame(format!("{fact} of {series} comes after {after}, and the last one was {last:?}"));
        }
        self.keep(receipt);
    }

    /// With no more troubles: proposes until no occurrence is due any more, and then ends all series.
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
