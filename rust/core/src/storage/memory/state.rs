//! The whole disk: files, names, faults and counters.

use std::collections::BTreeMap;

use super::Crash;
use super::chance::Chance;
use super::content::{Content, FileId};
use super::folders::Folders;
use crate::error::StorageFault;

/// A kind of call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "each is the call of that name")]
pub enum Call {
    Create,
    Open,
    List,
    Rename,
    Remove,
    CreateFolder,
    SyncFolder,
    Length,
    Read,
    Write,
    Allocate,
    Sync,
}

/// How many calls were made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallCounts {
    calls: BTreeMap<Call, u64>,
    bytes_read: u64,
}

impl CallCounts {
    /// How many of one kind.
    pub fn of(&self, call: Call) -> u64 {
        self.calls.get(&call).copied().unwrap_or_default()
    }

    /// How many bytes were read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// How many of all kinds.
    pub fn all(&self) -> u64 {
        self.calls.values().sum()
    }

    /// How many of those that change something.
    pub fn changing(&self) -> u64 {
        let reading = [Call::Open, Call::List, Call::Length, Call::Read];
        self.all().saturating_sub(reading.iter().map(|call| self.of(*call)).sum())
    }
}

/// A fault that was asked for.
#[derive(Clone, Copy, Debug)]
struct Planned {
    kind: Option<Call>,
    calls: u64,
    fault: StorageFault,
}

#[derive(Debug)]
pub(super) struct State {
    files: Vec<Content>,
    folders: Folders,
    planned: Vec<Planned>,
    stopped: bool,
    capacity: u64,
    counts: CallCounts,
    chance: Chance,
}

