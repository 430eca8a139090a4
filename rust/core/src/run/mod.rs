//! Immutable sorted files, to which a checkpoint moves entries from memory.
//!
//! | part | bytes | what it is |
//! |---|---|---|
//! | header | 4096 | identity of the file; see [`writer`](RunWriter) |
//! | blocks | 4096 each | rows in the order of their key, with a check each |
//! | payload area | any | schedule runs: whole message records, 8-aligned, in due order |
//! | cells | 4096 each | schedule runs: counts of due messages by subject and minute; see `cells.rs` |
//! | footer | any | fences, references, counts; see the table in `footer.rs` |
//! | trailer | 40 | place of the footer, and its check |
//!
//! Schedule runs and dispatch runs have the same format with different rows. A file is written under a
//! temporary name, synced and renamed, so that a file with the final name is whole. Opening reads the trailer
//! and the footer. Rows are read block by block, and a damaged block loses only its own rows.

mod block;
mod cell_bytes;
mod cell_reader;
mod cells;
mod footer;
mod holes;
mod payload;
mod reader;
mod reopening;
mod rows;
mod scan;
mod staging;
mod verify;
mod writer;

#[cfg(test)]
pub(crate) mod tests_storage;

#[cfg(test)]
mod crafted_tests;

#[cfg(test)]
mod reopened_tests;

#[cfg(test)]
mod tests;

use crate::error::Result;
use crate::storage::{Storage, names_in};
use crate::units::RunNumber;

pub use block::BLOCK_ROWS;
pub use cell_bytes::Cell;
pub(crate) use cell_bytes::{decode_cell, encode_cell, sum_neighbours};
pub use footer::{Reference, SubjectRange, TIME_BUCKET_MS, TimeBucket};
pub(crate) use footer::{file_code, file_of};
pub use holes::{RunHole, RunHoles};
pub use payload::read_payload;
pub use reader::{DamagedBlock, Run};
pub use rows::{DispatchRow, ROW_BYTES, Row, RowKey, ScheduleRow};
pub use scan::{Patches, RowScan, ScanBuffer};
pub(crate) use staging::check_received;
pub use staging::{
    LOAD_FOLDER, LoadName, LoadedRuns, Relation, RowRefused, STAGED_ROWS_MAX, Staged, StagedMessage, StagedRun, Stager,
    StagingLimits, check_staged, check_still_staged,
};
pub use writer::{RunHead, RunWriter};

/// The folder of all runs.
pub const RUN_FOLDER: &str = "runs";

/// The kind of a run's rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum RunKind {
    /// Pending messages, by due time and sequence.
    Schedule = 1,
    /// Ready messages, by subject and number.
    Dispatch = 2,
}

/// The path of a run, relative to the store.
pub fn run_path(number: RunNumber) -> String {
    format!("{RUN_FOLDER}/{:010}.run", number.0)
}

/// The numbers of the existing runs, ascending. Empty if the folder does not exist.
pub fn list_runs(storage: &dyn Storage) -> Result<Vec<RunNumber>> {
    let names = names_in(storage, RUN_FOLDER)?;
    let mut numbers: Vec<RunNumber> = names
        .iter()
        .filter_map(|name| name.strip_suffix(".run"))
        .filter(|digits| digits.len() == 10)
        .filter_map(|digits| digits.parse().ok().map(RunNumber))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}
