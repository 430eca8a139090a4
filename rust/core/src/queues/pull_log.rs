//! The messages that one QMQ consumer was given and has not acknowledged, by its pull offsets.
//!
//! QMQ acknowledges ranges from the oldest on. A consumer that returns reports how far it has received, and gets
//! the rest again under the same offsets. Offsets without a message (void since a crash, or removed) are gaps. An
//! answer never spans a gap, since its reader counts offsets from the first message.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::planted::{Planted, is_on};
use crate::units::PullOffset;

/// The log of one consumer; see the module. `D` is the data of a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PullLog<D> {
    held: BTreeMap<PullOffset, D>,
    /// All offsets below this are acknowledged, or went to the retry subject.
    acknowledged_below: PullOffset,
    /// All given offsets are below this.
    given_below: PullOffset,
}

/// The effect of an acknowledgement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeSettled<D> {
    /// The newly finished offsets; empty if all were finished before.
    pub done: Range<PullOffset>,
    /// Lower offsets that were neither acknowledged nor given back: their messages come again as retries.
    pub passed_over: Vec<(PullOffset, D)>,
}

impl<D> PullLog<D> {
    /// The log of a consumer whose next offset is `next` and that holds these deliveries.
    pub fn new(next: PullOffset, held: BTreeMap<PullOffset, D>) -> Self {
        let first = held.keys().next().copied().unwrap_or(next);
        let last = held.keys().next_back().map_or(next, |last| last.next());
        Self { held, acknowledged_below: first.min(next), given_below: next.max(last) }
    }

    /// The number of messages that it holds.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// True if it holds none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Records deliveries, from `first` on.
    pub fn given(&mut self, first: PullOffset, deliveries: impl IntoIterator<Item = D>) {
        let mut offset = first.max(self.given_below);
        for delivery in deliveries {
            self.held.insert(offset, delivery);
            offset = offset.next();
        }
        self.given_below = offset;
    }

    /// Removes a message that was voided or continues elsewhere: its offset becomes a gap.
    pub fn remove(&mut self, offset: PullOffset) -> Option<D> {
        self.held.remove(&offset)
    }

    /// The deliveries that a consumer which received up to `received` has lost: at most `count_max` of them, in one
    /// run of neighbouring offsets. `None` if it has lost none.
    pub fn lost(&self, received: Option<PullOffset>, count_max: usize) -> Option<(PullOffset, Vec<&D>)> {
        let below = if is_on(Planted::LostFromReceived) { self.given_below } else { self.acknowledged_below };
        let from = received.map_or(below, |last| last.next().max(self.acknowledged_below));
        let (first, _) = self.held.range(from..).next()?;
        let run = self.held.range(*first..).take(count_max).zip(first.0..);
        let run: Vec<&D> =
            run.take_while(|((offset, _), place)| offset.0 == *place).map(|((_, delivery), _)| delivery).collect();
        (!run.is_empty()).then_some((*first, run))
    }

    /// Finishes the offsets `first` to `last`. Offsets that were finished before are ignored; held ones below
    /// `first` are passed over. Offsets that were never given are not finished.
    pub fn acknowledge(&mut self, first: PullOffset, last: PullOffset) -> RangeSettled<D> {
        let begin = first.max(self.acknowledged_below);
        let end = last.next().min(self.given_below);
        if begin >= end {
            return RangeSettled { done: begin..begin, passed_over: Vec::new() };
        }
        let above = self.held.split_off(&end);
        let mut below = std::mem::replace(&mut self.held, above);
        below.split_off(&begin);
        self.acknowledged_below = end;
        if is_on(Planted::PassedOverIsDone) {
            below.clear();
        }
        RangeSettled { done: begin..end, passed_over: below.into_iter().collect() }
    }

