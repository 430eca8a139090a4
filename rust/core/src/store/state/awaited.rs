//! Terms and occurrences: what a fact says of the messages that follow it in its batch.

use std::collections::VecDeque;

use crate::planted::{Planted, is_on};
use crate::record::recurring::Occurrence;
use crate::record::terms::{MessageTerms, TermsLimits};
use crate::units::Sequence;

/// The terms that were read last, for the messages after them. They never outlive their batch.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Standing {
    pub(in crate::store) first: Sequence,
    /// The terms hold for sequences below this.
    pub(in crate::store) end: Sequence,
    /// True if the terms are refused: none of their messages and commands takes effect.
    pub(in crate::store) is_refused: bool,
    pub(in crate::store) limits: TermsLimits,
    pub(in crate::store) rows: VecDeque<MessageTerms>,
}

impl Standing {
    /// True if terms hold for the message of this sequence.
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

/// The occurrence fact by which the message after it is judged. It never outlives its batch.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Awaited {
    pub(in crate::store) message: Sequence,
    pub(in crate::store) occurrence: Occurrence,
}

impl Awaited {
    /// True if the message at this sequence is the occurrence.
    #[inline]
    pub(in crate::store) fn is(self, sequence: Sequence) -> bool {
        self.message == sequence
    }
}
