//! The log of a copy as the protocol looks at it: where each epoch began, where it ends, and how much of it is durable.

use crate::message_log::{EpochEntry, HistoryEnd, LogPosition, note_epoch};
use crate::record::batch::BatchHeader;
use crate::replication::{History, LogView};
use crate::units::Sequence;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEnds {
    history: History,
    durable: Sequence,
}

impl LogEnds {
    /// A log that ends here, durably. `epochs` are all that it has up to there.
    pub fn new(epochs: Vec<EpochEntry>, end: &LogPosition) -> Self {
        let sequence = Sequence(end.next_sequence.0.saturating_sub(1));
        Self { history: History { epochs, end: HistoryEnd { sequence, chain: end.chain } }, durable: end.next_sequence }
    }

    /// Notes that a batch with facts was written.
    pub fn appended(&mut self, header: &BatchHeader) {
        note_epoch(&mut self.history.epochs, header);
        let sequence = Sequence(header.next_sequence().0.saturating_sub(1));
        self.history.end = HistoryEnd { sequence, chain: header.chain.get() };
    }

    /// Notes that the log was cut, and ends here, durably.
    pub(super) fn cut(&mut self, end: &LogPosition) {
        let mut epochs = std::mem::take(&mut self.history.epochs);
        epochs.retain(|entry| entry.first_sequence < end.next_sequence);
        *self = Self::new(epochs, end);
    }

    /// Notes that everything before this sequence is durable.
    pub fn synced(&mut self, durable: Sequence) {
        self.durable = self.durable.max(durable);
    }
}

impl LogView for LogEnds {
    fn history(&self) -> History {
        self.history.clone()
    }

    fn end(&self) -> Sequence {
        self.history.end.sequence.next()
    }

    fn durable(&self) -> Sequence {
        self.durable
    }
}
