//! Finds the newest checkpoints, and measures the log after a checkpoint.

use crate::error::{Error, Result};
use crate::message_log::Stream;
use crate::record::batch::BatchHeader;
use crate::storage::Storage;
use crate::store::checkpoint::file::{ReadCheckpoint, read_checkpoint};
use crate::store::checkpoint::paths::list_checkpoints;

/// Returns the newest checkpoint that can be read completely.
pub(in crate::store) fn newest_checkpoint(storage: &dyn Storage, stream: &Stream) -> Result<Option<ReadCheckpoint>> {
    newest(storage, stream, 1).map(|found| found.into_iter().next())
}

/// Returns the two newest checkpoints that can be read completely, the newest first.
pub(in crate::store) fn newest_checkpoints(storage: &dyn Storage, stream: &Stream) -> Result<Vec<ReadCheckpoint>> {
    newest(storage, stream, 2)
}

fn newest(storage: &dyn Storage, stream: &Stream, count: usize) -> Result<Vec<ReadCheckpoint>> {
    let mut found = Vec::new();
    for number in list_checkpoints(storage)?.into_iter().rev() {
        match read_checkpoint(storage, stream, number) {
            Ok(read) => found.push(read),
            Err(error @ (Error::NewerFormat { .. } | Error::Storage { .. })) => return Err(error),
            Err(_) => {}
        }
        if found.len() == count {
            break;
        }
    }
    Ok(found)
}

/// The amount of log applied after the checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::store) struct Behind {
    pub(in crate::store) facts: u64,
    pub(in crate::store) bytes: u64,
}

impl Behind {
    pub(in crate::store) fn add(&mut self, header: &BatchHeader) {
        self.facts = self.facts.saturating_add(u64::from(header.count.get()));
        self.bytes = self.bytes.saturating_add(u64::from(header.length.get()));
    }
}
