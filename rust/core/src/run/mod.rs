//! Immutable sorted files: what a checkpoint moves out of memory.
//!
//! | part | bytes | what it is |
//! |---|---|---|
//! | header | 4096 | who the file is; see [`writer`](RunWriter) |
//! | blocks | 4096 each | rows in the order of their key, with a check each |
//! | payload area | any | schedule runs: whole message records, 8-aligned, in due order |
//! | cells | 4096 each | schedule runs: what is due of each subject in each minute; see `cells.rs` |
//! | footer | any | fences, references, counts; see the table in `footer.rs` |
//! | trailer | 40 | where the footer is, and its check |
//!
//! Schedule runs and dispatch runs are the same file with another row. A file is written under a
//! temporary name, synced and renamed, so one that has its name is whole. Opening reads trailer
//! and footer; rows are read block by block, and a damaged block costs its own rows only.

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
use crate::storage::Storage;
use crate::units::RunNumber;

pub use block::BLOCK_ROWS;
pub use cell_bytes::Cell;
pub(crate) use cell_bytes::{decode_cell, encode_cell, sum_neighbours};
pub use footer::{Reference, SubjectRange, TIME_BUCKET_MS, TimeBucket};
pub use holes::{RunHole, RunHoles};
pub use payload::read_payload;
pub use reader::{DamagedBlock, Run};
pub use rows::{DispatchRow, ROW_BYTES, Row, RowKey, ScheduleRow};
pub use scan::{Patches, RowScan, ScanBuffer};
pub use staging::{
    LOAD_FOLDER, LoadName, LoadedRuns, Relation, RowRefused, STAGED_ROWS_MAX, Staged, StagedMessage, StagedRun, Stager,
    StagingLimits, check_staged, check_still_staged,
};
pub use writer::{RunHead, RunWriter};

/// The folder of all runs.
pub const RUN_FOLDER: &str = "runs";

/// What the rows of a run are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum RunKind {
    /// What is pending, by due time and sequence.
    Schedule = 1,
    /// What became ready, by subject and number.
    Dispatch = 2,
}

/// The path of a run, relative to the store.
pub fn run_path(number: RunNumber) -> String {
    format!("{RUN_FOLDER}/{:010}.run", number.0)
}

/// The numbers of the runs that are there, ascending; an absent folder holds none.
pub fn list_runs(storage: &dyn Storage) -> Result<Vec<RunNumber>> {
    let names = match storage.list(RUN_FOLDER) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        other => other?,
    };
    let mut numbers: Vec<RunNumber> = names
        .iter()
        .filter_map(|name| name.strip_suffix(".run"))
        .filter(|digits| digits.len() == 10)
        .filter_map(|digits| digits.parse().ok().map(RunNumber))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}
