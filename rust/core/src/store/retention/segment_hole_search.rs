//! Looking through one segment for batches that nothing needs.

use crate::error::Result;
use crate::message_log::{BatchReader, Hole, LogPosition, ScannedBatch};
use crate::run::{Row, RowScan, Run, ScanBuffer};
use crate::units::{Epoch, Location, Millis, SegmentNumber, Sequence};

/// Holes of one segment, or of one run, at most; where there would be more, the largest are taken.
pub(super) const HOLES_IN_FILE_MAX: usize = 4_096;
/// Into so many parts the sequences of a segment are divided, each needed or not as a whole.
const SEQUENCE_PARTS: u64 = 1 << 20;
/// Payloads that begin within so many bytes are needed or not as one.
pub(super) const PLACE_BYTES: u64 = 64;

/// How holes are to be.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct HoleSizes {
    /// The least bytes of a hole.
    pub(super) bytes_min: u64,
    /// Bytes of a block of the disk.
    pub(in crate::store) block_bytes: u32,
    /// A segment is read again where so much more of it may be given back, in bytes.
    pub(super) gain_min: u64,
}

/// A sealed segment in which holes are looked for.
#[derive(Debug)]
pub(in crate::store) struct Target {
    pub(in crate::store) start: LogPosition,
    end: LogPosition,
    /// What could have been given back when it was read last, and was not.
    pub(in crate::store) left: u64,
    needed: Needed,
}

impl Target {
    /// A segment that begins and ends at these positions.
    pub(in crate::store) fn new(start: LogPosition, end: LogPosition, left: u64) -> Self {
        Self { start, end, left, needed: Needed::default() }
    }

    /// How many facts it has.
    pub(in crate::store) fn facts(&self) -> u64 {
        self.end.next_sequence.since(self.start.next_sequence)
    }

    /// Behind its last fact.
    pub(super) fn end_sequence(&self) -> Sequence {
        self.end.next_sequence
    }

    pub(in crate::store) fn number(&self) -> SegmentNumber {
        self.start.end.segment().unwrap_or_default()
    }

    /// A payload that is needed begins there.
    pub(super) fn note_payload(&mut self, offset: u32) {
        self.needed.places.set(u64::from(offset) / PLACE_BYTES);
    }

    /// The fact of this sequence is needed, if it stands here.
    pub(super) fn note_fact(&mut self, sequence: Sequence) {
        if self.has_sequence(sequence) {
            let part = self.part_of(sequence);
            self.needed.parts.set(part);
        }
    }

    /// About how many bytes are kept by what is needed: a block of the disk for each payload.
    pub(super) fn needed_bytes(&self, sizes: HoleSizes) -> u64 {
        self.needed.places.count().saturating_mul(u64::from(sizes.block_bytes))
    }

    fn has_sequence(&self, sequence: Sequence) -> bool {
        (self.start.next_sequence..self.end.next_sequence).contains(&sequence)
    }

    /// How many sequences are needed or not as one.
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

/// Numbers, as bits.
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

    /// In how many rows of `size` neighbours one is marked.
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

/// What of a segment is needed: places where a payload begins, and parts of its sequences.
#[derive(Debug, Default)]
struct Needed {
    places: Marks,
    parts: Marks,
}

/// A segment that is being read.
pub(in crate::store) struct Search {
    reader: BatchReader,
    /// The holes that it has already, and how many of them were passed.
    known: Vec<Hole>,
    passed: usize,
    /// Behind the last batch with facts.
    before: LogPosition,
    /// The hole that may go on.
    open: Option<Hole>,
    pub(in crate::store) found: Vec<Hole>,
    /// What may be given back of it at most.
    pub(in crate::store) free_bytes: u64,
}

impl Search {
    /// A search from the start of a segment; `known` are its holes, which `reader` passes.
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
                    // Batches without facts between are of no use to anybody.
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

    /// Nothing from one place to the other is needed.
    fn empty(&mut self, from: LogPosition, to: LogPosition) {
        self.open = Some(match self.open.take() {
            Some(hole) => Hole { to, ..hole },
            None => Hole { from, to },
        });
    }

    /// The holes that are there already, up to here.
    fn pass_holes(&mut self, upto: Location) {
        while let Some(hole) = self.known.get(self.passed).copied().filter(|hole| hole.to.end <= upto) {
            self.empty(hole.from, hole.to);
            self.before = hole.to;
            self.passed = self.passed.saturating_add(1);
        }
    }
}

/// Those that are there already, however small, and of the others the largest.
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

/// Shows the rows of the blocks from `block` on and before `end`; where to go on, if there are more.
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
