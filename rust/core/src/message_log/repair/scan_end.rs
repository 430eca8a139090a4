//! Where a scan of the log begins, and what it found where it ended.

use crate::message_log::segment::SEGMENT_HEADER_BYTES;
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
