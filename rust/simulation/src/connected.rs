//! A history over connections: clients with sessions of delaymq's client, a server with the core's connections over one
//! node, and a network that splits, delays, loses and cuts. One seed is one history. An account judges it by what users
//! were answered and given, and by nothing else.

mod account;
mod client;
mod clock_steps;
mod drain;
mod labels;
mod ledger;
mod link;
mod plan;
mod qmq;
mod series;
mod server;
mod transport;
mod troubles;
mod users;

use std::collections::BTreeMap;

use delaymq_core::error::{Error, Result};
use delaymq_core::store::StartAt;
use delaymq_core::units::Millis;

use self::account::Account;
pub use self::account::Counts;
use self::labels::KINDS;
pub use self::ledger::QmqCounts;
use self::ledger::{Ledger, Place};
use self::link::{Link, LinkId};
use self::plan::BY_PREFIX;
pub use self::plan::Plan;
use self::qmq::QmqClient;
use self::server::Server;
use self::users::{Shared, User};
use crate::chance::{Chance, TraceHash};
use crate::clock::SimulatedClock;
use crate::disk::Disk;
use crate::node::{Node, unless_full};

/// Where the wall clock starts.
const START: Millis = Millis(1_700_000_000_000);

/// Percent of the histories in which clients move messages and publish with ids.
const CHANGES_PERCENT: u64 = 35;

/// Percent of the histories in which one group of each subject has filters.
const FILTERS_PERCENT: u64 = 25;

/// Percent of the histories in which messages may expire.
const EXPIRES_PERCENT: u64 = 30;

