//! A history of copies: two or three nodes with the real state machine of the core, over a network, a register and
//! disks that fail. One seed is one history. It begins with any trouble and ends with none: then the group must serve, and all
//! copies must be equal.
//!
//! A node has a machine, of which there are two kinds: `numbers` has a log that is a list of numbers, so that a history is short and many
//! are lived, and `stores` has the store of the core, with users.

mod asking;
mod checker;
mod host;
mod load_files;
mod machine;
mod numbers;
mod operators;
mod plan;
mod register;
mod rest;
mod snapshots;
mod stores;
mod transfers;
mod troubles;

use std::collections::BTreeSet;

use delaymq_core::replication::{Action, Event, Message, Node, NodeId, Register, RoleName};
use delaymq_core::units::Epoch;

use self::checker::Checker;
pub use self::checker::Counts;
use self::host::{GROUP, Host};
pub use self::machine::{Answered, Machine, Mark, Marks};
pub use self::numbers::Numbers;
pub use self::plan::Plan;
use self::register::{Answer, SimulatedRegister};
pub use self::stores::StoreMachine;
use self::transfers::Transfers;
use crate::chance::{Chance, TraceHash};

/// The most pieces of a checkpoint in one turn of a history with retention.
const PIECES_MAX: u64 = 8;

/// How a history ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// The digest of all that happened.
    pub hash: u64,
    /// Turns done.
    pub turns: u64,
    /// What was counted.
    pub counts: Counts,
    /// What is wrong.
    pub violations: Vec<String>,
    /// The expanded options.
    pub plan: Plan,
    /// What happened, where it was asked for.
    pub trace: Vec<String>,
}

struct Letter {
    from: NodeId,
    to: NodeId,
    message: Message,
}

/// See the module.
pub struct Copies<M> {
    plan: Plan,
    chance: Chance,
    hosts: Vec<Host<M>>,
    letters: Vec<Letter>,
    snapshots: Transfers,
    register: SimulatedRegister,
    /// Answers on their way, to one life of a node.
    answers: Vec<(NodeId, u64, Answer)>,
    checker: Checker,
    cut: BTreeSet<(NodeId, NodeId)>,
    has_wiped: bool,
    /// How often a backup of the register was restored.
    restored: u64,
    has_lost: bool,
    /// The node that an operator asks to lead, after the set was lost.
    promoted: Option<NodeId>,
    /// Nodes whose committed facts the group does not have, after that.
    diverged: BTreeSet<NodeId>,
    /// How many machines were replaced.
    replaced: u64,
    /// The true time.
    now_ms: u64,
    turn: u64,
    trace: TraceHash,
    told: Option<Vec<String>>,
}

fn node_id(number: u64) -> NodeId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    NodeId(bytes)
}

impl<M: Machine> Copies<M> {
    /// The history of a seed with this plan, before its first turn. With `tells` it keeps what happens, in words.
    pub fn of(seed: u64, plan: Plan, tells: bool) -> Self {
        let ids: BTreeSet<NodeId> = (1..=plan.nodes).map(node_id).collect();
        let min_copies = usize::try_from(plan.min_copies).unwrap_or(1);
        let first = Register::first(GROUP.0, node_id(1), Epoch(1), min_copies);
        let mut chance = Chance::new(seed ^ u64::from_be_bytes(*b"Copies!!"));
        let hosts = ids.iter().map(|id| Host::new(*id, &ids, chance.next_number(), &plan)).collect();
        Self {
            plan,
            chance,
            hosts,
            letters: Vec::new(),
            snapshots: Transfers::default(),
            register: SimulatedRegister::new(first),
            answers: Vec::new(),
            checker: Checker::new(min_copies),
            cut: BTreeSet::new(),
            has_wiped: false,
            restored: 0,
            has_lost: false,
            promoted: None,
            diverged: BTreeSet::new(),
            replaced: 0,
            now_ms: 0,
            turn: 0,
            trace: TraceHash::default(),
            told: tells.then(Vec::new),
        }
    }

    /// Lives the whole history.
    pub fn run(mut self) -> Ending {
        while self.turn < self.plan.turns && self.checker.is_sound() {
            self.turn += 1;
            self.take_turn();
        }
        let turns = self.turn;
        if self.checker.is_sound() {
            self.come_to_rest();
        }
        self.hosts.iter().for_each(|host| self.checker.counts.answered.add(host.machine.answered()));
        Ending {
            hash: self.trace.value(),
            turns,
            counts: self.checker.counts,
            violations: self.checker.violations,
            plan: self.plan,
            trace: self.told.unwrap_or_default(),
        }
    }

