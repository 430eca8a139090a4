//! The whole disk: files, names, faults and counters.

use std::collections::BTreeMap;

use super::calls::{Call, CallCounts, Errno};
use super::chance::Chance;
use super::content::{Content, FileId};
use super::folders::Folders;
use crate::error::StorageFault;
use crate::storage::memory::crash::Crash;

/// A planned fault.
#[derive(Clone, Copy, Debug)]
struct Planned {
    kind: Option<Call>,
    calls: u64,
    fault: StorageFault,
    errno: Errno,
    /// True if it stays permanently.
    lasts: bool,
}

/// The result of a failing call.
#[derive(Clone, Copy, Debug)]
struct Failing {
    fault: StorageFault,
    errno: Errno,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) files: Vec<Content>,
    pub(super) folders: Folders,
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
        self.planned.push(Planned { kind: None, calls, fault, errno: Errno::Io, lasts: false });
    }

    pub(super) fn fail_kind_after(&mut self, kind: Call, calls: u64, fault: StorageFault) {
        self.planned.push(Planned { kind: Some(kind), calls, fault, errno: Errno::Io, lasts: false });
    }

    pub(super) fn fail_as(&mut self, kind: Call, calls: u64, errno: Errno, lasts: bool) {
        self.planned.push(Planned { kind: Some(kind), calls, fault: errno.fault(), errno, lasts });
    }

    pub(super) fn heal(&mut self) {
        self.planned.clear();
        self.capacity = u64::MAX;
    }

    pub(super) fn torn(&self, file: FileId, kept: usize) -> Self {
        let mut torn = self.crashed(Crash::Kill, 0);
        for (place, content) in torn.files.iter_mut().enumerate() {
            if place == file.0 {
                content.keep_torn(kept);
            } else {
                content.keep_everything();
            }
        }
        torn.folders.cut_chosen(&vec![true; self.folders.unsettled()]);
        torn
    }

    /// Lengths within the last write to this file after which a machine may stop; each has bytes that no shorter
    /// one has.
    pub(super) fn tears(&self, path: &str) -> Option<(FileId, Vec<usize>)> {
        let file = self.folders.find(path)?;
        let (before, bytes) = self.files.get(file.0)?.last_write()?;
        let changed = before.iter().zip(bytes.iter()).enumerate().filter(|(_, (before, after))| before != after);
        Some((file, changed.map(|(at, _)| at.saturating_add(1)).filter(|kept| *kept < bytes.len()).collect()))
    }

    pub(super) fn digest(&self) -> u64 {
        let mut digest: u64 = 0xCBF2_9CE4_8422_2325;
        let mut add = |number: u64| digest = (digest ^ number).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
        for (path, file) in self.folders.files() {
            add(u64::from(crc32fast::hash(path.as_bytes())));
            let bytes = self.files.get(file.0).map(Content::live).unwrap_or_default();
            add(u64::from(crc32fast::hash(bytes)) | (bytes.len() as u64) << 32);
        }
        digest
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

    /// Counts a call. `Err`: the call does nothing. `Ok(Some)`: it fails after it did the work of a failing call.
    fn count(&mut self, call: Call) -> Outcome<Option<Failing>> {
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
                due = Some(Failing { fault: planned.fault, errno: planned.errno });
            }
            planned.calls = planned.calls.saturating_sub(1);
            !now || planned.lasts
        });
        self.stopped = due.is_some_and(|failing| failing.fault == StorageFault::Stopped);
        Ok(due)
    }

    /// Like `count`, for an atomic call: only a stop may come after the work.
    fn count_whole(&mut self, call: Call) -> Outcome<Option<StorageFault>> {
        match self.count(call)?.map(|failing| failing.fault) {
            Some(StorageFault::Stopped) if self.chance.coin() => Ok(Some(StorageFault::Stopped)),
            Some(fault) => Err(fault),
            None => Ok(None),
        }
    }

    fn content(&mut self, file: FileId) -> Outcome<&mut Content> {
        self.files.get_mut(file.0).ok_or(StorageFault::NotFound)
    }

    pub(super) fn free_bytes(&self) -> u64 {
        if self.capacity == u64::MAX { u64::MAX } else { self.capacity.saturating_sub(self.used()) }
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
        let failing = self.count(Call::Write)?;
        let offset = usize::try_from(offset).map_err(|_| StorageFault::Io)?;
        self.refuse_beyond_capacity(file, offset.saturating_add(bytes.len()))?;
        let content = self.files.get_mut(file.0).ok_or(StorageFault::NotFound)?;
        match failing.map(|failing| failing.errno) {
            None => content.write(offset, bytes),
            Some(Errno::Io) => content.write_some(offset, bytes, &mut self.chance),
            Some(Errno::Quota) => {}
            Some(Errno::NoSpace | Errno::Interrupted | Errno::Short) => {
                let kept = self.chance.up_to(bytes.len());
                content.write_prefix(offset, bytes, kept);
            }
        }
        fail_with(failing.map(|failing| failing.fault))
    }

    pub(super) fn allocate(&mut self, file: FileId, length: u64) -> Outcome<()> {
        let fault = self.count_whole(Call::Allocate)?;
        let length = usize::try_from(length).map_err(|_| StorageFault::NoSpace)?;
        self.refuse_beyond_capacity(file, length)?;
        self.content(file)?.allocate(length);
        fail_with(fault)
    }

    /// Like a write of zeros up to the end of the file. The freed bytes do not count as free.
    pub(super) fn punch(&mut self, file: FileId, offset: u64, length: u64) -> Outcome<()> {
        let fault = self.count_whole(Call::Punch)?;
        let place = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        self.content(file)?.punch(place(offset), place(length));
        fail_with(fault)
    }

    pub(super) fn sync(&mut self, file: FileId) -> Outcome<()> {
        let failing = self.count(Call::Sync)?;
        let content = self.files.get_mut(file.0).ok_or(StorageFault::NotFound)?;
        match failing {
            None => content.sync(),
            Some(_) => content.sync_some(&mut self.chance),
        }
        fail_with(failing.map(|failing| failing.fault))
    }
}

fn fail_with(fault: Option<StorageFault>) -> Outcome<()> {
    fault.map_or(Ok(()), Err)
}
