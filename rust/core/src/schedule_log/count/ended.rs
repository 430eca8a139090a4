//! Counts of the ended entries of a window: those that the run's cells count and that were cancelled, moved
//! or dispatched since the run was written. Cells less these counts give the pending entries, without reading
//! rows.
//!
//! The run bounds their size: past minutes are dropped, and a merge makes new cells. If there would be more
//! counts than a share of the run's rows, they are forgotten. Forecasts then read the rows until a merge
//! writes the run again (`merging.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ended_cells::{EndedCells, EndedLayers, InOrder, joined, push_layer};
use crate::planted::lowered::lowered;
use crate::planted::{Planted, is_on};
use crate::run::Cell;
use crate::units::{Minute, SubjectNumber, Tally};

/// Cells that any window may have, even if it has few rows.
#[cfg(not(test))]
const CELLS_MIN: u64 = 1_024;
#[cfg(test)]
const CELLS_MIN: u64 = 16;
/// One cell is allowed for this many rows. A cell takes about 5 bytes in memory, and 24 in a checkpoint.
const ROWS_PER_CELL: u64 = 8;
/// Cells in the map before they become a layer. Few in tests, whose histories are short.
const RECENT_CELLS_MAX: u64 = if cfg!(test) { 4 } else { 512 };

/// The ended entries of one window; see the module.
#[derive(Clone, Debug, Default)]
pub(in crate::schedule_log) struct Ended {
    /// As of the last freeze. Shared with the checkpoint that saves them.
    before: EndedLayers,
    /// Since the last freeze: a run that is written as of the freeze still counts them.
    since: EndedLayers,
    /// The newest part of `since`, not yet a layer.
    recent: BTreeMap<(SubjectNumber, Minute), Tally>,
    /// False if entries that ended before the freeze, or since, are unknown.
    knows_before: bool,
    knows_since: bool,
    /// No entry below this minute is pending, whatever the cells count.
    below: Minute,
}

/// The ended entries as a checkpoint saves them.
#[derive(Clone, Debug, Default)]
pub struct SavedEnded {
    /// No entry below this minute is pending.
    pub below: Minute,
    /// The ended entries. `None` if they are unknown.
    pub cells: Option<EndedLayers>,
}

impl SavedEnded {
    /// For a window whose cells count no ended entry.
    pub fn none(below: Minute) -> Self {
        Self { below, cells: Some(EndedLayers::new()) }
    }

    /// Joins the layers to one, without the minutes before `below`.
    pub(crate) fn join(&mut self) -> Option<JoinedEnded> {
        let below = self.below;
        let layers = self.cells.as_mut()?;
        if layers.len() < 2 && !layers.iter().any(|layer| layer.reaches_below(below)) {
            return None;
        }
        let one: EndedLayers = Some(joined(layers, below)).filter(|one| one.count() > 0).into_iter().collect();
        Some(JoinedEnded { layers: std::mem::replace(layers, one.clone()), one })
    }
}

/// Layers of a window that a checkpoint has joined, and the layer, or none, that replaces them.
#[derive(Clone, Debug)]
pub struct JoinedEnded {
    layers: EndedLayers,
    one: EndedLayers,
}

impl Ended {
    /// For a window whose cells count no ended entry.
    pub(in crate::schedule_log) fn none() -> Self {
        Self { knows_before: true, knows_since: true, ..Self::default() }
    }

    /// Restores the state that a checkpoint saved.
    pub(in crate::schedule_log) fn restored(saved: SavedEnded) -> Self {
        let SavedEnded { below, cells } = saved;
        let knows_before = cells.is_some();
        Self { before: cells.unwrap_or_default(), knows_before, knows_since: true, below, ..Self::default() }
    }

    /// The state to save in a checkpoint, as of the last freeze.
    pub(in crate::schedule_log) fn saved(&self) -> SavedEnded {
        SavedEnded { below: self.below, cells: self.knows_before.then(|| self.before.clone()) }
    }

    /// Notes that a pending entry has ended. `rows` is the number of rows that the run has, or will have.
    #[inline]
    pub(in crate::schedule_log) fn note(&mut self, subject: SubjectNumber, minute: Minute, size: u32, rows: u64) {
        if !self.knows_since || minute < self.below {
            return;
        }
        self.recent.entry((subject, minute)).or_default().add(Tally::one(size));
        if self.recent.len() as u64 >= lowered(RECENT_CELLS_MAX) {
            self.lay_down();
            if count(&self.since) > most(rows) {
                self.forget();
            }
        }
    }

    /// Makes a layer of the recent cells.
    fn lay_down(&mut self) {
        let cells = EndedCells::of(cells_of(&std::mem::take(&mut self.recent)));
        push_layer(&mut self.since, cells, self.below);
    }

    /// Notes that unknown entries ended.
    pub(in crate::schedule_log) fn forget(&mut self) {
        self.knows_since = false;
        self.since = EndedLayers::new();
        self.recent = BTreeMap::new();
    }

