//! One history: a machine, a store, its users, and their troubles, all from one seed.

mod administration;
mod asked;
mod by_keys;
mod commands;
mod consumers;
mod drain;
mod extremes;
mod keys;
mod loads;
mod machine;
mod members;
mod operations;
mod plan;
mod previews;
mod producers;
mod rebuilds;
mod recurring;
mod retries;
mod together;

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::error::{Error, Result};
use delaymq_core::store::{RebuildCounts, Receipt};
use delaymq_core::units::{DueKey, Epoch, Millis, Sequence, SubjectNumber};

use self::asked::{Ask, Assigned, ByKeys, Change, Command, Handle, Kept, Keyed, Loading, Promised, Recurs};
use self::members::Together;
pub use self::plan::Plan;
use crate::chance::{Chance, TraceHash};
use crate::checker::{Counts, Entry, Oracle, Origin};
use crate::clock::SimulatedClock;
use crate::disk::Disk;
use crate::node::{Due, Label, Node, Place, Punched};
use crate::planted::Lowered;
use crate::replica::Replica;

/// Where the wall clock starts.
const START: Millis = Millis(1_700_000_000_000);

/// How a history ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// The digest of all that happened.
    pub hash: u64,
    /// Operations done.
    pub operations: u64,
    /// Times the machine or the process ended.
    pub crashes: u64,
    /// What was counted.
    pub counts: Counts,
    /// The most that one life of the store has punched.
    pub punched: Punched,
    /// How many messages were rebuilt, and how many of them only as they were.
    pub rebuilt: (u64, u64),
    /// What is wrong.
    pub violations: Vec<String>,
    /// The expanded options.
    pub plan: Plan,
    /// What happened, where it was asked for.
    pub trace: Vec<String>,
}

/// See the module.
pub struct World {
    plan: Plan,
    chance: Chance,
    clock: SimulatedClock,
    disk: Disk,
    node: Option<Node>,
    oracle: Oracle,
    replica: Option<Replica>,
    handles: Vec<Handle>,
    together: Together,
    /// Deliveries that consumers hold, as far as they know.
    assigned: BTreeMap<(u32, u32, u64), Assigned>,
    /// Deliveries that a crash or the end of their consumer made void.
    stale: Vec<Assigned>,
    /// A checkpoint that cannot be read for now, and its bytes as they are meanwhile.
    unreadable: Option<(String, Vec<u8>)>,
    /// The promises of a store that was closed.
    left: Option<Promised>,
    /// Messages may have been assigned that no consumer was handed.
    a_pull_failed: bool,
    /// Consumers that could not get their deliveries again when the store was opened.
    hands_wait: BTreeSet<Place>,
    /// A call of the next opening may fail.
    a_fault_is_planned: bool,
    receipts: Vec<Kept>,
    /// Commands and publishes whose outcome is not known yet.
    commands: BTreeMap<Sequence, Command>,
    /// A move to send once more.
    asked_again: Option<(Receipt, Due)>,
    keyed: Keyed,
    by_keys: ByKeys,
    recurs: Recurs,
    loading: Loading,
    /// Chance of rebuilding, of its own so that the rest of a history does not depend on it.
    rebuilding: Chance,
    /// Chance that messages expire, for the same reason.
    expiring: Chance,
    /// Chance of previews, for the same reason.
    looking: Chance,
    /// Rebuilt messages.
    rebuilt: RebuildCounts,
    /// Facts of operators whose outcome is not known yet.
    changes: BTreeMap<Sequence, Change>,
    dues: BTreeSet<Millis>,
    asks: BTreeMap<u64, Ask>,
    next_ask: u64,
    next_body: u64,
    operation: u64,
    crashes: u64,
    /// The most that one life of the store has punched.
    punched: Punched,
    /// The epoch of the last opening that succeeded.
    epoch: Epoch,
    trace: TraceHash,
    told: Option<Vec<String>>,
}

impl World {
    /// A world before its first operation. With `tells` it keeps what happens, in words.
    pub fn new(seed: u64, tells: bool) -> Self {
        Self::of(seed, Self::plan_of(seed), tells)
    }