    /// Takes all deliveries, after the consumer was silent for a lease.
    pub fn take_all(&mut self) -> Vec<(PullOffset, D)> {
        self.acknowledged_below = self.given_below;
        std::mem::take(&mut self.held).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn log(next: u64, held: &[u64]) -> PullLog<u64> {
        PullLog::new(PullOffset(next), held.iter().map(|offset| (PullOffset(*offset), *offset)).collect())
    }

    fn lost(log: &PullLog<u64>, received: Option<u64>, count_max: usize) -> Vec<u64> {
        log.lost(received.map(PullOffset), count_max).map_or(Vec::new(), |(first, run)| {
            assert_eq!(first.0, *run[0]);
            run.into_iter().copied().collect()
        })
    }

    fn acknowledge(log: &mut PullLog<u64>, first: u64, last: u64) -> (Range<u64>, Vec<u64>) {
        let settled = log.acknowledge(PullOffset(first), PullOffset(last));
        let passed = settled.passed_over.into_iter().map(|(_, delivery)| delivery).collect();
        (settled.done.start.0..settled.done.end.0, passed)
    }

    #[test]
    fn who_comes_back_gets_the_rest_again_under_its_offsets() {
        let mut log = log(0, &[]);
        log.given(PullOffset(0), 0..10);
        assert_eq!(lost(&log, None, 100), (0..10).collect::<Vec<_>>());
        assert_eq!(lost(&log, Some(6), 100), [7, 8, 9]);
        assert_eq!(lost(&log, Some(6), 2), [7, 8]);
        assert!(lost(&log, Some(9), 100).is_empty() && lost(&log, Some(0), 0).is_empty());
        assert_eq!(acknowledge(&mut log, 0, 4), (0..5, vec![]));
        assert_eq!(lost(&log, None, 100), [5, 6, 7, 8, 9]);
        assert_eq!(lost(&log, Some(2), 100), [5, 6, 7, 8, 9]);
    }

    #[test]
    fn what_is_acknowledged_again_changes_nothing_and_what_is_passed_over_comes_as_a_retry() {
        let mut log = log(0, &[]);
        log.given(PullOffset(0), 0..10);
        assert_eq!(acknowledge(&mut log, 0, 1), (0..2, vec![]));
        assert_eq!(acknowledge(&mut log, 0, 1), (2..2, vec![]));
        assert_eq!(acknowledge(&mut log, 1, 3), (2..4, vec![]));
        // R1: 4 to 6 were neither acknowledged nor sent back.
        assert_eq!(acknowledge(&mut log, 7, 8), (7..9, vec![4, 5, 6]));
        assert_eq!(acknowledge(&mut log, 4, 6), (9..9, vec![]));
        assert_eq!(log.take_all(), [(PullOffset(9), 9)]);
        assert!(log.is_empty());
    }

    #[test]
    fn nothing_is_done_that_was_never_given() {
        let mut log = log(0, &[]);
        log.given(PullOffset(0), 0..3);
        assert_eq!(acknowledge(&mut log, 0, 1 << 40), (0..3, vec![]));
        log.given(PullOffset(3), 3..5);
        assert_eq!((lost(&log, None, 9), log.len()), (vec![3, 4], 2));
        assert_eq!(acknowledge(&mut log, 9, 12), (9..9, vec![]));
        assert_eq!(acknowledge(&mut log, 4, 3), (4..4, vec![]), "it ends before it begins");
        assert_eq!(log.len(), 2);
        assert_eq!(acknowledge(&mut log, 0, u64::MAX), (3..5, vec![]));
    }

    #[test]
    fn no_answer_spans_a_gap() {
        // 4 to 7 are void since a crash.
        let mut log = log(8, &[2, 3]);
        log.given(PullOffset(8), 8..10);
        assert_eq!(lost(&log, None, 9), [2, 3]);
        assert_eq!(lost(&log, Some(3), 9), [8, 9]);
        assert_eq!(log.remove(PullOffset(2)), Some(2));
        assert_eq!(lost(&log, None, 9), [3]);
        assert_eq!(acknowledge(&mut log, 3, 8), (3..9, vec![]));
        assert_eq!(lost(&log, None, 9), [9]);
    }

    proptest! {
        #[test]
        fn every_message_is_done_or_passed_over_once_and_lost_until_then(
            steps in prop::collection::vec((0_u8..3, 0_u64..30, 0_u64..8), 1..60),
        ) {
            let mut log = log(0, &[]);
            let mut next = 0;
            let mut open = std::collections::BTreeSet::new();
            for (what, at, count) in steps {
                match what {
                    0 => {
                        log.given(PullOffset(next), next..next + count);
                        open.extend(next..next + count);
                        next += count;
                    }
                    1 => {
                        let (done, passed) = acknowledge(&mut log, at, at + count);
                        for offset in done.chain(passed) {
                            prop_assert!(open.remove(&offset), "{offset} ended twice");
                        }
                    }
                    _ => {
                        let run = lost(&log, Some(at), 100);
                        let expected: Vec<u64> = open.range(at + 1..).copied().collect();
                        prop_assert_eq!(run, expected);
                    }
                }
                prop_assert_eq!(log.len(), open.len());
            }
        }
    }
}