    /// Freezes: everything that ended so far is `before`, and nothing is `since`.
    pub(in crate::schedule_log) fn freeze(&mut self, rows: u64) {
        let recent = EndedCells::of(cells_of(&std::mem::take(&mut self.recent)));
        let since = std::mem::take(&mut self.since);
        self.knows_before = self.knows_before && self.knows_since;
        self.knows_since = true;
        if self.knows_before {
            // The checkpoint joins these layers. Joining them here would block the owner.
            self.before.extend(since);
            self.before.extend(Some(recent).filter(|recent| recent.count() > 0).map(Arc::new));
            // A cell may be in several layers. The limit is checked again when they are joined.
            self.knows_before = count(&self.before) <= most(rows).saturating_mul(2);
        }
        if !self.knows_before {
            self.before = EndedLayers::new();
        }
    }

    /// Replaces layers by the one that a checkpoint has joined, unless this window no longer has them.
    pub(super) fn take_joined(&mut self, JoinedEnded { layers, one }: &JoinedEnded, rows: u64) {
        let same = |before: &[Arc<EndedCells>]| before.iter().zip(layers).all(|(one, other)| Arc::ptr_eq(one, other));
        if self.before.get(..layers.len()).is_some_and(same) {
            self.before.splice(..layers.len(), one.iter().cloned());
            if count(&self.before) > most(rows) {
                (self.before, self.knows_before) = (EndedLayers::new(), false);
            }
        }
    }

    /// Notes that no entry below this minute is pending any more.
    pub(in crate::schedule_log) fn prune(&mut self, below: Minute) {
        if below <= self.below {
            return;
        }
        self.below = below;
        self.recent.retain(|(_, minute), _| *minute >= below);
        // Layers that extend above it are not rewritten here, which would block the owner. A checkpoint does
        // that.
        for layers in [&mut self.before, &mut self.since] {
            layers.retain(|layer| !layer.is_below(below));
        }
    }

    /// Notes that the run was written as of the last freeze: its cells count no entry that had ended by then.
    pub(in crate::schedule_log) fn written(&mut self) {
        (self.before, self.knows_before) = (EndedLayers::new(), true);
    }

    /// The ended entries of windows in order, which were written as one run as of the last freeze.
    pub(in crate::schedule_log) fn merged<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let mut merged = Self::none();
        for one in all {
            merged.knows_since = merged.knows_since && one.knows_since;
            merged.since.extend(one.since.iter().cloned());
            for (key, tally) in &one.recent {
                merged.recent.entry(*key).or_default().add(*tally);
            }
        }
        if !merged.knows_since {
            merged.forget();
        }
        merged
    }

    /// No entry below this minute is pending.
    pub(in crate::schedule_log) fn below(&self) -> Minute {
        self.below
    }

    /// True if the entries that had ended by the last freeze are unknown.
    pub(in crate::schedule_log) fn is_forgotten(&self) -> bool {
        !self.knows_before
    }

    /// The entries that have ended by now. `None` if they are unknown.
    pub(in crate::schedule_log) fn view(&self, subject: Option<SubjectNumber>) -> Option<EndedView> {
        let is_known = self.knows_before && self.knows_since;
        if !is_known && !is_on(Planted::ForgottenEndedCounted) {
            return None;
        }
        let recent = match subject {
            Some(subject) => self.recent.range((subject, Minute(0))..=(subject, Minute(u32::MAX))),
            None => self.recent.range(..),
        };
        Some(EndedView {
            subject,
            layers: self.before.iter().chain(&self.since).cloned().collect(),
            recent: recent.map(cell_of).collect(),
            below: self.below,
        })
    }

    /// Bytes of memory, about.
    pub(in crate::schedule_log) fn memory_bytes(&self) -> usize {
        let layers = self.before.iter().chain(&self.since).map(|layer| layer.memory_bytes());
        let recent = self.recent.len().saturating_mul(size_of::<(SubjectNumber, Minute)>() + size_of::<Tally>());
        layers.fold(recent, usize::saturating_add)
    }
}

/// The ended entries of a subject, or of all, at one moment, to be read without blocking the owner.
#[derive(Debug)]
pub(in crate::schedule_log) struct EndedView {
    subject: Option<SubjectNumber>,
    layers: EndedLayers,
    recent: Vec<Cell>,
    below: Minute,
}

impl EndedView {
    pub(in crate::schedule_log) fn read(&self) -> InOrder {
        if let ([one], []) = (self.layers.as_slice(), self.recent.as_slice()) {
            return InOrder::of_one(one, self.subject, self.below);
        }
        let layers = self.layers.iter().flat_map(|layer| layer.iter(self.subject));
        InOrder::of(layers.chain(self.recent.iter().copied()).collect(), self.below)
    }
}

fn cells_of(map: &BTreeMap<(SubjectNumber, Minute), Tally>) -> impl Iterator<Item = Cell> + '_ {
    map.iter().map(cell_of)
}

fn cell_of((key, tally): (&(SubjectNumber, Minute), &Tally)) -> Cell {
    Cell { subject: key.0, minute: key.1, tally: *tally }
}

fn count(layers: &EndedLayers) -> u64 {
    layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.count() as u64))
}

fn most(rows: u64) -> u64 {
    lowered(CELLS_MIN).saturating_add(rows / ROWS_PER_CELL)
}
