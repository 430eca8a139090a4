//! A checkpoint written again from what was read of it.

use std::collections::BTreeMap;

use super::file::{encoded, read_checkpoint};
use super::snapshot::{Frozen, WindowSnapshot};
use crate::error::Result;
use crate::message_log::Stream;
use crate::storage::Storage;
use crate::store::recovery::restoration::state_of;

/// What this release would write for what a checkpoint says, without looking at the runs that it names: so reading
/// and writing are held against each other.
///
/// # Errors
/// Those of [`read_checkpoint`].
pub fn rewritten_checkpoint(storage: &dyn Storage, stream: &Stream, number: u32) -> Result<Vec<u8>> {
    let read = read_checkpoint(storage, stream, number)?;
    let state = state_of(*stream, &read.snapshot, &read.files, &BTreeMap::new())?;
    let named = |window: &WindowSnapshot| window.run.map(|run| (window.bits.first(), run));
    let planned = read.snapshot.windows.iter().filter_map(named).collect();
    Ok(encoded(stream, number, &Frozen::of(&state, &planned, read.snapshot.feed_from), &read.files))
}
