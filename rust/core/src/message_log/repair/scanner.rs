//! Reads the log that a stop has left, twice: first to check all of it, then batch by batch.
//!
//! A scanner writes nothing. It exists only for a log without corruption, and it never returns a batch after
//! a break.

use std::sync::Arc;

use super::tail_scan::Survey;
use crate::error::Result;
use crate::message_log::holes::Holes;
use crate::message_log::read::reader::{BatchReader, ScannedBatch};
use crate::message_log::repair::scan_end::{ScanEnd, ScanStart};
use crate::message_log::segment::Stream;
use crate::storage::Storage;

/// The batches of a log that was checked.
pub struct Scanner {
    ending: ScanEnd,
    batches: BatchReader,
}

impl Scanner {
    /// Reads and checks the whole log from `start` on. Errors: `Corrupt` and `MissingFile` if vouched bytes
    /// are damaged, `NewerFormat`, and those of the storage. A segment that was cut short counts as zeros
    /// from there on.
    pub fn new(storage: Arc<dyn Storage>, stream: Stream, start: &ScanStart) -> Result<Self> {
        Self::past(storage, stream, start, &Holes::default())
    }

    /// Like [`Self::new`], for a log with these holes, which it skips.
    ///
    /// # Errors
    /// Like [`Self::new`].
    pub fn past(storage: Arc<dyn Storage>, stream: Stream, start: &ScanStart, holes: &Holes) -> Result<Self> {
        let ending = Survey::run(&storage, stream, start, holes)?;
        let batches = BatchReader::new(storage, stream, start.location, ending.end).past(holes.clone());
        Ok(Self { ending, batches })
    }

    /// How the log ends. This is known before the first batch is read.
    pub fn ending(&self) -> &ScanEnd {
        &self.ending
    }

    /// The next batch with facts; `None` at the end of the log.
    pub fn next_batch(&mut self) -> Result<Option<ScannedBatch>> {
        self.batches.next_batch()
    }

    /// Takes a buffer back, for a later batch.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.batches.recycle(bytes);
    }
}

#[cfg(test)]
#[path = "scanner_tests.rs"]
mod tests;
