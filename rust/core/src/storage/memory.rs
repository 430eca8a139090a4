//! Storage in memory, with the crashes of a real disk.
//!
//! Each file has the bytes that its readers see, and the bytes that would survive a power cut. Each write since the
//! last sync is kept separately. Folder entries survive only once their folder was synced. [`MemoryStorage::crash`]
//! returns the storage that the next process would find, and leaves this one unchanged, so one moment can be
//! crashed in many ways.
//!
//! The seeds decide everything: two runs with the same calls see the same disk.

mod calls;
mod chance;
mod content;
mod crash;
mod folders;
mod state;
mod unsynced;

pub use self::crash::Crash;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::calls::{CALLS, Call, CallCounts, ERRNOS, Errno};
use self::content::FileId;
use self::state::State;
pub use self::unsynced::Unsynced;
use super::{Storage, StorageFile};
use crate::error::{Error, Result, StorageFault};

/// Files in memory.
#[derive(Clone)]
pub struct MemoryStorage {
    state: Arc<Mutex<State>>,
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new(0)
    }
}

impl MemoryStorage {
    /// An empty folder. The seed decides what failing calls leave behind.
    pub fn new(seed: u64) -> Self {
        Self::of(State::new(seed))
    }

    fn of(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The storage that the next process finds after a crash at this moment. This storage is unchanged; planned
    /// faults do not carry over.
    pub fn crash(&self, crash: Crash, seed: u64) -> Self {
        Self::of(self.lock().crashed(crash, seed))
    }

    /// The storage after a power cut that loses all unsynced changes, except the creations, renames and removals of
    /// these paths.
    pub fn power_cut_but(&self, keep: &dyn Fn(&str) -> bool) -> Self {
        Self::of(self.lock().crashed_but(keep))
    }

    /// Makes the call after the next `calls` calls fail with `fault`, once. A failed write or sync may have done
    /// some sectors; no later sync makes the other sectors of a failed sync durable. Any other failed call has done
    /// nothing.
    pub fn fail_call(&self, calls: u64, fault: StorageFault) {
        self.lock().fail_after(calls, fault);
    }

    /// Makes the next call of one kind fail with `fault`, after `calls` successful ones.
    pub fn fail_call_of(&self, kind: Call, calls: u64, fault: StorageFault) {
        self.lock().fail_kind_after(kind, calls, fault);
    }

    /// Makes a call of one kind fail as the operating system would, after `calls` successful ones. If it `lasts`,
    /// all later calls of this kind fail.
    pub fn fail_call_as(&self, kind: Call, calls: u64, errno: Errno, lasts: bool) {
        self.lock().fail_as(kind, calls, errno, lasts);
    }

    /// Cancels all planned faults and the capacity limit.
    pub fn heal(&self) {
        self.lock().heal();
    }

    /// All unsynced changes that a power cut now may leave in more than one state.
    pub fn unsynced(&self) -> Unsynced {
        self.lock().unsynced()
    }

    /// The storages that are found if the machine stops within the last write to this file, one for each byte, with
    /// all other changes kept. Empty if the file is synced.
    pub fn torn(&self, path: &str) -> Vec<Self> {
        let state = self.lock();
        let Some((file, tears)) = state.tears(path) else { return Vec::new() };
        tears.into_iter().map(|kept| Self::of(state.torn(file, kept))).collect()
    }

    /// A digest of the name and the visible bytes of every file.
    pub fn digest(&self) -> u64 {
        self.lock().digest()
    }

    /// Stops the machine in the call after the next `calls` calls: that one and all later ones fail
    /// with `Stopped`, and it may have done all, some or nothing of its work.
    pub fn stop_after_calls(&self, calls: u64) {
        self.lock().fail_after(calls, StorageFault::Stopped);
    }

    /// True if the machine has stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_stopped()
    }

    /// Limits the sum of the lengths of all files; calls that exceed it fail with `NoSpace`.
    pub fn set_capacity(&self, bytes: u64) {
        self.lock().set_capacity(bytes);
    }

    /// The number of calls of each kind, including failed ones.
    pub fn counts(&self) -> CallCounts {
        self.lock().counts()
    }

    /// Every file as its readers see it, by path.
    pub fn image(&self) -> BTreeMap<String, Vec<u8>> {
        self.lock().image()
    }

    /// Flips bits of one byte of a file, in every version that may survive. False if there is no such byte.
    pub fn damage(&self, path: &str, offset: u64, mask: u8) -> bool {
        self.lock().damage(path, offset, mask)
    }
}

impl Storage for MemoryStorage {
    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        let file = self.lock().create(path).map_err(|fault| failure("create", path, fault))?;
        Ok(Arc::new(MemoryFile { storage: self.clone(), path: path.to_owned(), file }))
    }

    fn open(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        let file = self.lock().open(path).map_err(|fault| failure("open", path, fault))?;
        Ok(Arc::new(MemoryFile { storage: self.clone(), path: path.to_owned(), file }))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.lock().list(folder).map_err(|fault| failure("list", folder, fault))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.lock().rename(from, to).map_err(|fault| failure("rename", from, fault))
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.lock().remove(path).map_err(|fault| failure("remove", path, fault))
    }

    fn create_folder(&self, folder: &str) -> Result<()> {
        self.lock().create_folder(folder).map_err(|fault| failure("create folder", folder, fault))
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.lock().sync_folder(folder).map_err(|fault| failure("sync folder", folder, fault))
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(self.lock().free_bytes())
    }
}

/// An open file; it stays readable after its name is removed.
struct MemoryFile {
    storage: MemoryStorage,
    path: String,
    file: FileId,
}

impl StorageFile for MemoryFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        self.storage.lock().length(self.file).map_err(|fault| failure("length", &self.path, fault))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.storage.lock().read(self.file, offset, into).map_err(|fault| failure("read", &self.path, fault))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.storage.lock().write(self.file, offset, bytes).map_err(|fault| failure("write", &self.path, fault))
    }

    fn allocate(&self, length: u64) -> Result<()> {
        self.storage.lock().allocate(self.file, length).map_err(|fault| failure("allocate", &self.path, fault))
    }

    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        let punched = self.storage.lock().punch(self.file, offset, length);
        punched.map(|()| true).map_err(|fault| failure("punch", &self.path, fault))
    }

    fn sync_data(&self) -> Result<()> {
        self.storage.lock().sync(self.file).map_err(|fault| failure("sync", &self.path, fault))
    }
}

fn failure(operation: &'static str, path: &str, fault: StorageFault) -> Error {
    let message = match fault {
        StorageFault::NoSpace => "no space is left",
        StorageFault::NotFound => "there is no such file or folder",
        StorageFault::AlreadyExists => "the name is taken",
        StorageFault::PermissionDenied => "not allowed",
        StorageFault::Io => "the device failed",
        StorageFault::Stopped => "the machine was stopped",
    };
    Error::Storage { operation, path: path.to_owned(), fault, message: message.to_owned() }
}

#[cfg(test)]
mod tests;
