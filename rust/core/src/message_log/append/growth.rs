//! How large the next segment is made: segments grow with what the log was given, so that a small store takes little of
//! the disk and a busy one rarely begins a new segment.

use crate::message_log::segment::SEGMENT_HEADER_BYTES;
use crate::record::batch::BATCH_HEADER_BYTES;

/// A segment that is prepared ahead of its use is so many times as large as what the log was given.
const FACTOR: u64 = 4;
/// The same, while a publish waits for the segment: messages arrive faster than segments are prepared.
const FACTOR_AWAITED: u64 = 16;
/// Bytes of a segment that its header, a witness, the batch header of the awaited records and the seal take.
const OVERHEAD_BYTES: u64 = SEGMENT_HEADER_BYTES as u64 + 3 * BATCH_HEADER_BYTES as u64;

/// The bytes that the log was given, and the bounds of its segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentGrowth {
    smallest: u32,
    largest: u32,
    given_bytes: u64,
}

impl SegmentGrowth {
    pub(super) fn new(smallest_bytes: u32, largest_bytes: u32, given_bytes: u64) -> Self {
        Self { smallest: smallest_bytes.min(largest_bytes), largest: largest_bytes, given_bytes }
    }

    pub(super) fn smallest_bytes(&self) -> u32 {
        self.smallest
    }

    pub(super) fn largest_bytes(&self) -> u32 {
        self.largest
    }

    /// The log was given so many more bytes.
    pub(super) fn note_given(&mut self, bytes: u64) {
        self.given_bytes = self.given_bytes.saturating_add(bytes);
    }

    /// The capacity of the next segment, for a publish of `awaited_bytes` of records; 0 if none waits. A power of two
    /// between the bounds, or one of them.
    pub(super) fn next_bytes(&self, awaited_bytes: u64) -> u32 {
        let is_awaited = awaited_bytes > 0;
        let factor = if is_awaited { FACTOR_AWAITED } else { FACTOR };
        let needed = if is_awaited { awaited_bytes.saturating_add(OVERHEAD_BYTES) } else { 0 };
        let wanted = self.given_bytes.saturating_mul(factor).max(needed);
        let (smallest, largest) = (u64::from(self.smallest), u64::from(self.largest));
        let capacity = wanted.checked_next_power_of_two().unwrap_or(largest).max(smallest).min(largest);
        u32::try_from(capacity).unwrap_or(self.largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message_log::segment::{SEGMENT_BYTES_MIN, fresh_room, records_max};

    const MIB: u64 = 1 << 20;

    fn given(bytes: u64) -> SegmentGrowth {
        SegmentGrowth::new(1 << 20, 128 << 20, bytes)
    }

    #[test]
    fn segments_grow_with_what_the_log_was_given() {
        let sizes = [0, MIB / 4, MIB, 3 * MIB, 40 * MIB, u64::MAX].map(|bytes| u64::from(given(bytes).next_bytes(0)));
        assert_eq!(sizes, [MIB, MIB, 4 * MIB, 16 * MIB, 128 * MIB, 128 * MIB]);
        let mut growth = given(0);
        growth.note_given(2 * MIB);
        assert_eq!(u64::from(growth.next_bytes(0)), 8 * MIB);
    }

    #[test]
    fn a_segment_that_a_publish_waits_for_is_larger() {
        assert_eq!(u64::from(given(2 * MIB).next_bytes(100)), 32 * MIB);
        assert_eq!(u64::from(given(0).next_bytes(100)), MIB);
    }

    #[test]
    fn a_segment_has_room_for_the_publish_that_waits_for_it_however_large() {
        for largest in [SEGMENT_BYTES_MIN, 12 << 10, 1 << 20, 100_000_000, 128 << 20] {
            for smallest in [SEGMENT_BYTES_MIN, 1 << 20] {
                for awaited in [8, 4096, records_max(largest) / 2, records_max(largest)] {
                    let capacity = SegmentGrowth::new(smallest, largest, 0).next_bytes(awaited);
                    let room = u64::from(fresh_room(capacity));
                    let needed = awaited.min(records_max(largest)) + 2 * BATCH_HEADER_BYTES as u64;
                    assert!(room >= needed && capacity <= largest, "{awaited} of {smallest}..{largest}: {capacity}");
                }
            }
        }
    }
}
