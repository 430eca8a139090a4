//! Planning holes as a part of a checkpoint: which batches of sealed segments, and which payloads of runs, nothing
//! unfinished needs.
//!
//! What is needed is told by the runs that the checkpoint names as unfinished, row by row: the payload of each row
//! that is not finished, and the facts that made it, since a damaged row is taken from them. The runs are read as
//! of the freeze, merge inputs among them, and those that the checkpoint has just written. All that comes later
//! comes from one of these rows, or from a fact behind the checkpoint, so that what no row needs now is needed by
//! nobody ever again. Where a row cannot be read, nothing is planned at all.

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

/// The search for holes, in pieces.
#[derive(Debug)]
pub(in crate::store) struct HolePlan {
    targets: Vec<Target>,
    run_targets: Vec<RunTarget>,
    /// All runs that have something unfinished, once they are known.
    runs: Option<Arc<[Arc<Run>]>>,
    sizes: HoleSizes,
    stream: Stream,
    /// Below these numbers everything of a subject is finished, as of the freeze.
    finished_below: BTreeMap<SubjectNumber, ReadyNumber>,
    known: Hollows,
    stage: Stage,
    /// What was found in the segments that were read.
    found: BTreeMap<SegmentNumber, Vec<Hole>>,
    /// What could be given back of each of them and is not.
    left: BTreeMap<SegmentNumber, u64>,
    /// The same of runs.
    found_in_runs: BTreeMap<RunNumber, Vec<RunHole>>,
    left_in_runs: BTreeMap<RunNumber, u64>,
}

/// The holes of a store.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Hollows {
    pub(in crate::store) log: Holes,
    pub(in crate::store) runs: RunHoles,
}

/// What could be given back of files that were read and was not, in bytes.
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
        finished_below: BTreeMap<SubjectNumber, ReadyNumber>,
        known: Hollows,
    ) -> Self {
        let stage = Stage::Rows { run: 0, block: 0 };
        Self {
            targets,
            run_targets,
            runs: None,
            sizes,
            stream,
            finished_below,
            known,
            stage,
            found: BTreeMap::new(),
            left: BTreeMap::new(),
            found_in_runs: BTreeMap::new(),
            left_in_runs: BTreeMap::new(),
        }
    }

    /// Looks for none in segments whose facts an archive has not got yet.
    pub(in crate::store) fn spare_awaited(&mut self, keeping: &Keeping) {
        self.targets.retain(|target| !keeping.is_awaited(target.end_sequence()));
    }

    /// Does the next piece of about `budget_bytes`; true when there is no more to do. `runs` says which have
    /// something unfinished, and is asked once.
    ///
    /// # Errors
    /// `Storage` with `Stopped`; whatever else cannot be read leaves its files as they are.
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

    /// Notes what rows from a block on need; where to go on, if the run goes on.
    fn read_rows(&mut self, run: &Run, block: u32, frozen: &Frozen, budget_bytes: u64) -> Result<Option<u32>> {
        let end = block.saturating_add(blocks_of(budget_bytes));
        match run.kind() {
            RunKind::Schedule => {
                // All of a run that no window has is taken for pending.
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
                let below = self.finished_below.get(&row.subject).copied().unwrap_or_default();
                if row.number >= below {
                    self.note(row, run.number());
                }
            }),
        }
    }

    /// A row of this run that is not finished: its payload and the facts that made it stay.
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

    /// These payloads were copied out of runs for entries that were in memory at the freeze. What is moved out of such a part
    /// since then finds them where they were, though no row says so any more.
    pub(in crate::store) fn note_copied(&mut self, copied_from: &[Location]) {
        for location in copied_from.iter().filter(|_| !is_on(Planted::HoleForgetsCopied)) {
            if let LocationFile::Run(run) = location.file() {
                self.note_in_run(run, *location);
            }
        }
    }

    /// Reads a piece of a segment that is worth it.
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
                // What is damaged there is somebody else's to say.
                self.left.insert(number, u64::MAX);
                self.stage = next;
                return unless_stopped(error);
            }
        }
        Ok(())
    }

    /// A search of the segment, where more may be given back of it than when it was read last.
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

    /// Looks through a piece of a run that is worth it.
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

    /// The holes as they are from this checkpoint on, and what was left in the files that were read.
    pub(in crate::store) fn finish(&mut self) -> (Hollows, Left) {
        let left = Left { segments: std::mem::take(&mut self.left), runs: std::mem::take(&mut self.left_in_runs) };
        (Hollows { log: self.log_holes(), runs: self.run_holes() }, left)
    }

    /// Holes only grow: what was named once may be gone.
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

/// How many blocks of rows fit a budget.
fn blocks_of(budget_bytes: u64) -> u32 {
    u32::try_from(budget_bytes / BLOCK_BYTES).unwrap_or(u32::MAX).max(1)
}

/// Nothing more is to be done where the machine was stopped; all else leaves things as they are.
fn unless_stopped(error: Error) -> Result<()> {
    match error {
        Error::Storage { fault: StorageFault::Stopped, .. } => Err(error),
        _ => Ok(()),
    }
}
