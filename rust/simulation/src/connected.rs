//! A history over connections: clients with core's callers, a server with core's connections over one
//! node, and between them a network that splits, delays, loses and cuts. One seed is one history; what
//! users were told and given is judged by an account that knows nothing else.

mod account;
mod client;
mod link;
mod plan;
mod server;
mod troubles;

use std::collections::BTreeMap;

use delaymq_core::error::{Error, Result};
use delaymq_core::record::name::GroupStart;
use delaymq_core::units::Millis;
use delaymq_core::wire::caller::CallerLimits;

pub use self::account::Counts;
use self::account::{Account, LinkId};
use self::client::Client;
use self::link::Link;
pub use self::plan::Plan;
use self::server::Server;
use crate::chance::{Chance, TraceHash};
use crate::clock::SimulatedClock;
use crate::disk::Disk;
use crate::node::Node;

/// Where the wall clock starts.
const START: Millis = Millis(1_700_000_000_000);
/// Turns in which everything must have come to its end.
const LAST_TURNS_MAX: u64 = 3_000;
/// So many turns without anything mean that nothing more comes.
const QUIET_TURNS: u64 = 12;
/// Bytes that a last turn moves at once.
const LAST_PIECE: usize = 1 << 20;

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

/// See the module.
pub struct Connected {
    plan: Plan,
    chance: Chance,
    clock: SimulatedClock,
    disk: Disk,
    node: Option<Node>,
    server: Server,
    links: BTreeMap<LinkId, Link>,
    clients: Vec<Client>,
    account: Account,
    subjects: Vec<String>,
    next_link: LinkId,
    /// Links below this are of an earlier epoch of the server.
    epoch_began: LinkId,
    next_number: u64,
    turn: u64,
    trace: TraceHash,
    told: Option<Vec<String>>,
}

impl Connected {
    /// A history before its first turn. With `tells` it keeps what happens, in words.
    pub fn new(seed: u64, tells: bool) -> Self {
        let mut chance = Chance::new(seed ^ 0x436F_6E6E_6563_7465);
        let plan = Plan::of(&mut chance);
        let disk = Disk::new(chance.next_number());
        Self {
            clock: SimulatedClock::new(START),
            disk,
            node: None,
            server: Server::new(plan.connection_limits),
            links: BTreeMap::new(),
            clients: plan.clients(),
            account: Account::default(),
            subjects: plan.subject_names(),
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
            let done = self.take_turn();
            self.survive("a turn", done);
        }
        if self.is_sound() {
            let ended = self.come_to_rest();
            self.survive("the end", ended);
            self.account.judge_the_end(&self.plan.groups_of_subjects());
        }
        Ending {
            hash: self.trace.value(),
            turns: self.turn,
            counts: self.account.counts,
            violations: self.account.violations().to_vec(),
            plan: self.plan,
            trace: self.told.unwrap_or_default(),
        }
    }

    fn is_sound(&self) -> bool {
        self.account.violations().is_empty()
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
        self.node = Some(node);
        self.settle()
    }

