//! A machine with the store of the core on a simulated disk: a follower while another node leads, and a store with users while this
//! one does.

mod judgement;
mod loads;
mod opening;
mod sending;
mod upkeep;
mod users;
mod written;

use delaymq_core::error::{Error, Result};
use delaymq_core::replication::{FilePart, FilePlace, History, LogView, NodeId, Promise, SnapshotOffer};
use delaymq_core::run::{LOAD_FOLDER, StagedRun};
use delaymq_core::storage::names_in;
use delaymq_core::store::{CHECKPOINT_FOLDER, Follower, FollowerParts, LogEnds, Owner, read_identity};
use delaymq_core::units::{Epoch, Millis, Sequence};

use self::opening::{BEGIN, adopt, load_parts_of, make_store, open, options, receive_load};
use self::sending::{Outgoing, remove_pins};
use self::upkeep::Upkeep;
use self::users::Users;
use super::machine::{Answered, Machine, Marks};
use super::plan::Plan;
use crate::chance::Chance;
use crate::clock::ClockReading;
use crate::disk::{Disk, End};
use crate::node::{AppliedBatch, Node, NodeOptions, is_stopped};

/// Bytes of one message with batches.
const SHIPMENT_BYTES_MAX: usize = 2 << 10;

enum Role {
    /// The process does not run, or has failed.
    Down,
    Following(Box<Follower>),
    Leading(Box<Node>),
}

/// See the module.
pub struct StoreMachine {
    disk: Disk,
    random: Chance,
    role: Role,
    marks: Marks,
    /// The batches of the log, also those that it does not have any more.
    batches: Vec<AppliedBatch>,
    /// The batches of the snapshot that was adopted last.
    received: Vec<AppliedBatch>,
    /// True if finished messages are not kept.
    retention: bool,
    upkeep: Upkeep,
    outgoing: Outgoing,
    /// The files at which the last append has stopped.
    lacking: Vec<StagedRun>,
    /// How many were finished.
    checkpoints: u64,
    users: Users,
    /// The true time.
    now_ms: u64,
    /// How far the wall clock is ahead of it.
    ahead_ms: i64,
    /// The simulated machine has ended in the middle of a call.
    has_stopped: bool,
    violations: Vec<String>,
}

impl StoreMachine {
    /// A call has failed, so the process ends. It may do that only where the machine was stopped.
    fn fail(&mut self, what: &str, error: &Error) {
        self.role = Role::Down;
        self.has_stopped |= is_stopped(error);
        if !self.has_stopped {
            self.violations.push(format!("{what}: {error}"));
        }
    }

    fn is_well(&mut self, what: &str, result: Result<()>) -> bool {
        result.inspect_err(|error| self.fail(what, error)).is_ok()
    }

    fn clock(&self) -> ClockReading {
        let wall = Millis(BEGIN.plus(self.now_ms).0.saturating_add_signed(self.ahead_ms));
        ClockReading { wall, boot_ns: self.now_ms.saturating_mul(1_000_000) }
    }

    fn ends(&self) -> Option<&LogEnds> {
        match &self.role {
            Role::Down => None,
            Role::Following(follower) => Some(follower.ends()),
            Role::Leading(node) => Some(node.ends()),
        }
    }

    fn owner(&self) -> Option<&Owner> {
        match &self.role {
            Role::Down => None,
            Role::Following(follower) => Some(follower.owner()),
            Role::Leading(node) => Some(node.owner()),
        }
    }

    /// True if a node that has nothing gets files, as a store of the engine decides it.
    fn has_files(&self) -> bool {
        let is_there = |folder| names_in(self.disk.storage(), folder).is_ok_and(|names| !names.is_empty());
        is_there(CHECKPOINT_FOLDER) || is_there(LOAD_FOLDER)
    }

    fn lead(&mut self, parts: FollowerParts, epoch: Epoch) -> Result<Node> {
        let storage = self.disk.shared();
        let identity = read_identity(storage.as_ref())?;
        let now = self.clock();
        // The nodes have compared their clocks.
        let options = NodeOptions { clock_ahead_ms: self.ahead_ms, ..options(self.retention) };
        Node::lead((storage, options, identity), (parts, self.upkeep.checkpoint.take()), epoch, (now, &mut self.random))
    }
}

impl Machine for StoreMachine {
    fn new(id: NodeId, seed: u64, plan: &Plan) -> Self {
        let disk = Disk::new(seed);
        let violations = make_store(&disk, id).err().map(|error| format!("no store: {error}"));
        Self {
            disk,
            random: Chance::new(seed),
            role: Role::Down,
            marks: Marks::default(),
            batches: Vec::new(),
            received: Vec::new(),
            retention: plan.retention,
            upkeep: Upkeep::default(),
            outgoing: Outgoing::default(),
            lacking: Vec::new(),
            checkpoints: 0,
            users: Users::new(plan.retention),
            now_ms: 0,
            ahead_ms: 0,
            has_stopped: false,
            violations: violations.into_iter().collect(),
        }
    }

