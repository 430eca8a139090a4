//! What is pending, sorted by due time: entries newer than the last checkpoint in memory, older
//! ones in runs.
//!
//! The [`Schedule`] knows every entry and what became of it, in windows of sequences with two bits
//! each. The [`Feed`] walks over it in the order of due time, a slice at a time.

mod adopting;
mod bits;
mod cursors;
mod due_index;
mod ended;
mod ended_cells;
mod entry;
mod feed;
mod gather;
mod horizon;
mod horizon_pages;
mod lane;
mod lookup;
mod merge_writer;
mod merging;
mod moving;
mod part;
mod payload_copies;
mod pending;
mod recent;
mod reserve;
mod schedule;
mod shares;
mod view;
mod window;

#[cfg(test)]
mod counted_tests;
#[cfg(test)]
mod lane_tests;
#[cfg(test)]
mod measured;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub use bits::{EntryState, TwoBits};
pub use ended::{JoinedEnded, SavedEnded};
pub use ended_cells::{EndedCells, EndedLayers};
pub use entry::{DUE_MAX, Entry, SEQUENCE_MAX, SUBJECT_MAX};
pub use feed::{Feed, Loaded, Room};
pub use horizon::{Cells, Horizon, HorizonView, SizeOf};
pub use merge_writer::{MergeProgress, MergeWriter};
pub use merging::{MergeLimits, MergePlan};
pub use part::{FrozenPart, PartWriter};
pub use recent::Recent;
pub use schedule::Schedule;
pub use view::{HiddenBlock, PendingView, ViewedPiece};
pub use window::Window;

pub(crate) use entry::sort_by_key;
pub(crate) use payload_copies::PayloadCopies;
pub(crate) use window::{entry_of, row_of};
