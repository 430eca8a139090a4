//! What is handed to the log's queue.

use std::ops::Range;

use crate::units::Sequence;

/// Who may use the room that is kept for finishing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Makes the store grow: messages, new names. Refused while the disk is full, or below its mark.
    Growing,
    /// Brings what is stored to its end: ready, acknowledge, cancel and all others.
    Finishing,
}

/// Records that belong together: all are stored, in one batch, or none.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// Freshly encoded records, padded, back to back.
    pub records: &'a [u8],
    /// How many there are; at least one.
    pub record_count: u32,
    /// How many messages the last of them adopts; 0 where it is no adoption.
    pub adopts: u32,
    /// What room they may use.
    pub class: Class,
    /// True where even under `Durability::Os` nothing from here on is visible before it is synced.
    pub must_sync: bool,
}

/// What became of a submission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Submitted {
    /// It will be written with these sequences.
    Accepted(Range<Sequence>),
    /// It must wait until a segment was prepared; ask for one, then submit again.
    NeedRoom,
    /// It must wait until a batch was taken: too many bytes are queued.
    QueueFull,
}

impl Submission<'_> {
    /// How many sequences it takes.
    pub(in crate::message_log) fn sequences(&self) -> u64 {
        u64::from(self.record_count).saturating_add(u64::from(self.adopts.saturating_sub(1)))
    }
}
