//! What a run's cells count and is pending no more: cancelled, moved away or dispatched since the run was
//! written. So what is pending of a subject in a minute is what the cells say without this, and no row is read.
//!
//! It does not grow with what is pending: minutes that are over are let go of, a merge makes cells anew,
//! and where it would have more than a share of the run's rows it is not kept any more. Then who asks reads
//! the rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::units::{Minute, SubjectNumber, Tally};

/// Cells that any window may have, however few its rows are.
const CELLS_MIN: u64 = 1_024;
/// One cell, of 32 bytes, for so many rows: a byte for each of them.
const ROWS_PER_CELL: u64 = 32;

/// By subject and minute.
pub type EndedCells = BTreeMap<(SubjectNumber, Minute), Tally>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    /// As of the last freeze; shared with the checkpoint that saves it.
    before: Arc<EndedCells>,
    /// Since then: what a run that is written as of the freeze still counts.
    since: EndedCells,
    /// False where nothing is known of what ended before the freeze, or since.
    knows_before: bool,
    knows_since: bool,
    /// Nothing below this minute is pending, whatever the cells say.
    below: Minute,
}

/// As a checkpoint has it.
#[derive(Clone, Debug, Default)]
pub struct SavedEnded {
    /// Nothing below this minute is pending.
    pub below: Minute,
    /// What ended; none where it is not known.
    pub cells: Option<Arc<EndedCells>>,
}

impl Ended {
    /// Of a window whose cells count nothing that has ended.
    pub(super) fn none() -> Self {
        Self { knows_before: true, knows_since: true, ..Self::default() }
    }

    /// As a checkpoint has it.
    pub(super) fn restored(saved: SavedEnded) -> Self {
        let SavedEnded { below, cells } = saved;
        let knows_before = cells.is_some();
        Self { before: cells.unwrap_or_default(), knows_before, knows_since: true, since: EndedCells::new(), below }
    }

    /// What a checkpoint has of it, as of the last freeze.
    pub(super) fn saved(&self) -> SavedEnded {
        SavedEnded { below: self.below, cells: self.knows_before.then(|| Arc::clone(&self.before)) }
    }

    /// One that waited has ended. `rows` is how many the run has, or will have.
    #[inline]
    pub(super) fn note(&mut self, subject: SubjectNumber, minute: Minute, size: u32, rows: u64) {
        if !self.knows_since || minute < self.below {
            return;
        }
        self.since.entry((subject, minute)).or_default().add(Tally::one(size));
        if self.since.len() as u64 > CELLS_MIN.saturating_add(rows / ROWS_PER_CELL) {
            self.forget();
        }
    }

    /// Something ended, and nobody knows what.
    pub(super) fn forget(&mut self) {
        self.knows_since = false;
        self.since = EndedCells::new();
    }

    /// A freeze: what ended is as of now, and nothing since.
    pub(super) fn freeze(&mut self, rows: u64) {
        let since = std::mem::take(&mut self.since);
        self.knows_before = self.knows_before && self.knows_since;
        self.knows_since = true;
        if !self.knows_before {
            self.before = Arc::default();
        } else if !since.is_empty() {
            let before = Arc::make_mut(&mut self.before);
            for (key, tally) in since {
                before.entry(key).or_default().add(tally);
            }
            if before.len() as u64 > CELLS_MIN.saturating_add(rows / ROWS_PER_CELL) {
                (self.knows_before, self.before) = (false, Arc::default());
            }
        }
    }

    /// Nothing below this minute is pending any more.
    pub(super) fn prune(&mut self, below: Minute) {
        if below <= self.below {
            return;
        }
        self.below = below;
        if self.before.keys().any(|(_, minute)| *minute < below) {
            Arc::make_mut(&mut self.before).retain(|(_, minute), _| *minute >= below);
        }
        self.since.retain(|(_, minute), _| *minute >= below);
    }

    /// The run was written as of the last freeze: its cells count nothing that had ended by then.
    pub(super) fn written(&mut self) {
        (self.before, self.knows_before) = (Arc::default(), true);
    }

    /// One behind the other, written as one run as of the last freeze.
    pub(super) fn merged<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let mut merged = Self::none();
        for one in all {
            merged.knows_since = merged.knows_since && one.knows_since;
            for (key, tally) in &one.since {
                merged.since.entry(*key).or_default().add(*tally);
            }
        }
        if !merged.knows_since {
            merged.since = EndedCells::new();
        }
        merged
    }

    /// Nothing below this minute is pending.
    pub(super) fn below(&self) -> Minute {
        self.below
    }

    /// What ended of a subject, or of all; `None` where it is not known.
    pub(super) fn of(&self, subject: Option<SubjectNumber>) -> Option<EndedCells> {
        if !self.knows_before || !self.knows_since {
            return None;
        }
        let mut found = EndedCells::new();
        for cells in [self.before.as_ref(), &self.since] {
            let range = match subject {
                Some(subject) => cells.range((subject, Minute(0))..=(subject, Minute(u32::MAX))),
                None => cells.range(..),
            };
            for (key, tally) in range {
                found.entry(*key).or_default().add(*tally);
            }
        }
        Some(found)
    }

    /// Bytes of memory, about.
    pub(super) fn memory_bytes(&self) -> usize {
        let cells = self.before.len().saturating_add(self.since.len());
        cells.saturating_mul(size_of::<(SubjectNumber, Minute)>() + size_of::<Tally>())
    }
}
