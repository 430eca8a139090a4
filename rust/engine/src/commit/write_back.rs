//! Early write-back, for `os` durability.
//!
//! A full segment is synced before the next one takes a batch, and publishes wait for that; a checkpoint does the same
//! while it holds the log. The helper therefore syncs small portions beforehand, without holding the log, so that
//! little is left to wait for, and a power cut takes less. Write-back vouches for nothing: the log's own syncs do that.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::error::Result;
use delaymq_core::message_log::{Durability, segment_path};
use delaymq_core::storage::StorageFile;
use delaymq_core::units::SegmentNumber;

use crate::shared::Shared;
use crate::sync::AtomicU64;

/// How many bytes are written before they are sent to the disk.
const PORTION_BYTES: u64 = 4 << 20;

/// How many of the written bytes were sent to the disk.
pub(crate) type WriteBack = AtomicU64;

/// The helper's own handle of the segment that is written now. A failed write-back is reported once to each handle that
/// was open before it, so this handle takes no failure away from the appender's.
pub(crate) type WriteBackHandle = Option<(SegmentNumber, Arc<dyn StorageFile>)>;

impl Shared {
    /// Raises the helper if a portion is complete.
    pub(crate) fn offer_write_back(&self) {
        if self.write_back_due() {
            self.helper.raise();
        }
    }

    fn write_back_due(&self) -> bool {
        let sent = self.write_back.load(Ordering::Relaxed);
        self.options.durability == Durability::Os
            && self.metrics.committed_bytes.read().saturating_sub(sent) >= PORTION_BYTES
    }

    /// Sends a portion to the disk. Returns false if there was less than one.
    pub(crate) fn write_back(&self, handle: &mut WriteBackHandle) -> bool {
        if !self.write_back_due() {
            return false;
        }
        self.write_back_all(handle);
        true
    }

    /// Sends everything that is written by now. A failure poisons the store, as that of any other sync.
    pub(crate) fn write_back_all(&self, handle: &mut WriteBackHandle) {
        let committed = self.metrics.committed_bytes.read();
        match self.sync_beside(handle) {
            Ok(()) => self.write_back.store(committed, Ordering::Relaxed),
            Err(error) => self.fail(&error),
        }
    }

    fn sync_beside(&self, handle: &mut WriteBackHandle) -> Result<()> {
        let written = self.with_commits(|commits| commits.written_mark().location);
        let Some(number) = written.segment() else { return Ok(()) };
        if handle.as_ref().is_none_or(|(open, _)| *open != number) {
            *handle = match self.storage.open(&segment_path(number)) {
                Ok(file) => Some((number, file)),
                // The segment was sealed, and therefore synced, and has even been retired meanwhile.
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error),
            };
        }
        handle.as_ref().map_or(Ok(()), |(_, file)| file.sync_data())
    }
}