    /// The plan of a seed.
    pub fn plan_of(seed: u64) -> Plan {
        Plan::of(&mut Chance::new(seed))
    }

    /// The world of a seed with another plan than its own.
    pub fn of(seed: u64, plan: Plan, tells: bool) -> Self {
        let mut chance = Chance::new(seed);
        Plan::of(&mut chance);
        Self::with_plan(plan, chance, tells)
    }

    /// A world with another plan than its seed's.
    pub fn with_plan(plan: Plan, mut chance: Chance, tells: bool) -> Self {
        let disk = Disk::new(chance.next_number());
        Self {
            plan,
            clock: SimulatedClock::at_rate(START, plan.wall_rate),
            disk,
            node: None,
            oracle: Oracle::default(),
            replica: None,
            together: Together::of(&consumers::handles_of(&plan)),
            handles: consumers::handles_of(&plan),
            assigned: BTreeMap::new(),
            stale: Vec::new(),
            unreadable: None,
            left: None,
            a_pull_failed: false,
            hands_wait: BTreeSet::new(),
            a_fault_is_planned: false,
            receipts: Vec::new(),
            commands: BTreeMap::new(),
            asked_again: None,
            keyed: Keyed::default(),
            by_keys: ByKeys::default(),
            recurs: Recurs::default(),
            loading: Loading::default(),
            rebuilding: Chance::new(chance.clone().next_number()),
            expiring: Chance::new(chance.clone().next_number() ^ 0xE4B1_4E5F),
            looking: Chance::new(Chance::new(chance.clone().next_number()).next_number()),
            rebuilt: RebuildCounts::default(),
            changes: BTreeMap::new(),
            dues: BTreeSet::new(),
            asks: BTreeMap::new(),
            next_ask: 1,
            next_body: 1,
            operation: 0,
            crashes: 0,
            punched: Punched::default(),
            epoch: Epoch(0),
            trace: TraceHash::default(),
            told: tells.then(Vec::new),
            chance,
        }
    }

    /// Lives the whole history.
    pub fn run(mut self) -> Ending {
        let plan = self.plan;
        let _lowered = Lowered::to(plan.ended_cells_max);
        self.open();
        while self.operation < self.plan.operations && self.is_sound() {
            self.operation += 1;
            self.oracle.begin_operation(self.operation);
            self.act();
            self.collect();
            if self.chance.percent(self.plan.settle_percent) {
                self.settle();
            }
        }
        self.drain();
        Ending {
            hash: self.trace.value(),
            operations: self.operation,
            crashes: self.crashes,
            counts: self.oracle.counts(),
            punched: self.punched,
            rebuilt: (self.rebuilt.same.saturating_add(self.rebuilt.kept), self.rebuilt.kept),
            violations: self.oracle.violations().to_vec(),
            plan,
            trace: self.told.unwrap_or_default(),
        }
    }

    fn is_sound(&self) -> bool {
        self.oracle.violations().is_empty()
    }

    /// Takes what happened into the trace.
    fn note(&mut self, words: &str) {
        self.trace.add(words);
        if let Some(told) = &mut self.told {
            told.push(format!("{:>4} {words}", self.operation));
        }
    }

    fn ask(&mut self, ask: Ask) -> u64 {
        let number = self.next_ask;
        self.next_ask += 1;
        self.asks.insert(number, ask);
        number
    }

    /// Takes in what the store has done: sequences of facts, what is visible, what was applied and answered.
    fn collect(&mut self) {
        let Some(node) = &mut self.node else { return };
        let punched = node.punched();
        self.punched.segment_bytes = self.punched.segment_bytes.max(punched.segment_bytes);
        self.punched.run_bytes = self.punched.run_bytes.max(punched.run_bytes);
        let sent = node.take_sent();
        let applied = node.take_applied();
        let woken = node.take_woken();
        let visible = node.commits().visible().sequence;
        for fact in sent {
            if let Label::Asked(number) = fact.label
                && let Some(ask) = self.asks.remove(&number)
            {
                self.ask_was_sent(ask, Sequence(fact.sequences.end.0.saturating_sub(1)));
            }
        }
        self.oracle.became_visible(visible);
        for batch in &applied {
            self.oracle.applied(batch);
            self.trace.add_number(u64::from(batch.header.chain.get()));
            if let Some(Err(error)) = self.replica.as_mut().map(|replica| replica.apply(batch)) {
                self.oracle.blame(format!("the replica cannot apply {:?}: {error}", batch.header));
            }
        }
        self.hear_answers();
        self.wake_queues(&woken);
    }

