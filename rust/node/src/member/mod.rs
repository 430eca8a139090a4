//! The thread of a node. It owns the protocol and the copy, and carries out what the protocol asks for, in order.
//!
//! Nothing on this thread waits for another node, for the register or for a client. It waits for its own disk where it must: a follower
//! syncs here, and a node whose disk hangs is silent, so that the others go on without it.

mod addresses;
mod care;
mod catch_up;
mod clocks;
mod disk_watch;
mod load_files;
mod neighbours;
mod repair;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use delaymq_core::message_log::Promise;
use delaymq_core::replication::{Action, Event, LogView, Message, Node as Protocol, NodeId, RoleName};
use delaymq_core::units::{Epoch, Millis};
use delaymq_engine::{CopyCount, Intake};
use delaymq_peers::Peers;
use delaymq_server::{Primary, Stopped};

pub(crate) use self::addresses::Addresses;
use self::disk_watch::DiskWatch;
use crate::copy::{Appended, Copy};
use crate::events::{Events, Incoming as Arrival};
use crate::interface::NodeError;
use crate::loads::Loads;
use crate::reader::Reader;
use crate::register::RegisterCalls;
use crate::repairs::Repairs;
use crate::requests::Shown;
use crate::service::Service;
use crate::shipping::Shipments;
use crate::snapshot::incoming::SnapshotFiles;
use crate::status::Reports;

/// How often the protocol looks at the time.
const TICK: Duration = Duration::from_millis(20);
/// Bytes of batches that a follower appends before it syncs, if more wait.
const APPENDED_BYTES_MAX: usize = 2 << 20;

/// The parts of a node, for its thread.
pub(crate) struct Parts {
    pub(crate) protocol: Protocol,
    pub(crate) copy: Copy,
    pub(crate) peers: Arc<Peers>,
    pub(crate) addresses: Addresses,
    pub(crate) register: RegisterCalls,
    pub(crate) service: Service,
    pub(crate) events: Arc<Events>,
    pub(crate) reports: Arc<Reports>,
    pub(crate) shown: Arc<Shown>,
    pub(crate) client_addresses: BTreeMap<NodeId, String>,
    pub(crate) known: BTreeSet<NodeId>,
}

/// A stop that was asked for.
enum Stopping {
    /// Another node is to take over first.
    HandingOver { until: Instant, patience: Duration },
    /// The server waits for its clients, at most until then.
    Serving { until: Instant },
}

/// See the module.
pub(crate) struct Member {
    parts: Parts,
    shipments: Shipments,
    /// While the node lives.
    reader: Option<Reader>,
    incoming: SnapshotFiles,
    repairs: Repairs,
    /// Damaged messages that other nodes have given back.
    messages_repaired: u64,
    loads: Loads,
    role: RoleName,
    role_changes: u64,
    primary: Option<Primary>,
    intake: Option<Intake>,
    /// Bytes of batches that were appended and not synced.
    appended_bytes: usize,
    stopping: Option<Stopping>,
    stopped: Option<Stopped>,
    disk_watch: DiskWatch,
    is_fit: bool,
    began: Instant,
    shown_at: Instant,
    /// The set of the register that was reported last.
    set_known: BTreeSet<NodeId>,
    /// Why there is no connection to an address, as it was reported last.
    link_faults: BTreeMap<String, String>,
    /// The connections that are up: each node, and whether this one made it.
    connected: BTreeSet<(NodeId, bool)>,
    /// The last warning of each node.
    warned_of: BTreeMap<NodeId, String>,
    /// A node whose disk has hung is not fit before this.
    unfit_until: Option<Instant>,
    /// The nodes whose clocks disagree with that of the group, as it was reported last.
    clocks_apart: BTreeSet<NodeId>,
}

impl Member {
    pub(crate) fn new(parts: Parts) -> Self {
        let now = Instant::now();
        Self {
            parts,
            shipments: Shipments::default(),
            reader: None,
            incoming: SnapshotFiles::default(),
            repairs: Repairs::default(),
            messages_repaired: 0,
            loads: Loads::default(),
            role: RoleName::Replica,
            role_changes: 0,
            primary: None,
            intake: None,
            appended_bytes: 0,
            stopping: None,
            stopped: None,
            disk_watch: DiskWatch::new(now),
            is_fit: true,
            began: now,
            shown_at: now,
            set_known: BTreeSet::new(),
            link_faults: BTreeMap::new(),
            connected: BTreeSet::new(),
            warned_of: BTreeMap::new(),
            unfit_until: None,
            clocks_apart: BTreeSet::new(),
        }
    }

