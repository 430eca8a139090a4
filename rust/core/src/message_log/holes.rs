//! Holes: ranges of batches that are no longer needed, and whose disk space is given back.
//!
//! A hole goes from the start of one batch to the start, or the end, of another batch of the same segment.
//! The positions at both ends are kept, so that a reader of the log continues after the hole and the chain is
//! still checked on both sides. The bytes in a hole are never read: all, some or none of them may be punched.

use std::sync::Arc;

use super::position::LogPosition;
use super::segment::SEGMENT_HEADER_BYTES;
use crate::storage::whole_blocks;
use crate::units::{Location, SegmentNumber};

/// A range of batches that are no longer read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    /// The position at the start of its first batch.
    pub from: LogPosition,
    /// The position after its last batch.
    pub to: LogPosition,
}

impl Hole {
    /// The segment that it is in.
    pub fn segment(&self) -> SegmentNumber {
        self.from.end.segment().unwrap_or_default()
    }

    /// Bytes of its batches.
    pub fn bytes(&self) -> u64 {
        self.to.end.0.saturating_sub(self.from.end.0)
    }

    /// Offset and length of the whole blocks in it. A block that it shares with other bytes is kept.
    pub fn whole_blocks(&self, block_bytes: u32) -> Option<(u64, u64)> {
        whole_blocks(self.from.end.offset().into(), self.to.end.offset().into(), block_bytes)
    }

    /// True if it contains all of `other`.
    pub fn holds(&self, other: &Self) -> bool {
        self.from.end <= other.from.end && other.to.end <= self.to.end
    }

    /// True if it can be a hole of a log.
    fn is_sound(&self) -> bool {
        let (from, to) = (&self.from, &self.to);
        from.end.segment().is_some()
            && from.end.segment() == to.end.segment()
            && from.end.offset() >= SEGMENT_HEADER_BYTES
            && from.end < to.end
            && from.end.offset().is_multiple_of(8)
            && to.end.offset().is_multiple_of(8)
            && from.next_sequence < to.next_sequence
            && from.epoch <= to.epoch
            && from.trusted <= to.trusted
    }
}

/// All holes of a log, in log order. No two of them touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holes {
    all: Arc<Vec<Hole>>,
}

impl Holes {
    /// Makes the list of these holes. `None` if they cannot be the holes of one log.
    pub fn of(all: Vec<Hole>) -> Option<Self> {
        let is_apart = |pair: &[Hole]| match pair {
            [before, next] => {
                before.to.end < next.from.end
                    && before.to.next_sequence <= next.from.next_sequence
                    && before.to.trusted <= next.from.trusted
            }
            _ => true,
        };
        (all.iter().all(Hole::is_sound) && all.windows(2).all(is_apart)).then(|| Self { all: Arc::new(all) })
    }

