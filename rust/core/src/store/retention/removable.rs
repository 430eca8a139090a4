//! The files that no kept checkpoint needs, and their removal.

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
    /// Checkpoints. They are removed first, since a checkpoint that came back after a power cut would name files that
    /// are gone.
    pub checkpoints: Vec<String>,
    /// Runs, then segments, the oldest first.
    pub files: Vec<String>,
    /// Holes to punch once no view of their segments is left: a view would see the bytes turn to zeros.
    pub holes: Vec<Hole>,
    /// Holes of runs. Runs have no views, since reads of a run copy.
    pub run_holes: Vec<RunHole>,
    /// Looks for staged runs that are no longer of use, and removes them as well.
    pub sweep: Option<Sweep>,
}

impl Removable {
    /// True if there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the files of `other`.
    pub fn extend(&mut self, other: Self) {
        self.checkpoints.extend(other.checkpoints);
        self.files.extend(other.files);
        self.holes.extend(other.holes);
        self.run_holes.extend(other.run_holes);
        self.sweep = other.sweep.or(self.sweep.take());
    }

    /// Removes the files in an order that leaves a sound store wherever it stops. Files that are already gone are
    /// skipped, so this can be repeated after an error.
    ///
    /// # Errors
    /// The errors of the storage.
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

/// Drops all but the two newest checkpoints from `kept`, and returns the files that neither of these needs. `first` is
/// the first segment that the state knows. With fewer than two checkpoints, the log from its beginning takes the place
/// of the other one, so the whole log stays.
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