    fn marks(&self) -> &Marks {
        &self.marks
    }

    fn start(&mut self) -> Sequence {
        self.follow_from_disk();
        let removed = remove_pins(self.disk.shared().as_ref());
        self.is_well("pins cannot be removed", removed);
        self.owner().map_or(Sequence(1), Owner::applied)
    }

    fn crash(&mut self, chance: &mut Chance) {
        (self.role, self.upkeep, self.has_stopped) = (Role::Down, Upkeep::default(), false);
        self.outgoing = Outgoing::default();
        self.users.forget();
        let end = match chance.below(4) {
            0 | 1 => End::Kill,
            2 => End::PowerCut,
            _ => End::PowerCutLosesAll,
        };
        self.disk.crash(end, chance);
        let opened = open(&self.disk, true, self.retention).and_then(|follower| self.cut_marks(&follower));
        self.is_well(&format!("the copy cannot be opened after {end:?}"), opened);
    }

    fn promise(&self) -> Promise {
        let identity = read_identity(self.disk.copy().as_ref());
        identity.map_or(Promise::default(), |identity| identity.promise())
    }

    fn keep_promise(&mut self, promise: Promise) -> bool {
        let storage = self.disk.shared();
        let kept =
            read_identity(storage.as_ref()).and_then(|identity| identity.keep_promise(storage.as_ref(), promise));
        self.is_well("a promise cannot be kept", kept.map(drop))
    }

    fn sync(&mut self) -> bool {
        let was = self.durable();
        let synced = match &mut self.role {
            Role::Down => return false,
            Role::Following(follower) => follower.sync(),
            Role::Leading(node) => node.sync(),
        };
        self.is_well("a sync failed", synced) && self.durable() > was
    }

    fn follow(&mut self) {
        if matches!(self.role, Role::Leading(_)) {
            self.users.forget();
            let ended = self.outgoing.end(self.disk.shared().as_ref());
            self.follow_from_disk();
            self.is_well("pins cannot be removed", ended);
        }
    }

    fn begin(&mut self, epoch: Epoch) {
        let Role::Following(follower) = std::mem::replace(&mut self.role, Role::Down) else {
            self.violations.push(format!("epoch {epoch} begins, and there is no follower"));
            return;
        };
        match self.lead(follower.lead(), epoch) {
            Ok(node) => self.role = Role::Leading(Box::new(node)),
            Err(error) => self.fail(&format!("epoch {epoch} cannot begin"), &error),
        }
        self.note_own();
    }

    fn look(&mut self, now_ms: u64, ahead_ms: i64) {
        (self.now_ms, self.ahead_ms) = (now_ms, ahead_ms);
        let clock = self.clock();
        if let Role::Leading(node) = &mut self.role {
            node.look(clock);
        }
    }

    fn work(&mut self, accepts: bool, calls: u64, chance: &mut Chance) {
        let true_now = BEGIN.plus(self.now_ms);
        for _ in 0..calls {
            let Role::Leading(node) = &mut self.role else { return };
            let mut worked = self.users.work((node, true_now, accepts), chance, &mut self.violations);
            // What users ask for goes into one batch with what others do, or not.
            if worked.is_ok() && chance.percent(60) {
                worked = node.write_batch().map(drop);
            }
            self.is_well("a user's call failed", worked);
            self.note_own();
        }
    }

    fn tend(&mut self, chance: &mut Chance) {
        let budget_bytes = chance.one_of(&[1, 500, 20_000]);
        let (storage, now) = (self.disk.shared(), self.clock().wall);
        let tended = match &mut self.role {
            Role::Down => return,
            Role::Leading(node) => self.outgoing.tend(storage.as_ref(), now).and_then(|()| {
                node.begin_checkpoint();
                node.checkpoint_piece(budget_bytes)
            }),
            Role::Following(follower) => self.upkeep.tend(follower, &storage, (now, budget_bytes)),
        };
        self.checkpoints += u64::from(matches!(tended, Ok(true)));
        self.is_well("a checkpoint failed", tended.map(drop));
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        let Role::Following(follower) = &mut self.role else { return false };
        let (appended, end) = (follower.append(bytes), follower.ends().end());
        let damaged = follower.take_damaged().into_iter();
        self.violations.extend(damaged.map(|damaged| format!("message {} came damaged", damaged.sequence)));
        self.note_written(bytes, end);
        match appended.map(|lacking| self.lacking = lacking) {
            Ok(()) => true,
            Err(Error::NotNext { .. } | Error::Fenced { .. } | Error::Diverged { .. }) => false,
            Err(error) => self.is_well("a batch cannot be appended", Err(error)),
        }
    }

