//! Recurring series in plain lists: all series that ever began, with all their occurrences. The fates of messages say
//! which occurrence is pending.

use delaymq_core::record::recurring::{NewSeries, Occurrence, Recur};
use delaymq_core::record::terms::IfExists;
use delaymq_core::store::{Outcome, Recurring, Recurs};
use delaymq_core::units::{DueKey, Millis, Sequence, SubjectNumber};

use super::parts::Told;
use super::{Fate, Ledger};

impl Ledger {
    /// The pending message of a series, also after moves.
    fn waits(&self, told: &Told) -> Option<DueKey> {
        let mut last = *told.occurrences.last()?;
        loop {
            match self.lines.get(&last.sequence)?.fate {
                Fate::Waiting => return Some(last),
                Fate::Moved => last = self.moves.get(&last.sequence)?.0,
                Fate::Ready | Fate::Cancelled => return None,
            }
        }
    }

    pub(super) fn take_recur(&mut self, at: Sequence, recur: &Recur<'_>) -> Outcome {
        match recur {
            Recur::Begin(new) => self.begin_series(at, new),
            Recur::End { subject, name } => {
                let is_it = |one: &Told| one.recurs.subject == *subject && one.recurs.name == *name;
                let number = self.series.living(is_it).map(|one| one.number);
                number.map_or(Outcome::NotFound, |number| Outcome::SeriesEnded(self.end_series(number)))
            }
            Recur::Over { series } => {
                let told = self.series.all.iter().find(|one| one.number == *series && !one.is_over);
                let waits = told.map(|told| self.waits(told));
                if waits != Some(None) {
                    return Outcome::NotFound;
                }
                Outcome::SeriesEnded(self.end_series(*series))
            }
        }
    }

    fn begin_series(&mut self, at: Sequence, new: &NewSeries<'_>) -> Outcome {
        if !self.topics.contains_key(&new.subject) {
            return Outcome::NotFound;
        }
        let there = self.series.living(|one| one.recurs.subject == new.subject && one.recurs.name == new.name);
        let there = there.map(|one| one.number);
        if there.is_some() && new.if_exists != IfExists::Replace {
            return Outcome::SeriesThere;
        }
        let ended = there.and_then(|number| self.end_series(number));
        self.series.all.push(Told {
            number: at,
            recurs: Recurs {
                subject: new.subject,
                name: new.name.to_owned(),
                rule: new.rule.to_owned(),
                zone: new.zone.to_owned(),
                catch_up: new.catch_up,
                expires_after: new.expires_after,
                meta: new.meta.to_vec(),
                body: new.body.to_vec(),
            },
            after: new.after,
            occurrences: Vec::new(),
            is_over: false,
        });
        Outcome::SeriesBegun(ended)
    }

    fn end_series(&mut self, number: Sequence) -> Option<DueKey> {
        let told = self.series.living(|one| one.number == number)?.clone();
        let waits = self.waits(&told);
        if let Some(told) = self.series.living(|one| one.number == number) {
            told.is_over = true;
        }
        self.cancel_waiting(waits?.sequence);
        waits
    }

    pub(super) fn take_occurrence(&mut self, at: Sequence, occurrence: Occurrence) {
        self.series.standing = Some((at.next(), occurrence));
    }

    /// Whether an occurrence is stored; `None` for other messages.
    pub(super) fn is_owed(&mut self, at: Sequence, due: Millis, subject: SubjectNumber) -> Option<bool> {
        let (_, occurrence) = self.series.standing.filter(|(message, _)| *message == at)?;
        let told = self.series.living(|one| one.number == occurrence.series).map(|told| told.clone());
        let is_owed = told.is_some_and(|told| {
            let is_next = told.last_due() == occurrence.after && due > occurrence.after;
            is_next && told.recurs.subject == subject && self.waits(&told).is_none()
        });
        if is_owed && let Some(told) = self.series.living(|one| one.number == occurrence.series) {
            told.occurrences.push(DueKey { due, sequence: at });
        }
        Some(is_owed)
    }

    /// The differences of the series.
    pub(super) fn compare_series(&self, theirs: &Recurring, found: &mut Vec<String>) {
        let ours: Vec<&Told> = self.series.all.iter().filter(|told| !told.is_over).collect();
        if ours.len() != theirs.len() {
            found.push(format!("series: ledger {}, store {}", ours.len(), theirs.len()));
        }
        for told in ours {
            let expected = (told.last_due(), self.waits(told), &told.recurs);
            let is = theirs.get(told.number);
            let is = is.map(|one| (one.last_due, one.pending, &*one.recurs));
            if is.as_ref() != Some(&expected) {
                found.push(format!("series {}: ledger {expected:?}, store {is:?}", told.number));
            }
            if theirs.named(told.recurs.subject, &told.recurs.name) != Some(told.number) {
                found.push(format!("series {} is not the one of its name {:?}", told.number, told.recurs.name));
            }
            let owes = theirs.owing().any(|(number, _)| number == told.number);
            if owes != expected.1.is_none() {
                found.push(format!("series {} owes one: {owes}, and {:?} waits", told.number, expected.1));
            }
        }
    }
}
