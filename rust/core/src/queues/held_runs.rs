//! The messages that a consumer holds, by its pull offsets. Messages are mostly given and finished in runs, so they
//! are kept as runs: giving a thousand messages costs as much as giving one.

use std::collections::BTreeMap;

use crate::units::{PullOffset, ReadyNumber};

/// A message that a consumer was given and has not finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The message's number in the subject.
    pub number: ReadyNumber,
    /// How often this number was delivered to the group, this time included.
    pub deliveries: u32,
}

/// Messages with neighbouring numbers under neighbouring offsets, and the same delivery count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    first: Held,
    count: u64,
}

impl Run {
    fn held(&self, by: u64) -> Held {
        Held { number: self.first.number.plus(by), ..self.first }
    }

    fn number_end(&self) -> ReadyNumber {
        self.first.number.plus(self.count)
    }
}

/// The held messages; see the module. Its memory depends on the number of runs, not of messages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeldRuns {
    /// By first offset; disjoint. Neighbours that can be joined are joined, since runs are only added at the end.
    runs: BTreeMap<PullOffset, Run>,
    count: usize,
}

impl HeldRuns {
    /// The number of messages.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if it holds none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The message under an offset.
    pub fn get(&self, offset: PullOffset) -> Option<Held> {
        let (first, run) = self.runs.range(..=offset).next_back()?;
        let by = offset.since(*first);
        (by < run.count).then(|| run.held(by))
    }

