//! The paths of checkpoints.

use crate::error::Result;
use crate::storage::{Storage, names_in};

/// The folder of the checkpoints.
pub const CHECKPOINT_FOLDER: &str = "checkpoints";

/// The path of a checkpoint.
pub fn checkpoint_path(number: u32) -> String {
    format!("checkpoints/{number:010}.checkpoint")
}

/// The numbers of the existing checkpoints, ascending. An absent folder has none.
///
/// # Errors
/// Those of the storage.
pub(in crate::store) fn list_checkpoints(storage: &dyn Storage) -> Result<Vec<u32>> {
    let names = names_in(storage, CHECKPOINT_FOLDER)?;
    let mut numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| name.strip_suffix(".checkpoint"))
        .filter(|digits| digits.len() == 10)
        .filter_map(|digits| digits.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}
