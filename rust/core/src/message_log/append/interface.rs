//! The arguments and the results of the appender.

use super::commit_options::Mark;
use super::durability::Durability;
use crate::error::Error;
use crate::message_log::segment::Stream;
use crate::record::batch::BatchHeader;
use crate::units::{Epoch, Location, Millis, SegmentNumber, Sequence};

/// Where the log continues, and with which identity.
#[derive(Clone, Copy, Debug)]
pub struct AppenderStart {
    /// The history that is continued.
    pub stream: Stream,
    /// The epoch of this opening, which is durable already. For a copy of another log: that of the last batch.
    pub epoch: Epoch,
    /// The number of the segment to begin; no file may have it.
    pub number: SegmentNumber,
    /// The chain of the last batch. 0 if there is none.
    pub chain: u32,
    /// The sequence of the next fact.
    pub next_sequence: Sequence,
    /// The trusted time of the last batch. No later batch gets an earlier time.
    pub trusted: Millis,
    /// Bytes of the largest segment.
    pub segment_bytes: u32,
    /// Bytes of the smallest segment, with which each opening begins.
    pub opening_bytes: u32,
    /// How much the log was given of late.
    pub given_bytes: u64,
}

/// The fields of a batch in addition to its records.
#[derive(Clone, Copy, Debug)]
pub struct AppendMarks {
    /// How many records the bytes hold.
    pub record_count: u32,
    /// The trusted time now. It is raised to that of the previous batch if it is earlier.
    pub trusted: Millis,
    /// True while dispatch is held.
    pub held: bool,
    /// The end of the visible log now.
    pub committed: Location,
    /// The durability that an answer waits for.
    pub durability: Durability,
}

/// Where a batch was written.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    /// Its header, as it was written.
    pub header: BatchHeader,
    /// Where its header starts.
    pub start: Location,
    /// Where the next batch may start, and the sequence of its first fact.
    pub end: Mark,
    /// The synced position now. It is the start of the new segment if this batch began one.
    pub synced: Mark,
    /// True if it is the first batch of a segment.
    pub rolled: bool,
}

/// A batch of another copy that was written.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The place of the batch on this copy.
    pub appended: Appended,
    /// The messages in it whose payload is not what its check says. Another copy may have them whole.
    pub damaged: Vec<DamagedPayload>,
}

/// A record with a damaged payload. Its sequence and its check name its content on every copy of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DamagedPayload {
    /// Its sequence.
    pub sequence: Sequence,
    /// The check in its header, which binds that of the payload.
    pub record_check: u32,
    /// The start of the record on this copy.
    pub location: Location,
}

/// The refusal of bytes that are not whole records behind a header.
pub(super) fn malformed(bytes: usize, record_count: u32) -> Error {
    Error::InvalidArgument {
        argument: "batch",
        expected: format!("{record_count} whole records behind a header"),
        found: format!("{bytes} bytes that do not hold them"),
    }
}

/// The refusal of a fact of this copy behind batches of another one.
pub(super) fn not_begun() -> Error {
    let (expected, found) = ("an epoch that was begun here".to_owned(), "a batch of another copy".to_owned());
    Error::InvalidArgument { argument: "epoch", expected, found }
}
