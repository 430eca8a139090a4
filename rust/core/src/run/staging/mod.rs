//! Staged runs: messages to be stored all at once. Their producer writes them outside the log, before their
//! sequences are known.
//!
//! A staged run has the layout of a schedule run. Its rows are sorted by due time, then by order of arrival.
//! The row at place `i` has sequence `i`, and its record is sealed with `i`. Subjects are places, from 1, in
//! a table of names at the end of the footer. The run's number is 0, and instead of a stream it has a random
//! nonce. The digest of its footer covers its whole content.
//!
//! Staging does not change the store. A staged run that is never adopted is garbage, and its name says how
//! old it is. See `docs/decisions/0031-loads.md`.

mod check;
mod loaded_runs;
mod relation;
mod stager;
mod tail;

#[cfg(test)]
mod adopted_tests;
mod staged_run;

#[cfg(test)]
mod tests;

use crate::units::Millis;

pub(crate) use check::check_received;
pub use check::{Staged, check_staged, check_still_staged};
pub use loaded_runs::LoadedRuns;
pub use relation::Relation;
pub use stager::{RowRefused, StagedMessage, Stager, StagingLimits};
pub(super) use tail::{StagedTail, header_check_of};

/// The folder of staged runs.
pub const LOAD_FOLDER: &str = "loads";
/// The kind of a staged run in its file: a schedule run that no store has adopted.
pub(super) const STAGED_KIND: u32 = 3;
/// The most rows of a staged run. By default, a merged run has the same limit.
pub const STAGED_ROWS_MAX: u32 = 1 << 20;
/// The most subject names of a staged run.
const STAGED_NAMES_MAX: u32 = 1 << 16;
/// The most bytes of its records, which are sorted in memory.
const STAGED_RECORD_BYTES_MAX: u32 = 256 << 20;

/// The unique name of a staged run, with its age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LoadName {
    /// The time when it was begun, by the clock of the staging process.
    pub staged: Millis,
    /// Random bytes.
    pub nonce: [u8; 16],
}

impl LoadName {
    /// Its path, relative to the store.
    pub fn path(&self) -> String {
        format!("{LOAD_FOLDER}/{}", self.file_name())
    }

    /// The name of its file in [`LOAD_FOLDER`].
    pub fn file_name(&self) -> String {
        let digits = self.nonce.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        format!("{:013}-{digits}.run", self.staged.0)
    }

    /// Parses a file name. `None` for any text that [`Self::file_name`] does not produce.
    pub fn parse(file_name: &str) -> Option<Self> {
        let (staged, digits) = file_name.strip_suffix(".run")?.split_once('-')?;
        let mut nonce = [0; 16];
        for (byte, pair) in nonce.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        let name = Self { staged: Millis(staged.parse().ok()?), nonce };
        (name.file_name() == file_name).then_some(name)
    }
}

/// A staged run, as named by a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagedRun {
    /// Its name.
    pub name: LoadName,
    /// Bytes of the file.
    pub length: u64,
    /// The check of its footer, which covers its whole content.
    pub digest: u32,
    /// The number of its messages.
    pub rows: u64,
}
