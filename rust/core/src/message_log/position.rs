//! A position in the log, with the values that the next batch must continue.

use crate::units::{Epoch, Location, Millis, Sequence};

/// How far the log has been applied, or read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogPosition {
    /// Where the next batch begins, unless it begins a later segment.
    pub end: Location,
    /// The chain of the last batch.
    pub chain: u32,
    /// The next sequence.
    pub next_sequence: Sequence,
    /// The epoch of the last batch.
    pub epoch: Epoch,
    /// The trusted time of the last batch.
    pub trusted: Millis,
}