    fn ask_was_sent(&mut self, ask: Ask, fact: Sequence) {
        match ask {
            Ask::Assign(assigned) => self.was_assigned(&assigned, fact),
            Ask::Judge { group, passed_over, assigned } => {
                self.was_assigned(&assigned, fact);
                for entry in passed_over {
                    self.oracle.finished(group, entry, fact);
                }
            }
            Ask::Finish { group, entries } => {
                for entry in entries {
                    self.oracle.finished(group, entry, fact);
                }
            }
            Ask::GiveBack { group, entry, again } => {
                self.dues.insert(again.due);
                self.oracle.finished(group, entry, fact);
                self.oracle.submitted(fact, *again);
            }
            Ask::EndGroup(group) => self.oracle.group_ends(group, fact),
            Ask::Nothing => {}
        }
    }

    fn was_assigned(&mut self, assigned: &[Assigned], fact: Sequence) {
        for one in assigned {
            if let Some(known) = self.assigned.get_mut(&one.key()) {
                known.fact = Some(fact);
            }
        }
    }

    fn hear_answers(&mut self) {
        let Some(node) = &mut self.node else { return };
        let mut heard = Vec::new();
        for command in self.commands.keys() {
            if let Some(outcome) = node.take_outcome(*command) {
                heard.push((*command, outcome));
            }
        }
        for (command, outcome) in heard {
            self.note(&format!("command {command} is answered {outcome:?}"));
            self.command_answered(command, outcome);
        }
        self.hear_of_changes(|world, fact| world.node.as_mut().and_then(|node| node.take_outcome(fact)));
        self.hear_of_consumers();
    }

    /// Calls the store, if one is open, and survives an error.
    fn call<T>(&mut self, what: &str, call: impl FnOnce(&mut Node) -> Result<T>) -> Option<T> {
        let result = call(self.node.as_mut()?);
        self.survive(what, result)
    }

    /// The result of a call, unless it failed. If the machine ended in it, or the store is poisoned, opens another one.
    fn survive<T>(&mut self, what: &str, result: Result<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        self.note(&format!("{what}: {error}"));
        let poisoned = self.node.as_ref().is_none_or(|node| node.commits().poison().is_some());
        if self.disk.storage().is_stopped() {
            self.crash();
        } else if poisoned {
            if matches!(error, Error::Corrupt { .. } | Error::MissingFile { .. }) {
                self.oracle.blame(format!("{what}: {error}"));
            }
            self.collect();
            self.crash();
        } else if matches!(error, Error::BelowMark { .. }) {
            self.check_refusal();
        } else if !matches!(error, Error::Storage { .. } | Error::DiskFull) {
            self.oracle.blame(format!("{what}: {error}"));
        }
        None
    }

    /// The receipt of a message after it was moved.
    fn receipt_of(&self, key: DueKey, before: &Receipt) -> Option<Receipt> {
        self.receipt_under(key, before.subject, before.size)
    }

    /// The receipt of a message of this key.
    fn receipt_under(&self, key: DueKey, subject: SubjectNumber, size: u32) -> Option<Receipt> {
        let books = self.node.as_ref().map(|node| node.owner().receipt_book());
        let books = books.or_else(|| self.replica.as_ref().map(|replica| replica.owner().receipt_book()));
        books?.receipt_of(key, subject, size)
    }

    fn entry(subject: SubjectNumber, due: Millis, body: &[u8]) -> Entry {
        Entry::new(subject, due, body, Origin::Published)
    }
}
