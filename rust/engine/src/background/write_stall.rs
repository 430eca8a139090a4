//! What is in memory because no run has it yet, and who waits where that is too much: publishes, for the checkpoint
//! under way. They go on as it is written, and not all at once at its end.

use std::sync::atomic::Ordering;

use delaymq_core::error::Result;

use crate::shared::Shared;
use crate::sync::{AtomicBool, AtomicU64};

/// Entries that no run has yet.
#[derive(Default)]
pub(crate) struct WriteStall {
    recent_entries: AtomicU64,
    /// Those of them that the checkpoint under way has written.
    written_entries: AtomicU64,
    /// A checkpoint is being written, and what was tried of it last went well.
    is_written: AtomicBool,
}

impl WriteStall {
    /// So many entries are in no run now.
    pub(crate) fn note_recent(&self, entries: u64) {
        self.recent_entries.store(entries, Ordering::Relaxed);
    }

    /// The checkpoint under way has written so many. Where there is none, or writing it fails, nobody waits: whoever
    /// publishes goes on, and hears from the log where the disk is full.
    pub(crate) fn note_written(&self, entries: u64, goes_on: bool) {
        self.written_entries.store(entries, Ordering::Relaxed);
        self.is_written.store(goes_on, Ordering::Relaxed);
    }

    fn is_over(&self, entries_max: u64) -> bool {
        let (recent, written) = (&self.recent_entries, &self.written_entries);
        self.is_written.load(Ordering::Relaxed)
            && recent.load(Ordering::Relaxed).saturating_sub(written.load(Ordering::Relaxed)) > entries_max
    }
}

impl Shared {
    /// True where a publish has to wait until the checkpoint under way has written more: what no run has yet is
    /// bounded, however fast messages come.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`: nothing will be written any more.
    pub(crate) fn must_stall(&self) -> Result<bool> {
        if !self.background.write_stall.is_over(self.options.owner.recent_entries_max) {
            return Ok(false);
        }
        self.check()?;
        self.background.lagging.store(true, Ordering::Relaxed);
        self.helper.raise();
        Ok(true)
    }
}
