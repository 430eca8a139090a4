//! The index of a ledger: its messages by sequence and by ready number.

use std::collections::HashMap;

use delaymq_core::units::Sequence;

/// A message, or a delivery that goes on under another entry, by its place in the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    Slot(u32),
    Delivery(u32),
}

/// Places of messages by sequence.
pub(crate) enum Index {
    /// Of sequences that are near each other: a place for each from the first on.
    Dense(Sequence, Vec<u32>),
    Scattered(HashMap<Sequence, u32>),
}

const NOWHERE: u32 = u32::MAX;

impl Index {
    pub(crate) fn dense(first: Sequence) -> Self {
        Self::Dense(first, Vec::new())
    }

    pub(crate) fn scattered() -> Self {
        Self::Scattered(HashMap::new())
    }

    pub(crate) fn get(&self, sequence: Sequence) -> Option<u32> {
        match self {
            Self::Dense(first, places) => {
                let at = usize::try_from(sequence.0.checked_sub(first.0)?).ok()?;
                places.get(at).copied().filter(|place| *place != NOWHERE)
            }
            Self::Scattered(places) => places.get(&sequence).copied(),
        }
    }

    pub(crate) fn put(&mut self, sequence: Sequence, place: u32) {
        match self {
            Self::Dense(first, places) => {
                let Some(Ok(at)) = sequence.0.checked_sub(first.0).map(usize::try_from) else { return };
                if places.len() <= at {
                    places.resize(at.saturating_add(1), NOWHERE);
                }
                if let Some(there) = places.get_mut(at) {
                    *there = place;
                }
            }
            Self::Scattered(places) => {
                places.insert(sequence, place);
            }
        }
    }
}

/// Who got which numbers of a subject, ascending as they came.
#[derive(Default)]
pub(crate) struct Numbers(Vec<(u64, Target)>);

impl Numbers {
    pub(crate) fn push(&mut self, number: u64, target: Target) {
        if self.0.last().is_none_or(|(last, _)| *last < number) {
            self.0.push((number, target));
        }
    }

    /// Those from `first` on and below `end`.
    pub(crate) fn between(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, Target)> + '_ {
        let from = self.0.partition_point(|(number, _)| *number < first);
        self.0.iter().skip(from).take_while(move |(number, _)| *number < end).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_found_and_nothing_else() {
        for mut index in [Index::dense(Sequence(5)), Index::scattered()] {
            index.put(Sequence(9), 0);
            index.put(Sequence(5), 1);
            let found: Vec<_> = (4..11).map(|at| index.get(Sequence(at))).collect();
            assert_eq!(found, [None, Some(1), None, None, None, Some(0), None]);
        }
    }

    #[test]
    fn numbers_are_found_by_ranges() {
        let mut numbers = Numbers::default();
        for number in [3, 4, 7, 7, 6] {
            numbers.push(number, Target::Slot(u32::try_from(number).unwrap()));
        }
        let found = |first, end| numbers.between(first, end).map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!((found(0, 9), found(4, 7), found(8, 9)), (vec![3, 4, 7], vec![4], vec![]));
    }
}
