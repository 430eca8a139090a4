//! What a fact says of the messages that follow it in its batch.

use std::collections::VecDeque;

use crate::planted::{Planted, is_on};
use crate::record::recurring::Occurrence;
use crate::record::terms::{MessageTerms, TermsLimits};
use crate::units::Sequence;

/// The terms that were read last, for the messages behind them. Nothing of it outlives its batch.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Standing {
    pub(in crate::store) first: Sequence,
    /// They hold below this.
    pub(in crate::store) end: Sequence,
    /// Nothing of the whole is stored.
    pub(in crate::store) is_refused: bool,
    pub(in crate::store) limits: TermsLimits,
    pub(in crate::store) rows: VecDeque<MessageTerms>,
}

impl Standing {
    /// True where terms hold for the message of this sequence.
    #[inline]
    pub(in crate::store) fn hold_for(&self, sequence: Sequence) -> bool {
        sequence < self.end && sequence >= self.first
    }

    /// The terms of the message of this sequence.
    pub(in crate::store) fn take(&mut self, sequence: Sequence) -> Option<MessageTerms> {
        if is_on(Planted::FirstTermsForAll) {
            return self.rows.front().copied();
        }
        let place = sequence.since(self.first);
        while self.rows.front().is_some_and(|row| u64::from(row.place) < place) {
            self.rows.pop_front();
        }
        let is_its = self.rows.front().is_some_and(|row| u64::from(row.place) == place);
        if is_its { self.rows.pop_front() } else { None }
    }
}

/// What the message behind an occurrence fact is judged by. Nothing of it outlives its batch.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Awaited {
    pub(in crate::store) message: Sequence,
    pub(in crate::store) occurrence: Occurrence,
}

impl Awaited {
    /// The message at this sequence is the one that it speaks of.
    #[inline]
    pub(in crate::store) fn is(self, sequence: Sequence) -> bool {
        self.message == sequence
    }
}
