//! Compares a run on disk with the name that a load gives it.

use super::StagedRun;
use crate::error::{Error, Result};
use crate::run::Run;

impl StagedRun {
    /// Checks that `run` is the run that is named here.
    pub(crate) fn check(&self, run: &Run) -> Result<()> {
        let (expected, found) = ((self.length, self.digest, self.rows), (run.length(), run.digest(), run.row_count()));
        if expected == found && self.rows > 0 {
            return Ok(());
        }
        let words = |(length, digest, rows): (u64, u32, u64)| format!("{rows} rows in {length} bytes, {digest:08x}");
        Err(Error::corrupt(run.file().path(), 0, words(expected), words(found)))
    }
}
