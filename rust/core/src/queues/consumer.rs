//! One consumer of a group: its dense pull offsets and what it holds under them.

use std::collections::BTreeMap;
use std::ops::Deref;

use crate::units::{ConsumerNumber, PullOffset, ReadyNumber};

/// A message that a consumer was given and has not finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The message's number in the subject.
    pub number: ReadyNumber,
    /// How often this number was handed to consumers of the group, this time included.
    pub deliveries: u32,
}

/// A consumer, as applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consumer {
    /// Its number.
    pub number: ConsumerNumber,
    /// Its name, unique in its group among those that are lasting, or among the others.
    pub name: String,
    /// A client named it, so it outlives an open; the others are those of one epoch.
    pub is_lasting: bool,
    /// The offset that its next assignment starts with.
    pub next_offset: PullOffset,
    /// Offsets below this may have been handed out already, by assignments that a crash lost.
    pub reserved_offset: PullOffset,
    /// What it holds, by offset.
    pub held: BTreeMap<PullOffset, Held>,
}

impl Consumer {
    /// A consumer that holds nothing and whose offsets start at `first`.
    pub fn new(number: ConsumerNumber, name: &str, first: PullOffset) -> Self {
        Self {
            number,
            name: name.to_owned(),
            is_lasting: false,
            next_offset: first,
            reserved_offset: first,
            held: BTreeMap::new(),
        }
    }

    /// Takes the lowest offset out of `first..end` that it holds.
    pub(super) fn take_held(&mut self, first: PullOffset, end: PullOffset) -> Option<Held> {
        if let Some(lowest) = self.held.first_entry()
            && *lowest.key() >= first
        {
            return (*lowest.key() < end).then(|| lowest.remove());
        }
        let (offset, _) = self.held.range(first..end).next()?;
        let offset = *offset;
        self.held.remove(&offset)
    }
}

/// The consumers of a group, by number, and by name: those that clients named have names of their own,
/// which those of an epoch cannot take.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Consumers {
    by_number: BTreeMap<ConsumerNumber, Consumer>,
    lasting: BTreeMap<String, ConsumerNumber>,
    others: BTreeMap<String, ConsumerNumber>,
}

impl Consumers {
    /// The consumer of this name, among the lasting ones or the others.
    pub fn named(&self, name: &str, is_lasting: bool) -> Option<ConsumerNumber> {
        if is_lasting { &self.lasting } else { &self.others }.get(name).copied()
    }

    /// True where all are such that clients named, or there is none.
    pub fn are_all_lasting(&self) -> bool {
        self.others.is_empty()
    }

    /// Adds one whose number and name nobody has.
    pub fn add(&mut self, consumer: Consumer) {
        let names = if consumer.is_lasting { &mut self.lasting } else { &mut self.others };
        names.insert(consumer.name.clone(), consumer.number);
        self.by_number.insert(consumer.number, consumer);
    }

    pub(super) fn remove(&mut self, number: ConsumerNumber) -> Option<Consumer> {
        let removed = self.by_number.remove(&number)?;
        let names = if removed.is_lasting { &mut self.lasting } else { &mut self.others };
        names.remove(&removed.name);
        Some(removed)
    }

    pub(super) fn get_mut(&mut self, number: ConsumerNumber) -> Option<&mut Consumer> {
        self.by_number.get_mut(&number)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Consumer> {
        self.by_number.values_mut()
    }
}

impl Deref for Consumers {
    type Target = BTreeMap<ConsumerNumber, Consumer>;

    fn deref(&self) -> &Self::Target {
        &self.by_number
    }
}
