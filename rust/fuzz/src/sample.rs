//! A small store that has every kind of content, and the messages that its consumers get from any such store.

use std::collections::BTreeMap;
use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Identity;
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::store::StartAt;
use delaymq_core::store::{Outcome, OwnerOptions, PullRequest};
use delaymq_core::units::{ConsumerNumber, GroupNumber, Millis};
use delaymq_simulation::chance::Chance;
use delaymq_simulation::clock::SimulatedClock;
use delaymq_simulation::node::{Due, Handed, NewMessage, Node, NodeOptions, Pulled};

const START: Millis = Millis(1_700_000_000_000);
const SUBJECT: &str = "s";
const GROUP: &str = "g";
const RETRIES: &str = "%RETRY%s%g";
/// Longer than any message of the store waits.
const LONG_MS: u64 = 200_000;
/// The most turns of a loop; a store of this size needs fewer.
const TURNS_MAX: usize = 300;

/// Files by their paths.
pub type Files = BTreeMap<String, Vec<u8>>;
type Place = (GroupNumber, ConsumerNumber);

/// A machine with a store on it.
struct Machine {
    clock: SimulatedClock,
    node: Node,
}

fn options() -> NodeOptions {
    let owner = OwnerOptions {
        checkpoint_bytes: u64::MAX,
        checkpoint_facts: u64::MAX,
        keep_finished_ms: u64::MAX,
        copy_after_ms: 100,
        ..OwnerOptions::default()
    };
    NodeOptions { owner, ..NodeOptions::default() }
}

fn stuck(what: &str) -> Error {
    Error::corrupt("sample", 0, what, "no end")
}

impl Machine {
    fn open(storage: &MemoryStorage, at: Millis) -> Result<Self> {
        let clock = SimulatedClock::new(at);
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        let node = Node::open(shared, options(), clock.read(), &mut Chance::new(7))?;
        let mut machine = Self { clock, node };
        machine.settle()?;
        Ok(machine)
    }

    fn settle(&mut self) -> Result<()> {
        self.node.look(self.clock.read());
        self.node.send()?;
        self.node.commit()?;
        self.node.sync()?;
        self.node.apply(usize::MAX).map(drop)
    }

    fn pass(&mut self, by_ms: u64) -> Result<()> {
        self.clock.advance(by_ms);
        for _ in 0..TURNS_MAX {
            self.node.look(self.clock.read());
            let progress = self.node.step(1_000)?;
            self.settle()?;
            if !progress.more && progress.proposed == 0 {
                return Ok(());
            }
        }
        Err(stuck("steps that come to an end"))
    }

    fn publish(&mut self, delay_ms: u64, body: &str) -> Result<()> {
        let message =
            NewMessage { subject: SUBJECT, due: Due::After(delay_ms), body: body.as_bytes(), meta: &[], expires: None };
        for _ in 0..3 {
            if self.node.publish(&[message])?.is_some() {
                return self.settle();
            }
            self.node.commit()?;
            self.node.prepare()?;
        }
        Err(Error::DiskFull)
    }

    /// A consumer of a group; both are created if they do not exist.
    fn place(&mut self, subject: &str) -> Result<Place> {
        let fact = self.node.subscribe(subject, GROUP, StartAt::Unfinished)?.ok_or(Error::DiskFull)?;
        self.settle()?;
        let group = match self.node.take_outcome(fact) {
            Some(Outcome::Group(group) | Outcome::GroupThere(group)) => group,
            other => return Err(stuck(&format!("a group, not {other:?}"))),
        };
        let fact = self.node.begin_consumer(group, "c", 0)?.ok_or(Error::DiskFull)?;
        self.settle()?;
        match self.node.take_outcome(fact) {
            Some(Outcome::Consumer(consumer)) => Ok((group, consumer)),
            other => Err(stuck(&format!("a consumer, not {other:?}"))),
        }
    }

    /// The messages of three pulls; `false` if there were none.
    fn pull(&mut self, (group, consumer): Place, in_flight_max: u32) -> Result<Vec<Handed>> {
        for _ in 0..3 {
            let request = PullRequest { group, consumer, count_max: 1_000, in_flight_max, beside: 0 };
            let pulled = self.node.pull(request, 0)?;
            self.settle()?;
            if let Pulled::Messages(handed, ..) = pulled
                && !handed.is_empty()
            {
                return Ok(handed);
            }
        }
        Ok(Vec::new())
    }

