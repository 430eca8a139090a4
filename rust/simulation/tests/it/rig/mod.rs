//! A machine with a store, for histories that a test writes step by step.
#![expect(unreachable_pub, reason = "the modules of the tests share it")]
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may panic")]

pub mod keyed;
pub mod orders;
pub mod rebuilt;
pub mod saving;

use std::collections::BTreeSet;

use delaymq_core::error::Result;
use delaymq_core::message_log::Durability;
use delaymq_core::planted::Planted;
use delaymq_core::record::attach::Attach;
use delaymq_core::store::{Outcome, OwnerOptions, PullRequest, Receipt, StartAt, verify};
use delaymq_core::units::{ConsumerNumber, GroupNumber, Millis, Sequence};
use delaymq_simulation::chance::Chance;
use delaymq_simulation::clock::SimulatedClock;
use delaymq_simulation::disk::{Disk, End};
use delaymq_simulation::node::{Due, Handed, NewMessage, Node, NodeOptions, Pulled};
use delaymq_simulation::planted::Plant;
use delaymq_simulation::replica::Replica;

pub const START: Millis = Millis(1_700_000_000_000);

/// A consumer of a group.
pub type Place = (GroupNumber, ConsumerNumber);

pub struct Rig {
    pub disk: Disk,
    pub clock: SimulatedClock,
    pub chance: Chance,
    pub options: NodeOptions,
    pub in_flight_max: u32,
    node: Option<Node>,
}

/// Small segments, everything kept, payloads copied soon.
pub fn small() -> NodeOptions {
    let owner = OwnerOptions {
        checkpoint_bytes: u64::MAX,
        checkpoint_facts: u64::MAX,
        keep_finished_ms: u64::MAX,
        copy_after_ms: 100,
        ..OwnerOptions::default()
    };
    NodeOptions { owner, ..NodeOptions::default() }
}

/// As small, and nothing kept that is finished.
pub fn lean() -> NodeOptions {
    let owner = OwnerOptions { keep_finished_ms: 0, ..small().owner };
    NodeOptions { owner, ..small() }
}

pub fn os() -> NodeOptions {
    NodeOptions { durability: Durability::Os, ..small() }
}

pub fn keeping() -> NodeOptions {
    NodeOptions { keeps_consumers: true, ..small() }
}

impl Rig {
    pub fn new(options: NodeOptions) -> Self {
        let clock = SimulatedClock::new(START);
        let mut rig = Self { disk: Disk::new(1), clock, chance: Chance::new(1), options, in_flight_max: 8, node: None };
        rig.try_open().unwrap();
        rig
    }

    /// The same machine at this moment, to be crashed in another way. Its store is not running.
    pub fn fork(&self, end: End, seed: u64) -> Self {
        let mut disk = Disk::of(self.disk.storage().clone());
        disk.crash(end, &mut Chance::new(seed));
        self.on(disk, seed)
    }

    /// This machine after a power cut that keeps of what was not synced only the changes of these
    /// names.
    pub fn fork_but(&self, keep: &dyn Fn(&str) -> bool) -> Self {
        self.on(Disk::of(self.disk.storage().power_cut_but(keep)), 1)
    }

    fn on(&self, disk: Disk, seed: u64) -> Self {
        let chance = Chance::new(seed);
        Self { disk, clock: self.clock, chance, options: self.options, in_flight_max: self.in_flight_max, node: None }
    }

    pub fn node(&mut self) -> &mut Node {
        self.node.as_mut().unwrap()
    }

    pub fn try_open(&mut self) -> Result<()> {
        self.node = None;
        let node = Node::open(self.disk.shared(), self.options, self.clock.read(), &mut self.chance)?;
        self.node = Some(node);
        self.try_settle()
    }

    pub fn end(&mut self, end: End) {
        self.node = None;
        self.disk.crash(end, &mut self.chance);
    }

    pub fn reopen(&mut self, end: End) {
        self.end(end);
        self.try_open().unwrap();
    }

    pub fn close(&mut self) {
        self.settle();
        self.node.take().unwrap().close().unwrap();
    }

    pub fn try_settle(&mut self) -> Result<()> {
        let now = self.clock.read();
        let node = self.node.as_mut().unwrap();
        node.look(now);
        node.send()?;
        node.commit()?;
        node.sync()?;
        node.apply(usize::MAX).map(drop)
    }

    pub fn settle(&mut self) {
        self.try_settle().unwrap();
    }

    /// Writes and applies what is visible, without a sync that nothing asks for.
    pub fn write(&mut self) {
        let now = self.clock.read();
        let node = self.node();
        node.look(now);
        node.send().unwrap();
        node.commit().unwrap();
        node.apply(usize::MAX).unwrap();
    }

