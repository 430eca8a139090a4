//! How the files of a snapshot take the place of a copy's own. A list of them, written whole, decides. Everything after it can be
//! repeated, so a process that ends in between leaves work for the next one, and nothing is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result, StorageFault};
use crate::message_log::LOG_FOLDER;
use crate::planted::{Planted, is_on};
use crate::replication::SnapshotFile;
use crate::run::{LOAD_FOLDER, RUN_FOLDER};
use crate::storage::{Storage, StorageFile, names_in, read_upto, write_atomically};
use crate::store::checkpoint::paths::CHECKPOINT_FOLDER;

/// The folder of the files that have come.
pub(in crate::store) const INCOMING_FOLDER: &str = "incoming";
/// The list of the files that take the place of the store's own: their paths, in the order of their numbers, one in each line,
/// then `check` and the CRC-32 of the lines before.
const LIST_PATH: &str = "incoming/complete";
const LIST_NAME: &str = "complete";
const CHECK: &str = "check ";

pub(super) fn incoming_path(file: u32) -> String {
    format!("{INCOMING_FOLDER}/{file:010}")
}

/// Finishes a snapshot that was sealed, and removes one that was not. It comes before anything else uses the copy. True if the copy
/// has the files of a snapshot now.
///
/// # Errors
/// `Corrupt` if the list is damaged; those of the storage. The next call goes on.
pub fn adopt_snapshot(storage: &dyn Storage) -> Result<bool> {
    let names = names_in(storage, INCOMING_FOLDER)?;
    if !names.iter().any(|name| name == LIST_NAME) {
        return if names.is_empty() { Ok(false) } else { clear(storage).map(|()| false) };
    }
    // A list that was renamed by a process which ended then may not be durable yet.
    storage.sync_folder(INCOMING_FOLDER)?;
    let paths = read_list(storage)?;
    for folder in [CHECKPOINT_FOLDER, RUN_FOLDER, LOAD_FOLDER, LOG_FOLDER] {
        for name in names_in(storage, folder)? {
            let path = format!("{folder}/{name}");
            if !paths.contains(&path) {
                storage.remove(&path)?;
            }
        }
    }
    for (path, number) in paths.iter().zip(0_u32..) {
        match storage.rename(&incoming_path(number), path) {
            // An earlier call has moved it.
            Err(error) if error.is_not_found() => drop(storage.open(path)?),
            other => other?,
        }
    }
    for folder in [CHECKPOINT_FOLDER, RUN_FOLDER, LOAD_FOLDER, LOG_FOLDER, INCOMING_FOLDER] {
        storage.sync_folder(folder)?;
    }
    storage.remove(LIST_PATH)?;
    storage.sync_folder(INCOMING_FOLDER)?;
    Ok(true)
}

/// Removes everything that has come.
pub(super) fn clear(storage: &dyn Storage) -> Result<()> {
    for name in storage.list(INCOMING_FOLDER)? {
        storage.remove(&format!("{INCOMING_FOLDER}/{name}"))?;
    }
    storage.sync_folder(INCOMING_FOLDER)
}

/// Writes the list. All files have come, and are durable.
pub(super) fn seal(storage: &dyn Storage, files: &[SnapshotFile]) -> Result<()> {
    let lines: String = files.iter().flat_map(|file| [file.path.as_str(), "\n"]).collect();
    let text = format!("{lines}{CHECK}{:08x}\n", crc32fast::hash(lines.as_bytes()));
    if !is_on(Planted::SnapshotNotSynced) {
        storage.sync_folder(INCOMING_FOLDER)?;
    }
    write_atomically(storage, INCOMING_FOLDER, LIST_PATH, text.as_bytes())
}

fn read_list(storage: &dyn Storage) -> Result<Vec<String>> {
    let file = storage.open(LIST_PATH)?;
    let length = usize::try_from(file.length()?).unwrap_or(usize::MAX);
    let text = String::from_utf8(read_upto(file.as_ref(), 0, length)?).unwrap_or_default();
    let (lines, check) = text.rsplit_once(CHECK).unwrap_or_default();
    if check.trim_end() != format!("{:08x}", crc32fast::hash(lines.as_bytes())) {
        return Err(Error::corrupt(LIST_PATH, 0, "a list of files with its check", check.trim_end()));
    }
    Ok(lines.lines().map(str::to_owned).collect())
}

/// The files that have come, under the names that they will have. They are only read.
pub(super) struct Staged {
    storage: Arc<dyn Storage>,
    files: BTreeMap<String, String>,
}

impl Staged {
    pub(super) fn new(storage: Arc<dyn Storage>, files: &[SnapshotFile]) -> Self {
        let named = files.iter().zip(0_u32..).map(|(file, number)| (file.path.clone(), incoming_path(number)));
        Self { storage, files: named.collect() }
    }

    fn refused<T>(operation: &'static str, path: &str) -> Result<T> {
        let (path, message) = (path.to_owned(), "a snapshot is only read before it is adopted".to_owned());
        Err(Error::Storage { operation, path, fault: StorageFault::PermissionDenied, message })
    }
}

impl Storage for Staged {
    fn open(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        match self.files.get(path) {
            Some(incoming) => self.storage.open(incoming),
            // An opened file tells its own path, by which it may be opened again.
            None if path.starts_with(INCOMING_FOLDER) => self.storage.open(path),
            None => Err(Error::Storage {
                operation: "open",
                path: path.to_owned(),
                fault: StorageFault::NotFound,
                message: "the snapshot does not have it".to_owned(),
            }),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let inside = self.files.keys().filter_map(|path| path.split_once('/')).filter(|(place, _)| *place == folder);
        Ok(inside.map(|(_, name)| name.to_owned()).collect())
    }

    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        Self::refused("create", path)
    }

    fn rename(&self, from: &str, _to: &str) -> Result<()> {
        Self::refused("rename", from)
    }

    fn remove(&self, path: &str) -> Result<()> {
        Self::refused("remove", path)
    }

    fn create_folder(&self, folder: &str) -> Result<()> {
        Self::refused("create", folder)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        Self::refused("sync", folder)
    }

    fn free_bytes(&self) -> Result<u64> {
        self.storage.free_bytes()
    }
}
