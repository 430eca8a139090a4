//! Decides when holes are searched and when they are punched. A hole is punched once both kept checkpoints name it, so
//! that an open from either checkpoint knows not to read it.

use super::hole_plan::{Hollows, Left};
use super::kept_files::{CHECKPOINTS_KEPT, KeptFiles};
use crate::error::Result;
use crate::message_log::{Hole, Holes, segment_path};
use crate::planted::{Planted, is_on};
use crate::run::{Reference, Run, RunHole, RunHoles, run_path};
use crate::storage::Storage;
use crate::units::{LocationFile, RunNumber, SegmentNumber};

/// The memory between two searches for holes.
#[derive(Debug, Default)]
pub(in crate::store) struct Hollowing {
    /// The number of finished facts at the last search; `None` before the first.
    pub(super) finished_at: Option<u64>,
    /// The segment at which the next search begins.
    pub(super) next: SegmentNumber,
    /// The run at which the next search begins.
    pub(super) next_run: RunNumber,
    /// Bytes of the files that were read that could be freed and are not.
    pub(super) left: Left,
    /// The holes that were to be punched since the store was opened. How far an earlier process came is unknown.
    punched: Hollows,
}

impl Hollowing {
    /// Notes what a checkpoint left in the files that it searched.
    pub(in crate::store) fn note_left(&mut self, left: Left, floor: Option<SegmentNumber>) {
        self.left.segments.extend(left.segments);
        self.left.segments.retain(|segment, _| floor.is_none_or(|floor| *segment >= floor));
        self.left.runs.extend(left.runs);
    }

    /// Returns the holes that both kept checkpoints name and that were not punched yet.
    pub(in crate::store) fn take_punches(&mut self, kept: &[KeptFiles]) -> (Vec<Hole>, Vec<RunHole>) {
        let [.., newest] = kept else { return (Vec::new(), Vec::new()) };
        let (mut log, mut runs) = match kept {
            [.., older, _] if kept.len() >= CHECKPOINTS_KEPT => {
                let log = older.holes.iter().filter(|hole| newest.holes.hold(hole)).copied().collect();
                let runs = older.run_holes.iter().filter(|hole| newest.run_holes.hold(hole)).copied().collect();
                (Holes::of(log).unwrap_or_default(), RunHoles::of(runs).unwrap_or_default())
            }
            _ => (Holes::default(), RunHoles::default()),
        };
        if is_on(Planted::HolePunchedBeforeBothCheckpoints) {
            log = newest.holes.clone();
        }
        if is_on(Planted::RunHolePunchedBeforeBothCheckpoints) {
            runs = newest.run_holes.clone();
        }
        let of_log = log.iter().filter(|hole| !self.punched.log.hold(hole)).copied().collect();
        let of_runs = runs.iter().filter(|hole| !self.punched.runs.hold(hole)).copied().collect();
        self.left.runs.retain(|run, _| kept.iter().any(|files| files.runs.contains(run)));
        self.punched = Hollows { log, runs };
        (of_log, of_runs)
    }
}

/// The number of rows of a run whose payloads are in the run itself.
pub(in crate::store) fn own_rows(run: &Run) -> u64 {
    let own = |reference: &&Reference| reference.file == LocationFile::Run(run.number());
    run.references().iter().find(own).map_or(0, |own| own.rows)
}

/// Punches holes, file by file, and returns the freed bytes; `None` if the file system cannot punch holes. A hole whose
/// file is already gone is skipped, so this can be repeated after an error.
///
/// # Errors
/// The errors of the storage.
pub fn punch(storage: &dyn Storage, holes: &[Hole], run_holes: &[RunHole], block_bytes: u32) -> Result<Option<u64>> {
    let of_log = holes.iter().map(|hole| (segment_path(hole.segment()), hole.whole_blocks(block_bytes)));
    let of_runs = run_holes.iter().map(|hole| (run_path(hole.run), hole.whole_blocks(block_bytes)));
    let all: Vec<_> = of_log.chain(of_runs).collect();
    let mut bytes = 0_u64;
    for of_file in all.chunk_by(|one, other| one.0 == other.0) {
        let Some((path, _)) = of_file.first() else { continue };
        let file = match storage.open(path) {
            Err(error) if error.is_not_found() => continue,
            other => other?,
        };
        for (offset, length) in of_file.iter().filter_map(|(_, blocks)| *blocks) {
            if !file.punch(offset, length)? {
                return Ok(None);
            }
            bytes = bytes.saturating_add(length);
        }
    }
    Ok(Some(bytes))
}
