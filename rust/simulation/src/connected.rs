//! A history over connections: clients with the core's callers, a server with the core's connections over one node, and
//! a network that splits, delays, loses and cuts. One seed is one history. An account judges what users were told and
//! given, and knows nothing else.

mod account;
mod client;
mod drain;
mod ledger;
mod link;
mod plan;
mod qmq;
mod series;
mod server;
mod transport;
mod troubles;

use std::collections::BTreeMap;

use delaymq_core::error::{Error, Result};
use delaymq_core::record::name::GroupStart;
use delaymq_core::units::Millis;

pub use self::account::Counts;
use self::account::{Account, LinkId};
use self::client::Client;
use self::ledger::Ledger;
pub use self::ledger::QmqCounts;
use self::link::Link;
pub use self::plan::Plan;
use self::qmq::QmqClient;
use self::server::Server;
use crate::chance::{Chance, TraceHash};
use crate::clock::SimulatedClock;
use crate::disk::Disk;
use crate::node::Node;

/// Where the wall clock starts.
const START: Millis = Millis(1_700_000_000_000);

/// Of histories, those in which clients move messages, and have some stored under ids.
const CHANGES_PERCENT: u64 = 35;

/// How a history ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// The digest of all that happened.
    pub hash: u64,
    /// Turns done.
    pub turns: u64,
    /// What was counted.
    pub counts: Counts,
    /// What was counted of QMQ's clients.
    pub qmq: QmqCounts,
    /// What is wrong.
    pub violations: Vec<String>,
    /// The expanded options.
    pub plan: Plan,
    /// What happened, where it was asked for.
    pub trace: Vec<String>,
}

/// See the module.
pub struct Connected {
    plan: Plan,
    chance: Chance,
    clock: SimulatedClock,
    disk: Disk,
    node: Option<Node>,
    server: Option<Server>,
    /// The store of the server has ended, and the server lives on for a while.
    is_poisoned: bool,
    links: BTreeMap<LinkId, Link>,
    clients: Vec<Client>,
    account: Account,
    subjects: Vec<String>,
    consumers: Vec<QmqClient>,
    ledger: Ledger,
    qmq_subjects: Vec<String>,
    next_link: LinkId,
    /// Links below this are of an earlier epoch of the server.
    epoch_began: LinkId,
    next_number: u64,
    turn: u64,
    trace: TraceHash,
    told: Option<Vec<String>>,
}

impl Connected {
    /// The history of a seed before its first turn. With `tells` it keeps what happens, in words.
    pub fn new(seed: u64, tells: bool) -> Self {
        Self::of(seed, Self::plan_of(seed), tells)
    }

    /// What the history of a seed is like.
    pub fn plan_of(seed: u64) -> Plan {
        let changes = Chance::new(seed ^ 0x4368_616E_6765_7321).percent(CHANGES_PERCENT);
        Plan { changes, ..Plan::of(&mut chance_of(seed)) }
    }

    /// As [`Self::new`], with another plan than the seed has.
    pub fn of(seed: u64, plan: Plan, tells: bool) -> Self {
        let mut chance = chance_of(seed);
        Plan::of(&mut chance);
        let disk = Disk::new(chance.next_number());
        Self {
            clock: SimulatedClock::new(START),
            disk,
            node: None,
            server: None,
            is_poisoned: false,
            links: BTreeMap::new(),
            clients: plan.clients(),
            account: Account::default(),
            subjects: plan.subject_names(),
            consumers: plan.qmq_clients(&mut chance),
            ledger: Ledger::new(&plan, START.0),
            qmq_subjects: plan.qmq_subjects(),
            next_link: 1,
            epoch_began: 1,
            next_number: 1,
            turn: 0,
            trace: TraceHash::default(),
            told: tells.then(Vec::new),
            plan,
            chance,
        }
    }

    /// Lives the whole history.
    pub fn run(mut self) -> Ending {
        let began = self.open().and_then(|()| self.make_groups());
        self.survive("the beginning", began);
        while self.turn < self.plan.turns && self.is_sound() {
            self.turn += 1;
            let done = self.take_turn().or_else(|error| self.bear(error));
            self.survive("a turn", done);
        }
        if self.is_sound() {
            let ended = self.come_to_rest();
            self.survive("the end", ended);
        }
        // What was broken before it came to rest would bring forth findings that say nothing.
        if self.is_sound() {
            self.account.judge_the_end(&self.plan.groups_of_subjects());
            self.ledger.judge_the_end();
        }
        Ending {
            hash: self.trace.value(),
            turns: self.turn,
            counts: self.account.counts,
            qmq: self.ledger.counts,
            violations: [self.account.violations(), self.ledger.violations()].concat(),
            plan: self.plan,
            trace: self.told.unwrap_or_default(),
        }
    }