    /// The groups are there before the first message, so that each is owed all of them.
    fn make_groups(&mut self) -> Result<()> {
        for (subject, group) in self.plan.groups_of_subjects() {
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
        while node.needs_segment(2) {
            node.prepare()?;
        }
        node.send()?;
        node.commit()?;
        node.sync()?;
        node.apply(usize::MAX).map(drop)
    }

    fn take_turn(&mut self) -> Result<()> {
        match self.chance.below(100) {
            0..38 => self.carry_some()?,
            38..66 => self.let_a_client_act(),
            66..88 => self.work()?,
            88..92 => {
                let by_ms = self.chance.one_of(&[1, 15, 300, 2_000]);
                self.clock.advance(by_ms);
            }
            92..95 => self.save()?,
            _ => self.make_trouble()?,
        }
        self.notice_ends()
    }

    /// A client connects, or does something.
    fn let_a_client_act(&mut self) {
        let index = usize::try_from(self.chance.below(self.clients.len() as u64)).unwrap_or(0);
        let now = self.now();
        let Some(client) = self.clients.get_mut(index) else { return };
        let words = if client.link().is_none() {
            let link = self.next_link;
            self.next_link += 1;
            self.links.insert(link, Link::default());
            self.server.connected(link, now);
            client.connect(link, self.plan.caller_limits());
            "connects"
        } else {
            client.act(&mut client::Surroundings {
                account: &mut self.account,
                chance: &mut self.chance,
                now,
                subjects: &self.subjects,
                next_number: &mut self.next_number,
            })
        };
        self.note(&format!("client {index} {words}"));
    }

    /// Bytes move on one link, each way.
    fn carry_some(&mut self) -> Result<()> {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        let Some(link) = self.chance.pick(&links).copied() else { return Ok(()) };
        if let Some(paused) = self.links.get_mut(&link).filter(|link| link.paused > 0) {
            paused.paused -= 1;
            return Ok(());
        }
        let most = self.plan.piece_bytes_max as u64;
        let pieces = [(); 4].map(|()| usize::try_from(self.chance.between(0, most)).unwrap_or(0));
        self.carry(link, pieces)
    }

    /// Moves up to so many bytes out of the client, into the server, out of it, into the client.
    fn carry(&mut self, id: LinkId, pieces: [usize; 4]) -> Result<()> {
        let now = self.now();
        let clock = self.clock.read();
        let [out_of_client, into_server, out_of_server, into_client] = pieces;
        let (Some(link), Some(node)) = (self.links.get_mut(&id), &mut self.node) else { return Ok(()) };
        let mut client = self.clients.iter_mut().find(|client| client.link() == Some(id));
        if let Some(client) = &mut client {
            link.leave_client(&client.write(out_of_client));
        }
        let server = &mut self.server;
        link.reach_server(into_server, |bytes| server.receive(id, bytes, now));
        node.look(clock);
        server.serve(node, id)?;
        link.leave_server(&server.write(id, out_of_server, now));
        if let Some(client) = &mut client {
            link.reach_client(into_client, |bytes| client.receive(bytes));
            client.hear(&mut self.account, link, now);
        }
        Ok(())
    }

    /// The node does one thing, and the server what follows of it.
    fn work(&mut self) -> Result<()> {
        let (clock, what) = (self.clock.read(), self.chance.below(8));
        let Some(node) = &mut self.node else { return Ok(()) };
        node.look(clock);
        while node.needs_segment(2) {
            node.prepare()?;
        }
        match what {
            0 | 1 => drop(node.step(64)?),
            2 => drop(node.write_batch()?),
            3 => node.sync()?,
            4 => drop(node.apply(1)?),
            5 => node.witness().map(drop)?,
            _ => self.settle()?,
        }
        self.follow()
    }

    fn follow(&mut self) -> Result<()> {
        let Some(node) = &mut self.node else { return Ok(()) };
        self.server.keep_promises(node)?;
        self.server.pump(node)?;
        let applied = node.take_applied();
        node.take_sent();
        node.take_woken();
        for batch in &applied {
            self.trace.add_number(u64::from(batch.header.chain.get()));
        }
        Ok(())
    }

    /// A piece of a checkpoint.
    fn save(&mut self) -> Result<()> {
        let budget = self.chance.one_of(&[4_096, u64::MAX]);
        let node = self.node()?;
        node.begin_checkpoint();
        node.checkpoint_piece(budget).map(drop)
    }

    /// With no more trouble, everything comes to its end.
    fn come_to_rest(&mut self) -> Result<()> {
        let mut quiet = 0;
        for _ in 0..LAST_TURNS_MAX {
            for index in 0..self.clients.len() {
                self.finish(index);
            }
            for link in self.links.keys().copied().collect::<Vec<_>>() {
                self.carry(link, [LAST_PIECE; 4])?;
            }
            self.clock.advance(200);
            self.settle()?;
            self.node()?.step(1_000)?;
            self.settle()?;
            self.follow()?;
            self.notice_ends()?;
            quiet = if self.is_quiet() { quiet + 1 } else { 0 };
            if quiet >= QUIET_TURNS || !self.is_sound() {
                return Ok(());
            }
        }
        self.account.blame(format!("nothing comes to its end in {LAST_TURNS_MAX} turns"));
        Ok(())
    }

    fn finish(&mut self, index: usize) {
        let now = self.now();
        let Some(client) = self.clients.get_mut(index) else { return };
        if client.link().is_none() {
            let link = self.next_link;
            self.next_link += 1;
            self.links.insert(link, Link::default());
            self.server.connected(link, now);
            return client.connect(link, CallerLimits::default());
        }
        client.finish(&mut client::Surroundings {
            account: &mut self.account,
            chance: &mut self.chance,
            now,
            subjects: &self.subjects,
            next_number: &mut self.next_number,
        });
    }

    fn is_quiet(&self) -> bool {
        let pending = self.node.as_ref().map_or(0, |node| node.owner().state().schedule.pending());
        pending == 0
            && self.server.is_quiet()
            && self.links.values().all(Link::is_quiet)
            && self.clients.iter().all(Client::is_quiet)
    }
}
