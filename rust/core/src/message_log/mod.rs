//! The message log: one segmented write-ahead log of facts in one dense sequence. All other state follows
//! from it.
//!
//! [`GroupCommit`] decides what goes into the next batch, [`SegmentAppender`] writes it to the disk,
//! [`Scanner`] checks what a stop has left, and [`repair`] gives the log an end that can be trusted. Another copy
//! of the log is sent the batches of [`batches_from`], writes them with [`SegmentAppender::append_foreign`], and
//! takes back what the others do not have with [`cut_after`]. [`restore_payload`] mends a damaged message from another copy.

mod append;
mod epoch_table;
mod holes;
mod identity;
mod position;
mod read;
mod repair;
mod segment;
#[cfg(test)]
mod tests;

pub use append::appender::SegmentAppender;
pub use append::commit::{Commit, GroupCommit};
pub use append::commit_options::{GroupCommitOptions, Mark, VisibleOnce};
pub use append::durability::Durability;
pub use append::free_room::{FreeMarks, FreeRoom, RoomChange};
pub use append::interface::{AppendMarks, Appended, AppenderStart, DamagedPayload, Taken};
pub use append::preparing::{PreparedSegment, Preparing, PreparingStep};
pub use append::submission::{Class, Submission, Submitted};
pub use epoch_table::{Agreement, EpochEntry, HistoryEnd, agreement, note_epoch};
pub use holes::{Hole, Holes};
pub use identity::{EpochSource, FileEpochSource, IDENTITY_PATH, Identity, Promise};
pub use position::LogPosition;
pub use read::piece::{LogPiece, PieceReader};
pub use read::reader::{BatchReader, ScannedBatch};
pub use read::salvage_reader::{Find, sift, sift_segment};
pub use read::shipping::batches_from;
pub use repair::cut::{Cut, CutPoint, cut_after};
pub use repair::payload::restore_payload;
pub(crate) use repair::payload::{read_record_at, restore_record};
pub use repair::scan_end::{LaterSegment, ScanEnd, ScanStart, TornTail};
pub use repair::scanner::Scanner;
pub use repair::{Repaired, repair};
pub use segment::{
    ASIDE_FOLDER, LOG_FOLDER, OPENING_SEGMENT_BYTES, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENT_HEADER_BYTES,
    SegmentHeader, Stream, fresh_room, list_segments, records_max, segment_name, segment_path,
};
