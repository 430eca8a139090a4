//! What was staged and is of use to nobody any more: it goes when it is a day old, by the name of its file.

use std::collections::BTreeSet;

use super::kept_files::KeptFiles;
use crate::error::Result;
use crate::run::{LOAD_FOLDER, LoadName};
use crate::storage::Storage;
use crate::store::state::State;
use crate::store::state::load_jobs::LOAD_SWEPT_MS;
use crate::units::Millis;

/// What is known of staged runs as of one fact: which of them are the store's, and which are too old to become that.
///
/// The time is the log's own. An adoption that comes later has a later one, by which it is judged, so that none takes a
/// run of that age, whatever clocks did.
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

    /// Removes what is in nobody's hands, finished or not.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn sweep(&self, storage: &dyn Storage) -> Result<()> {
        let names = match storage.list(LOAD_FOLDER) {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        let mut has_removed = false;
        for name in names.iter().filter(|name| self.is_garbage(name)) {
            match storage.remove(&format!("{LOAD_FOLDER}/{name}")) {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => has_removed = true,
            }
        }
        if has_removed { storage.sync_folder(LOAD_FOLDER) } else { Ok(()) }
    }

    /// What has another name was put there by somebody else, and is left alone.
    fn is_garbage(&self, file_name: &str) -> bool {
        let name = LoadName::parse(file_name.strip_suffix(".tmp").unwrap_or(file_name));
        name.is_some_and(|name| self.now.since(name.staged) >= LOAD_SWEPT_MS && !self.named.contains(&name))
    }
}
