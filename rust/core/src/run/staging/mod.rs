//! Staged runs: messages that are to be stored all at once, written beside the log by who has them, before anybody
//! knows which sequences they will have.
//!
//! A staged run has the layout of a schedule run. Its rows are sorted by due time, and among equal ones by the order
//! in which they came; the row at place `i` has sequence `i`, and its record is sealed under `i`. Subjects are places
//! in a table of names at the end of the footer, from 1. Its number is 0, and where another run has its stream stands
//! what tells it from every other staged run. The digest of its footer covers all of its content.
//!
//! Nothing of the store changes by staging: what nobody adopts is garbage, and its name says how old it is. See
//! `docs/decisions/0031-loads.md`.

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

pub use check::{Staged, check_staged, check_still_staged};
pub use loaded_runs::LoadedRuns;
pub use relation::Relation;
pub use stager::{RowRefused, StagedMessage, Stager, StagingLimits};
pub(super) use tail::{StagedTail, header_check_of};

/// The folder of what was staged.
pub const LOAD_FOLDER: &str = "loads";
/// The kind of file that a staged run is: a schedule run that no store has yet.
pub(super) const STAGED_KIND: u32 = 3;
/// Rows of a staged run at most; so many neighbours are merged into one at most, too.
pub const STAGED_ROWS_MAX: u32 = 1 << 20;
/// Names of subjects that it has at most.
const STAGED_NAMES_MAX: u32 = 1 << 16;
/// Bytes of its records at most: they are sorted in memory.
const STAGED_RECORD_BYTES_MAX: u32 = 256 << 20;

/// What tells a staged run from every other one, and how old it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LoadName {
    /// When it was begun, by the clock of who staged it.
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

    /// The name that stands in the name of a file; `None` for every text that [`Self::file_name`] does not give.
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

/// A staged run as who adopts it names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagedRun {
    /// Its name.
    pub name: LoadName,
    /// Bytes of the file.
    pub length: u64,
    /// The check of its footer, which covers all of its content.
    pub digest: u32,
    /// How many messages it has.
    pub rows: u64,
}
