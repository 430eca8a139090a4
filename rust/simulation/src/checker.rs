//! What users were told and what they saw, in maps: every promise is judged against this and
//! against nothing that the store says of itself.
//!
//! Facts stand here under their sequences, and a log keeps a prefix of what was submitted: after a
//! crash, what lies below the first sequence of the new epoch is in, the rest is out.

mod deliveries;
mod drained;
mod facts;

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::store::Outcome;
use delaymq_core::units::{GroupNumber, Millis, PullOffset, ReadyNumber, Sequence, SubjectNumber};

pub use self::deliveries::Seen;

/// How an entry came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A message was published.
    Published,
    /// A message was given back.
    GivenBack {
        /// The next delivery is at least this one.
        attempt: u32,
    },
}

/// A message that waits, waited, or was ready at once.
#[derive(Clone)]
pub struct Entry {
    /// The subject that it becomes ready in.
    pub subject: SubjectNumber,
    /// The subject that its message was published to.
    pub published_to: SubjectNumber,
    /// When it is due.
    pub due: Millis,
    /// Its body.
    pub body: Vec<u8>,
    /// How it came to be.
    pub origin: Origin,
    /// When, in operations, it was first seen applied.
    applied: Option<u64>,
    /// When, in operations, a step might first have made it ready.
    steppable: Option<u64>,
    /// True where it was ready by its own fact.
    immediate: bool,
    /// The command that cancelled it.
    cancelled: Option<Sequence>,
    /// A command found it dispatched.
    known_dispatched: bool,
    /// It was given up for damage.
    voided: bool,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = self.body.first_chunk::<8>().map_or(0, |number| u64::from_le_bytes(*number));
        let words = format!(
            "message {body} to {} in {} due {}, {:?}, applied {:?}, steppable {:?}, immediate {}, cancelled {:?}",
            self.published_to,
            self.subject,
            self.due,
            self.origin,
            self.applied,
            self.steppable,
            self.immediate,
            self.cancelled
        );
        formatter.write_str(&words)
    }
}

impl Entry {
    /// An entry that was just submitted.
    pub fn new(subject: SubjectNumber, due: Millis, body: &[u8], origin: Origin) -> Self {
        Self {
            subject,
            published_to: subject,
            due,
            body: body.to_vec(),
            origin,
            applied: None,
            steppable: None,
            immediate: false,
            cancelled: None,
            known_dispatched: false,
            voided: false,
        }
    }
}

/// One life of a group.
#[derive(Clone, Debug)]
struct Life {
    subject: SubjectNumber,
    created: Sequence,
    ended: Option<Sequence>,
    from_latest: bool,
    retries: bool,
    crashes: u64,
}

/// A hand-over.
#[derive(Clone, Copy, Debug)]
struct HandOver {
    /// It may have been of a ready fact that a power cut lost under `Durability::Os`.
    before_loss: bool,
}

/// What was asked to be cancelled.
#[derive(Clone, Copy, Debug)]
struct CancelNote {
    target: Sequence,
    outcome: Option<Outcome>,
}

/// Everything counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Messages published and known to be stored.
    pub published: u64,
    /// Cancels answered "done".
    pub cancelled: u64,
    /// Hand-overs.
    pub delivered: u64,
    /// Hand-overs of what had been handed over before.
    pub duplicated: u64,
    /// Acknowledged.
    pub acknowledged: u64,
    /// Given back.
    pub given_back: u64,
    /// Voided for damage.
    pub voided: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Oracle {
    entries: BTreeMap<Sequence, Entry>,
    lives: BTreeMap<GroupNumber, Life>,
    cancels: BTreeMap<Sequence, CancelNote>,
    finishes: BTreeMap<(GroupNumber, Sequence), Sequence>,
    handed: BTreeMap<(GroupNumber, Sequence), Vec<HandOver>>,
    /// What may come again: it was in flight at a crash or when its consumer ended.
    may_repeat: BTreeSet<(GroupNumber, Sequence)>,
    numbers: BTreeMap<(SubjectNumber, ReadyNumber), Sequence>,
    offsets: BTreeMap<(SubjectNumber, String, String), PullOffset>,
    visible: Sequence,
    crashes: u64,
    /// Something was assigned and not handed over: its mark is right.
    a_hand_over_failed: bool,
    operation: u64,
    counts: Counts,
    violations: Vec<String>,
}

impl Oracle {
    /// What is wrong so far.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Notes that something is wrong.
    pub fn blame(&mut self, what: String) {
        self.violations.push(what);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Everything below this sequence was answered.
    pub fn visible(&self) -> Sequence {
        self.visible
    }

    /// A new operation begins.
    pub fn begin_operation(&mut self, operation: u64) {
        self.operation = operation;
    }
}
