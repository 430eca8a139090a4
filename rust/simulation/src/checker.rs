//! The checker: the answers and the messages that users got, in maps. It judges every promise by these alone, and not
//! by the state of the store.
//!
//! Facts are kept by sequence, and a log keeps a prefix of what was submitted. After a crash, facts below the first
//! sequence of the new epoch are in the log, and the rest is not.

mod administration;
mod deliveries;
mod drained;
mod facts;
mod moves;

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::store::Outcome;
use delaymq_core::units::{ConsumerNumber, GroupNumber, Millis, PullOffset, ReadyNumber, Sequence, SubjectNumber};

use crate::counts::counts;

pub use self::administration::{Expiry, GroupChange, SeenDead};
pub use self::deliveries::Seen;

/// The origin of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A message was published.
    Published,
    /// A message was given back.
    GivenBack {
        /// The next delivery is at least this one.
        attempt: u32,
    },
    /// A message was made a dead letter.
    Dead {
        /// How often it had been handed over.
        attempt: u32,
    },
}

/// Whether a move has made an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Made {
    /// Not by a move.
    Otherwise,
    /// By a move if the message was pending then, which is not known yet.
    Perhaps,
    /// By a move.
    ByMove,
}

/// Whether an entry was ready by its own fact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AtOnce {
    /// It was not.
    No,
    /// It was.
    Yes,
    /// It has no fact of its own, since it was loaded.
    Never,
}

/// A message that waits, has waited, or was ready at once.
#[derive(Clone)]
pub struct Entry {
    /// The subject that it becomes ready in.
    pub subject: SubjectNumber,
    /// The subject that its message was published to.
    pub published_to: SubjectNumber,
    /// Its due time.
    pub due: Millis,
    /// Its body.
    pub body: Vec<u8>,
    /// Its origin.
    pub origin: Origin,
    /// The reason of a dead letter.
    pub reason: Option<String>,
    /// When it expires, if it does.
    pub expiry: Option<delaymq_core::record::expire::Expiry>,
    /// The removal of its group, which voided it.
    ended: Option<Sequence>,
    /// The redrive of a dead letter.
    redriven: Option<Sequence>,
    /// The operation after which it was first seen applied.
    applied: Option<u64>,
    /// The operation in which a step might first have made it ready.
    steppable: Option<u64>,
    /// Whether it was ready by its own fact.
    at_once: AtOnce,
    /// The command that cancelled it.
    cancelled: Option<Sequence>,
    /// The command that moved it. Another entry has replaced it.
    moved: Option<Sequence>,
    /// Whether a move has made it.
    made: Made,
    /// A command found it dispatched.
    known_dispatched: bool,
    /// It was voided for damage.
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
            self.at_once == AtOnce::Yes,
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
            reason: None,
            expiry: None,
            ended: None,
            redriven: None,
            applied: None,
            steppable: None,
            at_once: AtOnce::No,
            cancelled: None,
            moved: None,
            made: Made::Otherwise,
            known_dispatched: false,
            voided: false,
        }
    }

    /// True if it has expired at this time, by the words of the promise.
    fn has_expired(&self, now: Millis) -> bool {
        self.expiry.is_some_and(|expiry| now >= expiry.at)
    }

    /// The same, loaded by a fact about many messages.
    pub fn loaded(mut self) -> Self {
        self.at_once = AtOnce::Never;
        self
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
    /// The group that was reset and which this one continues.
    after: Option<GroupNumber>,
}

/// A hand-over.
#[derive(Clone, Copy, Debug)]
struct HandOver {
    /// A power cut under `Durability::Os` may have lost its ready fact.
    before_loss: bool,
}

/// A cancel.
#[derive(Clone, Copy, Debug)]
struct CancelNote {
    target: Sequence,
    outcome: Option<Outcome>,
}

/// A move.
#[derive(Clone, Copy, Debug)]
struct MoveNote {
    target: Sequence,
    due: Millis,
    /// The delay that was asked for.
    delay_ms: Option<u64>,
    /// True for a move by key, which is valid only while the target has the key.
    is_by_key: bool,
    outcome: Option<Outcome>,
}

counts! {
    /// The counts of a history of a store.
    Counts {
        /// Messages published and known to be stored.
        published,
        /// Cancels answered "done".
        cancelled,
        /// Moves answered with a new receipt.
        moved,
        /// Hand-overs.
        delivered,
        /// Hand-overs of what had been handed over before.
        duplicated,
        /// Put away as dead letters, and known to be.
        dead,
        /// Brought back.
        redriven,
        /// Expired.
        expired,
        /// Expired by their own time when they were to be handed over.
        expired_by_themselves,
        /// Messages that filters kept back.
        filtered,
        /// Groups that were reset.
        resets,
        /// Groups that were removed with what they gave back.
        removals,
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Oracle {
    entries: BTreeMap<Sequence, Entry>,
    lives: BTreeMap<GroupNumber, Life>,
    cancels: BTreeMap<Sequence, CancelNote>,
    moves: BTreeMap<Sequence, MoveNote>,
    finishes: BTreeMap<(GroupNumber, Sequence), Sequence>,
    /// Expiries by entry.
    expiries: BTreeMap<Sequence, Vec<Expiry>>,
    /// The latest trusted time at which something was to be handed over.
    pub(super) latest: Millis,
    /// Everything below was applied.
    applied_end: Sequence,
    handed: BTreeMap<(GroupNumber, Sequence), Vec<HandOver>>,
    /// Messages that may come again: they were in flight at a crash or when their consumer ended.
    may_repeat: BTreeSet<(GroupNumber, Sequence)>,
    numbers: BTreeMap<(SubjectNumber, ReadyNumber), Sequence>,
    offsets: BTreeMap<(SubjectNumber, String, String), PullOffset>,
    /// For each consumer, the crashes before its last hand-over, and the offset that follows.
    dense: BTreeMap<(GroupNumber, ConsumerNumber), (u64, PullOffset)>,
    /// Offsets of messages that had expired when they were to be handed over.
    passed_over: BTreeSet<(GroupNumber, ConsumerNumber, PullOffset)>,
    visible: Sequence,
    crashes: u64,
    /// Messages were assigned and not handed over, so that a mark is right.
    a_hand_over_failed: bool,
    operation: u64,
    counts: Counts,
    violations: Vec<String>,
}

impl Oracle {
    /// The findings so far.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Adds a finding.
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
