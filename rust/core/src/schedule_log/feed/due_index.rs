//! An index by due time of the entries in a [`Recent`](super::recent::Recent).
//!
//! The index keeps places in buckets of time. A bucket far from the origin is wide, and one near the origin
//! is 4096 ms wide, so that entries spread over ten years make a few hundred buckets. A wide or crowded
//! bucket is split into 64 when a part of it is read, down to one millisecond. A bucket keeps its places in
//! the order of arrival, which is the order of sequences.

use std::collections::BTreeMap;

use super::gather::Gather;
use super::recent::Recent;
use crate::schedule_log::window::bits::TwoBits;
use crate::units::{DueKey, Millis};

/// Width of the narrowest bucket that an insertion makes: 4096 ms.
const NEAR_SHIFT: u32 = 12;
/// A bucket is split into this many narrower ones: 64.
const SPLIT_SHIFT: u32 = 6;
/// Width of the widest bucket.
const FAR_SHIFT: u32 = 42;
/// A bucket with fewer places is read as a whole and not split.
const CROWDED: usize = 1_024;

#[derive(Debug, Default)]
struct Bucket {
    /// The bucket spans `1 << shift` milliseconds.
    shift: u32,
    places: Vec<u32>,
}

/// An index by due time.
#[derive(Debug)]
pub(in crate::schedule_log) struct DueIndex {
    origin: u64,
    /// Buckets by their first millisecond. They do not overlap: the origin determines their widths and
    /// starts, and a split bucket is replaced by all of its parts.
    buckets: BTreeMap<u64, Bucket>,
}

impl DueIndex {
    /// An empty index that is finest around `origin`.
    pub(in crate::schedule_log) fn new(origin: Millis) -> Self {
        Self { origin: origin.0, buckets: BTreeMap::new() }
    }

    /// Adds a place.
    #[inline]
    pub(in crate::schedule_log) fn insert(&mut self, due: Millis, place: u32) {
        if let Some((start, bucket)) = self.buckets.range_mut(..=due.0).next_back()
            && (due.0 ^ start) >> bucket.shift == 0
        {
            bucket.places.push(place);
            return;
        }
        let shift = self.shift_of(due.0);
        let bucket = Bucket { shift, places: vec![place] };
        self.buckets.insert(due.0 >> shift << shift, bucket);
    }

    /// Offers to `gather` all entries in its range.
    pub(in crate::schedule_log) fn gather(&mut self, entries: &Recent, bits: &TwoBits, gather: &mut Gather) {
        self.split_for(entries, gather);
        let from = gather.from();
        let first = self.first_start(from);
        for (start, bucket) in self.buckets.range(first..) {
            if *start > gather.to().due.0 {
                break;
            }
            if bucket.shift > 0 {
                for entry in bucket.places.iter().filter_map(|place| entries.get(*place)) {
                    gather.offer(entry, bits);
                }
                continue;
            }
            let passed = |place: &u32| entries.get(*place).is_some_and(|entry| entry.key() <= from);
            let places = bucket.places.get(bucket.places.partition_point(passed)..).unwrap_or_default();
            for entry in places.iter().filter_map(|place| entries.get(*place)) {
                if entry.key() > gather.to() {
                    break;
                }
                gather.offer(entry, bits);
            }
        }
    }

    /// Bytes of memory, about.
    pub(in crate::schedule_log) fn memory_bytes(&self) -> usize {
        let places: usize = self.buckets.values().map(|bucket| bucket.places.capacity().saturating_mul(4)).sum();
        places.saturating_add(self.buckets.len().saturating_mul(size_of::<Bucket>().saturating_add(16)))
    }

    /// Splits crowded buckets that extend over the range, or hold more entries than there is room for.
    fn split_for(&mut self, entries: &Recent, gather: &Gather) {
        let (from, to) = (gather.from().due.0, gather.to().due.0);
        let room = gather.room();
        let mut start = self.first_start(gather.from());
        while let Some((&at, bucket)) = self.buckets.range(start..).next() {
            if at > to {
                break;
            }
            let last = at | ((1 << bucket.shift) - 1);
            let inside = at > from && last <= to;
            let crowded = bucket.places.len() > CROWDED && (!inside || bucket.places.len() > room);
            if bucket.shift > 0 && crowded {
                self.split(at, entries);
                // Parts before the range are not looked at again.
                start = self.first_start(gather.from()).max(at);
            } else {
                start = last.saturating_add(1);
            }
        }
    }