    fn take_lacking(&mut self) -> Vec<StagedRun> {
        std::mem::take(&mut self.lacking)
    }

    fn parts_of(&mut self, runs: &[StagedRun]) -> Option<Vec<FilePart>> {
        load_parts_of(&self.disk, runs)
    }

    fn receive(&mut self, runs: &[StagedRun], parts: &[FilePart]) {
        let received = receive_load(&self.disk, runs, parts);
        self.is_well("files of a load cannot be received", received);
    }

    fn cut(&mut self, epoch: Epoch, end: Sequence) {
        let Role::Following(follower) = std::mem::replace(&mut self.role, Role::Down) else { return };
        match follower.cut_after(epoch, end) {
            Ok((follower, _)) => {
                let noted = self.cut_marks(&follower);
                self.role = Role::Following(Box::new(follower));
                self.is_well("the log cannot be read", noted);
            }
            Err(error) => self.fail(&format!("the log cannot be cut before {end}"), &error),
        }
    }

    fn commit(&mut self, end: Sequence, is_enough: bool) {
        let committed = match &mut self.role {
            Role::Down => return,
            Role::Following(follower) => follower.commit(end),
            Role::Leading(node) => node.committed(end),
        };
        self.is_well("a committed batch cannot be applied", committed);
        if let Role::Leading(node) = &mut self.role {
            // The logs are read at the end instead.
            node.take_applied();
            self.users.hear(node, is_enough);
        }
    }

    fn ship(&mut self, first: Sequence) -> Option<Vec<u8>> {
        let Role::Leading(node) = &self.role else { return Some(Vec::new()) };
        if self.retention && first == Sequence(1) && self.has_files() {
            return None;
        }
        match node.ship(first, SHIPMENT_BYTES_MAX) {
            Ok(bytes) => Some(bytes),
            Err(Error::NotKept { .. }) if self.retention => None,
            Err(error) => {
                self.fail(&format!("batches from {first} on cannot be sent"), &error);
                Some(Vec::new())
            }
        }
    }

    fn keep_log_from(&mut self, first: Option<Sequence>) {
        if let Role::Leading(node) = &mut self.role {
            node.keep_log_from(first);
        }
    }

    fn snapshot(&mut self, to: NodeId, number: u64) -> Option<SnapshotOffer> {
        let Role::Leading(node) = &self.role else { return None };
        let now = (self.clock().wall, node.appender().written());
        let made = self.outgoing.offer(&self.disk.shared(), (to, number), now);
        made.inspect_err(|error| self.fail("there is no snapshot", error)).ok()
    }

    fn part(&mut self, to: NodeId, place: FilePlace) -> Option<FilePart> {
        let now = self.clock().wall;
        let read = self.outgoing.part(self.disk.shared().as_ref(), (to, place), now);
        read.inspect_err(|error| self.fail("a part of a snapshot cannot be read", error)).ok().flatten()
    }

    fn written_before(&self, end: Sequence) -> Vec<AppliedBatch> {
        self.batches.iter().filter(|batch| batch.end() <= end).cloned().collect()
    }

    fn adopt(&mut self, offer: SnapshotOffer, parts: &[FilePart], written: Vec<AppliedBatch>) -> Option<Sequence> {
        (self.role, self.received) = (Role::Down, written);
        let adopted = adopt(&self.disk, offer, parts);
        if self.is_well("a snapshot cannot be adopted", adopted) {
            self.follow_from_disk();
        }
        self.owner().map(Owner::applied)
    }

    fn stop_soon(&mut self, chance: &mut Chance) {
        self.disk.storage().stop_after_calls(chance.below(40));
    }

    fn heal(&mut self) {
        self.disk.storage().heal();
    }

    fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    fn take_violations(&mut self) -> Vec<String> {
        std::mem::take(&mut self.violations)
    }

    fn is_at_rest(&self) -> bool {
        match &self.role {
            Role::Leading(node) => node.has_begun(),
            _ => true,
        }
    }

    fn answered(&self) -> Answered {
        Answered { checkpoints: self.checkpoints, removed: self.removed(), ..self.users.answered() }
    }

    fn compare(machines: &[&Self]) -> Vec<String> {
        Self::judge(machines)
    }
}

impl LogView for StoreMachine {
    fn history(&self) -> History {
        self.ends().map(LogView::history).unwrap_or_default()
    }

    fn end(&self) -> Sequence {
        self.ends().map_or(self.marks.end(), LogView::end)
    }

    fn durable(&self) -> Sequence {
        self.ends().map_or(self.marks.end(), LogView::durable)
    }
}
