//! Writes the run of ready messages that is part of a checkpoint.

use crate::dispatch_log::{FrozenReady, row_of};
use crate::error::Result;
use crate::run::{DispatchRow, ROW_BYTES, RunWriter};

/// The least number of rows that one piece of a dispatch run has, if it has more to write.
const ROWS_PER_PIECE: usize = 512;

/// A dispatch run that is being written.
pub(in crate::store) struct DispatchRunWork {
    pub(in crate::store) writer: RunWriter<DispatchRow>,
    pub(in crate::store) subject: usize,
    pub(in crate::store) entry: usize,
}

impl DispatchRunWork {
    /// Writes the next piece. True when all rows are written.
    pub(in crate::store) fn write_piece(&mut self, ready: &[FrozenReady], budget_bytes: u64) -> Result<bool> {
        let mut left = (budget_bytes / ROW_BYTES as u64).max(ROWS_PER_PIECE as u64);
        while let Some(subject) = ready.get(self.subject) {
            while let Some(entry) = subject.entries.get(self.entry) {
                if left == 0 {
                    self.writer.sync()?;
                    return Ok(false);
                }
                left -= 1;
                self.writer.push_row(&row_of(subject.first.plus(self.entry as u64), entry))?;
                self.entry += 1;
            }
            self.entry = 0;
            self.subject += 1;
        }
        Ok(true)
    }
}