/// Percent of the histories in which an operator accepts steps of the clock.
const ACCEPTS_PERCENT: u64 = 10;

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
    clock: SimulatedClock,
    disk: Disk,
    node: Option<Node>,
    server: Option<Server>,
    /// The store of the server has ended. The server lives on for a while.
    is_poisoned: bool,
    links: BTreeMap<LinkId, Link>,
    /// Clients of delaymq's own protocol, then QMQ's.
    users: Vec<Box<dyn User>>,
    /// The places of QMQ's consumers.
    places: Vec<Place>,
    shared: Shared,
    next_link: LinkId,
    /// How far the wall clock stepped ahead without being believed, at most.
    unbelieved_ms: u64,
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
        let apart = |label: &[u8; 8]| Chance::new(seed ^ u64::from_be_bytes(*label));
        let mut chance = apart(b"Filters!");
        let mut plan = Plan {
            changes: apart(b"Changes!").percent(CHANGES_PERCENT),
            broadcasts: apart(b"Broadcas").one_of(&[0, 0, 1, 2]),
            filters: if chance.percent(FILTERS_PERCENT) { chance.between(1, KINDS) } else { 0 },
            together: apart(b"Together").one_of(&[0, 0, 0, 1, BY_PREFIX]),
            expires: apart(b"Expires!").percent(EXPIRES_PERCENT),
            accepts: apart(b"Accepts!").percent(ACCEPTS_PERCENT),
            handle_within_ms: apart(b"HoldEnds").one_of(&[0, 0, 0, 0, 0, 0, 0, 1, 300, 2_500]),
            ..Plan::of(&mut chance_of(seed))
        };
        if plan.accepts {
            // The leases of QMQ's consumers, and what series owe, depend on the server's clock.
            (plan.qmq_groups, plan.broadcasts, plan.recurs, plan.clock_steps) = (0, 0, false, true);
        }
        // An occurrence that waited too long for its client comes first as a retry, which does not tell its time.
        plan.recurs &= plan.handle_within_ms == 0;
        plan
    }

    /// As [`Self::new`], with another plan than the seed has.
    pub fn of(seed: u64, plan: Plan, tells: bool) -> Self {
        let mut chance = chance_of(seed);
        Plan::of(&mut chance);
        let disk = Disk::new(chance.next_number());
        let wants = plan.qmq_clients(&mut chance);
        let places = wants.iter().map(|wants| wants.place.clone()).collect();
        let mut users: Vec<Box<dyn User>> = Vec::new();
        users.extend(plan.clients().into_iter().map(|client| Box::new(client) as Box<dyn User>));
        for (number, wants) in wants.into_iter().enumerate() {
            users.push(Box::new(QmqClient::new(number, wants)));
        }
        let may_say_nothing = plan.switches || plan.disk_percent > 0;
        let shared = Shared {
            account: Account::of_groups(plan.filtered_groups()),
            ledger: Ledger::new(plan.qmq_groups(), plan.lasting.lease_ms, may_say_nothing, START.0)
                .with_broadcasts(plan.broadcast_groups(), plan.lasting.broadcast_lease_ms),
            chance,
            now: START,
            subjects: plan.subject_names(),
            qmq_subjects: plan.qmq_subjects(),
            next_number: 1,
            recurs: plan.recurs,
            changes: plan.changes,
            has_labels: plan.filters > 0,
            expires: plan.expires,
            accepts: plan.accepts,
            damaged_percent: plan.damaged_percent,
        };
        Self {
            clock: SimulatedClock::new(START),
            disk,
            node: None,
            server: None,
            is_poisoned: false,
            links: BTreeMap::new(),
            users,
            places,
            shared,
            next_link: 1,
            unbelieved_ms: 0,
            turn: 0,
            trace: TraceHash::default(),
            told: tells.then(Vec::new),
            plan,
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
        // After an earlier finding, the findings at the end would say nothing.
        if self.is_sound() {
            let judged = self.judge_the_end();
            self.survive("the judgement", judged);
            self.shared.ledger.judge_the_end();
        }
        Ending {
            hash: self.trace.value(),
            turns: self.turn,
            counts: self.shared.account.counts,
            qmq: self.shared.ledger.counts,
            violations: self.shared.violations(),
            plan: self.plan,
            trace: self.told.unwrap_or_default(),
        }
    }

    fn is_sound(&self) -> bool {
        self.shared.is_sound()
    }

    fn survive(&mut self, what: &str, result: Result<()>) {
        if let Err(error) = result {
            self.shared.account.blame(format!("{what}: {error}"));
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
        let node = Node::open(self.disk.shared(), self.plan.node, self.clock.read(), &mut self.shared.chance)?;
        let before = self.server.take().map(|server| server.switched_off()).unwrap_or_default();
        let mut server = Server::new(self.plan.server_options(), before, node.reading().now)?;
        server.take_in(&node);
        (self.node, self.server) = (Some(node), Some(server));
        self.settle()
    }

    /// Makes the groups before the first message, so that each group must get all messages.
    fn make_groups(&mut self) -> Result<()> {
        let of_qmq = self.plan.qmq_groups().into_iter().map(|(name, _)| name).chain(self.plan.broadcast_groups());
        for (subject, group) in self.plan.first_groups().into_iter().chain(of_qmq) {
            self.node()?.subscribe(&subject, &group, StartAt::Unfinished)?;
            self.settle()?;
        }
        Ok(())
    }

    fn node(&mut self) -> Result<&mut Node> {
        self.node.as_mut().ok_or(Error::Closed)
    }

    /// Commits and applies everything.
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
        match self.shared.chance.below(100) {
            0..38 => self.carry_some()?,
            38..66 => self.let_a_user_act(),
            66..88 => self.work()?,
            88..92 => self.let_time_pass(),
            92..95 => self.save()?,
            _ => self.make_trouble()?,
        }
        self.notice_ends()
    }

    /// The node does one thing, and the server goes on.
    fn work(&mut self) -> Result<()> {
        let (clock, what) = (self.clock.read(), self.shared.chance.below(8));
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

    /// True if the store has ended: it writes, applies and saves nothing any more, and the server refuses all requests.
    fn has_ended(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.commits().poison().is_some())
    }

    fn follow(&mut self) -> Result<()> {
        let (Some(node), Some(server)) = (&mut self.node, &mut self.server) else { return Ok(()) };
        server.wake(node.take_woken());
        server.keep_all(node)?;
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
        let budget = self.shared.chance.one_of(&[4_096, u64::MAX]);
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

/// Prepares segments, as far as the disk has room.
fn prepare(node: &mut Node) -> Result<()> {
    while node.needs_segment(2) {
        match node.prepare() {
            Err(error) if error.is_no_space() => return Ok(()),
            other => other?,
        }
    }
    Ok(())
}