    pub fn submit(&mut self, subject: &str, delay_ms: u64, body: &str) -> Receipt {
        let now = self.clock.read();
        let node = self.node();
        node.look(now);
        let message =
            NewMessage { subject, due: Due::After(delay_ms), body: body.as_bytes(), expires: None, meta: b"" };
        for _ in 0..3 {
            if let Some(published) = node.publish(&[message]).unwrap() {
                return published.receipts[0];
            }
            node.commit().unwrap();
            node.prepare().unwrap();
        }
        panic!("no room to publish")
    }

    pub fn publish(&mut self, subject: &str, delay_ms: u64, body: &str) -> Receipt {
        let receipt = self.submit(subject, delay_ms, body);
        self.settle();
        receipt
    }

    pub fn cancel(&mut self, receipt: &Receipt) -> Outcome {
        assert_eq!(self.node().may_be_here(receipt), Ok(true));
        let command = self.node().cancel(receipt).unwrap().unwrap();
        self.settle();
        self.node().take_outcome(command).unwrap()
    }

    pub fn move_to(&mut self, receipt: &Receipt, due: Due) -> Outcome {
        assert_eq!(self.node().may_be_here(receipt), Ok(true));
        let now = self.clock.read();
        for _ in 0..3 {
            self.node().look(now);
            if let Some(key) = self.node().move_to(receipt, due).unwrap() {
                self.settle();
                return self.node().take_outcome(key.sequence).unwrap();
            }
            self.node().commit().unwrap();
            self.node().prepare().unwrap();
        }
        panic!("no room to move")
    }

    /// Moves a message that is still pending; its new receipt.
    pub fn moved(&mut self, receipt: &Receipt, due: Due) -> Receipt {
        match self.move_to(receipt, due) {
            Outcome::Moved(key) => self.node().receipt_of(key, receipt.subject, receipt.size).unwrap(),
            other => panic!("{receipt:?}: {other:?}"),
        }
    }

    pub fn group(&mut self, subject: &str, group: &str, start: StartAt) -> GroupNumber {
        let fact = self.node().subscribe(subject, group, start).unwrap().unwrap();
        self.settle();
        match self.node().take_outcome(fact) {
            Some(Outcome::Group(group) | Outcome::GroupThere(group)) => group,
            other => panic!("{other:?}"),
        }
    }

    pub fn consumer(&mut self, group: GroupNumber, name: &str) -> ConsumerNumber {
        let fact = self.node().begin_consumer(group, name, 0).unwrap().unwrap();
        self.settle();
        match self.node().take_outcome(fact) {
            Some(Outcome::Consumer(consumer) | Outcome::Attached(_, consumer)) => consumer,
            other => panic!("{other:?}"),
        }
    }

    /// A consumer that a client names, of a group that is made where it is not there. The subject must be.
    pub fn attach(&mut self, subject: &str, group: &str, start: StartAt, consumer: &str, block: u32) -> Place {
        let subject = self.node().subject_number(subject).unwrap();
        let plan = self.node().owner().plan_starts(&[subject], start, START).unwrap();
        let start = self.node().owner().finish_start(plan).unwrap().of(subject);
        let attach = Attach { subject, start, block, is_broadcast: false, group, consumer };
        let fact = self.node().attach(&attach).unwrap().unwrap();
        self.settle();
        match self.node().take_outcome(fact) {
            Some(Outcome::Attached(group, consumer)) => (group, consumer),
            other => panic!("{other:?}"),
        }
    }

    pub fn earliest(&mut self, subject: &str, group: &str) -> (GroupNumber, ConsumerNumber) {
        let group = self.group(subject, group, StartAt::Unfinished);
        (group, self.consumer(group, "c"))
    }

    /// One pull and nothing else.
    pub fn pull_once(&mut self, place: (GroupNumber, ConsumerNumber)) -> Pulled {
        self.try_pull_once(place).unwrap()
    }

    fn try_pull_once(&mut self, place: (GroupNumber, ConsumerNumber)) -> Result<Pulled> {
        let request = PullRequest {
            group: place.0,
            consumer: place.1,
            count_max: 1_000,
            in_flight_max: self.in_flight_max,
            beside: 0,
        };
        self.node().pull(request, 0)
    }

    /// Pulls until something comes, or nothing twice.
    pub fn pull(&mut self, place: (GroupNumber, ConsumerNumber)) -> Vec<Handed> {
        self.try_pull(place).unwrap()
    }

