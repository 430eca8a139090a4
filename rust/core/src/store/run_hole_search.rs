//! Looking through the rows of one run for payloads of it that nothing needs. Payloads are not read: they stand in the
//! order of the rows, which say where each begins and ends.

use std::sync::Arc;

use super::hole_search::{HOLES_IN_FILE_MAX, HoleSizes, Marks, PLACE_BYTES, each_row};
use crate::error::Result;
use crate::run::{Run, RunHole, ScheduleRow};
use crate::units::{LocationFile, RunNumber, padded};

/// A run is looked through again where this share of its payloads more may be given back.
const GAIN_SHARE: u64 = 16;

/// A schedule run in whose payload area holes are looked for.
#[derive(Debug)]
pub(super) struct RunTarget {
    pub(super) run: Arc<Run>,
    /// What could have been given back when it was looked through last, and was not.
    left: u64,
    /// Places where a payload begins that is needed.
    needed: Marks,
}

impl RunTarget {
    pub(super) fn new(run: Arc<Run>, left: u64) -> Self {
        Self { run, left, needed: Marks::default() }
    }

    pub(super) fn number(&self) -> RunNumber {
        self.run.number()
    }

    /// A payload that is needed begins there.
    pub(super) fn note_payload(&mut self, offset: u32) {
        self.needed.set(self.place_of(offset));
    }

    fn place_of(&self, offset: u32) -> u64 {
        u64::from(offset).saturating_sub(self.run.payload_start()) / PLACE_BYTES
    }

    /// About how much may be given back of it at most: all but the blocks in which a payload begins that is needed.
    fn free_bytes(&self, sizes: HoleSizes) -> u64 {
        let places = (u64::from(sizes.block_bytes) / PLACE_BYTES).max(1);
        let needed = self.needed.count_groups(places).saturating_mul(places).saturating_mul(PLACE_BYTES);
        self.run.payload_bytes().saturating_sub(needed)
    }

    /// A search of the run, where more may be given back of it than when it was looked through last.
    pub(super) fn begin(&self, known: &[RunHole], sizes: HoleSizes) -> Option<RunSearch> {
        let free_bytes = self.free_bytes(sizes);
        let in_holes = known.iter().map(RunHole::bytes).fold(0, u64::saturating_add);
        let gain = free_bytes.saturating_sub(in_holes).saturating_sub(self.left);
        let least = (self.run.payload_bytes() / GAIN_SHARE).min(sizes.gain_min).max(sizes.bytes_min);
        (gain >= least).then_some(RunSearch { block: 0, open: None, found: Vec::new(), free_bytes })
    }
}

/// A run that is being looked through.
#[derive(Debug)]
pub(super) struct RunSearch {
    block: u32,
    /// The hole that may go on.
    open: Option<RunHole>,
    found: Vec<RunHole>,
    /// What may be given back of it at most.
    free_bytes: u64,
}

impl RunSearch {
    /// Reads rows up to so many blocks further; true at the end of the run.
    ///
    /// # Errors
    /// Where a row cannot be read.
    pub(super) fn go_on(&mut self, target: &RunTarget, blocks: u32) -> Result<bool> {
        let (run, end) = (&target.run, self.block.saturating_add(blocks));
        let next = each_row(run, self.block, end, &mut |row: &ScheduleRow| {
            if row.location.file() != LocationFile::Run(run.number()) {
                return;
            }
            if target.needed.has(target.place_of(row.location.offset())) {
                self.found.extend(self.open.take());
            } else {
                self.empty(run.number(), row);
            }
        })?;
        if next.is_none() {
            self.found.extend(self.open.take());
        }
        self.block = next.unwrap_or_default();
        Ok(next.is_none())
    }

    fn empty(&mut self, run: RunNumber, row: &ScheduleRow) {
        let from = u64::from(row.location.offset());
        let to = from.saturating_add(padded(row.length as usize) as u64);
        match &mut self.open {
            Some(hole) if hole.to == from => hole.to = to,
            open => {
                let before = open.replace(RunHole { run, from, to });
                self.found.extend(before);
            }
        }
    }

    /// The holes of the run, and what could be given back and is not: those that are there already, however small, and of
    /// the others the largest.
    pub(super) fn finish(self, known: &[RunHole], sizes: HoleSizes) -> (Vec<RunHole>, u64) {
        let (mut all, mut fresh): (Vec<RunHole>, Vec<RunHole>) =
            self.found.into_iter().partition(|hole| known.iter().any(|known| hole.holds(known)));
        fresh.retain(|hole| hole.bytes() >= sizes.bytes_min && hole.whole_blocks(sizes.block_bytes).is_some());
        fresh.sort_unstable_by_key(|hole| std::cmp::Reverse(hole.bytes()));
        fresh.truncate(HOLES_IN_FILE_MAX.saturating_sub(all.len()));
        all.extend(fresh);
        all.sort_unstable();
        let bytes = all.iter().map(RunHole::bytes).fold(0, u64::saturating_add);
        (all, self.free_bytes.saturating_sub(bytes))
    }
}
