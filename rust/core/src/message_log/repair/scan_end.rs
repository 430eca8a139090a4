//! The start of a scan of the log, and the end that the scan found.

use crate::message_log::read::batch_check::Cursor;
use crate::message_log::segment::SEGMENT_HEADER_BYTES;
use crate::units::{Epoch, Location, Millis, SegmentNumber, Sequence};

/// Where a scan starts, and the values there: the log's first segment, or the position of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanStart {
    /// The start of a batch, or the end of the log.
    pub location: Location,
    /// The chain of the previous batch.
    pub chain: u32,
    /// The sequence of the first fact there.
    pub next_sequence: Sequence,
    /// The epoch of the previous batch. 0 if there is none.
    pub epoch: Epoch,
    /// The trusted time of the previous batch.
    pub trusted: Millis,
    /// A position that is known to be durable from another source, for example a checkpoint. A break before
    /// it is corruption, whatever the log says.
    pub vouched: Location,
}

impl ScanStart {
    /// The values that the first batch must continue.
    pub(in crate::message_log) fn cursor(&self) -> Cursor {
        Cursor {
            location: self.location,
            chain: self.chain,
            next_sequence: self.next_sequence,
            epoch: self.epoch,
            trusted: self.trusted,
        }
    }

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

/// Bytes after the end of the log that no batch vouches for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTail {
    /// Where the broken batch starts.
    pub start: Location,
    /// The offset of its first fault in the file.
    pub offset: u32,
    /// The offset after the last nonzero byte of the segment.
    pub end: u32,
    /// The expected value at `offset`.
    pub expected: String,
    /// The value found there.
    pub found: String,
}

/// A segment after the one in which the log ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaterSegment {
    /// Its number.
    pub number: SegmentNumber,
    /// False if the segment was prepared and never used.
    pub has_content: bool,
}

/// How the log ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanEnd {
    /// The end of the good part of the log. If the log is sealed, the seal starts here.
    pub end: Location,
    /// True if the log was closed: its last segment ends in a seal, and no later segment was used.
    pub sealed: bool,
    /// The bytes after the end, if they are not zeros.
    pub torn: Option<TornTail>,
    /// The chain of the last batch.
    pub chain: u32,
    /// The sequence after the last fact.
    pub next_sequence: Sequence,
    /// The epoch of the last batch with facts.
    pub epoch: Epoch,
    /// The trusted time of the last batch with facts.
    pub trusted: Millis,
    /// The furthest position that is known to be durable.
    pub vouched: Location,
    /// The furthest position that a batch calls visible. Another reader than the writer may read up to here.
    pub committed: Location,
    /// All segments after the end, ascending.
    pub later_segments: Vec<LaterSegment>,
    /// The number of messages before `vouched` whose payload fails its check. Each is voided when it is read.
    pub damaged_payloads: u64,
    /// Bytes of all batches that were read.
    pub bytes: u64,
}
