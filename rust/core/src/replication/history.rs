//! The log of a node as another one compares it: where each epoch began, and where it ends.

use crate::message_log::{Agreement, EpochEntry, HistoryEnd, agreement};
use crate::planted::{Planted, is_on};

/// The epochs of a log, in order, and its end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    /// One entry for each epoch that has facts.
    pub epochs: Vec<EpochEntry>,
    /// The last fact, and the chain of its batch.
    pub end: HistoryEnd,
}

impl History {
    /// Up to where another log agrees with this one.
    pub(super) fn agreement_with(&self, other: &Self) -> Agreement {
        if is_on(Planted::MatchedBySequence) {
            let epoch = self.epochs.last().map_or_else(Default::default, |last| last.epoch);
            let sequence = self.end.sequence.min(other.end.sequence);
            return Agreement::UpTo { epoch, sequence, ours: None, theirs: None };
        }
        agreement(&self.epochs, self.end, &other.epochs, other.end)
    }
}
