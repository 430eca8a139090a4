//! Removes files at an open that would mislead a later open, or that no kept checkpoint needs.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::message_log::{LOG_FOLDER, list_segments, segment_path};
use crate::planted::{Planted, is_on};
use crate::run::{RUN_FOLDER, list_runs, run_path};
use crate::storage::Storage;
use crate::store::checkpoint::file::ReadCheckpoint;
use crate::store::checkpoint::paths::{CHECKPOINT_FOLDER, checkpoint_path, list_checkpoints};
use crate::store::retention::kept_files::{CHECKPOINTS_KEPT, KeptFiles, log_floor};
use crate::units::RunNumber;

/// Durably removes newer checkpoints that were not used, since a later open would trust them, and then files that no
/// kept checkpoint names. While a pin exists, only files that would mislead a later open are removed.
pub(super) fn remove_unused(
    storage: &dyn Storage,
    used: Option<&ReadCheckpoint>,
    newer: &[u32],
    kept: &[KeptFiles],
    pinned: bool,
) -> Result<()> {
    let trusts = is_on(Planted::FoldersTrustedUnsynced);
    let sync_checkpoints = || if trusts { Ok(()) } else { storage.sync_folder(CHECKPOINT_FOLDER) };
    for number in newer.iter().filter(|_| !is_on(Planted::NewerCheckpointLeft)) {
        storage.remove(&checkpoint_path(*number))?;
    }
    sync_checkpoints()?;
    let checkpoints: BTreeSet<u32> = kept.iter().map(|files| files.checkpoint).collect();
    debug_assert!(checkpoints.len() <= CHECKPOINTS_KEPT);
    for number in list_checkpoints(storage)? {
        let left = is_on(Planted::NewerCheckpointLeft) && newer.contains(&number);
        if !pinned && !left && !checkpoints.contains(&number) {
            storage.remove(&checkpoint_path(number))?;
        }
    }
    sync_checkpoints()?;
    let next_run = used.map_or(RunNumber(0), |used| used.snapshot.next_run);
    for number in list_runs(storage)?.into_iter().filter(|number| !pinned || *number >= next_run) {
        if kept.iter().all(|files| !files.runs.contains(&number)) {
            storage.remove(&run_path(number))?;
        }
    }
    if let Some(floor) = log_floor(kept).filter(|_| !pinned) {
        for number in list_segments(storage)?.into_iter().filter(|number| *number < floor) {
            storage.remove(&segment_path(number))?;
        }
    }
    for folder in [RUN_FOLDER, LOG_FOLDER, CHECKPOINT_FOLDER, ""] {
        remove_temporary(storage, folder)?;
        storage.sync_folder(folder)?;
    }
    Ok(())
}

/// Removes temporary files, which a process left before their rename.
fn remove_temporary(storage: &dyn Storage, folder: &str) -> Result<()> {
    for name in storage.list(folder)?.iter().filter_map(|name| name.strip_suffix(".tmp")) {
        let path = if folder.is_empty() { format!("{name}.tmp") } else { format!("{folder}/{name}.tmp") };
        storage.remove(&path)?;
    }
    Ok(())
}
