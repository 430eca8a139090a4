//! The machine of a small world: a store on a disk that records, driven step by step. The store's promises are noted
//! after each step between queue and state.

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Durability;
use delaymq_core::record::name::GroupStart;
use delaymq_core::storage::{Crash, MemoryStorage};
use delaymq_core::store::{Outcome, PullRequest, Receipt};
use delaymq_core::units::{ConsumerNumber, GroupNumber, Millis, Sequence};

use std::sync::Arc;

use super::tape::{Recording, Tape};
use crate::chance::Chance;
use crate::clock::SimulatedClock;
use crate::node::{Due, Handed, NewMessage, Node, NodeOptions, Pulled};

/// When small worlds begin.
pub const START: Millis = Millis(1_700_000_000_000);
/// What a consumer may hold.
const IN_FLIGHT_MAX: u32 = 16;
/// Rounds after which something that should have ended has not.
const ROUNDS_MAX: usize = 400;

/// A consumer of a group.
pub type Consumer = (GroupNumber, ConsumerNumber);

/// See the module.
pub struct Machine {
    disk: Recording,
    /// Its clocks.
    pub clock: SimulatedClock,
    chance: Chance,
    options: NodeOptions,
    node: Option<Node>,
    bodies: u64,
}

/// Something that did not come to be, although nothing stood in its way.
fn stuck(what: &'static str) -> Error {
    Error::InvalidArgument { argument: what, expected: "an end".to_owned(), found: "none".to_owned() }
}

impl Machine {
    /// A machine with this disk, its store not open.
    pub fn on(storage: MemoryStorage, tape: Tape, options: NodeOptions, seed: u64) -> Self {
        let (clock, chance) = (SimulatedClock::new(START), Chance::new(seed));
        Self { disk: Recording::new(storage, tape), clock, chance, options, node: None, bodies: 0 }
    }

    /// The disk and its tape.
    pub fn disk(&self) -> &Recording {
        &self.disk
    }

    /// What chance decides.
    pub fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    /// The store.
    pub fn node(&mut self) -> Result<&mut Node> {
        self.node.as_mut().ok_or(Error::Closed)
    }

    /// True where a store is open.
    pub fn is_open(&self) -> bool {
        self.node.is_some()
    }

    /// From now on every moment is kept.
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

    /// The process ends; its disk keeps what was written, and as little of it synced as before.
    pub fn kill(&mut self) {
        self.crash(Crash::Kill);
    }

    /// The process or the machine ends.
    pub fn crash(&mut self, crash: Crash) {
        self.node = None;
        let seed = self.chance.next_number();
        self.disk = self.disk.moved_to(self.disk.disk().crash(crash, seed));
        if crash != Crash::Kill {
            self.disk.tape().power_was_cut();
        }
    }

    /// Closes the store in order.
    pub fn close(&mut self) -> Result<()> {
        self.settle()?;
        let Some(node) = self.node.take() else { return Err(Error::Closed) };
        node.close()
    }

    /// Notes what the store says of itself now.
    pub fn note(&mut self) {
        let Some(node) = &mut self.node else { return };
        node.take_applied();
        let commits = node.commits();
        let visible = commits.visible().sequence;
        // What is answered under `disk` survives everything.
        let is_os = self.options.durability == Durability::Os;
        let synced = if is_os { commits.synced_mark().sequence } else { visible };
        self.disk.tape().promised(visible, synced, node.epoch());
    }

    fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        self.note();
        result
    }

    /// Writes and syncs all that is queued, and applies it.
    pub fn settle(&mut self) -> Result<()> {
        self.write()?;
        let synced = self.node()?.sync();
        self.noted(synced)?;
        let applied = self.node()?.apply(usize::MAX);
        self.noted(applied).map(drop)
    }

    /// Writes all that is queued, syncs what must be, and applies what is visible.
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

    /// Queues messages of these delays, in milliseconds, with bodies of so many bytes.
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
            .map(|(delay, body)| NewMessage { subject, due: Due::After(*delay), body })
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

    /// Publishes messages, and waits for them.
    pub fn publish(&mut self, subject: &str, delays: &[u64], bytes: usize) -> Result<Vec<Receipt>> {
        let receipts = self.submit(subject, delays, bytes)?;
        self.settle()?;
        Ok(receipts)
    }

    /// Cancels a message, and waits for it.
    pub fn cancel(&mut self, receipt: &Receipt) -> Result<()> {
        self.node()?.cancel(receipt)?;
        self.settle()
    }

    fn asked(&mut self, fact: Option<Sequence>) -> Result<Option<Outcome>> {
        self.settle()?;
        let node = self.node()?;
        Ok(fact.and_then(|fact| node.take_outcome(fact)))
    }

    /// A consumer of a group that gets what is kept.
    pub fn consumer(&mut self, subject: &str, group: &str) -> Result<Consumer> {
        let fact = self.node()?.subscribe(subject, group, GroupStart::Earliest)?;
        let Some(Outcome::Group(group) | Outcome::GroupThere(group)) = self.asked(fact)? else {
            return Err(stuck("a group"));
        };
        self.consumer_of(group)
    }

    /// A consumer of a group that is there.
    pub fn consumer_of(&mut self, group: GroupNumber) -> Result<Consumer> {
        let fact = self.node()?.begin_consumer(group, "consumer", 0)?;
        match self.asked(fact)? {
            Some(Outcome::Consumer(consumer) | Outcome::Attached(_, consumer)) => Ok((group, consumer)),
            _ => Err(stuck("a consumer")),
        }
    }

    /// Pulls until something comes, or nothing twice.
    pub fn pull(&mut self, (group, consumer): Consumer, count_max: usize) -> Result<Vec<Handed>> {
        for _ in 0..3 {
            let request = PullRequest { group, consumer, count_max, in_flight_max: IN_FLIGHT_MAX, beside: None };
            let pulled = self.node()?.pull(request, 0)?;
            self.settle()?;
            match pulled {
                Pulled::Messages(handed, _) if !handed.is_empty() => return Ok(handed),
                Pulled::Gone => return Err(stuck("a consumer")),
                _ => {}
            }
        }
        Ok(Vec::new())
    }

    /// Acknowledges what was handed over, and waits for it.
    pub fn acknowledge(&mut self, (group, consumer): Consumer, handed: &[Handed]) -> Result<()> {
        let offsets: Vec<u64> = handed.iter().map(|one| one.delivery.offset.0).collect();
        self.node()?.acknowledge(group, consumer, &offsets, 0)?;
        self.settle()
    }

    /// Gives a message back, to come again after a second.
    pub fn give_back(&mut self, names: (&str, &str), consumer: Consumer, handed: &Handed) -> Result<()> {
        self.node()?.give_back(names, consumer, &handed.delivery, 1_000, 0)?;
        self.settle()
    }

    /// Time passes, and all that is due becomes ready.
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

    /// A whole checkpoint, in pieces of so many bytes.
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

    /// Writes a witness, where one is due.
    pub fn witness(&mut self) -> Result<()> {
        let written = self.node()?.witness();
        self.noted(written).map(drop)
    }

    /// Takes and acknowledges all there is for a consumer.
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
