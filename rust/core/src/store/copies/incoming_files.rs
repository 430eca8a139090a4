//! Files that come from another node, in parts, one file after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::{Error, Result, StorageFault};
use crate::planted::{Planted, is_on};
use crate::replication::{FilePart, FilePlace, SentFile};
use crate::run::{LOAD_FOLDER, StagedRun, check_received};
use crate::storage::{Storage, StorageFile};

/// A file that is to come.
pub(super) struct IncomingFile {
    pub(super) file: SentFile,
    /// The path at which it is written.
    pub(super) path: String,
    pub(super) length: u64,
    /// The file of a load that this is: it is checked when it is whole, and gets its name.
    pub(super) run: Option<StagedRun>,
}

/// See the module.
pub struct IncomingFiles {
    storage: Arc<dyn Storage>,
    /// The first one is being received.
    files: VecDeque<IncomingFile>,
    opened: Option<Arc<dyn StorageFile>>,
    offset: u64,
    unsynced_bytes: u64,
    unsynced_bytes_max: u64,
}

impl IncomingFiles {
    /// Begins to receive these files, none of which is empty. So many bytes are written before they are synced.
    pub(super) fn new(storage: Arc<dyn Storage>, files: VecDeque<IncomingFile>, unsynced_bytes_max: u64) -> Self {
        Self { storage, files, opened: None, offset: 0, unsynced_bytes: 0, unsynced_bytes_max }
    }

    /// The place where the next part begins. `None` if all files are here, durably.
    pub fn next(&self) -> Option<FilePlace> {
        self.files.front().map(|next| FilePlace { file: next.file, offset: self.offset })
    }

    /// The place where the part after this one begins. `None` if this part is not the next, or the last one.
    pub fn next_after(&self, part: &FilePart) -> Option<FilePlace> {
        let next = self.files.front().filter(|_| self.next() == Some(part.place))?;
        if part.end() < next.length {
            return Some(FilePlace { offset: part.end(), ..part.place });
        }
        self.files.get(1).map(|next| FilePlace { file: next.file, offset: 0 })
    }

    /// Writes a part. False if it is not the next one: it came twice, or one before it was lost.
    ///
    /// # Errors
    /// `Corrupt` if a file is another one than its load names; `NewerFormat`; those of the storage. Drop the transfer then.
    pub fn take(&mut self, part: &FilePart) -> Result<bool> {
        let (is_next, end) = (self.next() == Some(part.place), part.end());
        let Some(next) = self.files.front().filter(|_| is_next && end > self.offset) else { return Ok(false) };
        if end > next.length {
            return Ok(false);
        }
        let is_whole = end == next.length;
        let file = match self.opened.take() {
            Some(file) => file,
            None => self.create(&next.path)?,
        };
        if !part.bytes.is_empty() {
            file.write_at(part.place.offset.saturating_add(part.zeros), &part.bytes)?;
        } else if is_whole {
            // The file gets its length, and a hole.
            file.write_at(end.saturating_sub(1), &[0])?;
        }
        self.unsynced_bytes = self.unsynced_bytes.saturating_add(part.bytes.len() as u64);
        if is_whole || self.unsynced_bytes >= self.unsynced_bytes_max {
            if next.run.is_some() || !is_on(Planted::SnapshotNotSynced) {
                file.sync_data()?;
            }
            self.unsynced_bytes = 0;
        }
        if is_whole {
            self.name(next)?;
            self.files.pop_front();
            self.offset = 0;
        } else {
            (self.opened, self.offset) = (Some(file), end);
        }
        Ok(true)
    }

    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        match self.storage.remove(path) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        self.storage.create(path)
    }

    fn name(&self, whole: &IncomingFile) -> Result<()> {
        let Some(run) = &whole.run else { return Ok(()) };
        check_received(self.storage.as_ref(), &whole.path, run)?;
        self.storage.rename(&whole.path, &run.name.path())?;
        self.storage.sync_folder(LOAD_FOLDER)
    }
}

/// Checks that the disk has room for files of so many bytes.
///
/// # Errors
/// `Storage` if it has not; those of the storage.
pub(super) fn check_room(storage: &dyn Storage, folder: &str, bytes: u64) -> Result<()> {
    let free = storage.free_bytes()?;
    if free >= bytes {
        return Ok(());
    }
    Err(Error::Storage {
        operation: "receive",
        path: folder.to_owned(),
        fault: StorageFault::NoSpace,
        message: format!("the files have {bytes} bytes, and {free} are free"),
    })
}
