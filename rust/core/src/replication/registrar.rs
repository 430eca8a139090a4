//! The register as a node knows it, and the node's one swap under way.
//!
//! A swap whose outcome is unknown stays so until a later answer settles it: it may still be carried out. The
//! same swap is therefore tried again, from the same version, until the register holds its value or a later version.

use super::register::Register;
use crate::planted::{Planted, is_on};
use crate::units::{Epoch, Version};

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
    /// An operator lets the node go on with a restored register.
    is_confirmed: bool,
}

impl Swap {
    /// True if an answer of this coordinator may say how the swap ended.
    fn is_for(&self, coordinator: u64) -> bool {
        self.value.made_for == coordinator || is_on(Planted::RestoredRegisterTrusted)
    }
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
    /// The last answer, if it is not believed: that of another coordinator than the one that was seen, or of a register that was set
    /// back or is of another group.
    foreign: Option<Reading>,
    /// The coordinator that this node has turned away from, so that a late answer of it does not turn the node back.
    left: u64,
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
        self.foreign().is_some()
    }

    /// The last answer, if it is not believed.
    pub(super) fn foreign(&self) -> Option<&Reading> {
        self.foreign.as_ref().filter(|_| !is_on(Planted::RestoredRegisterTrusted))
    }

    /// True if the group goes on without this node, from a copy that an operator chose: the register holds a later timeline of
    /// this stream.
    pub(super) fn is_superseded(&self) -> bool {
        self.is_superseded
    }

    /// A primary of this epoch has seen this coordinator and version. If the epoch is a new one and the coordinator another one than
    /// before, the primary was confirmed, and the node turns to its coordinator. Returns true then.
    pub(super) fn hear_of(&mut self, seen: (u64, Version), epoch: Epoch, is_new: bool) -> bool {
        if self.seen.0 == 0 || (self.seen.0 == seen.0 && self.seen.1 < seen.1) {
            self.seen = seen;
        }
        let is_later = is_new && self.known.as_ref().is_none_or(|known| known.value.epoch < epoch);
        let turns = seen.0 != 0 && self.may_turn_to(seen.0) && is_later;
        if turns {
            self.turn_to(seen.0);
            (self.seen, self.known, self.foreign) = (seen, None, None);
        }
        turns
    }

    /// True if the node may turn to this coordinator, which is not the one that was seen. The swap under way is answered first:
    /// its answer would otherwise settle a later one from the same version.
    fn may_turn_to(&self, coordinator: u64) -> bool {
        let is_answered = self.swap.as_ref().is_none_or(|swap| !swap.is_asked || swap.is_for(coordinator));
        ![self.seen.0, self.left].contains(&coordinator) && is_answered
    }

    /// No value that was made for another coordinator is believed any more, so a swap to one counts no longer.
    fn turn_to(&mut self, coordinator: u64) {
        self.left = self.seen.0;
        self.swap.take_if(|swap| !swap.is_for(coordinator));
    }

    /// The answer of this coordinator, if its value was made for another one: it was restored from a backup, and no node has gone on
    /// with it since. `None` if a swap of this node is in the way.
    pub(super) fn restored(&self, coordinator: u64) -> Option<&Reading> {
        let is_begun = |swap: &Swap| swap.is_asked || (swap.is_confirmed && swap.is_for(coordinator));
        let is_free = !self.swap.as_ref().is_some_and(is_begun);
        self.foreign().filter(|reading| is_free && reading.coordinator == coordinator && self.is_restored(reading))
    }

    /// True if the answer has a value of this group that was made for another coordinator.
    pub(super) fn is_restored(&self, reading: &Reading) -> bool {
        let is_of_group = (reading.value.stream, reading.value.timeline) == self.group;
        is_of_group && reading.value.made_for != reading.coordinator
    }

    /// Begins the swap of a restored register to a value that was made for its coordinator, as an operator asked.
    pub(super) fn begin_confirmed(&mut self, expected: Version, value: Register) {
        self.swap = Some(Swap { expected, value, is_asked: true, is_confirmed: true });
    }

    /// The swap under way.
    pub(super) fn swap(&self) -> Option<&Swap> {
        self.swap.as_ref()
    }

    /// Begins a read. False if one is under way.
    pub(super) fn begin_read(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reading, true)
    }

    /// Begins a swap from the value that is known. Returns the version that it expects, and the value. `None` if nothing is known,
    /// or another swap is under way.
    pub(super) fn begin_swap(&mut self, value: Register) -> Option<(Version, Register)> {
        if self.swap.is_some() || self.is_foreign() {
            return None;
        }
        let known = self.known.as_ref()?;
        let (expected, value) = (known.version, Register { made_for: known.coordinator, ..value });
        self.swap = Some(Swap { expected, value: value.clone(), is_asked: true, is_confirmed: false });
        Some((expected, value))
    }

    /// The swap to try again, if its last outcome is unknown.
    pub(super) fn try_again(&mut self) -> Option<(Version, Register)> {
        let foreign = self.foreign().map(|reading| reading.coordinator);
        let may = |swap: &Swap| foreign.is_none_or(|coordinator| swap.is_confirmed && swap.is_for(coordinator));
        let is_due = |swap: &&mut Swap| !swap.is_asked && may(swap);
        let swap = self.swap.as_mut().filter(is_due)?;
        swap.is_asked = true;
        Some((swap.expected, swap.value.clone()))
    }

    /// Takes the answer to a swap from the version `expected`. The answer to an earlier swap, which a read has settled
    /// meanwhile, says nothing about the one under way.
    pub(super) fn swapped(&mut self, expected: Version, answer: SwapAnswer, promised: Epoch) -> Settled {
        let Some(swap) = self.swap.as_mut().filter(|swap| is_answered(swap, expected)) else {
            if let SwapAnswer::Lost(reading) = answer {
                self.learn(reading, promised);
            }
            return Settled::Idle;
        };
        match answer {
            SwapAnswer::Won(coordinator, version) => {
                let reading = Reading { coordinator, version, value: swap.value.clone() };
                swap.is_asked = false;
                self.settle_by(reading, promised)
            }
            SwapAnswer::Lost(reading) => {
                swap.is_asked = false;
                // A lost swap has read the newest version. An older one than was seen is a register that was set back.
                let is_set_back = swap.is_for(reading.coordinator) && reading.version < swap.expected;
                let set_back = is_set_back.then(|| reading.clone());
                let settled = self.settle_by(reading, promised);
                self.foreign = set_back.or(self.foreign.take());
                settled
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
    pub(super) fn read(&mut self, reading: Option<Reading>, promised: Epoch) -> Settled {
        self.is_reading = false;
        match reading {
            Some(reading) => self.settle_by(reading, promised),
            None if self.swap.is_some() => Settled::Open,
            None => Settled::Idle,
        }
    }

    fn settle_by(&mut self, reading: Reading, promised: Epoch) -> Settled {
        let settled = match &self.swap {
            None => Settled::Idle,
            // The swap may have been carried out in either register, so both sets are counted until an operator decides.
            Some(swap) if !swap.is_for(reading.coordinator) => Settled::Open,
            // A read may be older than the swap, so only a later version settles it.
            Some(swap) if reading.version <= swap.expected => Settled::Open,
            Some(swap) if reading.value == swap.value => Settled::Won,
            Some(_) => Settled::Lost,
        };
        self.learn(reading, promised);
        if matches!(settled, Settled::Won | Settled::Lost) {
            self.swap = None;
        } else if self.swap.is_none() {
            return Settled::Idle;
        }
        settled
    }

    /// Keeps the newest value. An older version is a read that came late. A value of another group is not kept, and one of another
    /// coordinator only if a node has gone on with it that an operator confirmed: it was made for that coordinator, and is not
    /// older than what this node has promised.
    fn learn(&mut self, reading: Reading, promised: Epoch) {
        let (stream, timeline) = self.group;
        let (value, is_seen) = (&reading.value, reading.coordinator == self.seen.0);
        if is_seen && reading.version < self.seen.1 {
            return;
        }
        let is_made_for_it = value.made_for == reading.coordinator;
        let may_be = is_seen || self.seen.0 == 0 || self.may_turn_to(reading.coordinator);
        self.is_superseded |= is_made_for_it && may_be && value.stream == stream && value.timeline > timeline;
        let is_late = !is_seen && self.seen.0 != 0 && value.epoch < promised;
        let is_believed = is_made_for_it && may_be && !is_late;
        let is_of_group = (value.stream, value.timeline) == self.group;
        if !(is_believed || is_on(Planted::RestoredRegisterTrusted)) || !is_of_group {
            self.foreign = Some(reading);
            return;
        }
        if !is_seen && self.seen.0 != 0 {
            self.turn_to(reading.coordinator);
        }
        (self.foreign, self.seen) = (None, (reading.coordinator, reading.version));
        self.known = Some(reading);
    }
}
