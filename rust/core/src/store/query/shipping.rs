//! The log as another copy of the store reads it.

use crate::error::Result;
use crate::message_log::{BatchReader, Mark, batches_from};
use crate::store::owner::Owner;
use crate::units::Sequence;

impl Owner {
    /// Reads the batches from a sequence on, up to `written`, for another copy. Applied or not, synced or not: another
    /// copy may sync them first.
    ///
    /// # Errors
    /// `NotKept` if the log no longer has all of them: the other copy needs a snapshot. `InvalidArgument` if no batch
    /// begins there. `Corrupt`, `MissingFile`, `Storage`.
    pub fn batches_from(&self, first: Sequence, written: Mark) -> Result<BatchReader> {
        let state = &self.state;
        let kept = state.segments.iter().map(|start| start.position);
        batches_from(&self.effects.storage, state.stream, kept, &state.holes, first, written)
    }
}
