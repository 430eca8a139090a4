//! Planning holes as a part of a checkpoint: which batches of sealed segments nothing unfinished needs.
//!
//! What is needed is told by the runs that the checkpoint names as unfinished, row by row: the payload of each row
//! that is not finished, and the facts that made it, since a damaged row is taken from them. The runs are read as
//! of the freeze, merge inputs among them, and those that the checkpoint has just written. All that comes later
//! comes from one of these rows, or from a fact behind the checkpoint, so that what no row needs now is needed by
//! nobody ever again. Where a row cannot be read, nothing is planned at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::hole_search::{HoleSizes, Search, Target, chosen};
use super::keeping::Keeping;
use super::snapshot::Frozen;
use crate::error::{Error, Result, StorageFault};
use crate::message_log::{BatchReader, Hole, Holes, SEGMENT_HEADER_BYTES, Stream, segment_path};
use crate::planted::{Planted, is_on};
use crate::run::{DispatchRow, Row, RowScan, Run, RunKind, ScanBuffer, ScheduleRow};
use crate::schedule_log::EntryState;
use crate::storage::Storage;
use crate::units::{Location, ReadyNumber, SegmentNumber, SubjectNumber};

/// Bytes of a block of rows.
const BLOCK_BYTES: u64 = 4_096;

/// The search for holes, in pieces.
#[derive(Debug)]
pub(super) struct HolePlan {
    targets: Vec<Target>,
    sizes: HoleSizes,
    stream: Stream,
    /// Below these numbers everything of a subject is finished, as of the freeze.
    finished_below: BTreeMap<SubjectNumber, ReadyNumber>,
    known: Holes,
    stage: Stage,
    /// What was found in the segments that were read.
    found: BTreeMap<SegmentNumber, Vec<Hole>>,
    /// What could be given back of each of them and is not.
    left: BTreeMap<SegmentNumber, u64>,
}

enum Stage {
    Rows { run: usize, block: u32 },
    Segments { target: usize, under_way: Option<Box<Search>> },
    Done,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Rows { .. } => "rows",
            Self::Segments { .. } => "segments",
            Self::Done => "done",
        })
    }
}

impl HolePlan {
    pub(super) fn new(
        targets: Vec<Target>,
        sizes: HoleSizes,
        stream: Stream,
        finished_below: BTreeMap<SubjectNumber, ReadyNumber>,
        known: Holes,
    ) -> Self {
        let stage = Stage::Rows { run: 0, block: 0 };
        Self { targets, sizes, stream, finished_below, known, stage, found: BTreeMap::new(), left: BTreeMap::new() }
    }

    /// Looks for none in segments whose facts an archive has not got yet.
    pub(super) fn spare_awaited(&mut self, keeping: &Keeping) {
        self.targets.retain(|target| !keeping.is_awaited(target.end_sequence()));
    }

    /// Does the next piece of about `budget_bytes`; true when there is no more to do. `runs` are all that have
    /// something unfinished, the same ones each time.
    ///
    /// # Errors
    /// `Storage` with `Stopped`; whatever else cannot be read leaves its segments as they are.
    pub(super) fn write_piece(
        &mut self,
        storage: &Arc<dyn Storage>,
        runs: &[Arc<Run>],
        frozen: &Frozen,
        budget_bytes: u64,
    ) -> Result<bool> {
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
            Stage::Done => return Ok(true),
        }
        Ok(false)
    }

    /// Notes what rows from a block on need; where to go on, if the run goes on.
    fn read_rows(&mut self, run: &Run, block: u32, frozen: &Frozen, budget_bytes: u64) -> Result<Option<u32>> {
        let blocks = u32::try_from(budget_bytes / BLOCK_BYTES).unwrap_or(u32::MAX).max(1);
        let end = block.saturating_add(blocks);
        match run.kind() {
            RunKind::Schedule => {
                // All of a run that no window has is taken for pending.
                let bits = frozen.bits_of(run.number());
                let is_needed =
                    |row: &ScheduleRow| bits.is_none_or(|bits| bits.get(row.key.sequence) == EntryState::Pending);
                each_row(run, block, end, &mut |row| {
                    if is_needed(row) {
                        self.note(row);
                    }
                })
            }
            RunKind::Dispatch => each_row(run, block, end, &mut |row: &DispatchRow| {
                let below = self.finished_below.get(&row.subject).copied().unwrap_or_default();
                if row.number >= below {
                    self.note(row);
                }
            }),
        }
    }

    /// A row that is not finished: its payload and the facts that made it stay.
    fn note(&mut self, row: &impl Row) {
        if is_on(Planted::HoleIgnoresUnfinished) {
            return;
        }
        let location = row.location();
        if let Some(number) = location.segment() {
            let place = self.targets.binary_search_by_key(&number, Target::number).ok();
            if let Some(target) = place.and_then(|place| self.targets.get_mut(place)) {
                target.note_payload(location.offset());
            }
        }
        for sequence in [row.sequence(), row.payload_sequence()] {
            let behind = self.targets.partition_point(|target| target.start.next_sequence <= sequence);
            if let Some(target) = behind.checked_sub(1).and_then(|place| self.targets.get_mut(place)) {
                target.note_fact(sequence);
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
        let Some(target) = self.targets.get(at) else { return Ok(()) };
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
                let holes = chosen(search.found, self.known.in_segment(number), self.sizes);
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
        let known = self.known.in_segment(number);
        let in_holes = known.iter().map(Hole::bytes).fold(0, u64::saturating_add);
        let gain = free_bytes.saturating_sub(in_holes).saturating_sub(target.left);
        if gain < self.sizes.gain_min {
            return Ok(None);
        }
        let end = Location::in_segment(number.next(), SEGMENT_HEADER_BYTES);
        let reader = BatchReader::new(Arc::clone(storage), self.stream, target.start.end, end);
        Ok(Some(Box::new(Search::new(reader.past(self.known.clone()), target, known, free_bytes))))
    }

    /// The holes as they are from this checkpoint on, and what was left in the segments that were read.
    pub(super) fn finish(&mut self) -> (Holes, BTreeMap<SegmentNumber, u64>) {
        let found = std::mem::take(&mut self.found);
        let kept = self.known.iter().filter(|hole| !found.contains_key(&hole.segment())).copied();
        let mut all: Vec<Hole> = kept.chain(found.values().flatten().copied()).collect();
        all.sort_unstable_by_key(|hole| hole.from.end);
        // Holes only grow: what was named once may be gone.
        let holes = Holes::of(all).filter(|holes| self.known.iter().all(|hole| holes.hold(hole)));
        (holes.unwrap_or_else(|| self.known.clone()), std::mem::take(&mut self.left))
    }
}

/// Nothing more is to be done where the machine was stopped; all else leaves things as they are.
fn unless_stopped(error: Error) -> Result<()> {
    match error {
        Error::Storage { fault: StorageFault::Stopped, .. } => Err(error),
        _ => Ok(()),
    }
}

/// Shows the rows of the blocks from `block` on and before `end`; where to go on, if there are more.
fn each_row<R: Row>(run: &Run, block: u32, end: u32, show: &mut dyn FnMut(&R)) -> Result<Option<u32>> {
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
