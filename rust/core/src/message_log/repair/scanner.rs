//! What a stop has left of the log, read twice: once to judge all of it, then batch by batch.
//!
//! Nothing is written. A scanner exists only for a log that is free of corruption, and it never
//! hands out what lies behind a break.

use std::sync::Arc;

use super::tail_scan::Survey;
use crate::error::Result;
use crate::message_log::holes::Holes;
use crate::message_log::read::reader::{BatchReader, ScannedBatch};
use crate::message_log::repair::scan_end::{ScanEnd, ScanStart};
use crate::message_log::segment::Stream;
use crate::storage::Storage;

/// The batches of a log that was judged.
pub struct Scanner {
    ending: ScanEnd,
    batches: BatchReader,
}

impl Scanner {
    /// Reads and judges the whole log from `start` on. Errors: `Corrupt` and `MissingFile` where
    /// what was vouched for is damaged, `NewerFormat`, and those of the storage. A segment cut
    /// short counts as zeros from there on.
    pub fn new(storage: Arc<dyn Storage>, stream: Stream, start: &ScanStart) -> Result<Self> {
        Self::past(storage, stream, start, &Holes::default())
    }

    /// As [`Self::new`], over a log with these holes, which it passes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn past(storage: Arc<dyn Storage>, stream: Stream, start: &ScanStart, holes: &Holes) -> Result<Self> {
        let ending = Survey::run(&storage, stream, start, holes)?;
        let batches = BatchReader::new(storage, stream, start.location, ending.end).past(holes.clone());
        Ok(Self { ending, batches })
    }

    /// How the log ends; known before the first batch is read.
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