    /// The holes, in log order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Hole> {
        self.all.iter()
    }

    /// True if there are no holes.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The hole that begins at `location`.
    #[inline]
    pub fn beginning_at(&self, location: Location) -> Option<&Hole> {
        if self.all.is_empty() {
            return None;
        }
        let place = self.all.binary_search_by_key(&location, |hole| hole.from.end).ok()?;
        self.all.get(place)
    }

    /// The holes of one segment.
    pub fn in_segment(&self, segment: SegmentNumber) -> &[Hole] {
        let first = self.all.partition_point(|hole| hole.segment() < segment);
        let end = self.all.partition_point(|hole| hole.segment() <= segment);
        self.all.get(first..end).unwrap_or_default()
    }

    /// The holes from a segment on.
    #[must_use]
    pub fn from_segment(&self, floor: SegmentNumber) -> Self {
        let first = self.all.partition_point(|hole| hole.segment() < floor);
        if first == 0 {
            return self.clone();
        }
        Self { all: Arc::new(self.all.get(first..).unwrap_or_default().to_vec()) }
    }

    /// True if one of the holes contains all of `hole`.
    pub fn hold(&self, hole: &Hole) -> bool {
        let behind = self.all.partition_point(|other| other.from.end <= hole.from.end);
        behind.checked_sub(1).and_then(|place| self.all.get(place)).is_some_and(|other| other.holds(hole))
    }

    /// Bytes of the batches of all holes.
    pub fn bytes(&self) -> u64 {
        self.all.iter().map(Hole::bytes).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Epoch, Millis, Sequence};

    fn at(segment: u32, offset: u32, next: u64) -> LogPosition {
        LogPosition {
            end: Location::in_segment(SegmentNumber(segment), offset),
            chain: offset,
            next_sequence: Sequence(next),
            epoch: Epoch(1),
            trusted: Millis(next),
        }
    }

    fn hole(segment: u32, from: u32, to: u32) -> Hole {
        let next = |offset: u32| u64::from(segment) * 1_000_000 + u64::from(offset);
        Hole { from: at(segment, from, next(from)), to: at(segment, to, next(to)) }
    }

    #[test]
    fn only_whole_blocks_are_given_back() {
        let blocks = |from, to| hole(1, from, to).whole_blocks(4_096);
        assert_eq!(blocks(4_096, 12_288), Some((4_096, 8_192)));
        assert_eq!(blocks(4_104, 12_280), None);
        assert_eq!(blocks(4_104, 12_288), Some((8_192, 4_096)));
        assert_eq!(blocks(8_184, 16_392), Some((8_192, 8_192)));
        assert_eq!(hole(1, 4_104, 4_120).whole_blocks(8), Some((4_104, 16)));
    }

    #[test]
    fn they_are_found_by_place_and_segment() {
        let all = vec![hole(1, 4_096, 5_000), hole(1, 6_000, 8_000), hole(3, 4_096, 9_000)];
        let holes = Holes::of(all.clone()).unwrap();
        assert_eq!(holes.beginning_at(all[1].from.end), Some(&all[1]));
        assert_eq!(holes.beginning_at(all[1].to.end), None);
        assert_eq!([1, 2, 3].map(|number| holes.in_segment(SegmentNumber(number)).len()), [2, 0, 1]);
        assert_eq!(holes.from_segment(SegmentNumber(2)).iter().collect::<Vec<_>>(), [&all[2]]);
        assert_eq!(holes.bytes(), 904 + 2_000 + 4_904);
        assert!(all.iter().all(|hole| holes.hold(hole)) && holes.hold(&hole(1, 6_000, 7_000)));
        assert!(!holes.hold(&hole(1, 6_000, 8_008)) && !holes.hold(&hole(1, 5_000, 6_000)));
        assert!(!Holes::default().hold(&all[0]) && Holes::default().beginning_at(all[0].from.end).is_none());
    }

    #[test]
    fn what_cannot_be_the_holes_of_a_log_is_refused() {
        let good = hole(2, 5_000, 6_000);
        let refused = |changed: Hole| assert_eq!(Holes::of(vec![changed]), None, "{changed:?}");
        refused(Hole { to: good.from, from: good.to });
        refused(hole(2, 5_000, 5_000));
        refused(hole(2, 4_088, 6_000));
        refused(hole(2, 5_001, 6_000));
        refused(Hole { to: at(3, 6_000, 9_000_000), ..good });
        refused(Hole { to: LogPosition { next_sequence: good.from.next_sequence, ..good.to }, ..good });
        refused(Hole { to: LogPosition { epoch: Epoch(0), ..good.to }, ..good });
        refused(Hole { to: LogPosition { trusted: Millis(0), ..good.to }, ..good });
        for other in [hole(2, 6_000, 7_000), hole(2, 5_504, 7_000), hole(1, 5_000, 6_000), good] {
            assert_eq!(Holes::of(vec![good, other]), None, "{other:?}");
        }
        assert!(Holes::of(vec![good, hole(2, 6_008, 7_000)]).is_some() && Holes::of(Vec::new()).is_some());
    }
}
