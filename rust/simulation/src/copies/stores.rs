//! A machine with the store of the core on a simulated disk: a follower while another node leads, and a store with users while this
//! one does.

mod users;

use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Identity;
use delaymq_core::record::batch::BatchHeader;
use delaymq_core::replication::{History, LogView, NodeId};
use delaymq_core::storage::Storage;
use delaymq_core::store::{
    CheckpointProgress, CheckpointWork, Follower, FollowerParts, LogEnds, NewStore, Owner, OwnerOptions, PIN_FOLDER,
    open_identity,
};
use delaymq_core::units::{Epoch, Location, Millis, Sequence};

use self::users::Users;
use super::host::GROUP;
use super::machine::{Answered, Machine, Mark, Marks};
use crate::chance::Chance;
use crate::clock::ClockReading;
use crate::disk::{Disk, End};
use crate::ledger::Ledger;
use crate::node::{AppliedBatch, Node, NodeOptions, is_stopped};

/// The wall clock of all machines at the beginning.
const BEGIN: Millis = Millis(1_700_000_000_000);
/// Bytes of a segment, so that logs roll.
const SEGMENT_BYTES: u32 = 8 << 10;
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
    /// The batches of the log.
    batches: Vec<AppliedBatch>,
    /// The checkpoint of a follower that is under way.
    checkpoint: Option<CheckpointWork>,
    users: Users,
    now_ms: u64,
    /// The simulated machine has ended in the middle of a call.
    has_stopped: bool,
    violations: Vec<String>,
}

fn options() -> NodeOptions {
    NodeOptions { segment_bytes: SEGMENT_BYTES, owner: owner_options(), ..NodeOptions::default() }
}

fn owner_options() -> OwnerOptions {
    OwnerOptions { checkpoint_bytes: u64::MAX, checkpoint_facts: u64::MAX, ..OwnerOptions::default() }
}

fn open(disk: &Disk, is_copy: bool) -> Result<Follower> {
    let storage = if is_copy { disk.copy() } else { disk.shared() };
    let identity = delaymq_core::store::read_identity(storage.as_ref())?;
    Follower::open(storage, &identity, owner_options(), SEGMENT_BYTES, &mut |_| {})
}

fn make_store(disk: &Disk, id: NodeId) -> Result<()> {
    let storage = disk.shared();
    let new = NewStore { stream: GROUP.0, node: id.0, segment_bytes: SEGMENT_BYTES };
    let identity = open_identity(storage.as_ref(), Some(new))?;
    // A node that was away catches up from the log, so nothing is removed.
    storage.create(&format!("{PIN_FOLDER}/{}-copies", u64::MAX))?;
    storage.sync_folder(PIN_FOLDER)?;
    Identity { clustered: true, ..identity }.write(storage.as_ref())
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
        ClockReading { wall: BEGIN.plus(self.now_ms), boot_ns: self.now_ms.saturating_mul(1_000_000) }
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

    /// Notes the batches of a log with this end, of these which stand one after the other.
    fn note_written(&mut self, bytes: &[u8], end: Sequence) {
        let mut rest = bytes;
        while let Some(header) = BatchHeader::read(rest) {
            let Some((batch, behind)) = rest.split_at_checked(header.length.get() as usize) else { return };
            let batch = AppliedBatch { header, start: Location(0), bytes: batch.to_vec() };
            if batch.end() > self.marks.end() && batch.end() <= end {
                // No user waits for the first batch of an epoch.
                let is_awaited = self.batches.last().is_some_and(|last| last.header.epoch == header.epoch);
                self.marks.push(Mark { end: batch.end(), chain: header.chain.get(), is_awaited });
                self.batches.push(batch);
            }
            rest = behind;
        }
    }

    /// Notes the batches that this machine has written itself.
    fn note_own(&mut self) {
        if let Role::Leading(node) = &self.role {
            let (written, end) = (node.ship(self.marks.end(), usize::MAX), node.ends().end());
            match written {
                Ok(bytes) => self.note_written(&bytes, end),
                Err(error) => self.fail("what was written cannot be read", &error),
            }
        }
    }

    /// Opens the log as a process that starts does.
    fn follow_from_disk(&mut self) {
        self.role = Role::Down;
        match open(&self.disk, false) {
            Ok(follower) => {
                let noted = self.cut_marks(&follower);
                self.role = Role::Following(Box::new(follower));
                self.is_well("the log cannot be read", noted);
            }
            Err(error) => self.fail("the copy cannot be opened", &error),
        }
    }

    /// A log on disk is a beginning of the log that was written, or has a batch more if the machine ended while it wrote.
    fn cut_marks(&mut self, follower: &Follower) -> Result<()> {
        let (end, chain) = (follower.ends().end(), follower.ends().history().end.chain);
        if end > self.marks.end() {
            let bytes = follower.ship(self.marks.end(), usize::MAX)?;
            self.note_written(&bytes, end);
        }
        if self.marks.chain_at(end) != Some(chain) {
            self.violations.push(format!("the disk has another log, which ends before {end}"));
        }
        self.marks.cut(end);
        self.batches.retain(|batch| batch.end() <= end);
        Ok(())
    }

    fn lead(&mut self, parts: FollowerParts, epoch: Epoch) -> Result<Node> {
        let storage = self.disk.shared();
        let identity = delaymq_core::store::read_identity(storage.as_ref())?;
        let now = self.clock();
        Node::lead((storage, options(), identity), (parts, self.checkpoint.take()), epoch, (now, &mut self.random))
    }
}

