//! The schedule log: the pending messages, sorted by due time. Entries newer than the last checkpoint are in
//! memory, older ones in runs.
//!
//! The [`Schedule`] knows every entry and its state, in windows of sequences with two bits for each sequence.
//! The [`Feed`] reads it in the order of due time, one slice at a time.

mod entry;
mod feed;
mod schedule;
mod view;
mod window;

mod count;
#[cfg(test)]
mod measured;
mod merge;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub use count::cells::Cells;
pub use count::ended::{JoinedEnded, SavedEnded};
pub use count::ended_cells::{EndedCells, EndedLayers};
pub use count::horizon::{Horizon, HorizonView, SizeOf};
pub use entry::{DUE_MAX, Entry, SEQUENCE_MAX, SUBJECT_MAX};
pub use feed::recent::Recent;
pub use feed::{Feed, Loaded, Room};
pub use merge::merge_writer::{MergeProgress, MergeWriter};
pub use merge::merging::{MergeLimits, MergePlan};
pub use schedule::Schedule;
pub use view::{HiddenBlock, PendingView, ViewedPiece};
pub use window::Window;
pub use window::bits::{EntryState, TwoBits};
pub use window::part::{FrozenPart, PartWriter};

pub(crate) use entry::sort_by_key;
pub(crate) use merge::payload_copies::PayloadCopies;
pub(crate) use window::lookup::Lookups as RowLookups;
pub(crate) use window::{entry_of, row_of};
