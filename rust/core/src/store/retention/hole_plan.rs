//! Plans holes as a part of a checkpoint: the batches of sealed segments and the payloads of runs that no unfinished
//! message needs.
//!
//! The rows of all unfinished runs that the checkpoint names say what is needed: the payload of each unfinished row,
//! and the facts that made the row, since a damaged row is restored from them. The runs are read as of the freeze,
//! including the inputs of a merge and the runs that the checkpoint has just written. Every later row is made from one
//! of these rows, or from a fact after the checkpoint, so bytes that no row needs now are never needed again. If a row
//! cannot be read, no hole is planned.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::finished_age::Keeping;
use super::run_hole_search::{RunSearch, RunTarget};
use super::segment_hole_search::{HoleSizes, Search, Target, chosen, each_row};
use crate::error::{Error, Result, StorageFault};
use crate::message_log::{BatchReader, Hole, Holes, SEGMENT_HEADER_BYTES, Stream, segment_path};
use crate::planted::{Planted, is_on};
use crate::run::{DispatchRow, Row, Run, RunHole, RunHoles, RunKind, ScheduleRow};
use crate::schedule_log::EntryState;
use crate::storage::Storage;
use crate::store::checkpoint::snapshot::Frozen;
use crate::units::{Location, LocationFile, ReadyNumber, RunNumber, SegmentNumber, SubjectNumber};

/// Bytes of a block of rows.
const BLOCK_BYTES: u64 = 4_096;

/// The search for holes, done in pieces.
#[derive(Debug)]
pub(in crate::store) struct HolePlan {
    targets: Vec<Target>,
    run_targets: Vec<RunTarget>,
    /// All runs with an unfinished row, once they are known.
    runs: Option<Arc<[Arc<Run>]>>,
    sizes: HoleSizes,
    stream: Stream,
    /// The number of each subject below which no row of a run was read any more at the freeze.
    listed_from: BTreeMap<SubjectNumber, ReadyNumber>,
    known: Hollows,
    stage: Stage,
    /// The holes found in the segments that were read.
    found: BTreeMap<SegmentNumber, Vec<Hole>>,
    /// Bytes of each of these segments that could be freed and are not.
    left: BTreeMap<SegmentNumber, u64>,
    /// The holes found in runs, and the bytes of each run that could be freed and are not.
    found_in_runs: BTreeMap<RunNumber, Vec<RunHole>>,
    left_in_runs: BTreeMap<RunNumber, u64>,
}

/// The holes of a store.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Hollows {
    pub(in crate::store) log: Holes,
    pub(in crate::store) runs: RunHoles,
}

/// Bytes of the files that were read that could be freed and are not.
#[derive(Debug, Default)]
pub(in crate::store) struct Left {
    pub(in crate::store) segments: BTreeMap<SegmentNumber, u64>,
    pub(in crate::store) runs: BTreeMap<RunNumber, u64>,
}

enum Stage {
    Rows { run: usize, block: u32 },
    Segments { target: usize, under_way: Option<Box<Search>> },
    Runs { target: usize, under_way: Option<Box<RunSearch>> },
    Done,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Rows { .. } => "rows",
            Self::Segments { .. } => "segments",
            Self::Runs { .. } => "runs",
            Self::Done => "done",
        })
    }
}

impl HolePlan {
    pub(in crate::store) fn new(
        (targets, run_targets): (Vec<Target>, Vec<RunTarget>),
        sizes: HoleSizes,
        stream: Stream,
        listed_from: BTreeMap<SubjectNumber, ReadyNumber>,
        known: Hollows,
    ) -> Self {
        let stage = Stage::Rows { run: 0, block: 0 };
        Self {
            targets,
            run_targets,
            runs: None,
            sizes,
            stream,
            listed_from,
            known,
            stage,
            found: BTreeMap::new(),
            left: BTreeMap::new(),
            found_in_runs: BTreeMap::new(),
            left_in_runs: BTreeMap::new(),
        }
    }

    /// Leaves out segments with facts that an archive has not read yet.
    pub(in crate::store) fn spare_awaited(&mut self, keeping: &Keeping) {
        self.targets.retain(|target| !keeping.is_awaited(target.end_sequence()));
    }

