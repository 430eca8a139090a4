//! The work of a follower beside everything else, as a node of the engine does it: checkpoints, and the removal of what they do not need.

use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::storage::Storage;
use delaymq_core::store::{
    CheckpointProgress, CheckpointWork, Follower, OwnerOptions, Removable, archived_below, is_pinned, punch,
};
use delaymq_core::units::Millis;

/// See the module.
#[derive(Default)]
pub(super) struct Upkeep {
    /// The checkpoint that is under way.
    pub(super) checkpoint: Option<CheckpointWork>,
    /// The files that no checkpoint needs.
    removable: Removable,
}

impl Upkeep {
    /// Vouches for the log of a copy, removes what may go, and begins a checkpoint, or does a piece of the one under way. True if
    /// that was the last.
    pub(super) fn tend(
        &mut self,
        follower: &mut Follower,
        storage: &Arc<dyn Storage>,
        (now, budget_bytes): (Millis, u64),
    ) -> Result<bool> {
        follower.witness()?;
        if self.checkpoint.is_none() {
            self.remove(storage.as_ref(), now)?;
            self.checkpoint = follower.freeze()?;
            if let Some(work) = &mut self.checkpoint {
                work.await_archives(archived_below(storage.as_ref()));
            }
        }
        let Some(work) = &mut self.checkpoint else { return Ok(false) };
        match work.write_piece(storage, budget_bytes, follower.synced().location)? {
            CheckpointProgress::More => Ok(false),
            CheckpointProgress::WaitForSync(_) => follower.sync().map(|()| false),
            CheckpointProgress::Finished(finished) => {
                self.checkpoint = None;
                self.removable.extend(follower.owner_mut().install(finished)?);
                Ok(true)
            }
        }
    }

    fn remove(&mut self, storage: &dyn Storage, now: Millis) -> Result<()> {
        if self.removable.is_empty() || is_pinned(storage, now)? {
            return Ok(());
        }
        self.removable.remove(storage)?;
        let Removable { holes, run_holes, .. } = std::mem::take(&mut self.removable);
        punch(storage, &holes, &run_holes, OwnerOptions::default().hole_block_bytes).map(drop)
    }
}
