//! Searches one segment for batches that are not needed.

use crate::error::Result;
use crate::message_log::{BatchReader, Hole, LogPosition, ScannedBatch};
use crate::run::{Row, RowScan, Run, ScanBuffer};
use crate::units::{Epoch, Location, Millis, SegmentNumber, Sequence};

/// The maximum number of holes in one segment or run; if there would be more, the largest are taken.
pub(super) const HOLES_IN_FILE_MAX: usize = 4_096;
/// The sequences of a segment are divided into at most this many parts, each needed or not as a whole.
const SEQUENCE_PARTS: u64 = 1 << 20;
/// Payloads that begin within the same block of this many bytes are needed or not together.
pub(super) const PLACE_BYTES: u64 = 64;

/// The size limits for holes.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct HoleSizes {
    /// The minimum size of a hole in bytes.
    pub(super) bytes_min: u64,
    /// The size of a disk block in bytes.
    pub(in crate::store) block_bytes: u32,
    /// A segment is read again once this many more bytes of it can be freed.
    pub(super) gain_min: u64,
}

/// A sealed segment that is searched for holes.
#[derive(Debug)]
pub(in crate::store) struct Target {
    pub(in crate::store) start: LogPosition,
    end: LogPosition,
    /// Bytes that could be freed at the last search and were not.
    pub(in crate::store) left: u64,
    needed: Needed,
}

impl Target {
    /// A segment that begins and ends at these positions.
    pub(in crate::store) fn new(start: LogPosition, end: LogPosition, left: u64) -> Self {
        Self { start, end, left, needed: Needed::default() }
    }

    /// The number of its facts.
    pub(in crate::store) fn facts(&self) -> u64 {
        self.end.next_sequence.since(self.start.next_sequence)
    }

    /// The sequence after its last fact.
    pub(super) fn end_sequence(&self) -> Sequence {
        self.end.next_sequence
    }

    pub(in crate::store) fn number(&self) -> SegmentNumber {
        self.start.end.segment().unwrap_or_default()
    }

    /// Notes that a needed payload begins at this offset.
    pub(super) fn note_payload(&mut self, offset: u32) {
        self.needed.places.set(u64::from(offset) / PLACE_BYTES);
    }

    /// Notes that the fact of this sequence is needed, if it is in this segment.
    pub(super) fn note_fact(&mut self, sequence: Sequence) {
        if self.has_sequence(sequence) {
            let part = self.part_of(sequence);
            self.needed.parts.set(part);
        }
    }

    /// Estimates the bytes that needed payloads keep: one disk block for each place of a payload.
    pub(super) fn needed_bytes(&self, sizes: HoleSizes) -> u64 {
        self.needed.places.count().saturating_mul(u64::from(sizes.block_bytes))
    }

    fn has_sequence(&self, sequence: Sequence) -> bool {
        (self.start.next_sequence..self.end.next_sequence).contains(&sequence)
    }

    /// The number of sequences in one part.
    fn part(&self) -> u64 {
        self.facts().div_ceil(SEQUENCE_PARTS).max(1)
    }

    fn part_of(&self, sequence: Sequence) -> u64 {
        sequence.since(self.start.next_sequence) / self.part()
    }

    fn needs(&self, batch: &ScannedBatch) -> bool {
        let header = &batch.header;
        let (first, count) = (Sequence(header.base_sequence.get()), u64::from(header.count.get()));
        let last = first.plus(count.saturating_sub(1));
        let from = u64::from(batch.start.offset());
        let to = from.saturating_add(u64::from(header.length.get()).saturating_sub(1));
        (from / PLACE_BYTES..=to / PLACE_BYTES).any(|place| self.needed.places.has(place))
            || (self.part_of(first)..=self.part_of(last)).any(|part| self.needed.parts.has(part))
    }
}

/// A set of numbers, stored as bits.
#[derive(Debug, Default)]
pub(in crate::store) struct Marks {
    words: Vec<u64>,
}

impl Marks {
    pub(in crate::store) fn set(&mut self, number: u64) {
        let word = usize::try_from(number / 64).unwrap_or(usize::MAX);
        if self.words.len() <= word {
            self.words.resize(word.saturating_add(1), 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= 1 << (number % 64);
        }
    }

    pub(in crate::store) fn has(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64).ok().and_then(|word| self.words.get(word));
        word.is_some_and(|word| word & 1 << (number % 64) != 0)
    }

    /// Counts the groups of `size` neighbouring numbers that contain a marked number.
    pub(super) fn count_groups(&self, size: u64) -> u64 {
        let (mut count, mut last) = (0_u64, None);
        for (at, word) in (0_u64..).zip(&self.words) {
            let mut left = *word;
            while left != 0 {
                let group = (at.saturating_mul(64).saturating_add(u64::from(left.trailing_zeros()))) / size.max(1);
                if last != Some(group) {
                    (count, last) = (count.saturating_add(1), Some(group));
                }
                left &= left.wrapping_sub(1);
            }
        }
        count
    }

    fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// The needed content of a segment: the places where needed payloads begin, and parts of its sequences.
#[derive(Debug, Default)]
struct Needed {
    places: Marks,
    parts: Marks,
}

/// A search of a segment under way.
pub(in crate::store) struct Search {
    reader: BatchReader,
    /// The existing holes of the segment, and how many of them were passed.
    known: Vec<Hole>,
    passed: usize,
    /// The position after the last batch with facts.
    before: LogPosition,
    /// The hole that the next batch may extend.
    open: Option<Hole>,
    pub(in crate::store) found: Vec<Hole>,
    /// The maximum number of bytes that can be freed.
    pub(in crate::store) free_bytes: u64,
}

impl Search {
    /// Begins a search at the start of a segment. `known` are its holes, which `reader` skips.
    pub(in crate::store) fn new(reader: BatchReader, target: &Target, known: &[Hole], free_bytes: u64) -> Self {
        let (known, before) = (known.to_vec(), target.start);
        Self { reader, known, passed: 0, before, open: None, found: Vec::new(), free_bytes }
    }

    /// Reads batches; true at the end of the segment.
    pub(super) fn go_on(&mut self, target: &Target, budget_bytes: u64) -> Result<bool> {
        let mut read = 0_u64;
        while read < budget_bytes {
            let Some(batch) = self.reader.next_batch()? else {
                self.pass_holes(Location(u64::MAX));
                self.found.extend(self.open.take());
                return Ok(true);
            };
            self.pass_holes(batch.start);
            let header = &batch.header;
            let start = LogPosition {
                end: batch.start,
                chain: header.chain_before.get(),
                next_sequence: Sequence(header.base_sequence.get()),
                ..self.before
            };
            let length = u64::from(header.length.get());
            let end = LogPosition {
                end: Location(batch.start.0.saturating_add(length)),
                chain: header.chain.get(),
                next_sequence: start.next_sequence.plus(u64::from(header.count.get())),
                epoch: Epoch(header.epoch.get()),
                trusted: start.trusted.max(Millis(header.trusted_ms.get())),
            };
            if target.needs(&batch) {
                if let Some(hole) = self.open.take() {
                    // The hole also covers the batches without facts before this batch, which no reader needs.
                    self.found.push(Hole { to: start, ..hole });
                }
            } else {
                self.empty(start, end);
            }
            self.before = end;
            read = read.saturating_add(length);
            self.reader.recycle(batch.bytes);
        }
        Ok(false)
    }

    /// Adds the range between two positions to the open hole.
    fn empty(&mut self, from: LogPosition, to: LogPosition) {
        self.open = Some(match self.open.take() {
            Some(hole) => Hole { to, ..hole },
            None => Hole { from, to },
        });
    }

    /// Adds the existing holes before this location.
    fn pass_holes(&mut self, upto: Location) {
        while let Some(hole) = self.known.get(self.passed).copied().filter(|hole| hole.to.end <= upto) {
            self.empty(hole.from, hole.to);
            self.before = hole.to;
            self.passed = self.passed.saturating_add(1);
        }
    }
}

/// Selects the holes to keep: existing ones, however small, and the largest of the new ones.
pub(in crate::store) fn chosen(found: Vec<Hole>, known: &[Hole], sizes: HoleSizes) -> Vec<Hole> {
    let (mut all, mut fresh): (Vec<Hole>, Vec<Hole>) =
        found.into_iter().partition(|hole| known.iter().any(|known| hole.holds(known)));
    fresh.retain(|hole| hole.bytes() >= sizes.bytes_min && hole.whole_blocks(sizes.block_bytes).is_some());
    fresh.sort_unstable_by_key(|hole| std::cmp::Reverse(hole.bytes()));
    fresh.truncate(HOLES_IN_FILE_MAX.saturating_sub(all.len()));
    all.extend(fresh);
    all.sort_unstable_by_key(|hole| hole.from.end);
    all
}

/// Shows the rows of the blocks from `block` to before `end`. Returns the block to continue at, if there are more.
pub(in crate::store) fn each_row<R: Row>(
    run: &Run,
    block: u32,
    end: u32,
    show: &mut dyn FnMut(&R),
) -> Result<Option<u32>> {
    let mut buffer = ScanBuffer::<R>::default();
    let mut scan = RowScan::from_block(run, block, None, &mut buffer);
    while let Some(row) = scan.peek().map_err(|damage| damage.error)? {
        if scan.block() >= end {
            return Ok(Some(scan.block()));
        }
        show(&row);
        scan.advance();
    }
    Ok(None)
}
