//! The disk as a trait. Tests put the simulated disk below it, to check every promise of durability.
//!
//! Paths are relative to the store's folder and use `/`. A new file becomes durable by `sync_data` on it *and*
//! `sync_folder` on its folder; a rename or removal by `sync_folder`.

mod memory;

pub use memory::{CALLS, Call, CallCounts, Crash, ERRNOS, Errno, MemoryStorage, Unsynced};

use std::sync::Arc;

use crate::error::Result;
use crate::planted::failpoint::{Failpoint, reached};
use crate::planted::{Planted, is_on};

/// Files and folders of one store.
pub trait Storage: Send + Sync {
    /// Creates a new, empty file for reading and writing. Fails if the name exists.
    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, path: &str) -> Result<Arc<dyn StorageFile>>;

    /// The names of the files in a folder, sorted. An absent folder is a `NotFound` failure.
    fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// Renames a file, and replaces a file that has the new name.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file's name; open handles stay readable.
    fn remove(&self, path: &str) -> Result<()>;

    /// Creates a folder; an existing one is no error.
    fn create_folder(&self, folder: &str) -> Result<()>;

    /// Makes the creations, renames and removals in a folder durable. `""` is the store's own.
    fn sync_folder(&self, folder: &str) -> Result<()>;

    /// The bytes that can still be written to the disk; `u64::MAX` if there is no limit.
    fn free_bytes(&self) -> Result<u64>;
}

/// One open file.
pub trait StorageFile: Send + Sync {
    /// Its path, relative to the store.
    fn path(&self) -> &str;

    /// Its length in bytes.
    fn length(&self) -> Result<u64>;

    /// The bytes that it takes on the disk, without its holes; its length if that is unknown.
    fn room(&self) -> Result<u64> {
        self.length()
    }

    /// Reads up to `into.len()` bytes from `offset`; fewer only at the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize>;

    /// The whole file as it is in memory, if it is available without a copy: a segment of the log, of which only
    /// the visible part may be read.
    fn view(&self) -> Option<&[u8]> {
        None
    }

    /// These bytes as they are in memory, as in [`Self::view`]. Also `None` if the disk cannot read them, so that
    /// access to the returned bytes cannot end the process.
    fn view_at(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let offset = usize::try_from(offset).ok()?;
        self.view()?.get(offset..offset.checked_add(length)?)
    }

    /// Advises the disk to load bytes that will be read soon, so that the read does not wait. May have no effect.
    fn prefetch(&self, _offset: u64, _length: u64) {}

    /// Writes all of `bytes` at `offset`, extending the file where needed.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Allocates disk space for `length` bytes, so that writing them cannot fail for lack of space.
    fn allocate(&self, length: u64) -> Result<()>;

    /// Makes a hole: these bytes are freed, read as zeros, and the file keeps its length. Returns false, with the
    /// bytes unchanged, if the disk does not support holes. The call is not durable: after a power cut each block
    /// may have its old bytes or zeros, so only bytes that no reader needs may be freed. A file with another name
    /// (hard link) is also a copy of another owner: it is not changed, and the call returns true.
    fn punch(&self, offset: u64, length: u64) -> Result<bool>;

    /// Makes all written bytes and the length durable.
    fn sync_data(&self) -> Result<()>;
}

/// Offset and length of the whole blocks between two offsets, which [`StorageFile::punch`] can free.
pub fn whole_blocks(from: u64, to: u64, block_bytes: u32) -> Option<(u64, u64)> {
    let block = u64::from(block_bytes.max(1));
    let (from, to) = (from.next_multiple_of(block), to / block * block);
    (from < to).then(|| (from, to.saturating_sub(from)))
}

/// Reads exactly `length` bytes at `offset`, or fewer at the end of the file.
pub fn read_upto(file: &dyn StorageFile, offset: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let read = file.read_at(offset, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The names of the files in a folder, sorted. An absent folder has none.
pub fn names_in(storage: &dyn Storage, folder: &str) -> Result<Vec<String>> {
    match storage.list(folder) {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        other => other,
    }
}

const OF_IDENTITY: [Failpoint; 3] = [Failpoint::IdentityWritten, Failpoint::IdentitySynced, Failpoint::IdentityRenamed];
const OF_CHECKPOINT: [Failpoint; 3] =
    [Failpoint::CheckpointWritten, Failpoint::CheckpointSynced, Failpoint::CheckpointRenamed];

/// Writes a whole file atomically: temporary name, sync, rename, folder sync. `folder` is the folder of `path`.
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
