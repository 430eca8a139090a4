//! Record batches that become staged runs: what a table has as rows is encoded, sorted, checked and written beside a
//! store, for one load to adopt. The columns are those of the table `message`, so that what was read can be written.

mod columns;
mod json_text;
mod meta;
mod texts;
mod times;

#[cfg(test)]
mod tests;

use arrow_array::RecordBatch;
use delaymq_core::error::{Error, Result};
use delaymq_core::run::{StagedMessage, StagedRun, Stager};

use columns::{Columns, LoadedRow};

/// So many rows that are no messages are told of one batch at most; the others are counted.
pub const BAD_ROWS_TOLD_MAX: usize = 1 << 20;

/// What is done with columns that no message has, and with rows that are no messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadingRules {
    /// Columns that a message does not have are let be, rather than refused.
    pub ignores_others: bool,
    /// A row that is no message is told, and those behind it are taken; else nothing behind it is.
    pub goes_on: bool,
}

/// A row that is no message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadRow {
    /// Its place in the batch.
    pub place: usize,
    /// `InvalidArgument` or `TooLarge`, whose argument is the column.
    pub error: Error,
}

/// Takes record batches, and stages their rows.
pub struct Loader {
    stager: Stager<'static>,
    rules: LoadingRules,
}

impl Loader {
    /// Of a stager that nothing was given yet.
    pub fn new(stager: Stager<'static>, rules: LoadingRules) -> Self {
        Self { stager, rules }
    }

    /// Takes all rows of a batch that are messages, and says which are none: the first of them alone where the rules
    /// say that nothing goes on behind it.
    ///
    /// # Errors
    /// `InvalidArgument` if a column is missing, has another type or is unknown: then no row was taken. Those of
    /// the storage, where a file had to be written: some rows may have been taken, and nothing is to be done but to
    /// [abandon](Self::abandon) all.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<Vec<BadRow>> {
        let columns = Columns::of(batch, self.rules.ignores_others)?;
        let (mut bad, mut meta) = (Vec::new(), Vec::new());
        for place in 0..batch.num_rows() {
            let taken = match columns.row(place, &mut meta) {
                Ok(LoadedRow { due, subject, body, expiry }) => self
                    .stager
                    .push(&StagedMessage { due, subject, meta: &meta, body, expiry })?
                    .map_err(|row| row.error),
                Err(error) => Err(error),
            };
            if let Err(error) = taken {
                if bad.len() >= BAD_ROWS_TOLD_MAX {
                    let (limit, found) = (BAD_ROWS_TOLD_MAX as u64, bad.len() as u64 + 1);
                    return Err(Error::TooLarge { argument: "bad rows of a batch", limit, found });
                }
                bad.push(BadRow { place, error });
                if !self.rules.goes_on {
                    break;
                }
            }
        }
        Ok(bad)
    }

    /// True if rows are taken behind one that is none.
    pub fn goes_on(&self) -> bool {
        self.rules.goes_on
    }

    /// Writes what it holds, and says what it has written in all. Each run is whole and durable then.
    ///
    /// # Errors
    /// Those of the storage; it may be tried again.
    pub fn finish(&mut self) -> Result<Vec<StagedRun>> {
        self.stager.finish()
    }

    /// Removes what it has written, and lets go of the rest.
    ///
    /// # Errors
    /// Those of the storage: what is left is garbage, and goes by its age.
    pub fn abandon(self) -> Result<()> {
        self.stager.abandon()
    }
}