    fn note(&mut self, words: impl FnOnce() -> String) {
        if let Some(told) = &mut self.told {
            told.push(format!("{:>4} {}", self.turn, words()));
        }
    }

    fn pick_host(&mut self) -> usize {
        usize::try_from(self.chance.below(self.hosts.len() as u64)).unwrap_or(0)
    }

    fn take_turn(&mut self) {
        self.empty_diverged();
        if self.chance.below(1_000) < self.plan.crash_permille {
            return self.crash_or_start();
        }
        if self.chance.below(1_000) < self.plan.cut_permille {
            return self.cut_or_mend();
        }
        if self.operator_acts() {
            return;
        }
        match self.chance.below(1_000) {
            0..400 => self.deliver(self.plan.lost_percent),
            400..580 => {
                let ms = self.chance.one_of(&[10, 100, 100, 400, 1_100, 3_500]);
                let place = self.pick_host();
                self.pass(place, ms);
            }
            580..600 => {
                let place = self.pick_host();
                self.keep_promise(place);
                self.tend(place);
            }
            600..700 => {
                let place = self.pick_host();
                self.receive_parts(place);
                self.receive_files(place);
                self.sync(place);
                if self.plan.retention {
                    self.tend(place);
                }
            }
            700..760 => self.work(),
            760..870 => self.ask_register(self.plan.register_percent),
            870..975 => self.hear_register(),
            975..982 => self.tell_of_register(),
            982..987 => self.wipe(),
            987..992 => self.restore_register(),
            992..995 => self.change_fitness(),
            995..997 => self.turn_clock(),
            _ => self.switch_over(),
        }
    }

    /// Brings one message to its node.
    fn deliver(&mut self, lost_percent: u64) {
        if self.letters.is_empty() {
            return;
        }
        let place = usize::try_from(self.chance.below(self.letters.len() as u64)).unwrap_or(0);
        let letter = self.letters.swap_remove(place);
        let is_cut = self.cut.contains(&(letter.from, letter.to));
        if is_cut || self.chance.percent(lost_percent) {
            return;
        }
        if self.chance.percent(lost_percent) {
            let message = letter.message.clone();
            self.letters.push(Letter { message, ..letter });
        }
        let Some(place) = self.hosts.iter().position(|host| host.id == letter.to && host.is_up()) else { return };
        self.note(|| format!("{} hears {} say {:?}", letter.to.0[7], letter.from.0[7], letter.message));
        self.give(place, Event::Received(letter.from, letter.message));
    }

    fn pass(&mut self, place: usize, ms: u64) {
        if let Some(host) = self.hosts.get_mut(place) {
            host.now_ms += ms;
            let wall = host.wall();
            self.give(place, Event::WallClock(wall));
            self.give(place, Event::Tick);
            self.keep_log(place);
        }
    }

    fn keep_promise(&mut self, place: usize) {
        if let Some(epoch) = self.hosts.get_mut(place).and_then(Host::keep_promise) {
            self.give(place, Event::PromiseKept(epoch));
        } else if self.hosts.get(place).is_some_and(|host| host.is_up() && host.machine.has_stopped()) {
            self.checker.counts.torn_promises += 1;
            self.give(place, Event::Tick);
        }
    }

    fn sync(&mut self, place: usize) {
        let Some(host) = self.hosts.get_mut(place).filter(|host| host.is_up()) else { return };
        if host.machine.sync() {
            self.give(place, Event::LogChanged);
        }
    }

    /// A machine does a piece of what it does beside everything else, or several where a segment must be unneeded by two checkpoints to go.
    fn tend(&mut self, place: usize) {
        let pieces = if self.plan.retention { self.chance.between(1, PIECES_MAX) } else { 1 };
        if let Some(host) = self.hosts.get_mut(place).filter(|host| host.is_up()) {
            (0..pieces).for_each(|_| host.machine.tend(&mut self.chance));
        }
    }

    /// A machine looks at its clocks. The true time does not go back when a new machine takes the place of another one.
    fn look(&mut self, place: usize) {
        self.now_ms = self.hosts.iter().map(|host| host.now_ms).fold(self.now_ms, u64::max);
        if let Some(host) = self.hosts.get_mut(place) {
            host.machine.look(self.now_ms, host.ahead_ms);
        }
    }