    fn split(&mut self, start: u64, entries: &Recent) {
        let Some(bucket) = self.buckets.remove(&start) else { return };
        let shift = bucket.shift.saturating_sub(SPLIT_SHIFT);
        for part in 0..1_u64 << SPLIT_SHIFT {
            self.buckets.insert(start | (part << shift), Bucket { shift, places: Vec::new() });
        }
        for place in bucket.places {
            let Some(entry) = entries.get(place) else { continue };
            if let Some(part) = self.buckets.get_mut(&(entry.due().0 >> shift << shift)) {
                part.places.push(place);
            }
        }
    }

    /// The start of the first bucket that may hold an entry above `key`.
    fn first_start(&self, key: DueKey) -> u64 {
        self.buckets.range(..=key.due.0).next_back().map_or(0, |(start, _)| *start)
    }

    /// The width of the bucket for a due time before any split. All due times with the same higher bits get
    /// the same width, so buckets are aligned and do not overlap.
    fn shift_of(&self, due: u64) -> u32 {
        let different = (due ^ self.origin) >> (NEAR_SHIFT + SPLIT_SHIFT);
        let wider = (u64::BITS - different.leading_zeros()).div_ceil(SPLIT_SHIFT);
        (NEAR_SHIFT + wider * SPLIT_SHIFT).min(FAR_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schedule_log::Entry;
    use crate::units::{Location, Sequence, SubjectNumber};

    fn entry(due: u64, sequence: u64) -> Entry {
        let key = DueKey { due: Millis(due), sequence: Sequence(sequence) };
        Entry::new(key, 1, Sequence(sequence), Location(0), SubjectNumber(1))
    }

    fn pending(count: u64) -> TwoBits {
        let mut bits = TwoBits::new(Sequence(0));
        for _ in 0..count {
            bits.push(crate::schedule_log::EntryState::Pending);
        }
        bits
    }

    #[test]
    fn ten_years_make_few_buckets() {
        let start = 1_790_000_000_000_u64;
        let mut index = DueIndex::new(Millis(start));
        let mut state = 1_u64;
        for place in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            index.insert(Millis(start + (state >> 20) % 315_360_000_000), place);
        }
        assert!(index.buckets.len() < 400, "{}", index.buckets.len());
        assert!(index.memory_bytes() < 100_000 * 10, "{}", index.memory_bytes());
    }

    proptest! {
        #[test]
        fn a_range_holds_what_a_sorted_list_holds(
            origin in prop::sample::select(vec![0_u64, 4_095, 1 << 20, 1_790_000_000_000]),
            spread in prop::sample::select(vec![1_u64, 50, 5_000, 1 << 20, 1 << 40]),
            seeds in prop::collection::vec(any::<u32>(), 1..60),
            crowd in 1_usize..60,
            cuts in prop::collection::vec((any::<u32>(), any::<u32>(), 1_usize..3_000), 1..8),
        ) {
            let mut index = DueIndex::new(Millis(origin));
            let mut recent = Recent::default();
            let mut all = Vec::new();
            let dues = seeds.iter().cycle().take(seeds.len() * crowd);
            for (seed, sequence) in dues.zip(0_u64..) {
                let due = origin.saturating_sub(spread / 3) + u64::from(*seed).wrapping_mul(0x9E37_79B9) % spread;
                let entry = entry(due, sequence);
                index.insert(Millis(due), recent.push(entry).unwrap());
                all.push(entry);
                // Reads in between split some buckets.
                if sequence.is_multiple_of(501) {
                    let bits = pending(sequence + 1);
                    let mut gather = Gather::new(DueKey::START, DueKey::end_of(Millis(due)), 100);
                    index.gather(&recent, &bits, &mut gather);
                }
            }
            all.sort_by_key(Entry::key);
            let bits = pending(all.len() as u64);
            for (low, high, limit) in cuts {
                let key = |cut: u32| all[cut as usize % all.len()].key();
                let (from, to) = (key(low), key(high));
                let mut gather = Gather::new(from, to, limit);
                index.gather(&recent, &bits, &mut gather);
                let expected: Vec<Entry> =
                    all.iter().filter(|entry| entry.key() > from && entry.key() <= to).take(limit).copied().collect();
                prop_assert_eq!(gather.finish().entries, expected);
            }
        }
    }
}