    fn try_pull(&mut self, place: (GroupNumber, ConsumerNumber)) -> Result<Vec<Handed>> {
        for _ in 0..3 {
            match self.try_pull_once(place)? {
                Pulled::Messages(handed, damaged, _) => {
                    self.settle();
                    if !handed.is_empty() || damaged.is_empty() {
                        return Ok(handed);
                    }
                }
                Pulled::Wait => self.settle(),
                Pulled::Gone => panic!("{place:?} is gone"),
            }
        }
        Ok(Vec::new())
    }

    pub fn acknowledge(&mut self, place: (GroupNumber, ConsumerNumber), offsets: &[u64]) {
        self.node().acknowledge(place.0, place.1, offsets, 0).unwrap();
        self.settle();
    }

    pub fn give_back(
        &mut self,
        names: (&str, &str),
        place: (GroupNumber, ConsumerNumber),
        handed: &Handed,
        delay: u64,
    ) {
        self.node().give_back(names, place, &handed.delivery, delay, 0).unwrap();
        self.settle();
    }

    /// Time passes, and what is due becomes ready.
    pub fn pass(&mut self, ms: u64) {
        self.clock.advance(ms);
        self.step();
    }

    pub fn step(&mut self) {
        let now = self.clock.read();
        for _ in 0..200 {
            self.node().look(now);
            let progress = self.node().step(1_000).unwrap();
            self.settle();
            if !progress.more && progress.proposed == 0 {
                return;
            }
        }
        panic!("the steps do not come to an end");
    }

    pub fn checkpoint(&mut self) {
        self.node().checkpoint().unwrap();
    }

    /// Takes and acknowledges all there is for a group.
    pub fn take_all(&mut self, place: (GroupNumber, ConsumerNumber)) -> Vec<String> {
        self.try_take_all(place).unwrap()
    }

    /// As `take_all`, for who wants to see a pull fail.
    pub fn try_take_all(&mut self, place: (GroupNumber, ConsumerNumber)) -> Result<Vec<String>> {
        let mut bodies = Vec::new();
        loop {
            let handed = self.try_pull(place)?;
            if handed.is_empty() {
                return Ok(bodies);
            }
            let offsets: Vec<u64> = handed.iter().map(|one| one.delivery.offset.0).collect();
            bodies.extend(bodies_of(&handed));
            self.acknowledge(place, &offsets);
            self.step();
        }
    }

    /// All that a consumer of this group gets after a long time.
    pub fn drain(&mut self, subject: &str, group: &str) -> Vec<String> {
        let place = self.earliest(subject, group);
        self.pass(1_000_000);
        self.take_all(place)
    }

    pub fn files(&self) -> BTreeSet<String> {
        self.disk.storage().image().into_keys().collect()
    }

    /// The file of the highest number in a folder.
    pub fn newest(&self, folder: &str) -> String {
        let files = self.files();
        files.into_iter().rfind(|path| path.starts_with(folder)).unwrap()
    }

    /// The state must be what the log says from its first fact on.
    pub fn compare_with_log(&mut self) {
        assert_eq!(self.differences_from_log(), Vec::<String>::new());
    }

    pub fn differences_from_log(&mut self) -> Vec<String> {
        let copy = self.disk.copy();
        let node = self.node();
        let mut replica = Replica::new(*node.identity()).unwrap();
        replica.catch_up(&copy, node.appender().written().location).unwrap();
        replica.differences(node.owner())
    }

    /// Every byte is checked; the store is closed.
    pub fn verify(&self, node: &delaymq_core::message_log::Identity) {
        assert_eq!(verify(&self.disk.copy(), node).unwrap().findings, Vec::<String>::new());
    }

    pub fn next_sequence(&mut self) -> Sequence {
        self.node().commits().next_sequence()
    }
}

/// It holds, and does not with the fault planted: a panic is no answer, and fails the test.
pub fn proves(fault: Planted, holds: impl Fn() -> bool) {
    assert!(holds(), "it does not hold");
    let _plant = Plant::new(Some(fault));
    assert!(!holds(), "it holds with {fault:?} planted, too");
}

/// The history does not hold with this fault planted: something that it asserts or counts on fails.
pub fn sees(fault: Planted, history: fn()) {
    let held = std::panic::catch_unwind(|| {
        let _plant = Plant::new(Some(fault));
        history();
    });
    assert!(held.is_err(), "{fault:?} is planted, and the history holds all the same");
}

pub fn bodies_of(handed: &[Handed]) -> Vec<String> {
    handed.iter().map(|one| String::from_utf8(one.body.clone()).unwrap()).collect()
}
