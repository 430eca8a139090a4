//! One consumer of a group: its dense pull offsets and what it holds under them.

use std::collections::BTreeMap;

use crate::units::{ConsumerNumber, PullOffset, ReadyNumber};

/// So many offsets are sooner taken one by one.
const FEW_OFFSETS: u64 = 8;

/// A message that a consumer was given and has not finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The message's number in the subject.
    pub number: ReadyNumber,
    /// How often this number was handed to consumers of the group, this time included.
    pub deliveries: u32,
}

/// A consumer, as applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consumer {
    /// Its number.
    pub number: ConsumerNumber,
    /// Its name, unique in its group.
    pub name: String,
    /// The offset that its next assignment starts with.
    pub next_offset: PullOffset,
    /// Offsets below this may have been handed out already, by assignments that a crash lost.
    pub reserved_offset: PullOffset,
    /// What it holds, by offset.
    pub held: BTreeMap<PullOffset, Held>,
}

impl Consumer {
    /// A consumer that holds nothing and whose offsets start at `first`.
    pub fn new(number: ConsumerNumber, name: &str, first: PullOffset) -> Self {
        Self { number, name: name.to_owned(), next_offset: first, reserved_offset: first, held: BTreeMap::new() }
    }

    /// Takes what it holds from `first` up to `end`, not included: the numbers, by offset. What is held
    /// longest, which mostly goes first, is taken in one piece.
    pub(super) fn let_go_of(&mut self, first: PullOffset, end: PullOffset) -> Vec<ReadyNumber> {
        let is_front = self.held.first_key_value().is_some_and(|(lowest, _)| *lowest >= first);
        if is_front && end.since(first) > FEW_OFFSETS {
            let rest = self.held.split_off(&end);
            return std::mem::replace(&mut self.held, rest).into_values().map(|held| held.number).collect();
        }
        let offsets: Vec<PullOffset> = self.held.range(first..end).map(|(offset, _)| *offset).collect();
        offsets.iter().filter_map(|offset| self.held.remove(offset)).map(|held| held.number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_taken_is_what_lies_in_the_range(
            offsets in prop::collection::btree_set(0_u64..80, 0..60),
            ranges in prop::collection::vec((0_u64..90, 0_u64..90), 0..6),
        ) {
            let mut consumer = Consumer::new(ConsumerNumber(1), "a", PullOffset(0));
            let held = |offset: &u64| (PullOffset(*offset), Held { number: ReadyNumber(offset * 3), deliveries: 1 });
            consumer.held = offsets.iter().map(held).collect();
            let mut left = offsets;
            for (first, count) in ranges {
                let expected: Vec<u64> = left.range(first..first + count).map(|offset| offset * 3).collect();
                left.retain(|offset| !(first..first + count).contains(offset));
                let taken = consumer.let_go_of(PullOffset(first), PullOffset(first + count));
                prop_assert_eq!(taken.iter().map(|number| number.0).collect::<Vec<_>>(), expected);
                let keys: Vec<u64> = consumer.held.keys().map(|offset| offset.0).collect();
                prop_assert_eq!(keys, left.iter().copied().collect::<Vec<_>>());
            }
        }
    }
}
