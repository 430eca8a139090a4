//! The submissions to the log's queue, and the answers to them.

use std::ops::Range;

use crate::units::Sequence;

/// Whether a submission may use the room that is kept for finishing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Makes the store grow: messages, new names. Refused while the disk is full, or below its mark.
    Growing,
    /// Brings stored messages to their end: ready, acknowledge, cancel and all others.
    Finishing,
}

/// Records that belong together. Either all are stored, in one batch, or none.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// Freshly encoded records, padded, back to back.
    pub records: &'a [u8],
    /// The number of records, at least one.
    pub record_count: u32,
    /// The number of messages that the last record adopts. 0 if it is not an adoption.
    pub adopts: u32,
    /// The room that the records may use.
    pub class: Class,
    /// True if, even with `Durability::Os`, nothing from here on is visible before it is synced.
    pub must_sync: bool,
}

/// The answer to a submission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Submitted {
    /// The records will be written with these sequences.
    Accepted(Range<Sequence>),
    /// The caller must wait for a segment: request one, then submit again.
    NeedRoom,
    /// Too many bytes are queued. The caller must wait until a batch is taken.
    QueueFull,
}

impl Submission<'_> {
    /// The number of sequences that it takes.
    pub(in crate::message_log) fn sequences(&self) -> u64 {
        u64::from(self.record_count).saturating_add(u64::from(self.adopts.saturating_sub(1)))
    }
}
