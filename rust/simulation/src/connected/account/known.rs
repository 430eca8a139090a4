//! What users know of their cancels, moves and series.

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::units::{DueKey, Millis, Sequence};
use delaymq_core::wire::extension::publish::DueTime;

use crate::rhythm::Rhythm;

/// A cancel, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cancel {
    Asked,
    Done,
    Refused,
}

/// The moves of a receipt.
#[derive(Clone, Debug, Default)]
pub(super) struct Move {
    pub(super) asks: Vec<Ask>,
    /// The new receipt of the message by an answer, and the due time that was sent.
    pub(super) to: Option<(Sequence, DueTime)>,
}

/// A move, however often it was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) due: DueTime,
    /// The earliest due time.
    pub(super) not_before: Millis,
    /// How often it was sent.
    pub(super) sent: usize,
    /// How many of these were not answered.
    pub(super) open: usize,
}

impl Ask {
    /// True if this move may give this due time. No clock of the server is ahead of `now`.
    pub(super) fn fits(&self, due: Millis, now: Millis) -> bool {
        match self.due {
            DueTime::At(time) => due == time,
            DueTime::After(delay_ms) => due >= self.not_before && due <= now.plus(delay_ms),
        }
    }
}

/// A series as its user knows it.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) subject: String,
    pub(super) name: String,
    pub(super) body: Vec<u8>,
    pub(super) rhythm: Rhythm,
    /// It had certainly begun at this time. Earlier times of its rule are not caught up.
    pub(super) begun: Option<Millis>,
    /// Its user has sent a request that ends it.
    pub(super) is_over: bool,
    /// It had certainly ended at this time.
    pub(super) ended: Option<Millis>,
    /// No occurrence was due any more at this time of the store, and the series went on.
    pub(super) rested: Option<Millis>,
    /// The occurrences that came, by the time of the rule.
    pub(super) came: BTreeMap<Millis, Sequence>,
    /// Pending messages that answers have named.
    pub(super) waited: Vec<DueKey>,
}

/// All series.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    /// By the numbers in their bodies.
    pub(super) all: BTreeMap<u64, Told>,
    /// Names of series whose answers were lost, so that the living series is not known.
    pub(super) unknown: BTreeSet<String>,
}

impl Series {
    pub(super) fn is_of(&self, number: u64) -> bool {
        self.all.contains_key(&number)
    }

    pub(super) fn named(&mut self, name: &str) -> impl Iterator<Item = &mut Told> {
        self.all.values_mut().filter(move |told| told.name == name)
    }
}
