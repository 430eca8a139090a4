//! What no kept checkpoint needs any more, and its removal.

use super::kept_files::{CHECKPOINTS_KEPT, KeptFiles, holding, log_floor};
use super::stale_loads::Sweep;
use crate::error::Result;
use crate::message_log::{Hole, LOG_FOLDER, segment_path};
use crate::planted::failpoint::{Failpoint, reached};
use crate::run::{LOAD_FOLDER, RUN_FOLDER, RunHole};
use crate::storage::Storage;
use crate::store::checkpoint::paths::{CHECKPOINT_FOLDER, checkpoint_path};
use crate::units::SegmentNumber;

/// Files that may be removed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Removable {
    /// Checkpoints: they go first, since one that came back after a power cut would name files that
    /// are gone.
    pub checkpoints: Vec<String>,
    /// Runs, then segments, the oldest first.
    pub files: Vec<String>,
    /// Holes to be punched, when no view of their segments is left: who looks at one sees zeros come.
    pub holes: Vec<Hole>,
    /// Those of runs, which nobody views: what is read of a run is copied.
    pub run_holes: Vec<RunHole>,
    /// What was staged and is of use to nobody is looked for with them.
    pub sweep: Option<Sweep>,
}

impl Removable {
    /// True where there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what another one names, to be removed with it.
    pub fn extend(&mut self, other: Self) {
        self.checkpoints.extend(other.checkpoints);
        self.files.extend(other.files);
        self.holes.extend(other.holes);
        self.run_holes.extend(other.run_holes);
        self.sweep = other.sweep.or(self.sweep.take());
    }

    /// Removes the files in an order that any stop leaves well. One that is gone already is fine,
    /// so it can be done again after an error.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn remove(&self, storage: &dyn Storage) -> Result<()> {
        reached(Failpoint::RetireBegins);
        remove_all(storage, &self.checkpoints, Failpoint::CheckpointUnlinked)?;
        storage.sync_folder(CHECKPOINT_FOLDER)?;
        remove_all(storage, &self.files, Failpoint::FileUnlinked)?;
        storage.sync_folder(RUN_FOLDER)?;
        storage.sync_folder(LOG_FOLDER)?;
        if self.files.iter().any(|path| path.starts_with(LOAD_FOLDER)) {
            storage.sync_folder(LOAD_FOLDER)?;
        }
        if let Some(sweep) = &self.sweep {
            sweep.sweep(storage)?;
        }
        reached(Failpoint::Retired);
        Ok(())
    }
}

fn remove_all(storage: &dyn Storage, paths: &[String], removed: Failpoint) -> Result<()> {
    for path in paths {
        match storage.remove(path) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => reached(removed),
        }
    }
    Ok(())
}

/// Drops checkpoints beyond the two newest from `kept`, and names the files that neither of those
/// needs. `first` is the first segment that the state knows. Where there are not two checkpoints
/// yet, the log itself stands in for the other one, so nothing of it goes.
pub(in crate::store) fn removable(kept: &mut Vec<KeptFiles>, first: Option<SegmentNumber>) -> Removable {
    let mut removable = Removable::default();
    let mut first = first;
    while kept.len() > CHECKPOINTS_KEPT {
        let dropped = kept.remove(0);
        removable.checkpoints.push(checkpoint_path(dropped.checkpoint));
        first = first.into_iter().chain([dropped.floor]).min();
        let unneeded = dropped.runs.iter().filter(|run| holding(kept).iter().all(|files| !files.runs.contains(run)));
        removable.files.extend(unneeded.map(|run| dropped.path_of(*run)));
    }
    if let (Some(first), Some(floor)) = (first, log_floor(kept)) {
        removable.files.extend((first.0..floor.0).map(|segment| segment_path(SegmentNumber(segment))));
    }
    removable
}
