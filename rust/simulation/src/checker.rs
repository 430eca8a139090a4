//! The checker: what users were told and what they saw, in maps. Every promise is judged by it, and by nothing that the
//! store says of itself.
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

pub use self::administration::{Expiry, GroupChange, SeenDead};
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
    /// A message was put away among the dead letters.
    Dead {
        /// How often it had been handed over.
        attempt: u32,
    },
}

/// What a move has to do with an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Made {
    /// No move has made it.
    Otherwise,
    /// A move has made it, if it found the message pending: that is not known yet.
    Perhaps,
    /// A move has made it.
    ByMove,
}

/// Whether an entry was ready by its own fact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AtOnce {
    /// It was not.
    No,
    /// It was.
    Yes,
    /// It has none: it was loaded.
    Never,
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
    /// Why it died.
    pub reason: Option<String>,
    /// The removal that gave it up: the group it was of is gone.
    ended: Option<Sequence>,
    /// The fact that brought it back, of a dead letter.
    redriven: Option<Sequence>,
    /// When, in operations, it was first seen applied.
    applied: Option<u64>,
    /// When, in operations, a step might first have made it ready.
    steppable: Option<u64>,
    /// Whether it was ready by its own fact.
    at_once: AtOnce,
    /// The command that cancelled it.
    cancelled: Option<Sequence>,
    /// The command that moved it to another time: another entry stands for it.
    moved: Option<Sequence>,
    /// Whether a move has made it.
    made: Made,
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

    /// The same, loaded by a fact that speaks of many.
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
    /// It goes on from this one, which was reset.
    after: Option<GroupNumber>,
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

/// What was asked to be moved to another time.
#[derive(Clone, Copy, Debug)]
struct MoveNote {
    target: Sequence,
    due: Millis,
    /// The delay that was asked for.
    delay_ms: Option<u64>,
    /// True where it was asked by a key, and so only as long as the target has that.
    is_by_key: bool,
    outcome: Option<Outcome>,
}

/// Everything counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Messages published and known to be stored.
    pub published: u64,
    /// Cancels answered "done".
    pub cancelled: u64,
    /// Moves answered with a new receipt.
    pub moved: u64,
    /// Hand-overs.
    pub delivered: u64,
    /// Hand-overs of what had been handed over before.
    pub duplicated: u64,
    /// Put away as dead letters, and known to be.
    pub dead: u64,
    /// Brought back.
    pub redriven: u64,
    /// Expired.
    pub expired: u64,
    /// Groups that were reset.
    pub resets: u64,
    /// Groups that were removed with what they gave back.
    pub removals: u64,
}

impl Counts {
    /// Adds those of another history.
    pub fn add(&mut self, other: Self) {
        self.published += other.published;
        self.cancelled += other.cancelled;
        self.moved += other.moved;
        self.delivered += other.delivered;
        self.duplicated += other.duplicated;
        self.dead += other.dead;
        self.redriven += other.redriven;
        self.expired += other.expired;
        self.resets += other.resets;
        self.removals += other.removals;
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
    /// What was let expire, by entry.
    expiries: BTreeMap<Sequence, Vec<Expiry>>,
    /// Everything below was applied.
    applied_end: Sequence,
    handed: BTreeMap<(GroupNumber, Sequence), Vec<HandOver>>,
    /// What may come again: it was in flight at a crash or when its consumer ended.
    may_repeat: BTreeSet<(GroupNumber, Sequence)>,
    numbers: BTreeMap<(SubjectNumber, ReadyNumber), Sequence>,
    offsets: BTreeMap<(SubjectNumber, String, String), PullOffset>,
    /// After how many crashes a consumer was handed something last, and the offset that follows.
    dense: BTreeMap<(GroupNumber, ConsumerNumber), (u64, PullOffset)>,
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
