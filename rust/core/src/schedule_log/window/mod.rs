//! A window: a range of sequences between two checkpoints, with the state of each.

pub(super) mod adopting;
pub(super) mod bits;
pub(super) mod lookup;
pub(super) mod moves;
pub(super) mod origins;
pub(super) mod part;

use std::sync::Arc;

use super::count::ended::{Ended, SavedEnded};
use super::entry::Entry;
use super::feed::due_index::DueIndex;
use super::feed::recent::Recent;
use crate::run::{Patches, Row, Run, ScheduleRow};
use crate::units::{DueKey, Sequence};
use bits::{EntryState, TwoBits};

/// The place of a window's entries.
#[derive(Debug)]
pub(super) enum Body {
    /// No place: none is pending.
    Empty,
    /// Frozen in memory until the run is written.
    Memory { entries: Arc<Recent>, index: DueIndex },
    /// In a run. Patches replace blocks that cannot be read.
    Run { run: Arc<Run>, patches: Patches<ScheduleRow> },
}

/// A closed range of sequences.
#[derive(Debug)]
pub struct Window {
    pub(super) bits: TwoBits,
    pub(super) pending: u64,
    pub(super) body: Body,
    /// The greatest sequence of an entry that was moved away and has its origin in the run. 0 if there is
    /// none.
    pub(super) origin_until: Sequence,
    /// The entries that the cells of the run count and that are no longer pending.
    pub(super) ended: Ended,
}

impl Window {
    /// A window as restored from a checkpoint.
    pub fn restored(bits: TwoBits, run: Option<Arc<Run>>, ended: SavedEnded) -> Self {
        let pending = bits.count(EntryState::Pending);
        let body = run.map_or(Body::Empty, |run| Body::Run { run, patches: Patches::new() });
        Self { bits, pending, body, origin_until: Sequence(0), ended: Ended::restored(ended) }
    }

    /// The first sequence.
    pub fn first(&self) -> Sequence {
        self.bits.first()
    }

    /// The sequence after the last.
    pub fn end(&self) -> Sequence {
        self.bits.end()
    }

    /// The state of each sequence.
    pub fn bits(&self) -> &TwoBits {
        &self.bits
    }

    /// The number of pending entries.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// The run that holds the entries, once it is written. `None` if no entry was pending.
    pub fn run(&self) -> Option<&Arc<Run>> {
        match &self.body {
            Body::Run { run, .. } => Some(run),
            Body::Empty | Body::Memory { .. } => None,
        }
    }

    /// The entries that the cells of its run count and that had ended by the last freeze.
    pub fn ended(&self) -> SavedEnded {
        self.ended.saved()
    }

    /// The number of rows that its run has, or will have.
    pub(super) fn rows(&self) -> u64 {
        match &self.body {
            Body::Empty => 0,
            // This is an upper bound: entries that ended before the freeze get no row.
            Body::Memory { entries, .. } => entries.len().into(),
            Body::Run { run, .. } => run.row_count(),
        }
    }

    /// True while the entries are frozen in memory and not in a run.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.body, Body::Memory { .. })
    }

    /// The number of its entries in memory.
    pub(super) fn entries_in_memory(&self) -> u32 {
        if let Body::Memory { entries, .. } = &self.body { entries.len() } else { 0 }
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let body = match &self.body {
            Body::Empty => 0,
            Body::Memory { entries, index } => entries.memory_bytes().saturating_add(index.memory_bytes()),
            Body::Run { run, patches } => {
                let patched: usize = patches.values().map(Vec::capacity).sum();
                run.memory_bytes().saturating_add(patched.saturating_mul(size_of::<ScheduleRow>()))
            }
        };
        let ended = self.ended.memory_bytes();
        size_of::<Self>().saturating_add(self.bits.memory_bytes()).saturating_add(body).saturating_add(ended)
    }
}

/// A row as an entry.
pub(crate) fn entry_of(row: &ScheduleRow) -> Entry {
    Entry::new(row.key, row.attempt, row.payload_sequence, row.location, row.subject).with_size(row.size)
}

/// An entry as a row whose payload is outside the run.
pub(crate) fn row_of(entry: &Entry) -> ScheduleRow {
    ScheduleRow {
        key: entry.key(),
        payload_sequence: entry.payload_sequence(),
        location: entry.location(),
        subject: entry.subject(),
        attempt: entry.attempt(),
        length: 0,
        size: entry.size(),
    }
}

/// The key of a row.
pub(super) fn due_key_of(row: &ScheduleRow) -> DueKey {
    row.key().due_key()
}
