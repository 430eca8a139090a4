//! The register as a node knows it, and the node's one swap under way.
//!
//! A swap whose outcome is unknown stays so until a later answer settles it: it may still be carried out. The
//! same swap is therefore tried again, from the same version, until the register holds its value or a later version.

use super::register::Register;
use crate::planted::{Planted, is_on};
use crate::units::Version;

/// A value of the register, as a coordinator answers it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The coordinator: another one, or one restored from a backup, has another number.
    pub coordinator: u64,
    /// The version of the value.
    pub version: Version,
    /// The value.
    pub value: Register,
}

/// How a swap ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SwapAnswer {
    /// The register of this coordinator holds the new value, with this version.
    Won(u64, Version),
    /// The register held another version.
    Lost(Reading),
    /// No answer came, or one that says nothing.
    Unknown,
}

/// A swap under way.
#[derive(Clone, Debug)]
pub(super) struct Swap {
    pub(super) expected: Version,
    pub(super) value: Register,
    /// False if the outcome of the last try is unknown, and no try is under way.
    is_asked: bool,
}

/// The meaning of an answer for the swap under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Settled {
    /// It was carried out.
    Won,
    /// It was not, and cannot be any more.
    Lost,
    /// That is not known yet. The caller tries it again.
    Open,
    /// No swap is under way.
    Idle,
}

fn is_answered(swap: &Swap, expected: Version) -> bool {
    swap.expected == expected || is_on(Planted::EarlierAnswerTaken)
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Registrar {
    /// The stream and the timeline of this group.
    group: ([u8; 16], u32),
    known: Option<Reading>,
    swap: Option<Swap>,
    is_reading: bool,
    /// The coordinator and the version that were seen last. The promise makes them durable.
    seen: (u64, Version),
    /// Another coordinator answers than the one that was seen. No operator has confirmed it.
    is_foreign: bool,
    /// The register holds a later timeline of this stream.
    is_superseded: bool,
}

impl Registrar {
    /// Continues from what the identity file says was seen; (0, 0) if nothing was.
    pub(super) fn new(group: ([u8; 16], u32), seen: (u64, Version)) -> Self {
        Self { group, seen, ..Self::default() }
    }

    /// The newest value that is known.
    pub(super) fn known(&self) -> Option<&Reading> {
        self.known.as_ref()
    }

    /// The coordinator and the version of the newest value that is known.
    pub(super) fn seen(&self) -> (u64, Version) {
        self.seen
    }

    /// True if another coordinator answers than before. Until an operator confirms it, no node becomes primary by
    /// itself, since a register restored from a backup may name a set that is out of date.
    pub(super) fn is_foreign(&self) -> bool {
        self.is_foreign && !is_on(Planted::RestoredRegisterTrusted)
    }

    /// True if the group goes on without this node, from a copy that an operator chose: the register holds a later timeline of
    /// this stream.
    pub(super) fn is_superseded(&self) -> bool {
        self.is_superseded
    }

    /// Another node has seen this coordinator and version.
    pub(super) fn hear_of(&mut self, seen: (u64, Version)) {
        if self.seen.0 == 0 || (self.seen.0 == seen.0 && self.seen.1 < seen.1) {
            self.seen = seen;
        }
    }

    /// An operator has confirmed this coordinator: what it holds is believed, whatever was seen before.
    pub(super) fn confirm(&mut self, coordinator: u64) {
        self.seen = (coordinator, Version(0));
        (self.is_foreign, self.known, self.swap) = (false, None, None);
    }

    /// The swap under way.
    pub(super) fn swap(&self) -> Option<&Swap> {
        self.swap.as_ref()
    }

    /// Begins a read. False if one is under way.
    pub(super) fn begin_read(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reading, true)
    }

    /// Begins a swap from the value that is known. Returns the version that it expects. `None` if nothing is known, or
    /// another swap is under way.
    pub(super) fn begin_swap(&mut self, value: &Register) -> Option<Version> {
        if self.swap.is_some() || self.is_foreign() {
            return None;
        }
        let expected = self.known.as_ref()?.version;
        self.swap = Some(Swap { expected, value: value.clone(), is_asked: true });
        Some(expected)
    }

    /// The swap to try again, if its last outcome is unknown.
    pub(super) fn try_again(&mut self) -> Option<(Version, Register)> {
        let is_foreign = self.is_foreign();
        let swap = self.swap.as_mut().filter(|swap| !swap.is_asked && !is_foreign)?;
        swap.is_asked = true;
        Some((swap.expected, swap.value.clone()))
    }

    /// Takes the answer to a swap from the version `expected`. The answer to an earlier swap, which a read has settled
    /// meanwhile, says nothing about the one under way.
    pub(super) fn swapped(&mut self, expected: Version, answer: SwapAnswer) -> Settled {
        let Some(swap) = self.swap.as_mut().filter(|swap| is_answered(swap, expected)) else {
            if let SwapAnswer::Lost(reading) = answer {
                self.learn(reading);
            }
            return Settled::Idle;
        };
        match answer {
            SwapAnswer::Won(coordinator, version) => {
                let reading = Reading { coordinator, version, value: swap.value.clone() };
                swap.is_asked = false;
                self.settle_by(reading)
            }
            SwapAnswer::Lost(reading) => {
                // A lost swap has read the newest version. An older one than was seen is a register that was set back.
                self.is_foreign |= reading.version < swap.expected;
                self.settle_by(reading)
            }
            SwapAnswer::Unknown if is_on(Planted::UnknownSwapIsLost) => {
                self.swap = None;
                Settled::Lost
            }
            SwapAnswer::Unknown => {
                swap.is_asked = false;
                Settled::Open
            }
        }
    }

    /// Takes the result of a read. `None` if the read failed.
    pub(super) fn read(&mut self, reading: Option<Reading>) -> Settled {
        self.is_reading = false;
        match reading {
            Some(reading) => self.settle_by(reading),
            None if self.swap.is_some() => Settled::Open,
            None => Settled::Idle,
        }
    }

    fn settle_by(&mut self, reading: Reading) -> Settled {
        let settled = match &self.swap {
            None => Settled::Idle,
            // A read may be older than the swap, so only a later version settles it.
            Some(swap) if reading.version <= swap.expected => Settled::Open,
            Some(swap) if reading.value == swap.value => Settled::Won,
            Some(_) => Settled::Lost,
        };
        self.learn(reading);
        if self.is_foreign() {
            // The swap may have been carried out in either register, so both sets are counted until an operator decides.
            return if self.swap.is_some() { Settled::Open } else { Settled::Idle };
        }
        if matches!(settled, Settled::Won | Settled::Lost) {
            self.swap = None;
        }
        settled
    }

    /// Keeps the newest value. An older version is a read that came late. A value of another coordinator or of another group is
    /// not kept.
    fn learn(&mut self, reading: Reading) {
        let (stream, timeline) = self.group;
        let is_of_group = (reading.value.stream, reading.value.timeline) == self.group;
        let is_known = self.seen.0 == 0 || reading.coordinator == self.seen.0;
        self.is_superseded |= is_known && reading.value.stream == stream && reading.value.timeline > timeline;
        if !(is_known || is_on(Planted::RestoredRegisterTrusted)) || !is_of_group {
            self.is_foreign = true;
        } else if reading.version >= self.seen.1 || !is_known {
            self.is_foreign = false;
            self.seen = (reading.coordinator, reading.version);
            self.known = Some(reading);
        }
    }
}