impl Machine for StoreMachine {
    fn new(id: NodeId, seed: u64) -> Self {
        let disk = Disk::new(seed);
        let violations = make_store(&disk, id).err().map(|error| format!("no store: {error}"));
        Self {
            disk,
            random: Chance::new(seed),
            role: Role::Down,
            marks: Marks::default(),
            batches: Vec::new(),
            checkpoint: None,
            users: Users::default(),
            now_ms: 0,
            has_stopped: false,
            violations: violations.into_iter().collect(),
        }
    }

    fn marks(&self) -> &Marks {
        &self.marks
    }

    fn start(&mut self) -> Sequence {
        self.follow_from_disk();
        self.owner().map_or(Sequence(1), Owner::applied)
    }

    fn crash(&mut self, chance: &mut Chance) {
        (self.role, self.checkpoint, self.has_stopped) = (Role::Down, None, false);
        self.users.forget();
        let end = match chance.below(4) {
            0 | 1 => End::Kill,
            2 => End::PowerCut,
            _ => End::PowerCutLosesAll,
        };
        self.disk.crash(end, chance);
        let opened = open(&self.disk, true).and_then(|follower| self.cut_marks(&follower));
        self.is_well(&format!("the copy cannot be opened after {end:?}"), opened);
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
            self.follow_from_disk();
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

    fn work(&mut self, now_ms: u64, calls: u64, chance: &mut Chance) {
        self.now_ms = now_ms;
        let now = self.clock();
        for _ in 0..calls {
            let Role::Leading(node) = &mut self.role else { return };
            node.look(now);
            let mut worked = self.users.work(node, chance, &mut self.violations);
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
        let (storage, worked) = (self.disk.shared(), &mut self.checkpoint);
        let tended = match &mut self.role {
            Role::Down => return,
            Role::Leading(node) => {
                node.begin_checkpoint();
                node.checkpoint_piece(budget_bytes).map(drop)
            }
            Role::Following(follower) => tend_follower(follower, worked, &storage, budget_bytes),
        };
        self.is_well("a checkpoint failed", tended);
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        let Role::Following(follower) = &mut self.role else { return false };
        let (appended, end) = (follower.append(bytes), follower.ends().end());
        let damaged = follower.take_damaged().into_iter();
        self.violations.extend(damaged.map(|damaged| format!("message {} came damaged", damaged.sequence)));
        self.note_written(bytes, end);
        match appended {
            Err(error @ Error::Storage { .. }) => self.is_well("a batch cannot be appended", Err(error)),
            other => other.is_ok(),
        }
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

    fn commit(&mut self, end: Sequence) {
        let committed = match &mut self.role {
            Role::Down => return,
            Role::Following(follower) => follower.commit(end),
            Role::Leading(node) => node.committed(end),
        };
        self.is_well("a committed batch cannot be applied", committed);
        if let Role::Leading(node) = &mut self.role {
            // The whole log is read at the end instead.
            node.take_applied();
            self.users.hear(node);
        }
    }

    fn ship(&mut self, first: Sequence) -> Vec<u8> {
        let Role::Leading(node) = &self.role else { return Vec::new() };
        let shipped = node.ship(first, SHIPMENT_BYTES_MAX);
        shipped
            .inspect_err(|error| self.fail(&format!("batches from {first} on cannot be sent"), error))
            .unwrap_or_default()
    }

    fn stop_soon(&mut self, chance: &mut Chance) {
        self.disk.storage().stop_after_calls(chance.below(40));
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
        self.users.answered()
    }

    fn compare(machines: &[&Self]) -> Vec<String> {
        let mut ledger = Ledger::default();
        let Some(first) = machines.first() else { return Vec::new() };
        first.batches.iter().for_each(|batch| ledger.apply(batch));
        let owners = machines.iter().filter_map(|machine| machine.owner());
        let mut found: Vec<String> = owners.flat_map(|owner| ledger.differences_of_store(owner)).collect();
        found.extend(machines.iter().flat_map(|machine| machine.users.judge(&ledger)));
        found
    }
}

/// Begins a checkpoint of a copy, or does a piece of the one under way.
fn tend_follower(
    follower: &mut Follower,
    under_way: &mut Option<CheckpointWork>,
    storage: &Arc<dyn Storage>,
    budget_bytes: u64,
) -> Result<()> {
    if under_way.is_none() {
        *under_way = follower.owner_mut().freeze();
    }
    let Some(work) = under_way else { return Ok(()) };
    match work.write_piece(storage, budget_bytes, follower.synced().location)? {
        CheckpointProgress::More => Ok(()),
        CheckpointProgress::WaitForSync(_) => follower.sync(),
        CheckpointProgress::Finished(finished) => {
            *under_way = None;
            // What may go is held by the pin.
            follower.owner_mut().install(finished).map(drop)
        }
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
