//! What a stop has left of the log, read twice: once to judge all of it, then batch by batch.
//!
//! Nothing is written. A scanner exists only for a log that is free of corruption, and it never
//! hands out what lies behind a break.

use std::sync::Arc;

use super::tail_scan::Survey;
use crate::error::Result;
use crate::message_log::holes::Holes;
use crate::message_log::read::reader::{BatchReader, ScannedBatch};
use crate::message_log::segment::{SEGMENT_HEADER_BYTES, Stream};
use crate::storage::Storage;
use crate::units::{Epoch, Location, Millis, SegmentNumber, Sequence};

/// Where a scan starts, and what is known there: the log's first segment, or what a checkpoint
/// says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanStart {
    /// Where a batch starts, or the end of the log.
    pub location: Location,
    /// The chain of the batch before.
    pub chain: u32,
    /// The sequence of the first fact there.
    pub next_sequence: Sequence,
    /// The epoch of the batch before; 0 where there is none.
    pub epoch: Epoch,
    /// The trusted time of the batch before.
    pub trusted: Millis,
    /// A position that is known to be durable from elsewhere, such as that of a checkpoint: a break
    /// before it is corruption, whatever the log says.
    pub vouched: Location,
}

impl ScanStart {
    /// The start of a log that still has its first segment.
    pub const BEGINNING: Self = Self {
        location: Location::in_segment(SegmentNumber(1), SEGMENT_HEADER_BYTES),
        chain: 0,
        next_sequence: Sequence(1),
        epoch: Epoch(0),
        trusted: Millis(0),
        vouched: Location(0),
    };
}

/// Bytes behind the end of the log that nobody has vouched for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTail {
    /// Where the broken batch starts.
    pub start: Location,
    /// Where in the file its first fault is.
    pub offset: u32,
    /// Behind the last byte of the segment that is not zero.
    pub end: u32,
    /// What belongs at `offset`.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// A segment behind the one in which the log ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaterSegment {
    /// Its number.
    pub number: SegmentNumber,
    /// False for one that was prepared and never used.
    pub has_content: bool,
}

/// How the log ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanEnd {
    /// The end of the good prefix. Where it is sealed, the seal starts here.
    pub end: Location,
    /// True where the log was closed: its last segment ends in a seal and none after it was used.
    pub sealed: bool,
    /// What was found behind the end, where it is not zeros.
    pub torn: Option<TornTail>,
    /// The chain of the last batch.
    pub chain: u32,
    /// The sequence behind the last fact.
    pub next_sequence: Sequence,
    /// The epoch of the last batch with facts.
    pub epoch: Epoch,
    /// The trusted time of the last batch.
    pub trusted: Millis,
    /// The furthest position that is known to be durable.
    pub vouched: Location,
    /// The furthest position that a batch calls visible: what a reader beside the writer may read.
    pub committed: Location,
    /// All segments behind the end, ascending.
    pub later_segments: Vec<LaterSegment>,
    /// Messages below `vouched` whose payload fails its check; each is voided when it is read.
    pub damaged_payloads: u64,
    /// Bytes of batches up to the end of what was read.
    pub bytes: u64,
}

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