    fn is_sound(&self) -> bool {
        self.account.violations().is_empty() && self.ledger.violations().is_empty()
    }

    fn survive(&mut self, what: &str, result: Result<()>) {
        if let Err(error) = result {
            self.account.blame(format!("{what}: {error}"));
        }
    }

    /// Takes what happened into the trace.
    fn note(&mut self, words: &str) {
        self.trace.add(words);
        if let Some(told) = &mut self.told {
            told.push(format!("{:>4} {words}", self.turn));
        }
    }

    fn now(&self) -> Millis {
        self.clock.read().wall
    }

    fn open(&mut self) -> Result<()> {
        let node = Node::open(self.disk.shared(), self.plan.node, self.clock.read(), &mut self.chance)?;
        let before = self.server.take().map(|server| server.switched_off()).unwrap_or_default();
        let mut server = Server::new(self.plan.server_options(), before, node.reading().now)?;
        server.take_in(&node);
        (self.node, self.server) = (Some(node), Some(server));
        self.settle()
    }

    /// The groups are there before the first message, so that each is owed all of them.
    fn make_groups(&mut self) -> Result<()> {
        let of_qmq = self.plan.qmq_groups().into_iter().map(|(name, _)| name);
        for (subject, group) in self.plan.groups_of_subjects().into_iter().chain(of_qmq) {
            self.node()?.subscribe(&subject, &group, GroupStart::Earliest)?;
            self.settle()?;
        }
        Ok(())
    }

    fn node(&mut self) -> Result<&mut Node> {
        self.node.as_mut().ok_or(Error::Closed)
    }

    /// The node does all that it has to do.
    fn settle(&mut self) -> Result<()> {
        let now = self.clock.read();
        let node = self.node()?;
        node.look(now);
        prepare(node)?;
        unless_full(node.send())?;
        node.commit()?;
        node.sync()?;
        node.apply(usize::MAX).map(drop)
    }

    fn take_turn(&mut self) -> Result<()> {
        match self.chance.below(100) {
            0..38 => self.carry_some()?,
            38..66 => self.let_a_client_act(),
            66..88 => self.work()?,
            88..92 => self.let_time_pass(),
            92..95 => self.save()?,
            _ => self.make_trouble()?,
        }
        self.notice_ends()
    }

    /// The node does one thing, and the server what follows of it.
    fn work(&mut self) -> Result<()> {
        let (clock, what) = (self.clock.read(), self.chance.below(8));
        if self.has_ended() {
            return self.follow();
        }
        let Some(node) = &mut self.node else { return Ok(()) };
        node.look(clock);
        prepare(node)?;
        match what {
            0 | 1 => unless_full(node.step(64).map(drop))?,
            2 => drop(node.write_batch()?),
            3 => node.sync()?,
            4 => drop(node.apply(1)?),
            5 => node.witness().map(drop)?,
            _ => self.settle()?,
        }
        if self.plan.recurs {
            self.go_on_with_series()?;
        }
        self.follow()
    }

    /// The store has ended: it writes, applies and saves nothing any more, as the engine has it. The server
    /// tells so to whoever asks.
    fn has_ended(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.commits().poison().is_some())
    }

    fn follow(&mut self) -> Result<()> {
        let (Some(node), Some(server)) = (&mut self.node, &mut self.server) else { return Ok(()) };
        let now = node.reading().now;
        server.wake(node.take_woken());
        server.keep_promises(node)?;
        server.keep_all(node, now)?;
        server.pump(node)?;
        let applied = node.take_applied();
        node.take_sent();
        for batch in &applied {
            self.trace.add_number(u64::from(batch.header.chain.get()));
        }
        Ok(())
    }

    /// A piece of a checkpoint.
    fn save(&mut self) -> Result<()> {
        let budget = self.chance.one_of(&[4_096, u64::MAX]);
        if self.has_ended() {
            return Ok(());
        }
        let node = self.node()?;
        node.begin_checkpoint();
        node.checkpoint_piece(budget).map(drop)
    }
}

fn chance_of(seed: u64) -> Chance {
    Chance::new(seed ^ 0x436F_6E6E_6563_7465)
}

/// Prepares segments, where there is room for them on the disk.
fn prepare(node: &mut Node) -> Result<()> {
    while node.needs_segment(2) {
        match node.prepare() {
            Err(error) if error.is_no_space() => return Ok(()),
            other => other?,
        }
    }
    Ok(())
}

/// What finds no room in the log waits until there is some.
fn unless_full<T: Default>(result: Result<T>) -> Result<T> {
    match result {
        Err(Error::DiskFull) => Ok(T::default()),
        other => other,
    }
}
