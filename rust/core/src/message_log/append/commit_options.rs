//! The options of group commit.

use super::durability::Durability;
use super::free_room::FreeMarks;
use crate::units::{Location, Sequence};

/// A point between two batches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Mark {
    /// Where the next batch may start.
    pub location: Location,
    /// The sequence of its first fact.
    pub sequence: Sequence,
}

/// The condition under which a batch is visible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VisibleOnce {
    /// It is as durable on this disk as the options demand.
    Durable,
    /// The copies have it: [`GroupCommit::committed`] says so.
    Committed,
}

/// The options, which do not change while a log is open.
#[derive(Clone, Copy, Debug)]
pub struct GroupCommitOptions {
    /// The durability that an answer waits for.
    pub durability: Durability,
    /// The condition under which a batch is visible.
    pub visible_once: VisibleOnce,
    /// Where the log continues.
    pub start: Mark,
    /// Bytes of a segment. This limits the size of one submission.
    pub segment_bytes: u32,
    /// A submission does not join a batch that would then exceed this many bytes.
    pub batch_bytes_max: usize,
    /// Growing submissions wait while more bytes than this are queued.
    pub queue_bytes_max: usize,
    /// The free-room marks of the disk.
    pub marks: FreeMarks,
}

impl GroupCommitOptions {
    /// The usual limits: batches of 1 MiB, which stay in the processor's caches from the copy to the write,
    /// 64 MiB queued, and no free-room marks.
    pub fn new(durability: Durability, start: Mark, segment_bytes: u32) -> Self {
        let marks = FreeMarks::default();
        let visible_once = VisibleOnce::Durable;
        let (batch_bytes_max, queue_bytes_max) = (1 << 20, 64 << 20);
        Self { durability, visible_once, start, segment_bytes, batch_bytes_max, queue_bytes_max, marks }
    }
}
