//! A golden store: the files of a store that a build of one format left.

use std::collections::BTreeMap;

use delaymq_core::error::Result;
use delaymq_core::storage::{MemoryStorage, Storage};

/// A whole store as a build of format 1 left it: groups, runs, two checkpoints, a series, messages that are pending,
/// held, given back, cancelled, moved and keyed, and facts after the newest checkpoint.
pub const STORE_OF_FORMAT_1: &str = include_str!("../../../../tests/golden/stores/format_1.hex");

/// The bytes in one line of a golden text.
const GOLDEN_LINE_BYTES: usize = 32;

/// Writes the files of a golden store to this disk and syncs them.
pub fn lay(storage: &MemoryStorage, golden: &str) -> Result<()> {
    let mut folders = vec![""];
    let files = files_of(golden);
    for folder in files.keys().filter_map(|path| path.rsplit_once('/')).map(|(folder, _)| folder) {
        if !folders.contains(&folder) {
            storage.create_folder(folder)?;
            folders.push(folder);
        }
    }
    for (path, bytes) in &files {
        let file = storage.create(path)?;
        file.write_at(0, bytes)?;
        file.sync_data()?;
    }
    folders.into_iter().try_for_each(|folder| storage.sync_folder(folder))
}

/// The files of a golden text: for each file a line with its path, then its bytes in the form of `tests/golden`.
fn files_of(golden: &str) -> BTreeMap<&str, Vec<u8>> {
    let mut files: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    let mut path = "";
    for line in golden.lines() {
        if let Some(named) = line.strip_prefix("# path: ") {
            path = named;
            continue;
        }
        let bytes = files.entry(path).or_default();
        if let Some(lines) = line.strip_prefix("* ") {
            let zeros = lines.parse::<usize>().unwrap_or_default().saturating_mul(GOLDEN_LINE_BYTES);
            bytes.resize(bytes.len().saturating_add(zeros), 0);
        } else {
            let digits = |at: usize| line.get(at..at.saturating_add(2));
            let pairs = (0..line.len()).step_by(2).filter_map(digits);
            bytes.extend(pairs.filter_map(|digits| u8::from_str_radix(digits, 16).ok()));
        }
    }
    files
}
