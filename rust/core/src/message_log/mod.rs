//! The truth: one segmented write-ahead log of facts in one dense sequence.
//!
//! [`GroupCommit`] decides what goes into the next batch, [`SegmentAppender`] puts it on the disk,
//! [`Scanner`] judges what a stop has left, and [`repair`] gives the log a trustworthy end.

mod appender;
mod commit;
#[cfg(test)]
mod crafted_tests;
mod durability;
#[cfg(test)]
mod fixture;
mod free_room;
#[cfg(test)]
mod history_tests;
mod holes;
mod identity;
mod judge;
mod piece;
mod position;
mod preparing;
mod reader;
mod repair;
mod room;
mod scanner;
mod search;
mod segment;
mod sift;
mod submission;
mod survey;
mod window;

pub use appender::{AppendMarks, Appended, AppenderStart, SegmentAppender};
pub use commit::{Commit, GroupCommit, GroupCommitOptions, Mark};
pub use durability::Durability;
pub use free_room::{FreeMarks, FreeRoom, RoomChange};
pub use holes::{Hole, Holes};
pub use identity::{EpochSource, FileEpochSource, IDENTITY_PATH, Identity};
pub use piece::{LogPiece, PieceReader};
pub use position::LogPosition;
pub use preparing::{PreparedSegment, Preparing, PreparingStep};
pub use reader::{BatchReader, ScannedBatch};
pub use repair::{Repaired, repair};
pub use scanner::{LaterSegment, ScanEnd, ScanStart, Scanner, TornTail};
pub use segment::{
    ASIDE_FOLDER, LOG_FOLDER, OPENING_SEGMENT_BYTES, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENT_HEADER_BYTES,
    SegmentHeader, Stream, fresh_room, list_segments, records_max, segment_name, segment_path,
};
pub use sift::{Find, sift, sift_segment};
pub use submission::{Class, Submission, Submitted};
