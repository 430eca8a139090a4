//! Sending what was written to the disk early, while `os` answers do not wait for it.
//!
//! A full segment is synced before the next one takes a batch, whoever publishes waits for that, and
//! so does a checkpoint with the log in hand. The helper syncs in small portions beforehand, without
//! the log in hand, so that there is never much left to wait for. A power cut takes less for the same
//! reason. Nothing is vouched for here: the log's own syncs do that.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::error::Result;
use delaymq_core::message_log::{Durability, segment_path};
use delaymq_core::storage::StorageFile;
use delaymq_core::units::SegmentNumber;

use crate::shared::Shared;
use crate::sync::AtomicU64;

/// So much may be written before it is sent to the disk.
const PORTION_BYTES: u64 = 4 << 20;

/// How far the disk was sent what was written.
#[derive(Default)]
pub(crate) struct WriteBack {
    sent_bytes: AtomicU64,
}

/// The helper's own handle of the segment that is being written. A failed write-back is told once to
/// each handle that was open before it, so this one takes no failure away from the appender's.
#[derive(Default)]
pub(crate) struct WriteBackHandle {
    open: Option<(SegmentNumber, Arc<dyn StorageFile>)>,
}

impl Shared {
    /// Raises the helper where a portion has come together.
    pub(crate) fn offer_write_back(&self) {
        if self.write_back_due() {
            self.helper.raise();
        }
    }

    fn write_back_due(&self) -> bool {
        let sent = self.write_back.sent_bytes.load(Ordering::Relaxed);
        self.options.durability == Durability::Os
            && self.metrics.committed_bytes.read().saturating_sub(sent) >= PORTION_BYTES
    }

    /// Sends what has come together; false where it was less than a portion.
    pub(crate) fn write_back(&self, handle: &mut WriteBackHandle) -> bool {
        if !self.write_back_due() {
            return false;
        }
        self.write_back_all(handle);
        true
    }

    /// Sends everything that is written by now. A failure ends the store, as that of any other sync.
    pub(crate) fn write_back_all(&self, handle: &mut WriteBackHandle) {
        let committed = self.metrics.committed_bytes.read();
        match self.sync_beside(handle) {
            Ok(()) => self.write_back.sent_bytes.store(committed, Ordering::Relaxed),
            Err(error) => self.fail(&error),
        }
    }

    fn sync_beside(&self, handle: &mut WriteBackHandle) -> Result<()> {
        let written = self.with_commits(|commits| commits.written_mark().location);
        let Some(number) = written.segment() else { return Ok(()) };
        if handle.open.as_ref().is_none_or(|(open, _)| *open != number) {
            handle.open = match self.storage.open(&segment_path(number)) {
                Ok(file) => Some((number, file)),
                // It was sealed, and so synced, and has even been retired meanwhile.
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error),
            };
        }
        handle.open.as_ref().map_or(Ok(()), |(_, file)| file.sync_data())
    }
}