type Outcome<T> = Result<T, StorageFault>;

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            files: Vec::new(),
            folders: Folders::default(),
            planned: Vec::new(),
            stopped: false,
            capacity: u64::MAX,
            counts: CallCounts::default(),
            chance: Chance::new(seed),
        }
    }

    pub(super) fn crashed(&self, crash: Crash, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let mut files = self.files.clone();
        let mut folders = self.folders.clone();
        match crash {
            Crash::Kill => {}
            Crash::PowerCutLosesAll => {
                files.iter_mut().for_each(Content::keep_synced);
                folders.cut(None);
            }
            Crash::PowerCut => {
                for file in &mut files {
                    file.keep_some(&mut chance);
                }
                folders.cut(Some(&mut chance));
            }
        }
        Self { files, folders, capacity: self.capacity, chance, ..Self::new(seed) }
    }

    pub(super) fn crashed_but(&self, keep: &dyn Fn(&str) -> bool) -> Self {
        let mut kept = self.crashed(Crash::Kill, 0);
        kept.files.iter_mut().for_each(Content::keep_synced);
        kept.folders.cut_but(keep);
        kept
    }

    pub(super) fn fail_after(&mut self, calls: u64, fault: StorageFault) {
        self.planned.push(Planned { kind: None, calls, fault });
    }

    pub(super) fn fail_kind_after(&mut self, kind: Call, calls: u64, fault: StorageFault) {
        self.planned.push(Planned { kind: Some(kind), calls, fault });
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(super) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    pub(super) fn counts(&self) -> CallCounts {
        self.counts.clone()
    }

    pub(super) fn image(&self) -> BTreeMap<String, Vec<u8>> {
        let whole = |file: FileId| self.files.get(file.0).map(|content| content.live().to_vec()).unwrap_or_default();
        self.folders.files().map(|(path, file)| (path.clone(), whole(file))).collect()
    }

    pub(super) fn damage(&mut self, path: &str, offset: u64, mask: u8) -> bool {
        let Some(file) = self.folders.find(path) else { return false };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        self.files.get_mut(file.0).is_some_and(|content| content.damage(offset, mask))
    }

    /// Counts a call. `Err`: it does nothing. `Ok(Some)`: it fails, after it has done what a failing
    /// call does.
    fn count(&mut self, call: Call) -> Outcome<Option<StorageFault>> {
        *self.counts.calls.entry(call).or_default() += 1;
        if self.stopped {
            return Err(StorageFault::Stopped);
        }
        let mut due = None;
        self.planned.retain_mut(|planned| {
            if planned.kind.is_some_and(|kind| kind != call) {
                return true;
            }
            let now = planned.calls == 0;
            if now {
                due = Some(planned.fault);
            }
            planned.calls = planned.calls.saturating_sub(1);
            !now
        });
        self.stopped = due == Some(StorageFault::Stopped);
        Ok(due)
    }

    /// As `count`, for a call that is done whole or not at all: only a stop may come after the work.
    fn count_whole(&mut self, call: Call) -> Outcome<Option<StorageFault>> {
        match self.count(call)? {
            Some(StorageFault::Stopped) if self.chance.coin() => Ok(Some(StorageFault::Stopped)),
            Some(fault) => Err(fault),
            None => Ok(None),
        }
    }

    fn content(&mut self, file: FileId) -> Outcome<&mut Content> {
        self.files.get_mut(file.0).ok_or(StorageFault::NotFound)
    }

    fn used(&self) -> u64 {
        let named = self.folders.files().filter_map(|(_, file)| self.files.get(file.0));
        named.map(|content| content.live().len() as u64).sum()
    }

    fn refuse_beyond_capacity(&mut self, file: FileId, length: usize) -> Outcome<()> {
        let grows = length.saturating_sub(self.content(file)?.live().len()) as u64;
        let fits = grows == 0 || self.used().saturating_add(grows) <= self.capacity;
        if fits { Ok(()) } else { Err(StorageFault::NoSpace) }
    }

    pub(super) fn create(&mut self, path: &str) -> Outcome<FileId> {
        let fault = self.count_whole(Call::Create)?;
        if !self.folders.has_folder_of(path) {
            return Err(StorageFault::NotFound);
        }
        if self.folders.find(path).is_some() {
            return Err(StorageFault::AlreadyExists);
        }
        let file = FileId(self.files.len());
        self.files.push(Content::default());
        self.folders.create(path, file);
        fail_with(fault).map(|()| file)
    }

    pub(super) fn open(&mut self, path: &str) -> Outcome<FileId> {
        fail_with(self.count_whole(Call::Open)?)?;
        self.folders.find(path).ok_or(StorageFault::NotFound)
    }

    pub(super) fn list(&mut self, folder: &str) -> Outcome<Vec<String>> {
        fail_with(self.count_whole(Call::List)?)?;
        if self.folders.has_folder(folder) { Ok(self.folders.list(folder)) } else { Err(StorageFault::NotFound) }
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Outcome<()> {
        let fault = self.count_whole(Call::Rename)?;
        let file = self.folders.find(from).ok_or(StorageFault::NotFound)?;
        if !self.folders.has_folder_of(to) {
            return Err(StorageFault::NotFound);
        }
        self.folders.rename(from, to, file);
        fail_with(fault)
    }

    pub(super) fn remove(&mut self, path: &str) -> Outcome<()> {
        let fault = self.count_whole(Call::Remove)?;
        self.folders.find(path).ok_or(StorageFault::NotFound)?;
        self.folders.remove(path);
        fail_with(fault)
    }

    pub(super) fn create_folder(&mut self, folder: &str) -> Outcome<()> {
        let fault = self.count_whole(Call::CreateFolder)?;
        self.folders.create_folder(folder);
        fail_with(fault)
    }

    pub(super) fn sync_folder(&mut self, folder: &str) -> Outcome<()> {
        let fault = self.count_whole(Call::SyncFolder)?;
        if !self.folders.has_folder(folder) {
            return Err(StorageFault::NotFound);
        }
        self.folders.sync(folder);
        fail_with(fault)
    }

    pub(super) fn length(&mut self, file: FileId) -> Outcome<u64> {
        fail_with(self.count_whole(Call::Length)?)?;
        Ok(self.content(file)?.live().len() as u64)
    }

    pub(super) fn read(&mut self, file: FileId, offset: u64, into: &mut [u8]) -> Outcome<usize> {
        fail_with(self.count_whole(Call::Read)?)?;
        let read = self.content(file)?.read(offset, into);
        self.counts.bytes_read = self.counts.bytes_read.saturating_add(read as u64);
        Ok(read)
    }

    pub(super) fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Outcome<()> {
        let fault = self.count(Call::Write)?;
        let offset = usize::try_from(offset).map_err(|_| StorageFault::Io)?;
        self.refuse_beyond_capacity(file, offset.saturating_add(bytes.len()))?;
        let content = self.files.get_mut(file.0).ok_or(StorageFault::NotFound)?;
        match fault {
            None => content.write(offset, bytes),
            Some(_) => content.write_some(offset, bytes, &mut self.chance),
        }
        fail_with(fault)
    }

    pub(super) fn allocate(&mut self, file: FileId, length: u64) -> Outcome<()> {
        let fault = self.count_whole(Call::Allocate)?;
        let length = usize::try_from(length).map_err(|_| StorageFault::NoSpace)?;
        self.refuse_beyond_capacity(file, length)?;
        self.content(file)?.allocate(length);
        fail_with(fault)
    }

    pub(super) fn sync(&mut self, file: FileId) -> Outcome<()> {
        let fault = self.count(Call::Sync)?;
        let content = self.files.get_mut(file.0).ok_or(StorageFault::NotFound)?;
        match fault {
            None => content.sync(),
            Some(_) => content.sync_some(&mut self.chance),
        }
        fail_with(fault)
    }
}

fn fail_with(fault: Option<StorageFault>) -> Outcome<()> {
    fault.map_or(Ok(()), Err)
}
