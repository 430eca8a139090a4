//! One consumer of a group: its dense pull offsets and what it holds under them.

use std::collections::BTreeMap;

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
    /// Its name, unique in its group.
    pub name: String,
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
        Self { number, name: name.to_owned(), next_offset: first, reserved_offset: first, held: BTreeMap::new() }
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