    /// Runs until the node is stopped, or fails.
    pub(crate) fn run(mut self) -> Result<Stopped, NodeError> {
        let ended = self.live();
        // The service may wait for the store, which nobody commits to any more.
        let abandoned = self.parts.copy.end_store();
        self.reader = None;
        let Parts { copy, peers, service, events, register, .. } = self.parts;
        // No connection may wait for this thread any more.
        events.close();
        drop(service);
        peers.close();
        drop(register);
        let closed = copy.close();
        let stopped = ended?;
        abandoned?;
        closed?;
        Ok(stopped)
    }

    fn live(&mut self) -> Result<Stopped, NodeError> {
        self.start_reader()?;
        let (mut ticked, mut awake, mut was_held_up) = (Instant::now(), Instant::now(), false);
        loop {
            let wait = if self.has_work() { Duration::ZERO } else { TICK };
            let arrival = self.parts.events.next(wait);
            was_held_up |= self.has_stood_still(&mut awake)?;
            match arrival {
                Some(arrival) => self.take(arrival)?,
                None => self.rest()?,
            }
            was_held_up |= self.has_stood_still(&mut awake)?;
            if ticked.elapsed() >= TICK {
                if std::mem::take(&mut was_held_up) {
                    self.hear_of_all()?;
                }
                ticked = Instant::now();
                self.tend(false)?;
                self.look_around()?;
                self.step(Event::Tick)?;
                self.look_at_clocks();
                self.go_on_with_repairs();
                self.stop_further();
            }
            self.ship();
            self.show();
            if let Some(stopped) = self.stopped {
                return Ok(stopped);
            }
        }
    }

    /// True if something is to be done although nothing happens.
    fn has_work(&self) -> bool {
        self.appended_bytes > 0 || !self.shipments.waiting(self.parts.copy.end(), Instant::now()).is_empty()
    }

    pub(super) fn take(&mut self, arrival: Arrival) -> Result<(), NodeError> {
        match arrival {
            Arrival::Peer(event) => self.hear(event)?,
            Arrival::Protocol(Event::SwitchOver(to)) => {
                self.parts.reports.note(format!("handing over to the node {to}, as asked"));
                self.step(Event::SwitchOver(to))?;
            }
            Arrival::Protocol(Event::Remove(node, accepts_loss)) => self.remove(node, accepts_loss)?,
            Arrival::Protocol(Event::Promote) => {
                self.parts.reports.note("claiming the group, as asked".to_owned());
                self.step(Event::Promote)?;
            }
            Arrival::Protocol(Event::MinCopies(copies)) => {
                self.parts.reports.note(format!("demanding {copies} copies of each publish, as asked"));
                self.step(Event::MinCopies(copies))?;
            }
            Arrival::Protocol(event) => self.step(event)?,
            Arrival::Dial(address) => self.dial(address),
            Arrival::Shipped(shipped) => self.shipments.answered(&shipped, Instant::now()),
            Arrival::Damaged(damage) => self.begin_repair(damage),
            Arrival::Warning(node, line) => self.warn_of(node, line),
            Arrival::LogChanged => self.step(Event::LogChanged)?,
            Arrival::Stop(patience) => self.begin_stop(patience)?,
            Arrival::Served(stopped) => self.stopped = Some(stopped),
            Arrival::Failed(error) => return Err(error),
        }
        if self.appended_bytes >= APPENDED_BYTES_MAX { self.sync() } else { Ok(()) }
    }

    /// Nothing has come: what was appended is made durable, and a follower goes on with its checkpoint, and vouches for its log.
    fn rest(&mut self) -> Result<(), NodeError> {
        self.sync()?;
        self.tend(true)
    }

    fn tend(&mut self, is_idle: bool) -> Result<(), NodeError> {
        if let Some(error) = self.parts.copy.tend(wall_clock(), is_idle)? {
            self.parts
                .reports
                .warn(format!("the copy's checkpoint or the removal of its files is tried again: {error}"));
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), NodeError> {
        self.appended_bytes = 0;
        if self.parts.copy.sync()? { self.step(Event::LogChanged) } else { Ok(()) }
    }

    /// Gives the protocol an event, and does what it asks for.
    pub(super) fn step(&mut self, event: Event) -> Result<(), NodeError> {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut actions = Vec::new();
            let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.parts.protocol.step(now_ms, &self.parts.copy, event, &mut actions);
            for action in actions {
                self.act(action, &mut events)?;
            }
        }
        self.set_intake();
        self.name_primary();
        self.meet_nodes_of_register()
    }

