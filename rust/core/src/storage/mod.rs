//! The disk as the core sees it: the seam under which every durability claim is tested.
//!
//! Paths are relative to the store's folder and use `/`. A new file becomes durable by
//! `sync_data` on it *and* `sync_folder` on its folder; a rename or removal by `sync_folder`.

mod memory;

pub use memory::{CALLS, Call, CallCounts, Crash, ERRNOS, Errno, MemoryStorage, Unsynced};

use std::sync::Arc;

use crate::error::Result;
use crate::planted::failpoint::{Failpoint, reached};
use crate::planted::{Planted, is_on};

/// Files and folders of one store.
pub trait Storage: Send + Sync {
    /// Makes a new, empty file for reading and writing. Fails where the name is taken.
    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, path: &str) -> Result<Arc<dyn StorageFile>>;

    /// The names of the files in a folder, sorted. An absent folder is a `NotFound` failure.
    fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// Gives a file another name, replacing what has that name.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file's name; those who hold it open may go on reading.
    fn remove(&self, path: &str) -> Result<()>;

    /// Makes a folder; one that is there already is fine.
    fn create_folder(&self, folder: &str) -> Result<()>;

    /// Makes the creations, renames and removals in a folder durable. `""` is the store's own.
    fn sync_folder(&self, folder: &str) -> Result<()>;

    /// Bytes of the disk that may still be written; `u64::MAX` where there is no bound.
    fn free_bytes(&self) -> Result<u64>;
}

/// One open file.
pub trait StorageFile: Send + Sync {
    /// Its path, relative to the store.
    fn path(&self) -> &str;

    /// Its length in bytes.
    fn length(&self) -> Result<u64>;

    /// Bytes that it takes of the disk, of which holes take none; its length where that is not known.
    fn room(&self) -> Result<u64> {
        self.length()
    }

    /// Reads up to `into.len()` bytes from `offset`; fewer only at the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize>;

    /// The whole file as it lies in memory, where it can be had without copying: a segment of the
    /// log, of which only what is visible may be looked at.
    fn view(&self) -> Option<&[u8]> {
        None
    }

    /// These bytes as they lie in memory, as [`Self::view`] shows them; `None` also where the disk does
    /// not give them, so that looking at what was shown cannot end the process.
    fn view_at(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let offset = usize::try_from(offset).ok()?;
        self.view()?.get(offset..offset.checked_add(length)?)
    }

    /// Asks for bytes that will be read soon, so that nobody waits for the disk then. Advice, which
    /// may come to nothing.
    fn prefetch(&self, _offset: u64, _length: u64) {}

    /// Writes all of `bytes` at `offset`, extending the file where needed.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Takes the room for `length` bytes from the disk, so that writing them cannot run out of it.
    fn allocate(&self, length: u64) -> Result<()>;

    /// Gives these bytes back to the disk: they read as zeros from now on, and the file keeps its length. True where
    /// the disk did so; false where it has no holes, and the bytes are as they were. Nothing makes it durable: after a
    /// power cut each block may have its old bytes or zeros, so only what nobody reads any more is given back. What has
    /// another name is somebody's copy as well, and stays as it is: that is true, too.
    fn punch(&self, offset: u64, length: u64) -> Result<bool>;

    /// Makes all that was written durable, and the length.
    fn sync_data(&self) -> Result<()>;
}

/// Offset and length of the whole blocks between two places, which [`StorageFile::punch`] gives back.
pub fn whole_blocks(from: u64, to: u64, block_bytes: u32) -> Option<(u64, u64)> {
    let block = u64::from(block_bytes.max(1));
    let (from, to) = (from.next_multiple_of(block), to / block * block);
    (from < to).then(|| (from, to.saturating_sub(from)))
}

/// Reads exactly `length` bytes at `offset`, or as many as there are.
pub fn read_upto(file: &dyn StorageFile, offset: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let read = file.read_at(offset, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

const OF_IDENTITY: [Failpoint; 3] = [Failpoint::IdentityWritten, Failpoint::IdentitySynced, Failpoint::IdentityRenamed];
const OF_CHECKPOINT: [Failpoint; 3] =
    [Failpoint::CheckpointWritten, Failpoint::CheckpointSynced, Failpoint::CheckpointRenamed];

/// Writes a whole file so that it is there whole or not at all: temporary name, sync, rename,
/// folder sync. `folder` is the folder of `path`.
pub fn write_atomically(storage: &dyn Storage, folder: &str, path: &str, bytes: &[u8]) -> Result<()> {
    let temporary = format!("{path}.tmp");
    match storage.remove(&temporary) {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    let file = storage.create(&temporary)?;
    file.write_at(0, bytes)?;
    let [written, synced, renamed] = if folder.is_empty() { OF_IDENTITY } else { OF_CHECKPOINT };
    reached(written);
    if !is_on(Planted::NamedBeforeSynced) {
        file.sync_data()?;
    }
    reached(synced);
    storage.rename(&temporary, path)?;
    reached(renamed);
    if is_on(Planted::RenameNotSynced) { Ok(()) } else { storage.sync_folder(folder) }
}
