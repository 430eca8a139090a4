//! Storage in memory, with the crashes of a real disk.
//!
//! Each file has the bytes that its readers see and the bytes that would survive a power cut; what
//! was written since the last sync is kept apart, write by write. Folder entries survive only once
//! their folder was synced. [`MemoryStorage::crash`] makes the storage that the next process would
//! find, and leaves this one as it was, so one moment can be crashed in many ways.
//!
//! Everything is decided by the seeds given: two runs with the same calls see the same disk.

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

    /// The storage that is found after a crash at this moment. This one goes on as if nothing had
    /// happened; faults that were asked for do not carry over.
    pub fn crash(&self, crash: Crash, seed: u64) -> Self {
        Self::of(self.lock().crashed(crash, seed))
    }

    /// The storage that is found after a power cut that loses all that was not synced, but for the
    /// creations, renames and removals of these paths.
    pub fn power_cut_but(&self, keep: &dyn Fn(&str) -> bool) -> Self {
        Self::of(self.lock().crashed_but(keep))
    }

    /// Lets the call after the next `calls` calls fail with `fault`, once. A failed write may have
    /// written some sectors; a failed sync may have, too, and what it did not write no later sync
    /// will; any other failed call has done nothing.
    pub fn fail_call(&self, calls: u64, fault: StorageFault) {
        self.lock().fail_after(calls, fault);
    }

    /// Lets the next call of one kind fail with `fault`, after `calls` that work.
    pub fn fail_call_of(&self, kind: Call, calls: u64, fault: StorageFault) {
        self.lock().fail_kind_after(kind, calls, fault);
    }

    /// Lets the next call of one kind fail as the operating system would, after `calls` that work; from
    /// then on every one of that kind where it `lasts`.
    pub fn fail_call_as(&self, kind: Call, calls: u64, errno: Errno, lasts: bool) {
        self.lock().fail_as(kind, calls, errno, lasts);
    }

    /// Takes back every fault that was asked for, and the bound of its room.
    pub fn heal(&self) {
        self.lock().heal();
    }

    /// Everything that a power cut now may leave in more than one way.
    pub fn unsynced(&self) -> Unsynced {
        self.lock().unsynced()
    }

    /// The storages that are found where the machine ended within the last write to this file, byte by
    /// byte, everything else being kept; none where it was synced.
    pub fn torn(&self, path: &str) -> Vec<Self> {
        let state = self.lock();
        let Some((file, tears)) = state.tears(path) else { return Vec::new() };
        tears.into_iter().map(|kept| Self::of(state.torn(file, kept))).collect()
    }

    /// A digest of every file as its readers see it, and of its name.
    pub fn digest(&self) -> u64 {
        self.lock().digest()
    }

    /// Stops the machine in the call after the next `calls` calls: that one and all later ones fail
    /// with `Stopped`, and it may have done all, some or nothing of its work.
    pub fn stop_after_calls(&self, calls: u64) {
        self.lock().fail_after(calls, StorageFault::Stopped);
    }

    /// True where the machine has stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_stopped()
    }

    /// Bounds the sum of the lengths of all files; what goes beyond it fails with `NoSpace`.
    pub fn set_capacity(&self, bytes: u64) {
        self.lock().set_capacity(bytes);
    }

    /// How many calls of each kind were made, failed ones among them.
    pub fn counts(&self) -> CallCounts {
        self.lock().counts()
    }

    /// Every file as its readers see it, by path.
    pub fn image(&self) -> BTreeMap<String, Vec<u8>> {
        self.lock().image()
    }

    /// Flips bits of one byte of a file, in whatever version of it survives. False where there is no such byte.
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

/// An open file; it stays readable after its name is gone.
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
