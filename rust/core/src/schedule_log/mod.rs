//! What is pending, sorted by due time: entries newer than the last checkpoint in memory, older
//! ones in runs.
//!
//! The [`Schedule`] knows every entry and what became of it, in windows of sequences with two bits
//! each. The [`Feed`] walks over it in the order of due time, a slice at a time.

mod bits;
mod cursors;
mod due_index;
mod entry;
mod feed;
mod gather;
mod part;
mod pending;
mod recent;
mod reserve;
mod schedule;
mod window;

#[cfg(test)]
mod measured;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub use bits::{EntryState, TwoBits};
pub use entry::{DUE_MAX, Entry};
pub use feed::{Feed, Loaded};
pub use part::{FrozenPart, PartWriter};
pub use recent::Recent;
pub use schedule::Schedule;
pub use window::Window;

pub(crate) use entry::sort_by_key;