    fn act(&mut self, action: Action, events: &mut Vec<Event>) -> Result<(), NodeError> {
        match action {
            Action::Send(to, message) => self.send(to, message),
            Action::ReadRegister => self.parts.register.read(),
            Action::Swap(expected, value) => self.parts.register.swap(expected, value),
            Action::KeepPromise(promise) => {
                self.keep_promise(promise)?;
                events.push(Event::PromiseKept(promise.epoch));
            }
            Action::BeginEpoch(epoch) => {
                self.begin_epoch(epoch)?;
                events.push(Event::LogChanged);
            }
            Action::Ship(to, epoch, attempt, first) => {
                self.shipments.begin(to, (epoch, attempt), first, Instant::now());
            }
            Action::Append(bytes) => {
                match self.parts.copy.append(&bytes)? {
                    Appended::NotNext => events.push(Event::AppendRefused),
                    Appended::Lacks(runs) => self.lack_files(&runs),
                    Appended::All => {}
                }
                self.appended_bytes = self.appended_bytes.saturating_add(bytes.len());
                self.repair_appended();
            }
            Action::ReceiveSnapshot(from, epoch, attempt, offer) => {
                self.receive_snapshot(from, (epoch, attempt), offer);
            }
            Action::SendPart(to, epoch, attempt, place) => self.send_part(to, (epoch, attempt), place),
            Action::ReceivePart(part) => self.receive_part(&part),
            Action::Load(from, epoch, attempt, message) => self.take_load(from, (epoch, attempt), message),
            Action::CutAfter(epoch, end) => {
                self.repairs.clear();
                if let Some(evidence) = self.parts.copy.cut(epoch, end)? {
                    let line = format!("facts from sequence {end} on were never committed: they are in {evidence}");
                    self.parts.reports.warn(line);
                }
                events.push(Event::Cut(end));
            }
            Action::Commit { end, copies } => self.parts.copy.commit(end, self.count_of(copies))?,
            Action::Became(role) => self.become_role(role)?,
            Action::Alarm(node) => {
                let line =
                    format!("the log of the node {node} has other committed facts than this one: nothing was changed");
                self.warn_of(node, line);
            }
        }
        Ok(())
    }

    pub(super) fn count_of(&self, copies: usize) -> CopyCount {
        let min_copies = self.parts.protocol.register().map_or(usize::MAX, |value| value.min_copies);
        CopyCount { copies, min_copies }
    }

    fn keep_promise(&mut self, promise: Promise) -> Result<(), NodeError> {
        self.parts.copy.keep_promise(promise)?;
        self.appended_bytes = 0;
        Ok(())
    }

    fn begin_epoch(&mut self, epoch: Epoch) -> Result<(), NodeError> {
        self.shipments.clear();
        (self.intake, self.appended_bytes) = (None, 0);
        self.disk_watch = DiskWatch::new(Instant::now());
        self.parts.copy.begin(epoch, self.parts.protocol.clock_ahead_ms())?;
        if let (Some(reader), Some(store)) = (&self.reader, self.parts.copy.store()) {
            reader.lead(Arc::clone(store));
        }
        self.parts.reports.note(format!("claimed the group, with epoch {epoch}"));
        Ok(())
    }

    fn become_role(&mut self, role: RoleName) -> Result<(), NodeError> {
        self.role_changes = self.role_changes.saturating_add(1);
        self.repairs.clear();
        self.role = role;
        match role {
            RoleName::Promoting => {}
            RoleName::Primary => {
                self.parts.reports.note("this node is the primary".to_owned());
                if let Some(store) = self.parts.copy.store() {
                    self.parts.service.lead(Arc::clone(store));
                }
            }
            RoleName::Replica => {
                self.parts.reports.note("this node is no longer the primary".to_owned());
                self.shipments.clear();
                self.loads.outgoing.clear();
                if !self.is_fit {
                    // The store ends when its disk goes on. Clients do not wait for that, and see that it is no primary.
                    self.show();
                    self.parts.service.follow();
                }
                // First the store ends, so that its clients hear nothing more, then their connections. Recovery may take long.
                let ended = self.parts.copy.end_store();
                self.reader = None;
                ended?;
                self.parts.service.follow();
                self.parts.copy.follow()?;
                self.start_reader()?;
            }
        }
        Ok(())
    }

    pub(super) fn send(&mut self, to: NodeId, mut message: Message) {
        if let Message::Heartbeat { end, .. } = &mut message
            && let Some(next) = self.shipments.next_of(to)
        {
            // Batches that were not sent yet come later, and must not be asked for.
            *end = next.min(*end);
        }
        if matches!(message, Message::Resend { .. }) && self.loads.incoming.is_awaited(Instant::now()) {
            // A batch waits for files, and would come again and again.
            return;
        }
        // A message that is lost is sent again, or asked for.
        drop(self.parts.peers.send(to, &message));
    }

    /// Warns of another node, once for each reason: the protocol tries again and again.
    pub(super) fn warn_of(&mut self, node: NodeId, line: String) {
        if self.warned_of.get(&node) != Some(&line) {
            self.parts.reports.warn(line.clone());
            self.warned_of.insert(node, line);
        }
    }
}

/// The wall clock, for the pins of readers, and for the other nodes.
fn wall_clock() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
