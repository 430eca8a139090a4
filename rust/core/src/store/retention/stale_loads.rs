//! Removes staged runs that can no longer be adopted, a day after the time in their file names.

use std::collections::BTreeSet;

use super::kept_files::KeptFiles;
use crate::error::Result;
use crate::run::{LOAD_FOLDER, LoadName};
use crate::storage::{Storage, names_in};
use crate::store::state::State;
use crate::store::state::load_jobs::LOAD_SWEPT_MS;
use crate::units::Millis;

/// The staged runs as of one fact: the names that the store uses, and the time by which others are too old to be
/// adopted.
///
/// The time is the log's own. A later adoption is judged by a later time of the log, so no adoption takes a run of this
/// age, whatever the clocks did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sweep {
    now: Millis,
    named: BTreeSet<LoadName>,
}

impl Sweep {
    pub(in crate::store) fn of(state: &State, kept: &[KeptFiles]) -> Self {
        let open = state.runs.values().filter_map(|known| known.run.relation()).map(|relation| relation.name);
        let named = open.chain(kept.iter().flat_map(|files| files.loads.values().copied())).collect();
        Self { now: state.position.trusted, named }
    }

    /// Removes staged runs, finished or not, that are old and that the store does not use.
    ///
    /// # Errors
    /// The errors of the storage.
    pub fn sweep(&self, storage: &dyn Storage) -> Result<()> {
        let names = names_in(storage, LOAD_FOLDER)?;
        let mut has_removed = false;
        for name in names.iter().filter(|name| self.is_garbage(name)) {
            match storage.remove(&format!("{LOAD_FOLDER}/{name}")) {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => has_removed = true,
            }
        }
        if has_removed { storage.sync_folder(LOAD_FOLDER) } else { Ok(()) }
    }

    /// True for an old staged run that the store does not use. A file with another kind of name is not delaymq's, and
    /// stays.
    fn is_garbage(&self, file_name: &str) -> bool {
        let name = LoadName::parse(file_name.strip_suffix(".tmp").unwrap_or(file_name));
        name.is_some_and(|name| self.now.since(name.staged) >= LOAD_SWEPT_MS && !self.named.contains(&name))
    }
}
