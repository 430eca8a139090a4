//! A window: a range of sequences between two checkpoints, with what became of each.

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

/// Where the entries of a window are.
#[derive(Debug)]
pub(super) enum Body {
    /// Nowhere: none is pending.
    Empty,
    /// Frozen in memory, until the run is written.
    Memory { entries: Arc<Recent>, index: DueIndex },
    /// In a run. Patches stand in for blocks that cannot be read.
    Run { run: Arc<Run>, patches: Patches<ScheduleRow> },
}

/// A closed range of sequences.
#[derive(Debug)]
pub struct Window {
    pub(super) bits: TwoBits,
    pub(super) pending: u64,
    pub(super) body: Body,
    /// The last entry that was moved away from the run and has its origin there; 0 where none has.
    pub(super) origin_until: Sequence,
    /// What the cells of the run count and is pending no more.
    pub(super) ended: Ended,
}

impl Window {
    /// A window as a checkpoint has it.
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

    /// What became of each sequence.
    pub fn bits(&self) -> &TwoBits {
        &self.bits
    }

    /// How many entries are pending.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// The run that holds the entries, once it is written; none where nothing was pending.
    pub fn run(&self) -> Option<&Arc<Run>> {
        match &self.body {
            Body::Run { run, .. } => Some(run),
            Body::Empty | Body::Memory { .. } => None,
        }
    }

    /// What the cells of its run count and was pending no more at the last freeze.
    pub fn ended(&self) -> SavedEnded {
        self.ended.saved()
    }

    /// How many rows its run has, or will have.
    pub(super) fn rows(&self) -> u64 {
        match &self.body {
            Body::Empty => 0,
            // What ended of these before it was frozen gets no row: some more than there will be.
            Body::Memory { entries, .. } => entries.len().into(),
            Body::Run { run, .. } => run.row_count(),
        }
    }

    /// True while the entries are frozen in memory, and no run holds them.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.body, Body::Memory { .. })
    }

    /// How many entries it has in memory.
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

/// An entry as a row whose payload lies outside of the run.
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