    /// All messages, by offset.
    pub fn iter(&self) -> impl Iterator<Item = (PullOffset, Held)> + '_ {
        self.iter_from(PullOffset(0))
    }

    /// The messages from an offset on.
    pub fn iter_from(&self, from: PullOffset) -> impl Iterator<Item = (PullOffset, Held)> + '_ {
        let before = self.runs.range(..from).next_back();
        let runs = before.into_iter().chain(self.runs.range(from..));
        runs.flat_map(move |(first, run)| {
            (from.since(*first).min(run.count)..run.count).map(|by| (first.plus(by), run.held(by)))
        })
    }

    /// The numbers that are held, as first and end (exclusive), by offset.
    pub fn number_ranges(&self) -> impl Iterator<Item = (ReadyNumber, ReadyNumber)> + '_ {
        self.runs.values().map(|run| (run.first.number, run.number_end()))
    }

    /// Adds `count` messages from `first` on under the offsets from `offset` on. Returns true if the offsets are above
    /// all held ones; otherwise nothing changes.
    pub fn append(&mut self, offset: PullOffset, first: Held, count: u64) -> bool {
        let end = self.runs.last_key_value().map(|(start, run)| start.plus(run.count));
        if end.is_some_and(|end| offset < end) {
            return false;
        }
        if count == 0 {
            return true;
        }
        self.count = self.count.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
        if end == Some(offset)
            && let Some(mut last) = self.runs.last_entry()
            && last.get().number_end() == first.number
            && last.get().first.deliveries == first.deliveries
        {
            let run = last.get_mut();
            run.count = run.count.saturating_add(count);
        } else {
            self.runs.insert(offset, Run { first, count });
        }
        true
    }

    /// Takes the messages under the offsets from `first` to `end` (exclusive): returns their numbers, as first and
    /// end (exclusive), by offset.
    pub fn take(&mut self, first: PullOffset, end: PullOffset) -> Vec<(ReadyNumber, ReadyNumber)> {
        let mut taken = Vec::new();
        if first >= end {
            return taken;
        }
        let begin = self.runs.range(..=first).next_back().map_or(first, |(start, _)| *start);
        let touched: Vec<PullOffset> = self.runs.range(begin..end).map(|(start, _)| *start).collect();
        for start in touched {
            let Some(run) = self.runs.remove(&start) else { continue };
            // Parts of this run: the front that stays, the part that is taken, and the end that stays.
            let from = first.since(start).min(run.count);
            let to = end.since(start).min(run.count);
            self.keep(start, run, 0, from);
            self.keep(start, run, to, run.count);
            if from < to {
                taken.push((run.first.number.plus(from), run.first.number.plus(to)));
                self.count = self.count.saturating_sub(usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX));
            }
        }
        taken
    }

    /// Removes a number, under whichever offset it is held.
    pub fn remove_number(&mut self, number: ReadyNumber) {
        let holds = |run: &Run| run.first.number <= number && number < run.number_end();
        let found = self.runs.iter().find(|(_, run)| holds(run));
        if let Some(offset) = found.map(|(start, run)| start.plus(number.since(run.first.number))) {
            self.take(offset, offset.next());
        }
    }

    fn keep(&mut self, start: PullOffset, run: Run, from: u64, to: u64) {
        if from < to {
            let part = Run { first: run.held(from), count: to.saturating_sub(from) };
            self.runs.insert(start.plus(from), part);
        }
    }

    /// The number of runs, which determines the memory.
    #[cfg(test)]
    fn run_count(&self) -> usize {
        self.runs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn held(number: u64, deliveries: u32) -> Held {
        Held { number: ReadyNumber(number), deliveries }
    }

    #[test]
    fn what_is_given_in_order_is_one_run_however_much_it_is() {
        let mut held_runs = HeldRuns::default();
        for turn in 0..1_000 {
            assert!(held_runs.append(PullOffset(turn * 100), held(7 + turn * 100, 1), 100));
        }
        assert_eq!((held_runs.len(), held_runs.run_count()), (100_000, 1));
        assert_eq!(held_runs.take(PullOffset(0), PullOffset(99_000)), [(ReadyNumber(7), ReadyNumber(99_007))]);
        assert_eq!((held_runs.len(), held_runs.run_count()), (1_000, 1));
        assert!(held_runs.append(PullOffset(100_000), held(100_007, 2), 1), "handed over more often: another run");
        assert_eq!(held_runs.run_count(), 2);
        assert!(!held_runs.append(PullOffset(100_000), held(5, 1), 1), "this offset is taken");
        assert_eq!(held_runs.len(), 1_001);
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Skipped offsets, skipped numbers, number of messages, and their delivery count.
        Append(u64, u64, u64, u32),
        Take(u64, u64),
        RemoveNumber(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_u64..3, 0_u64..3, 0_u64..12, 1_u32..3).prop_map(|(a, b, c, d)| Step::Append(a, b, c, d)),
            (0_u64..90, 0_u64..40).prop_map(|(first, count)| Step::Take(first, first + count)),
            (0_u64..120).prop_map(Step::RemoveNumber),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_table(steps in prop::collection::vec(step(), 0..40), from in 0_u64..90) {
            let mut held_runs = HeldRuns::default();
            let mut plain: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
            let (mut offset, mut number) = (0, 0);
            for step in steps {
                match step {
                    Step::Append(offsets, numbers, count, deliveries) => {
                        offset += offsets;
                        number += numbers;
                        prop_assert!(held_runs.append(PullOffset(offset), held(number, deliveries), count));
                        plain.extend((0..count).map(|by| (offset + by, (number + by, deliveries))));
                        offset += count;
                        number += count;
                    }
                    Step::Take(first, end) => {
                        let expected: Vec<u64> = plain.range(first..end).map(|(_, (number, _))| *number).collect();
                        plain.retain(|offset, _| !(first..end).contains(offset));
                        let taken = held_runs.take(PullOffset(first), PullOffset(end));
                        let numbers = taken.iter().flat_map(|(first, end)| first.0..end.0);
                        prop_assert_eq!(numbers.collect::<Vec<_>>(), expected);
                    }
                    Step::RemoveNumber(number) => {
                        plain.retain(|_, (held, _)| *held != number);
                        held_runs.remove_number(ReadyNumber(number));
                    }
                }
                prop_assert_eq!((held_runs.len(), held_runs.is_empty()), (plain.len(), plain.is_empty()));
                let all = |from| held_runs.iter_from(PullOffset(from)).map(|(at, one)| (at.0, (one.number.0, one.deliveries)));
                prop_assert_eq!(all(0).collect::<Vec<_>>(), plain.clone().into_iter().collect::<Vec<_>>());
                let rest: Vec<_> = plain.range(from..).map(|(at, one)| (*at, *one)).collect();
                prop_assert_eq!(all(from).collect::<Vec<_>>(), rest);
                for at in 0..100 {
                    let found = held_runs.get(PullOffset(at)).map(|one| (one.number.0, one.deliveries));
                    prop_assert_eq!(found, plain.get(&at).copied());
                }
                let ranges = held_runs.number_ranges().flat_map(|(first, end)| first.0..end.0).collect::<Vec<_>>();
                prop_assert_eq!(ranges, plain.values().map(|(number, _)| *number).collect::<Vec<_>>());
                // Equal content compares equal, however it was made.
                let mut again = HeldRuns::default();
                for (at, (number, times)) in &plain {
                    prop_assert!(again.append(PullOffset(*at), held(*number, *times), 1));
                }
                prop_assert_eq!(&again, &held_runs);
            }
        }
    }
}
