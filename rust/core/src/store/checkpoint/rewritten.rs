//! A checkpoint is written again from what was read of it, so that tests can compare reading and writing.

use std::collections::BTreeMap;

use super::file::{encoded, read_checkpoint};
use super::snapshot::Frozen;
use super::window_codec::WindowSnapshot;
use crate::error::Result;
use crate::message_log::Stream;
use crate::storage::Storage;
use crate::store::recovery::restoration::state_of;

/// Returns the bytes that this release would write for the state in a checkpoint. The runs that it names are not read.
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