    fn take_all(&mut self, place: Place, bodies: &mut Vec<String>) -> Result<()> {
        for _ in 0..TURNS_MAX {
            let handed = self.pull(place, 100)?;
            if handed.is_empty() {
                return Ok(());
            }
            let offsets: Vec<u64> = handed.iter().map(|one| one.delivery.offset.0).collect();
            bodies.extend(handed.iter().map(|one| String::from_utf8_lossy(&one.body).into_owned()));
            self.node.acknowledge(place.0, place.1, &offsets, 0)?;
            self.settle()?;
            self.pass(0)?;
        }
        Err(stuck("messages that come to an end"))
    }
}

/// A store with two checkpoints, runs of both kinds, acknowledged, given-back and cancelled messages, and a tail.
///
/// # Errors
/// Only those of a defect.
pub fn files() -> Result<Files> {
    let storage = MemoryStorage::new(1);
    let mut machine = Machine::open(&storage, START)?;
    let place = machine.place(SUBJECT)?;
    machine.publish(0, "acknowledged")?;
    machine.publish(0, "given back")?;
    machine.publish(40, "made ready")?;
    machine.publish(60_000, "copied into a run")?;
    machine.pass(0)?;
    let handed = machine.pull(place, 2)?;
    if let [done, back, ..] = handed.as_slice() {
        machine.node.acknowledge(place.0, place.1, &[done.delivery.offset.0], 0)?;
        machine.node.give_back((SUBJECT, GROUP), place, &back.delivery, 70_000, 0)?;
    }
    machine.settle()?;
    machine.node.prepare()?;
    machine.pass(40)?;
    machine.node.checkpoint()?;
    machine.publish(0, "ready in memory")?;
    machine.pass(0)?;
    machine.node.prepare()?;
    machine.node.checkpoint()?;
    machine.publish(500, "behind the checkpoint")?;
    machine.node.look(machine.clock.read());
    machine.node.witness()?;
    machine.publish(700, "in the tail")?;
    Ok(storage.image())
}

/// The identity of the store in these files.
///
/// # Errors
/// Those of its reader.
pub fn identity(files: &Files) -> Result<Identity> {
    let storage = stored(files)?;
    Identity::read(&storage)?.ok_or_else(|| stuck("an identity"))
}

/// A disk with these files and no others.
///
/// # Errors
/// Only those of a defect.
pub fn stored(files: &Files) -> Result<MemoryStorage> {
    let storage = MemoryStorage::new(1);
    for folder in ["log", "runs", "checkpoints", "aside", "pins"] {
        storage.create_folder(folder)?;
        storage.sync_folder(folder)?;
    }
    for (path, bytes) in files {
        let file = storage.create(path)?;
        file.write_at(0, bytes)?;
        file.sync_data()?;
    }
    for folder in ["log", "runs", "checkpoints", ""] {
        storage.sync_folder(folder)?;
    }
    Ok(storage)
}

/// Opens a store and abandons it, as a killed process does.
///
/// # Errors
/// Those of the opening.
pub fn opened(storage: &MemoryStorage) -> Result<()> {
    Machine::open(storage, START.plus(1_000)).map(drop)
}

/// All messages that the consumers of a store get, sorted, and the number of messages that it voids. Closes the
/// store.
///
/// # Errors
/// Those of opening and consuming.
pub fn drained(storage: &MemoryStorage) -> Result<(Vec<String>, u64)> {
    let mut machine = Machine::open(storage, START.plus(1_000))?;
    let mut bodies = Vec::new();
    let places = [machine.place(SUBJECT)?, machine.place(RETRIES)?];
    for place in [places, places].into_iter().flatten() {
        machine.pass(LONG_MS)?;
        machine.take_all(place, &mut bodies)?;
    }
    bodies.sort_unstable();
    let voided = machine.node.owner().state().voided;
    machine.node.close()?;
    Ok((bodies, voided))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_something_of_everything_and_comes_to_its_end_once() -> Result<()> {
        let files = files()?;
        for folder in ["log/", "runs/", "checkpoints/"] {
            assert!(
                files.keys().filter(|path| path.starts_with(folder)).count() >= 2,
                "{folder} in {:?}",
                files.keys()
            );
        }
        let storage = stored(&files)?;
        let (bodies, voided) = drained(&storage)?;
        let expected = [
            "behind the checkpoint",
            "copied into a run",
            "given back",
            "in the tail",
            "made ready",
            "ready in memory",
        ];
        assert_eq!((bodies, voided), (expected.map(str::to_owned).to_vec(), 0));
        assert_eq!(drained(&storage)?, (Vec::new(), 0));
        Ok(())
    }
}
