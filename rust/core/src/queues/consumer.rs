//! One consumer of a group: its dense pull offsets and what it holds under them.

use std::collections::BTreeMap;
use std::ops::Deref;

use super::held_runs::HeldRuns;
use crate::units::{ConsumerNumber, Millis, PullOffset};

/// A consumer, as applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consumer {
    /// Its number.
    pub number: ConsumerNumber,
    /// Its name, unique among the lasting consumers of its group, or among the others.
    pub name: String,
    /// True if a client named it: it outlives an open. The others last one epoch.
    pub is_lasting: bool,
    /// True if its group is its own, and ends with it: it receives every message of the subject.
    pub is_broadcast: bool,
    /// The trusted time of the last fact that attached it; 0 if it is not lasting.
    pub seen: Millis,
    /// The offset that its next assignment starts with.
    pub next_offset: PullOffset,
    /// Offsets below this may have been handed out by assignments that a crash lost.
    pub reserved_offset: PullOffset,
    /// The messages that it holds, by offset.
    pub held: HeldRuns,
}

impl Consumer {
    /// A consumer that holds nothing and whose offsets start at `first`.
    pub fn new(number: ConsumerNumber, name: &str, first: PullOffset) -> Self {
        Self {
            number,
            name: name.to_owned(),
            is_lasting: false,
            is_broadcast: false,
            seen: Millis(0),
            next_offset: first,
            reserved_offset: first,
            held: HeldRuns::default(),
        }
    }

    /// How many messages it has in flight: those that it holds, and those that were decided, up to the offset `next`,
    /// and are not applied yet.
    pub fn in_flight(&self, next: PullOffset) -> u64 {
        (self.held.len() as u64).saturating_add(next.since(self.next_offset))
    }
}

/// The consumers of a group, by number and by name. Lasting consumers and those of one epoch have separate names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Consumers {
    by_number: BTreeMap<ConsumerNumber, Consumer>,
    lasting: BTreeMap<String, ConsumerNumber>,
    others: BTreeMap<String, ConsumerNumber>,
}

impl Consumers {
    /// The consumer of this name, among the lasting ones or the others.
    pub fn named(&self, name: &str, is_lasting: bool) -> Option<ConsumerNumber> {
        if is_lasting { &self.lasting } else { &self.others }.get(name).copied()
    }

    /// True if all consumers are lasting, or there are none.
    pub fn are_all_lasting(&self) -> bool {
        self.others.is_empty()
    }

    /// Adds a consumer whose number and name are unused.
    pub fn add(&mut self, consumer: Consumer) {
        let names = if consumer.is_lasting { &mut self.lasting } else { &mut self.others };
        names.insert(consumer.name.clone(), consumer.number);
        self.by_number.insert(consumer.number, consumer);
    }

    pub(super) fn remove(&mut self, number: ConsumerNumber) -> Option<Consumer> {
        let removed = self.by_number.remove(&number)?;
        let names = if removed.is_lasting { &mut self.lasting } else { &mut self.others };
        names.remove(&removed.name);
        Some(removed)
    }

    pub(super) fn get_mut(&mut self, number: ConsumerNumber) -> Option<&mut Consumer> {
        self.by_number.get_mut(&number)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Consumer> {
        self.by_number.values_mut()
    }
}

impl Deref for Consumers {
    type Target = BTreeMap<ConsumerNumber, Consumer>;

    fn deref(&self) -> &Self::Target {
        &self.by_number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_consumer_is_found_by_its_name_and_no_other_is(
            steps in prop::collection::vec((any::<bool>(), 0_u32..6, any::<bool>()), 1..60),
        ) {
            let mut consumers = Consumers::default();
            let mut next = 1;
            for (adds, name, is_lasting) in steps {
                let name = name.to_string();
                let there = consumers.values().find(|one| one.name == name && one.is_lasting == is_lasting);
                let there = there.map(|one| one.number);
                prop_assert_eq!(consumers.named(&name, is_lasting), there);
                match there {
                    None if adds => {
                        let number = ConsumerNumber(next);
                        next += 1;
                        consumers.add(Consumer { is_lasting, ..Consumer::new(number, &name, PullOffset(0)) });
                    }
                    Some(there) if !adds => prop_assert_eq!(consumers.remove(there).map(|one| one.name), Some(name)),
                    _ => {}
                }
                prop_assert_eq!(consumers.are_all_lasting(), consumers.values().all(|one| one.is_lasting));
                let named = |one: &Consumer| consumers.named(&one.name, one.is_lasting) == Some(one.number);
                prop_assert!(consumers.values().all(named));
            }
            prop_assert_eq!(consumers.remove(ConsumerNumber(0)), None);
        }
    }
}