    /// Does the next piece of about `budget_bytes`; true when the search is complete. `runs` returns the runs with an
    /// unfinished row, and is called once.
    ///
    /// # Errors
    /// `Storage` with `Stopped`. After any other read error, the affected files get no new holes.
    pub(in crate::store) fn write_piece(
        &mut self,
        storage: &Arc<dyn Storage>,
        runs: impl FnOnce() -> Arc<[Arc<Run>]>,
        frozen: &Frozen,
        budget_bytes: u64,
    ) -> Result<bool> {
        let runs = Arc::clone(self.runs.get_or_insert_with(runs));
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Rows { run, block } => {
                self.stage = match runs.get(run) {
                    None => Stage::Segments { target: 0, under_way: None },
                    Some(this) => match self.read_rows(this, block, frozen, budget_bytes) {
                        Ok(Some(block)) => Stage::Rows { run, block },
                        Ok(None) => Stage::Rows { run: run.saturating_add(1), block: 0 },
                        Err(error) => {
                            unless_stopped(error)?;
                            Stage::Done
                        }
                    },
                };
            }
            Stage::Segments { target, under_way } => self.search(storage, target, under_way, budget_bytes)?,
            Stage::Runs { target, under_way } => self.search_run(target, under_way, budget_bytes)?,
            Stage::Done => return Ok(true),
        }
        Ok(false)
    }

    /// Notes what the rows from a block on need. Returns the block to continue at, or `None` at the end of the run.
    fn read_rows(&mut self, run: &Run, block: u32, frozen: &Frozen, budget_bytes: u64) -> Result<Option<u32>> {
        let end = block.saturating_add(blocks_of(budget_bytes));
        match run.kind() {
            RunKind::Schedule => {
                // All rows of a run without a window count as pending.
                let bits = frozen.bits_of(run.number());
                let is_needed =
                    |row: &ScheduleRow| bits.is_none_or(|bits| bits.get(row.key.sequence) == EntryState::Pending);
                each_row(run, block, end, &mut |row| {
                    if is_needed(row) {
                        self.note(row, run.number());
                    }
                })
            }
            RunKind::Dispatch => each_row(run, block, end, &mut |row: &DispatchRow| {
                let below = self.listed_from.get(&row.subject).copied().unwrap_or_default();
                if row.number >= below {
                    self.note(row, run.number());
                }
            }),
        }
    }

    /// Notes an unfinished row of this run: its payload and the facts that made it are needed.
    fn note(&mut self, row: &impl Row, of: RunNumber) {
        if is_on(Planted::HoleIgnoresUnfinished) {
            return;
        }
        let location = row.location();
        match location.file() {
            LocationFile::Segment(number) => {
                let place = self.targets.binary_search_by_key(&number, Target::number).ok();
                if let Some(target) = place.and_then(|place| self.targets.get_mut(place)) {
                    target.note_payload(location.offset());
                }
            }
            LocationFile::Run(number) if number != of && is_on(Planted::HoleAsksOwnRowsAlone) => {}
            LocationFile::Run(number) => self.note_in_run(number, location),
        }
        for sequence in [row.sequence(), row.payload_sequence()] {
            let behind = self.targets.partition_point(|target| target.start.next_sequence <= sequence);
            if let Some(target) = behind.checked_sub(1).and_then(|place| self.targets.get_mut(place)) {
                target.note_fact(sequence);
            }
        }
    }

    fn note_in_run(&mut self, run: RunNumber, location: Location) {
        let place = self.run_targets.binary_search_by_key(&run, RunTarget::number).ok();
        if let Some(target) = place.and_then(|place| self.run_targets.get_mut(place)) {
            target.note_payload(location.offset());
        }
    }

    /// Notes as needed the payloads that were copied out of runs for entries that were in memory at the freeze. An
    /// entry that was moved out of such a part after the freeze still reads its payload at the old place, though no row
    /// points there.
    pub(in crate::store) fn note_copied(&mut self, copied_from: &[Location]) {
        for location in copied_from.iter().filter(|_| !is_on(Planted::HoleForgetsCopied)) {
            if let LocationFile::Run(run) = location.file() {
                self.note_in_run(run, *location);
            }
        }
    }

    /// Reads a piece of a segment that is worth reading.
    fn search(
        &mut self,
        storage: &Arc<dyn Storage>,
        at: usize,
        under_way: Option<Box<Search>>,
        budget_bytes: u64,
    ) -> Result<()> {
        let Some(target) = self.targets.get(at) else {
            self.stage = Stage::Runs { target: 0, under_way: None };
            return Ok(());
        };
        let number = target.number();
        let next = Stage::Segments { target: at.saturating_add(1), under_way: None };
        let mut search = match under_way {
            Some(search) => search,
            None => match self.begin(storage, target) {
                Ok(Some(search)) => search,
                Ok(None) => {
                    self.stage = next;
                    return Ok(());
                }
                Err(error) => {
                    self.stage = next;
                    return unless_stopped(error);
                }
            },
        };
        match search.go_on(target, budget_bytes) {
            Ok(false) => self.stage = Stage::Segments { target: at, under_way: Some(search) },
            Ok(true) => {
                let holes = chosen(search.found, self.known.log.in_segment(number), self.sizes);
                let bytes = holes.iter().map(Hole::bytes).fold(0, u64::saturating_add);
                self.left.insert(number, search.free_bytes.saturating_sub(bytes));
                self.found.insert(number, holes);
                self.stage = next;
            }
            Err(error) => {
                // Damage is reported by other readers of the segment.
                self.left.insert(number, u64::MAX);
                self.stage = next;
                return unless_stopped(error);
            }
        }
        Ok(())
    }

    /// Begins the search of a segment if enough more of it can be freed than when it was last read.
    fn begin(&self, storage: &Arc<dyn Storage>, target: &Target) -> Result<Option<Box<Search>>> {
        let number = target.number();
        let length = storage.open(&segment_path(number))?.length()?;
        let batches = length.saturating_sub(u64::from(SEGMENT_HEADER_BYTES));
        let free_bytes = batches.saturating_sub(target.needed_bytes(self.sizes));
        let known = self.known.log.in_segment(number);
        let in_holes = known.iter().map(Hole::bytes).fold(0, u64::saturating_add);
        let gain = free_bytes.saturating_sub(in_holes).saturating_sub(target.left);
        if gain < self.sizes.gain_min {
            return Ok(None);
        }
        let end = Location::in_segment(number.next(), SEGMENT_HEADER_BYTES);
        let reader = BatchReader::new(Arc::clone(storage), self.stream, target.start.end, end);
        Ok(Some(Box::new(Search::new(reader.past(self.known.log.clone()), target, known, free_bytes))))
    }

    /// Searches a piece of a run that is worth searching.
    fn search_run(&mut self, at: usize, under_way: Option<Box<RunSearch>>, budget_bytes: u64) -> Result<()> {
        let Some(target) = self.run_targets.get(at) else { return Ok(()) };
        let (number, known) = (target.number(), self.known.runs.in_run(target.number()));
        let next = Stage::Runs { target: at.saturating_add(1), under_way: None };
        let Some(mut search) = under_way.or_else(|| target.begin(known, self.sizes).map(Box::new)) else {
            self.stage = next;
            return Ok(());
        };
        match search.go_on(target, blocks_of(budget_bytes)) {
            Ok(false) => self.stage = Stage::Runs { target: at, under_way: Some(search) },
            Ok(true) => {
                let (holes, left) = search.finish(known, self.sizes);
                self.left_in_runs.insert(number, left);
                self.found_in_runs.insert(number, holes);
                self.stage = next;
            }
            Err(error) => {
                self.left_in_runs.insert(number, u64::MAX);
                self.stage = next;
                return unless_stopped(error);
            }
        }
        Ok(())
    }

    /// Returns the holes from this checkpoint on, and what was left in the files that were read.
    pub(in crate::store) fn finish(&mut self) -> (Hollows, Left) {
        let left = Left { segments: std::mem::take(&mut self.left), runs: std::mem::take(&mut self.left_in_runs) };
        (Hollows { log: self.log_holes(), runs: self.run_holes() }, left)
    }

    /// Holes only grow: the bytes of a hole that was ever named may be gone.
    fn log_holes(&mut self) -> Holes {
        let (known, found) = (&self.known.log, std::mem::take(&mut self.found));
        let kept = known.iter().filter(|hole| !found.contains_key(&hole.segment())).copied();
        let mut all: Vec<Hole> = kept.chain(found.values().flatten().copied()).collect();
        all.sort_unstable_by_key(|hole| hole.from.end);
        let holes = Holes::of(all).filter(|holes| known.iter().all(|hole| holes.hold(hole)));
        holes.unwrap_or_else(|| known.clone())
    }

    fn run_holes(&mut self) -> RunHoles {
        let (known, found) = (&self.known.runs, std::mem::take(&mut self.found_in_runs));
        let kept = known.iter().filter(|hole| !found.contains_key(&hole.run)).copied();
        let mut all: Vec<RunHole> = kept.chain(found.values().flatten().copied()).collect();
        all.sort_unstable();
        let holes = RunHoles::of(all).filter(|holes| known.iter().all(|hole| holes.hold(hole)));
        holes.unwrap_or_else(|| known.clone())
    }
}

/// The number of blocks of rows that fit a budget.
fn blocks_of(budget_bytes: u64) -> u32 {
    u32::try_from(budget_bytes / BLOCK_BYTES).unwrap_or(u32::MAX).max(1)
}

/// Returns the error if the storage was stopped. Other errors leave the files without new holes.
fn unless_stopped(error: Error) -> Result<()> {
    match error {
        Error::Storage { fault: StorageFault::Stopped, .. } => Err(error),
        _ => Ok(()),
    }
}
