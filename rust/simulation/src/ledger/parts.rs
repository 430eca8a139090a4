//! What the ledger keeps of keys, series and loads. It forgets nothing.

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::record::recurring::Occurrence;
use delaymq_core::record::terms::{MessageTerms, NameHash, TermsLimits};
use delaymq_core::run::LoadName;
use delaymq_core::store::{Outcome, Recurs};
use delaymq_core::units::{DueKey, Millis, Sequence, SubjectNumber};

/// A message that came with a key or an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Came {
    pub(super) due: DueKey,
    pub(super) subject: SubjectNumber,
    pub(super) size: u32,
}

impl Came {
    /// Known of a command by key that found nothing.
    pub(super) const NOTHING: Self = Self::no_message(0);
    /// Known of a command by key that came too late.
    pub(super) const TOO_LATE: Self = Self::no_message(1);

    const fn no_message(due: u64) -> Self {
        Self { due: DueKey { due: Millis(due), sequence: Sequence(0) }, subject: SubjectNumber(0), size: 0 }
    }
}

/// The message that was published under an id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) message: Came,
    pub(super) until: Millis,
}

/// Keys and ids.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) now: Millis,
    /// Every stored message with a key, also under its new keys after moves, in order.
    pub(super) keyed: Vec<(NameHash, Came)>,
    /// The last message that became ready under each key, unless another one has it since, and until when that is known.
    pub(super) dispatched: Vec<(NameHash, Known)>,
    /// In log order.
    pub(super) ids: Vec<(NameHash, Known)>,
    /// The terms of the messages of this batch, by sequence, and whether all are refused.
    pub(super) standing: BTreeMap<Sequence, Option<MessageTerms>>,
    pub(super) limits: TermsLimits,
    pub(super) is_refused: bool,
    /// Commands that got the outcome of an earlier one under their id.
    pub(super) known_again: BTreeSet<Sequence>,
}

impl Names {
    pub(super) fn begin_batch(&mut self, trusted: Millis) {
        self.now = trusted;
        self.standing.clear();
    }

    /// A message with a key became ready.
    pub(super) fn becomes_ready(&mut self, sequence: Sequence) {
        let keyed = self.keyed.iter().find(|(_, came)| came.due.sequence == sequence).copied();
        let Some((key, message)) = keyed else { return };
        self.is_taken(key);
        let max = self.limits.keys_max as usize;
        while self.dispatched.len() >= max.max(1) {
            let first = self.dispatched.iter().enumerate();
            let first = first.min_by_key(|(_, (_, known))| (known.until, known.message.due.sequence));
            let Some((place, _)) = first else { return };
            self.dispatched.remove(place);
        }
        if max > 0 {
            self.dispatched.push((key, Known { message, until: self.now.plus(self.limits.id_window_ms) }));
        }
    }

    /// A new pending message has this key.
    pub(super) fn is_taken(&mut self, key: NameHash) {
        self.dispatched.retain(|(other, _)| *other != key);
    }

    /// The message that became ready under this key, while that is known.
    pub(super) fn dispatched(&self, key: NameHash) -> Option<Came> {
        let mut of_it = self.dispatched.iter().filter(|(other, _)| *other == key);
        of_it.next().filter(|(_, known)| self.now < known.until).map(|(_, known)| known.message)
    }

    /// How many ids are remembered. All ids of one history are remembered equally long.
    pub(super) fn count(&self) -> usize {
        let known: BTreeSet<NameHash> = self.ids.iter().map(|(id, _)| *id).collect();
        known.into_iter().filter(|id| self.known(*id).is_some()).count()
    }

    pub(super) fn known(&self, id: NameHash) -> Option<Came> {
        let mut known = self.ids.iter().rev().filter(|(other, _)| *other == id);
        known.next().filter(|(_, known)| self.now < known.until).map(|(_, known)| known.message)
    }
}

/// One series.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) number: Sequence,
    pub(super) recurs: Recurs,
    pub(super) after: Millis,
    pub(super) occurrences: Vec<DueKey>,
    pub(super) is_over: bool,
}

/// All series that ever began.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    pub(super) all: Vec<Told>,
    /// The message that the last occurrence fact speaks of, and the occurrence.
    pub(super) standing: Option<(Sequence, Occurrence)>,
}

impl Series {
    pub(super) fn living(&mut self, is_it: impl Fn(&Told) -> bool) -> Option<&mut Told> {
        self.all.iter_mut().find(|one| !one.is_over && is_it(one))
    }
}

impl Told {
    pub(super) fn last_due(&self) -> Millis {
        self.occurrences.last().map_or(self.after, |key| key.due)
    }
}

/// A message in a staged run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StagedLine {
    /// The name of its subject.
    pub subject: String,
    /// Its due time.
    pub due: Millis,
    /// Bytes of its body.
    pub size: u32,
}

/// Bulk loads.
#[derive(Clone, Debug, Default)]
pub(super) struct Loads {
    pub(super) now: Millis,
    pub(super) staged: BTreeMap<LoadName, Vec<StagedLine>>,
    pub(super) done: Vec<(NameHash, Outcome, Millis)>,
    pub(super) adopted: Vec<LoadName>,
}
