//! The machine of a small world: a store on a recording disk, driven step by step. After each write, sync and apply,
//! the tape records what the store promises.

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Durability;
use delaymq_core::storage::{Crash, MemoryStorage};
use delaymq_core::store::StartAt;
use delaymq_core::store::{Outcome, PullRequest, Receipt};
use delaymq_core::units::{ConsumerNumber, GroupNumber, Millis, Sequence};

use std::sync::Arc;

use super::tape::{Recording, Tape};
use crate::chance::Chance;
use crate::clock::SimulatedClock;
use crate::node::{Due, Handed, NewMessage, Node, NodeOptions, Pulled};

/// The time at which small worlds begin.
pub const START: Millis = Millis(1_700_000_000_000);
/// The most unfinished messages that a consumer may hold.
const IN_FLIGHT_MAX: u32 = 16;
/// The most rounds of a loop. A loop that needs more is stuck.
const ROUNDS_MAX: usize = 400;

/// A consumer of a group.
pub type Consumer = (GroupNumber, ConsumerNumber);

/// See the module.
pub struct Machine {
    disk: Recording,
    /// The clocks of the machine.
    pub clock: SimulatedClock,
    chance: Chance,
    options: NodeOptions,
    node: Option<Node>,
    bodies: u64,
}

/// The error of a step that did not complete although nothing prevented it.
fn stuck(what: &'static str) -> Error {
    Error::InvalidArgument { argument: what, expected: "an end".to_owned(), found: "none".to_owned() }
}

impl Machine {
    /// A machine with this disk. Its store is not open.
    pub fn on(storage: MemoryStorage, tape: Tape, options: NodeOptions, seed: u64) -> Self {
        let (clock, chance) = (SimulatedClock::new(START), Chance::new(seed));
        Self { disk: Recording::new(storage, tape), clock, chance, options, node: None, bodies: 0 }
    }

    /// The disk and its tape.
    pub fn disk(&self) -> &Recording {
        &self.disk
    }

    /// The random numbers of the machine.
    pub fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    /// The store.
    pub fn node(&mut self) -> Result<&mut Node> {
        self.node.as_mut().ok_or(Error::Closed)
    }

    /// True if the store is open.
    pub fn is_open(&self) -> bool {
        self.node.is_some()
    }

    /// Starts the tape: it keeps every moment from now on.
    pub fn record(&mut self) {
        let disk = self.disk.disk().clone();
        self.disk.tape().start(&disk);
    }

    /// Opens the store.
    pub fn open(&mut self) -> Result<()> {
        self.node = None;
        let node = Node::open(Arc::new(self.disk.clone()), self.options, self.clock.read(), &mut self.chance)?;
        self.node = Some(node);
        self.note();
        Ok(())
    }

    /// Ends the process. The disk keeps all written bytes; unsynced bytes stay unsynced.
    pub fn kill(&mut self) {
        self.crash(Crash::Kill);
    }

    /// Ends the process or the machine.
    pub fn crash(&mut self, crash: Crash) {
        self.node = None;
        let seed = self.chance.next_number();
        self.disk = self.disk.moved_to(self.disk.disk().crash(crash, seed));
        if crash != Crash::Kill {
            self.disk.tape().power_was_cut();
        }
    }

    /// Settles, and closes the store cleanly.
    pub fn close(&mut self) -> Result<()> {
        self.settle()?;
        let Some(node) = self.node.take() else { return Err(Error::Closed) };
        node.close()
    }

    /// Records on the tape what the store promises now.
    pub fn note(&mut self) {
        let Some(node) = &mut self.node else { return };
        node.take_applied();
        let commits = node.commits();
        let visible = commits.visible().sequence;
        // With `disk` durability, a visible fact is synced and survives a power cut.
        let is_os = self.options.durability == Durability::Os;
        let synced = if is_os { commits.synced_mark().sequence } else { visible };
        self.disk.tape().promised(visible, synced, node.epoch());
    }

    fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        self.note();
        result
    }

    /// Writes, syncs and applies all queued facts.
    pub fn settle(&mut self) -> Result<()> {
        self.write()?;
        let synced = self.node()?.sync();
        self.noted(synced)?;
        let applied = self.node()?.apply(usize::MAX);
        self.noted(applied).map(drop)
    }

    /// Writes all queued facts, syncs where the durability requires it, and applies what is visible.
    pub fn write(&mut self) -> Result<()> {
        let now = self.clock.read();
        let node = self.node()?;
        node.look(now);
        node.send()?;
        loop {
            let written = self.node()?.write_batch();
            match self.noted(written)? {
                None => break,
                Some(true) => {
                    let synced = self.node()?.sync();
                    self.noted(synced)?;
                }
                Some(false) => {}
            }
        }
        let applied = self.node()?.apply(usize::MAX);
        self.noted(applied).map(drop)
    }

    /// Queues one message for each delay in milliseconds. Its body has `bytes` bytes after a prefix that names it.
    pub fn submit(&mut self, subject: &str, delays: &[u64], bytes: usize) -> Result<Vec<Receipt>> {
        let now = self.clock.read();
        self.node()?.look(now);
        let mut bodies = Vec::new();
        for _ in delays {
            self.bodies += 1;
            let mut body = format!("{subject}:{}:", self.bodies).into_bytes();
            let filler = self.bodies % 251;
            body.extend((0..bytes).map(|at| (filler + at as u64 % 7) as u8 | 1));
            bodies.push(body);
        }
        let messages: Vec<NewMessage<'_>> = delays
            .iter()
            .zip(&bodies)
            .map(|(delay, body)| NewMessage { subject, due: Due::After(*delay), body, expires: None, meta: b"" })
            .collect();
        for _ in 0..4 {
            if let Some(published) = self.node()?.publish(&messages)? {
                return Ok(published.receipts);
            }
            self.write()?;
            self.node()?.prepare()?;
        }
        Err(stuck("room to publish"))
    }

    /// Publishes messages and settles.
    pub fn publish(&mut self, subject: &str, delays: &[u64], bytes: usize) -> Result<Vec<Receipt>> {
        let receipts = self.submit(subject, delays, bytes)?;
        self.settle()?;
        Ok(receipts)
    }

    /// Cancels a message and settles.
    pub fn cancel(&mut self, receipt: &Receipt) -> Result<()> {
        self.node()?.cancel(receipt)?;
        self.settle()
    }

    fn asked(&mut self, fact: Option<Sequence>) -> Result<Option<Outcome>> {
        self.settle()?;
        let node = self.node()?;
        Ok(fact.and_then(|fact| node.take_outcome(fact)))
    }

    /// Subscribes a group from the earliest message kept, and begins a consumer of it.
    pub fn consumer(&mut self, subject: &str, group: &str) -> Result<Consumer> {
        let fact = self.node()?.subscribe(subject, group, StartAt::Unfinished)?;
        let Some(Outcome::Group(group) | Outcome::GroupThere(group)) = self.asked(fact)? else {
            return Err(stuck("a group"));
        };
        self.consumer_of(group)
    }

    /// Begins a consumer of an existing group.
    pub fn consumer_of(&mut self, group: GroupNumber) -> Result<Consumer> {
        let fact = self.node()?.begin_consumer(group, "consumer", 0)?;
        match self.asked(fact)? {
            Some(Outcome::Consumer(consumer) | Outcome::Attached(_, consumer)) => Ok((group, consumer)),
            _ => Err(stuck("a consumer")),
        }
    }

    /// Pulls at most three times, until messages come.
    pub fn pull(&mut self, (group, consumer): Consumer, count_max: usize) -> Result<Vec<Handed>> {
        for _ in 0..3 {
            let request = PullRequest { group, consumer, count_max, in_flight_max: IN_FLIGHT_MAX, beside: 0 };
            let pulled = self.node()?.pull(request, 0)?;
            self.settle()?;
            match pulled {
                Pulled::Messages(handed, ..) if !handed.is_empty() => return Ok(handed),
                Pulled::Gone => return Err(stuck("a consumer")),
                _ => {}
            }
        }
        Ok(Vec::new())
    }

    /// Acknowledges these deliveries and settles.
    pub fn acknowledge(&mut self, (group, consumer): Consumer, handed: &[Handed]) -> Result<()> {
        let offsets: Vec<u64> = handed.iter().map(|one| one.delivery.offset.0).collect();
        self.node()?.acknowledge(group, consumer, &offsets, 0)?;
        self.settle()
    }

    /// Gives a message back with a delay of one second, and settles.
    pub fn give_back(&mut self, names: (&str, &str), consumer: Consumer, handed: &Handed) -> Result<()> {
        self.node()?.give_back(names, consumer, &handed.delivery, 1_000, 0)?;
        self.settle()
    }

    /// Lets time pass and dispatches all due messages.
    pub fn pass(&mut self, ms: u64) -> Result<()> {
        self.clock.advance(ms);
        let now = self.clock.read();
        for _ in 0..ROUNDS_MAX {
            self.node()?.look(now);
            let stepped = self.node()?.step(1_000)?;
            self.settle()?;
            if !stepped.more && stepped.proposed == 0 {
                return Ok(());
            }
        }
        Err(stuck("steps"))
    }

    /// Completes a checkpoint, a new one or the one under way, in pieces of `piece_bytes` bytes.
    pub fn checkpoint(&mut self, piece_bytes: u64) -> Result<()> {
        self.node()?.begin_checkpoint();
        for _ in 0..ROUNDS_MAX {
            let done = self.node()?.checkpoint_piece(piece_bytes);
            if self.noted(done)? {
                return Ok(());
            }
        }
        Err(stuck("a checkpoint"))
    }

    /// Prepares one segment.
    pub fn prepare(&mut self) -> Result<()> {
        self.node()?.prepare()
    }

    /// Writes a witness if one is due.
    pub fn witness(&mut self) -> Result<()> {
        let written = self.node()?.witness();
        self.noted(written).map(drop)
    }

    /// Pulls and acknowledges until the consumer gets no more messages.
    pub fn take_all(&mut self, consumer: Consumer) -> Result<Vec<Handed>> {
        let mut taken = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let handed = self.pull(consumer, 100)?;
            if handed.is_empty() {
                return Ok(taken);
            }
            self.acknowledge(consumer, &handed)?;
            taken.extend(handed);
        }
        Err(stuck("a backlog"))
    }
}