    /// Users of a primary, and its clock, demand something of it.
    fn work(&mut self) {
        let leads = |host: &Host<M>| host.node.as_ref().is_some_and(|node| node.role() == RoleName::Primary);
        let leading: Vec<usize> =
            (0..self.hosts.len()).filter(|place| self.hosts.get(*place).is_some_and(leads)).collect();
        let Some(place) = self.chance.pick(&leading).copied() else { return };
        self.look(place);
        let calls = self.chance.between(1, self.plan.calls);
        if let Some(host) = self.hosts.get_mut(place) {
            let accepts = host.node.as_ref().is_some_and(Node::accepts_publishes);
            host.machine.work(accepts, calls, &mut self.chance);
            self.give(place, Event::LogChanged);
        }
    }

    fn judge(&mut self) {
        if self.register.is_of_group() {
            self.checker.judge(self.register.value(), &self.hosts);
        }
    }

    /// Gives a node one event, and does what it asks for, as long as its machine runs.
    fn give(&mut self, place: usize, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let Some(host) = self.hosts.get_mut(place).filter(|host| !host.machine.has_stopped()) else { break };
            for action in host.step(event) {
                match (self.hosts.get(place).filter(|host| host.machine.has_stopped()), action) {
                    (None, action) => self.act(place, action, &mut events),
                    // The node has counted it. A message that it has sent meanwhile may say so.
                    (Some(host), Action::Commit { end, copies }) => self.checker.committed(host, end, copies),
                    (Some(_), _) => {}
                }
            }
        }
        let Some(host) = self.hosts.get_mut(place) else { return };
        for words in host.machine.take_violations() {
            self.checker.blame(format!("{}: {words}", host.id.0[7]));
        }
        if host.machine.has_stopped() {
            self.end(place);
        }
    }

    fn act(&mut self, place: usize, action: Action, events: &mut Vec<Event>) {
        let Some(host) = self.hosts.get_mut(place) else { return };
        let (from, life) = (host.id, host.life);
        match action {
            Action::Send(to, message) => self.letters.push(Letter { from, to, message }),
            Action::ReadRegister => self.register.read(from, life),
            Action::Swap(expected, value) => self.register.swap(from, life, expected, value),
            Action::KeepPromise(promise) => host.wanted = Some(promise),
            Action::BeginEpoch(epoch) => {
                self.trace.add_number(u64::from(epoch.0));
                self.look(place);
                let Some(host) = self.hosts.get_mut(place) else { return };
                host.machine.begin(epoch);
                events.push(Event::LogChanged);
                self.note(|| format!("{} begins epoch {epoch}", from.0[7]));
            }
            Action::Ship(to, epoch, attempt, first) => {
                if self.offers_snapshot(place, to, (epoch, attempt)) {
                    return;
                }
                let Some(host) = self.hosts.get_mut(place) else { return };
                let (shipped, committed) = (host.machine.ship(first), host.committed());
                match shipped.map(|bytes| Message::Batches { epoch, attempt, from: first, committed, bytes }) {
                    Some(message) => self.letters.push(Letter { from, to, message }),
                    None => {
                        self.offer_snapshot(place, to, (epoch, attempt));
                    }
                }
            }
            Action::Append(bytes) => {
                let is_whole = host.machine.append(&bytes);
                events.push(if is_whole { Event::LogChanged } else { Event::AppendRefused });
                self.lack_files(place);
            }
            Action::ReceiveSnapshot(primary, epoch, attempt, offer) => {
                let (number, end) = (offer.number, offer.end);
                self.note(|| format!("{} gets the snapshot {number} with the facts before {end}", from.0[7]));
                self.receive_snapshot(place, primary, (epoch, attempt), offer);
            }
            // A node receives parts without messages.
            Action::SendPart(..) | Action::ReceivePart(_) | Action::Load(..) => {}
            Action::CutAfter(epoch, end) => {
                host.machine.cut(epoch, end);
                events.push(Event::Cut(end));
                self.note(|| format!("{} cuts its log before {end}", from.0[7]));
                self.judge();
            }
            Action::Commit { end, copies } => {
                self.trace.add_number(end.0);
                self.note(|| format!("{} commits to {end} on {copies}", from.0[7]));
                if let Some(host) = self.hosts.get_mut(place) {
                    self.checker.committed(host, end, copies);
                    let is_enough = self.checker.is_enough(host, copies);
                    host.machine.commit(end, is_enough);
                }
                self.judge();
            }
            Action::Became(role) => {
                if role == RoleName::Replica {
                    host.machine.follow();
                }
                self.note(|| format!("{} is {role:?}", from.0[7]));
            }
            Action::Alarm(of) => self.alarm(from, of),
        }
    }
}
