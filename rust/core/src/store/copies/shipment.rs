//! The batches that a primary sends to another node.

use std::sync::Arc;

use crate::error::Result;
use crate::message_log::{BatchReader, Holes, LogPosition, Mark, Stream, batches_from};
use crate::storage::Storage;
use crate::store::state::State;
use crate::units::Sequence;

/// The log as far as it is kept. It is read without the owner, which may be at work meanwhile.
pub struct KeptLog {
    stream: Stream,
    kept: Vec<LogPosition>,
    holes: Holes,
}

impl KeptLog {
    /// The log of a store with this state.
    pub fn of(state: &State) -> Self {
        // The batches that are not applied yet are behind the position.
        let kept = state.segments.iter().map(|start| start.position).chain([state.position]).collect();
        Self { stream: state.stream, kept, holes: state.holes.clone() }
    }

    /// The batches of the log from the one that begins with `first` up to `written`.
    ///
    /// # Errors
    /// As [`batches_from`]: `NotKept` if these facts were removed from this log, so that the node needs a snapshot.
    pub fn batches_from(&self, storage: &Arc<dyn Storage>, first: Sequence, written: Mark) -> Result<BatchReader> {
        batches_from(storage, self.stream, self.kept.iter().copied(), &self.holes, first, written)
    }
}

/// Batches that are sent together.
pub struct Shipment {
    /// The batches, one after the other.
    pub bytes: Vec<u8>,
    /// The point after the last of them; `None` if there are none.
    pub end: Option<Mark>,
}

impl Shipment {
    /// Takes as many batches as fit into `bytes_max`, and at least one if there is any.
    ///
    /// # Errors
    /// Those of [`BatchReader::next_batch`].
    pub fn read(batches: &mut BatchReader, bytes_max: usize) -> Result<Self> {
        let mut shipment = Self { bytes: Vec::new(), end: None };
        while let Some(batch) = batches.next_batch()? {
            let bytes = &mut shipment.bytes;
            if !bytes.is_empty() && bytes.len().saturating_add(batch.bytes.len()) > bytes_max {
                break;
            }
            bytes.extend_from_slice(&batch.bytes);
            shipment.end = Some(batch.end());
            batches.recycle(batch.bytes);
        }
        Ok(shipment)
    }
}
