//! The write stall. If too many entries are in memory and in no run, publishes wait for the checkpoint under way. They
//! go on while it is written, and not all at once at its end.

use std::sync::atomic::Ordering;

use delaymq_core::error::Result;

use crate::shared::Shared;
use crate::sync::{AtomicBool, AtomicU64};

/// Counts entries that are in no run yet.
#[derive(Default)]
pub(crate) struct WriteStall {
    recent_entries: AtomicU64,
    /// How many of these the checkpoint under way has written.
    written_entries: AtomicU64,
    /// A checkpoint is being written, and its last piece succeeded.
    is_written: AtomicBool,
}

impl WriteStall {
    /// So many entries are in no run now.
    pub(crate) fn note_recent(&self, entries: u64) {
        self.recent_entries.store(entries, Ordering::Relaxed);
    }

    /// The checkpoint under way has written so many entries. Without a checkpoint, or after a failed piece, no publish
    /// waits; if the disk is full, the log refuses it.
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
    /// True if a publish has to wait until the checkpoint under way has written more. This bounds the entries in
    /// memory, however fast messages come.
    /// Fails with `Poisoned`, `Closed`, `ForkedProcess`: nothing will be written any more.
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
