//! [`Storage`] over a folder of real files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use delaymq_core::error::Result;
use delaymq_core::message_log::{IDENTITY_PATH, LOG_FOLDER};
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::storage::{Storage, StorageFile};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::files::mapping::Mapping;
use crate::files::system_errors::{failed, retried, storage_error};

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// The unit of `st_blocks`, whatever the blocks of the file system are.
const UNIT_OF_ROOM_BYTES: u64 = 512;
/// The zeros that are written where the file system cannot allocate.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A store's folder.
#[derive(Debug)]
pub struct FileStorage {
    root: PathBuf,
    syncs: bool,
    writable: bool,
}

impl FileStorage {
    /// The storage in `root`. If the folder does not exist and `create` is set, it is created and made durable. A
    /// folder without an identity may be left by a process that ended before the folder's name was durable, so it is
    /// made durable again.
    ///
    /// # Errors
    /// `Storage` if the folder does not exist or cannot be created.
    pub fn open(root: &Path, create: bool) -> Result<Self> {
        #[cfg(feature = "planted")]
        crate::failpoints::plant_in_process()?;
        let name = root.display().to_string();
        let is_new = match rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(_) => create && !root.join(IDENTITY_PATH).exists(),
            Err(Errno::NOENT) if create => {
                rustix::fs::mkdir(root, Mode::from_raw_mode(FOLDER_MODE))
                    .map_err(|errno| failed("create", &name, errno))?;
                true
            }
            Err(errno) => return Err(failed("open", &name, errno)),
        };
        if is_new {
            let parent = root.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync_directory(parent.unwrap_or(Path::new(".")), &name)?;
        }
        Ok(Self { root: root.to_owned(), syncs: true, writable: true })
    }

    /// The same storage without syncs: what is written survives the process, but not the machine. For tests, which then
    /// open a store many times faster.
    pub fn without_syncs(self) -> Self {
        Self { syncs: false, ..self }
    }

    /// As [`Self::open`], read-only: calls that change something are refused, and files are opened for reading, so that
    /// a store without write permission can be read.
    ///
    /// # Errors
    /// `Storage` if the folder does not exist.
    pub fn read_only(root: &Path) -> Result<Self> {
        Ok(Self { writable: false, ..Self::open(root, false)? })
    }

    fn check_writable(&self, operation: &'static str, path: &str) -> Result<()> {
        if self.writable { Ok(()) } else { Err(failed(operation, path, Errno::ROFS)) }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of a file of the store.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn open_with(&self, operation: &'static str, path: &str, flags: OFlags) -> Result<Arc<dyn StorageFile>> {
        let access = if self.writable { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = flags | access | OFlags::CLOEXEC;
        let place = self.path_of(path);
        let descriptor = retried(|| rustix::fs::open(&place, flags, Mode::from_raw_mode(FILE_MODE)))
            .map_err(|errno| failed(operation, path, errno))?;
        let (path, mapping) = (path.to_owned(), OnceLock::new());
        Ok(Arc::new(RealFile { descriptor, path, place, mapping, syncs: self.syncs }))
    }
}

impl Storage for FileStorage {
    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        self.check_writable("create", path)?;
        self.open_with("create", path, OFlags::CREATE | OFlags::EXCL)
    }

    fn open(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        self.open_with("open", path, OFlags::empty())
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let listed = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in std::fs::read_dir(self.path_of(folder))? {
                let entry = entry?;
                if !entry.file_type()?.is_dir() {
                    names.push(entry.file_name().to_string_lossy().into_owned());
                }
            }
            names.sort();
            Ok(names)
        };
        listed().map_err(|error| storage_error("list", folder, &error))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.check_writable("rename", from)?;
        rustix::fs::renameat(CWD, self.path_of(from), CWD, self.path_of(to))
            .map_err(|errno| failed("rename", from, errno))
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.check_writable("remove", path)?;
        rustix::fs::unlinkat(CWD, self.path_of(path), AtFlags::empty()).map_err(|errno| failed("remove", path, errno))
    }

    fn create_folder(&self, folder: &str) -> Result<()> {
        self.check_writable("create", folder)?;
        match rustix::fs::mkdir(self.path_of(folder), Mode::from_raw_mode(FOLDER_MODE)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(failed("create", folder, errno)),
        }
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.check_writable("sync", folder)?;
        if !self.syncs || is_on(Planted::FolderNotSynced) {
            return Ok(());
        }
        sync_directory(&self.path_of(folder), folder)
    }

    fn free_bytes(&self) -> Result<u64> {
        let found = retried(|| rustix::fs::statvfs(&self.root)).map_err(|errno| failed("statvfs", "", errno))?;
        if found.f_blocks == 0 {
            // Some file systems report zeros, and that is not a full disk.
            return Err(failed("statvfs", "", Errno::NOSYS));
        }
        // Space that is reserved for the administrator is not free for a store.
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// One open file. The last owner closes it.
#[derive(Debug)]
struct RealFile {
    descriptor: OwnedFd,
    path: String,
    /// The path of the file, for mapping it.
    place: PathBuf,
    mapping: OnceLock<Option<Mapping>>,
    syncs: bool,
}

impl StorageFile for RealFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.descriptor).map_err(|errno| failed("stat", &self.path, errno))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn room(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.descriptor).map_err(|errno| failed("stat", &self.path, errno))?;
        Ok(u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(UNIT_OF_ROOM_BYTES))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(done as u64);
            match retried(|| rustix::io::pread(&self.descriptor, &mut *rest, at)) {
                Ok(0) => break,
                Ok(read) => done = done.saturating_add(read),
                Err(errno) => return Err(failed("read", &self.path, errno)),
            }
        }
        Ok(done)
    }

    fn view(&self) -> Option<&[u8]> {
        self.mapping().map(Mapping::bytes)
    }

    fn view_at(&self, offset: u64, length: usize) -> Option<&[u8]> {
        self.mapping()?.bytes_at(usize::try_from(offset).ok()?, length)
    }

    #[cfg(target_os = "linux")]
    fn prefetch(&self, offset: u64, length: u64) {
        // It is advice: if it is refused, the next read waits as it would have anyway.
        let length = std::num::NonZeroU64::new(length);
        let _refused = rustix::fs::fadvise(&self.descriptor, offset, length, rustix::fs::Advice::WillNeed);
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(done as u64);
            match retried(|| rustix::io::pwrite(&self.descriptor, rest, at)) {
                Ok(0) => return Err(failed("write", &self.path, Errno::NOSPC)),
                Ok(written) => done = done.saturating_add(written),
                Err(errno) => return Err(failed("write", &self.path, errno)),
            }
        }
        Ok(())
    }

    fn allocate(&self, length: u64) -> Result<()> {
        match retried(|| rustix::fs::fallocate(&self.descriptor, FallocateFlags::empty(), 0, length)) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.fill_with_zeros(length),
            Err(errno) => Err(failed("allocate", &self.path, errno)),
        }
    }

    #[cfg(target_os = "linux")]
    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        // A file with another name is also in a copy, whose checkpoints may need what these do not.
        if rustix::fs::fstat(&self.descriptor).is_ok_and(|stat| stat.st_nlink > 1) {
            return Ok(true);
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retried(|| rustix::fs::fallocate(&self.descriptor, flags, offset, length)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(errno) => Err(failed("punch", &self.path, errno)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn punch(&self, _offset: u64, _length: u64) -> Result<bool> {
        Ok(false)
    }

    fn sync_data(&self) -> Result<()> {
        if !self.syncs {
            return Ok(());
        }
        match retried(|| full_sync(&self.descriptor)) {
            Err(_) if is_on(Planted::SyncErrorSwallowed) => Ok(()),
            answer => answer.map_err(|errno| failed("sync", &self.path, errno)),
        }
    }
}

#[cfg(not(target_vendor = "apple"))]
fn full_sync(descriptor: &OwnedFd) -> rustix::io::Result<()> {
    rustix::fs::fdatasync(descriptor)
}

// `fsync` there stops at the drive's own cache.
#[cfg(target_vendor = "apple")]
fn full_sync(descriptor: &OwnedFd) -> rustix::io::Result<()> {
    rustix::fs::fcntl_fullfsync(descriptor)
}

impl RealFile {
    fn mapping(&self) -> Option<&Mapping> {
        if !self.path.starts_with(LOG_FOLDER) {
            return None;
        }
        self.mapping.get_or_init(|| Mapping::open(&self.place, &self.path).ok()).as_ref()
    }

    /// Takes space by writing zeros behind the present end, for file systems that cannot allocate.
    fn fill_with_zeros(&self, length: u64) -> Result<()> {
        let mut at = self.length()?;
        while at < length {
            let left = usize::try_from(length.saturating_sub(at)).unwrap_or(usize::MAX);
            let piece = ZEROS.get(..left.min(ZEROS.len())).unwrap_or_default();
            self.write_at(at, piece)?;
            at = at.saturating_add(piece.len() as u64);
        }
        Ok(())
    }
}

/// Opens a folder and syncs it.
fn sync_directory(path: &Path, name: &str) -> Result<()> {
    #[cfg(test)]
    tests::SYNCED.with_borrow_mut(|synced| synced.push(path.to_owned()));
    let folder =
        retried(|| rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()))
            .map_err(|errno| failed("open", name, errno))?;
    retried(|| rustix::fs::fsync(&folder)).map_err(|errno| failed("sync", name, errno))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        /// Folders that were synced.
        pub(super) static SYNCED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
    }

    fn synced_by_an_open(root: &Path) -> Vec<PathBuf> {
        SYNCED.take();
        FileStorage::open(root, true).unwrap();
        SYNCED.take()
    }

    /// An earlier open may have created the folder and failed or ended before its name was durable. An open that goes
    /// on in it makes the name durable, until the store has an identity, which is written afterwards.
    #[test]
    fn the_name_of_a_folder_without_an_identity_is_made_durable_by_every_open() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("store");
        assert_eq!(synced_by_an_open(&root), [parent.path()]);
        assert_eq!(synced_by_an_open(&root), [parent.path()], "the first open may have failed there");
        std::fs::write(root.join(IDENTITY_PATH), []).unwrap();
        assert!(synced_by_an_open(&root).is_empty(), "it is known to be durable");
    }
}
