//! The work of the engine's helper: segments are prepared, checkpoints written, files removed.

use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Preparing;
use delaymq_core::store::{CheckpointProgress, Removable, archived_below, is_pinned, punch};

use super::Node;

/// Bytes of holes that were punched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Punched {
    /// Out of segments.
    pub segment_bytes: u64,
    /// Out of runs.
    pub run_bytes: u64,
}

impl Node {
    /// Prepares one segment. An error poisons nothing: messages are refused once no room is left, and everything else
    /// goes on.
    pub fn prepare(&mut self) -> Result<()> {
        let header = self.appender.plan_next(self.awaited_bytes);
        let prepared = Preparing::begin(Arc::clone(&self.storage), header, true)
            .and_then(Preparing::finish)
            .and_then(|prepared| self.appender.adopt(prepared));
        self.commits.set_disk_full(prepared.is_err());
        if prepared.is_ok() {
            self.awaited_bytes = 0;
            self.commits.room(self.appender.tail_room(), self.appender.stock_rooms());
        }
        self.look_at_room();
        prepared
    }

    /// Reads the free space of the disk if a mark is set. Below the mark, a checkpoint that gives space back becomes
    /// due.
    pub fn look_at_room(&mut self) {
        if !self.options.marks.are_set() {
            return;
        }
        let Ok(free_bytes) = self.storage.free_bytes() else { return };
        self.commits.note_free(Some(free_bytes), 0);
        let room = self.commits.free_room();
        if room.is_low() || room.refusal().is_some() {
            self.owner.reclaim(self.reading);
        }
    }

    /// True if less than `ahead` segments are prepared.
    pub fn needs_segment(&self, ahead: usize) -> bool {
        self.commits.needs_segment(0, ahead)
    }

    /// Freezes the state for a checkpoint. False if one is under way.
    pub fn begin_checkpoint(&mut self) -> bool {
        if self.checkpoint.is_some() {
            return false;
        }
        self.checkpoint = self.owner.freeze();
        let Some(work) = &mut self.checkpoint else { return false };
        work.await_archives(archived_below(self.storage.as_ref()).into_iter().chain(self.kept_from).min());
        true
    }

    /// True while a checkpoint is under way.
    pub fn is_checkpointing(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// Does a piece of the checkpoint under way. True if nothing is left to do. After an error the piece may be tried
    /// again, unless a failed sync of the log has poisoned the store.
    pub fn checkpoint_piece(&mut self, budget_bytes: u64) -> Result<bool> {
        let synced = self.commits.synced_mark().location;
        let Some(work) = self.checkpoint.as_mut() else { return Ok(true) };
        match work.write_piece(&self.storage, budget_bytes, synced)? {
            CheckpointProgress::More => Ok(false),
            CheckpointProgress::WaitForSync(_) => self.sync().map(|()| false),
            CheckpointProgress::Finished(finished) => {
                self.checkpoint = None;
                self.merge_failures.extend(finished.merge_failure().cloned());
                let removable = self.owner.install(finished)?;
                self.retired.extend(removable);
                self.remove_retired()?;
                Ok(true)
            }
        }
    }

    /// The errors of merging since the last call.
    pub fn take_merge_failures(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.merge_failures)
    }

    /// A whole checkpoint as of now.
    pub fn checkpoint(&mut self) -> Result<()> {
        // A checkpoint under way is of an earlier moment.
        while !self.checkpoint_piece(u64::MAX)? {}
        self.begin_checkpoint();
        while !self.checkpoint_piece(u64::MAX)? {}
        Ok(())
    }

    /// Bytes of holes that were punched since the opening.
    pub fn punched(&self) -> Punched {
        self.punched
    }

    /// Removes retired files and punches holes, unless a reader holds them. After an error the next checkpoint tries again.
    fn remove_retired(&mut self) -> Result<()> {
        if is_pinned(self.storage.as_ref(), self.reading.now.min(self.wall))? {
            return Ok(());
        }
        self.retired.remove(self.storage.as_ref())?;
        let block_bytes = self.options.owner.hole_block_bytes;
        let Removable { holes, run_holes, .. } = &self.retired;
        let punch = |holes, run_holes| punch(self.storage.as_ref(), holes, run_holes, block_bytes);
        self.punched.segment_bytes += punch(holes, &[])?.unwrap_or_default();
        self.punched.run_bytes += punch(&[], run_holes)?.unwrap_or_default();
        self.retired = Removable::default();
        Ok(())
    }
}
