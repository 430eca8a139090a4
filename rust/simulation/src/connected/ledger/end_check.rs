//! The checks at the end: messages that must have come and been finished.

use std::collections::{BTreeMap, BTreeSet};

use super::{Acked, GroupName, Ledger};

impl Ledger {
    /// How often a group has finished each message.
    fn finished(&self, name: &GroupName) -> BTreeMap<u64, u64> {
        let mut finished: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, taken) in self.taken.iter().filter(|(place, _)| place.of == *name) {
            for key in taken.keys.values().filter(|key| key.acked != Acked::No) {
                *finished.entry(key.number).or_default() += 1;
            }
        }
        finished
    }

    /// At the end: each group must have received and finished all promised messages.
    pub(crate) fn judge_the_end(&mut self) {
        self.end_resets();
        // A consumer whose last pull is not answered may have been silent for a lease before it.
        let places: Vec<_> = self.taken.keys().cloned().collect();
        for place in &places {
            self.judge_silence(place);
        }
        let mut wrong = Vec::new();
        for (name, group) in &self.groups {
            let finished = self.finished(name);
            for (number, sent) in self.sent.iter().filter(|(_, sent)| sent.subject == name.0) {
                let owed = group.owed.get(number).copied().unwrap_or_default();
                let passes = group.wants.is_none_or(|wants| sent.tag == Some(wants));
                let of_subject = if owed.forgiven || !passes { 0 } else { sent.told };
                let found = finished.get(number).copied().unwrap_or(0);
                if found < of_subject.saturating_add(owed.nacks_told) {
                    let places: Vec<_> = self.offsets_of(name, *number).into_iter().collect();
                    wrong
                        .push(format!("lost: message {number} in {name:?}: {owed:?}, {sent:?}, came under {places:?}"));
                }
            }
        }
        self.violations.extend(wrong);
    }

    pub(super) fn offsets_of(&self, name: &GroupName, number: u64) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (place, taken) in self.taken.iter().filter(|(place, _)| place.of == *name) {
            for (offset, key) in taken.keys.iter().filter(|(_, key)| key.number == number) {
                found.insert(format!("{} {} {offset} {:?} {}", place.subject, place.consumer, key.acked, key.passed));
            }
        }
        found
    }
}
