//! The register: one value that changes by compare-and-swap. Requests come late, answers get lost, and a read may be old.

use std::collections::VecDeque;

use delaymq_coordinator::{decode, encode};
use delaymq_core::replication::{NodeId, Reading, Register, SwapAnswer, Version};

use crate::chance::Chance;

/// A request on its way to the register.
#[derive(Clone, Debug)]
enum Request {
    Read(NodeId, u64),
    Swap(NodeId, u64, Version, Register),
}

/// An answer to one life of a node.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Read(Option<Reading>),
    Swapped(Version, SwapAnswer),
}

/// See the module.
pub(super) struct SimulatedRegister {
    coordinator: u64,
    now: (Version, Register),
    older: Vec<(Version, Register)>,
    requests: VecDeque<Request>,
}

impl SimulatedRegister {
    pub(super) fn new(first: Register) -> Self {
        let first = Register { made_for: 1, ..first };
        Self { coordinator: 1, now: (Version(1), first), older: Vec::new(), requests: VecDeque::new() }
    }

    /// The value now.
    pub(super) fn value(&self) -> &Register {
        &self.now.1
    }

    pub(super) fn read(&mut self, by: NodeId, life: u64) {
        self.requests.push_back(Request::Read(by, life));
    }

    pub(super) fn swap(&mut self, by: NodeId, life: u64, expected: Version, value: Register) {
        self.requests.push_back(Request::Swap(by, life, expected, value));
    }

    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// A backup is restored: an old value, or the newest one, under another number of the coordinator.
    pub(super) fn restore(&mut self, chance: &mut Chance) {
        let place = usize::try_from(chance.below(self.older.len() as u64 + 1)).unwrap_or(0);
        if let Some(old) = self.older.get(place).cloned() {
            self.older.truncate(place);
            self.now = old;
        }
        self.coordinator += 1;
    }

    /// The number of the coordinator.
    pub(super) fn coordinator(&self) -> u64 {
        self.coordinator
    }

    /// True if the value is the group's own: nothing was restored, or a node has gone on since that an operator confirmed.
    pub(super) fn is_of_group(&self) -> bool {
        self.value().made_for == self.coordinator
    }

    /// The value, or one that is older by so many swaps.
    fn reading(&self, back: u64) -> Reading {
        let older = back.checked_sub(1).and_then(|back| self.older.iter().rev().nth(usize::try_from(back).ok()?));
        let (version, value) = older.unwrap_or(&self.now).clone();
        Reading { coordinator: self.coordinator, version, value }
    }

    /// Carries out one request, a late one with some chance. The answer may get lost (then a swap is unknown), and a read
    /// may be old.
    pub(super) fn work(&mut self, chance: &mut Chance, trouble_percent: u64) -> Option<(NodeId, u64, Answer)> {
        let late = if chance.percent(trouble_percent) { chance.below(self.requests.len() as u64) } else { 0 };
        let request = self.requests.remove(usize::try_from(late).unwrap_or(0))?;
        let is_lost = chance.percent(trouble_percent);
        match request {
            Request::Read(by, life) if is_lost => Some((by, life, Answer::Read(None))),
            Request::Read(by, life) => {
                let back = if chance.percent(trouble_percent) { chance.between(1, 2) } else { 0 };
                Some((by, life, Answer::Read(Some(self.reading(back)))))
            }
            Request::Swap(by, life, expected, value) => {
                // An unanswered swap may still be under way when its sender is told that nothing is known.
                if is_lost && chance.percent(50) {
                    self.requests.push_back(Request::Swap(by, u64::MAX, expected, value));
                    return Some((by, life, Answer::Swapped(expected, SwapAnswer::Unknown)));
                }
                let answer = self.carry_out(expected, value);
                let answer = if is_lost { SwapAnswer::Unknown } else { answer };
                Some((by, life, Answer::Swapped(expected, answer)))
            }
        }
    }

    fn carry_out(&mut self, expected: Version, value: Register) -> SwapAnswer {
        let (version, _) = self.now;
        if version != expected {
            return SwapAnswer::Lost(self.reading(0));
        }
        // A value travels as text. One that readers would refuse is stored all the same, so that a history goes on and shows
        // what follows.
        let value = decode("the register", &encode(&value)).unwrap_or(value);
        let next = Version(version.0 + 1);
        self.older.push(std::mem::replace(&mut self.now, (next, value)));
        SwapAnswer::Won(self.coordinator, next)
    }
}
