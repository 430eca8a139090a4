//! The batches that a primary sends to another node.

use std::sync::Arc;

use crate::error::Result;
use crate::message_log::{Mark, batches_from};
use crate::storage::Storage;
use crate::store::state::State;
use crate::units::Sequence;

/// Returns the batches of the log from the one that begins with `first` up to `written`, one after the other: as many as fit
/// into `bytes_max`, and at least one.
///
/// # Errors
/// As [`batches_from`]: `NotKept` if these facts were removed from this log, so that the node needs a snapshot.
pub fn shipment(
    storage: &Arc<dyn Storage>,
    state: &State,
    first: Sequence,
    written: Mark,
    bytes_max: usize,
) -> Result<Vec<u8>> {
    // The batches that are not applied yet are behind the position.
    let kept = state.segments.iter().map(|start| start.position).chain([state.position]);
    let mut reader = batches_from(storage, state.stream, kept, &state.holes, first, written)?;
    let mut bytes = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        if !bytes.is_empty() && bytes.len().saturating_add(batch.bytes.len()) > bytes_max {
            break;
        }
        bytes.extend_from_slice(&batch.bytes);
        reader.recycle(batch.bytes);
    }
    Ok(bytes)
}
