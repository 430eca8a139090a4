//! What is pending, sorted by due time: entries newer than the last checkpoint in memory, older
//! ones in runs.

mod bits;
mod entry;

pub use bits::{EntryState, TwoBits};
pub(crate) use entry::sort_by_key;
pub use entry::{DUE_MAX, Entry};
