//! The lock of a store: one process uses it at a time, and never a forked child.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use delaymq_core::error::{Error, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::files::mapping::ForkMark;
use crate::files::system_errors::{failed, retried};

/// The lock file's name in the store's folder.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// Remembers the process that opened a store.
#[derive(Debug)]
pub(crate) struct ProcessGuard {
    owner: AtomicU32,
    mark: Option<ForkMark>,
}

impl ProcessGuard {
    pub(crate) fn here() -> Self {
        Self { owner: AtomicU32::new(current()), mark: ForkMark::new() }
    }

    /// Makes this process look like a forked child of `owner`.
    #[cfg(test)]
    pub(crate) fn pretend_child_of(&self, owner: u32) {
        self.owner.store(owner, Ordering::SeqCst);
        if let Some(mark) = &self.mark {
            mark.wipe();
        }
    }

    /// True in the process that opened the store. Every call on a store checks this before it takes a mutex. In a
    /// forked child, the thread that held the mutex does not exist, so it stays locked for ever.
    pub(crate) fn is_here(&self) -> bool {
        self.check().is_ok()
    }

    /// Fails with `ForkedProcess` in any other process.
    pub(crate) fn check(&self) -> Result<()> {
        if self.mark.as_ref().is_some_and(ForkMark::is_here) {
            return Ok(());
        }
        let (owner, caller) = (self.owner.load(Ordering::Relaxed), current());
        if owner == caller { Ok(()) } else { Err(Error::ForkedProcess { owner, caller }) }
    }
}

fn current() -> u32 {
    u32::try_from(rustix::process::getpid().as_raw_nonzero().get()).unwrap_or(0)
}

/// The lock of one store, held until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct StoreLock {
    // Never unlocked explicitly: closing the last descriptor unlocks it. A forked child shares the open file, so when
    // it closes its copy, its parent keeps the lock.
    _descriptor: OwnedFd,
}

impl StoreLock {
    /// Takes the lock of the store in `root`.
    ///
    /// # Errors
    /// `Locked` if another holder has it, in any process; `Storage`.
    pub fn take(root: &Path) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        Self::hold(root, open(root, flags)?, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes a shared lock: any number of readers may hold it, but no writer at the same time. Does not create the lock
    /// file; `None` if there is none.
    /// Fails with `Locked` if a process has the store open.
    pub(crate) fn share(root: &Path) -> Result<Option<Self>> {
        match open(root, OFlags::RDONLY) {
            Err(error) if error.is_not_found() => Ok(None),
            other => Self::hold(root, other?, FlockOperation::NonBlockingLockShared).map(Some),
        }
    }

    fn hold(root: &Path, descriptor: OwnedFd, operation: FlockOperation) -> Result<Self> {
        match retried(|| rustix::fs::flock(&descriptor, operation)) {
            Ok(()) => Ok(Self { _descriptor: descriptor }),
            Err(Errno::WOULDBLOCK) => Err(Error::Locked { path: root.join(LOCK_FILE).display().to_string() }),
            Err(errno) => Err(failed("lock", LOCK_FILE, errno)),
        }
    }
}

fn open(root: &Path, flags: OFlags) -> Result<OwnedFd> {
    let (path, mode) = (root.join(LOCK_FILE), Mode::from_raw_mode(0o600));
    retried(|| rustix::fs::open(&path, flags | OFlags::CLOEXEC, mode)).map_err(|errno| failed("open", LOCK_FILE, errno))
}

/// The process that has the store in `root` open, by the kernel's list of locks, so that no lock is taken. `None` also
/// if the kernel does not say.
pub(crate) fn holder(root: &Path) -> Option<u32> {
    let stat = rustix::fs::stat(root.join(LOCK_FILE)).ok()?;
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let place = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        // 1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF; a waiter has an arrow before its kind.
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "FLOCK", _, "WRITE", process, file, ..] if *file == place => process.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_refused_until_it_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let lock = StoreLock::take(folder.path()).unwrap();
        assert!(matches!(StoreLock::take(folder.path()), Err(Error::Locked { .. })));
        drop(lock);
        assert_eq!(holder(folder.path()), None);
        assert!(StoreLock::take(folder.path()).is_ok());
    }
}
