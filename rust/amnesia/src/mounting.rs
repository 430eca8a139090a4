//! Mounts and unmounts the file system.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::fd::AsRawFd;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::serving::{Shared, serve};

/// The mounted file system, served by a thread of its own.
#[derive(Debug)]
pub(crate) struct Mounted {
    place: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Mounted {
    /// # Errors
    /// If `/dev/fuse` cannot be opened, or mounting is not allowed.
    pub(crate) fn new(place: &Path, shared: &Arc<Shared>) -> std::io::Result<Self> {
        let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = CString::new(options)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
        rustix::mount::mount("amnesia", place, "fuse.amnesia", flags, Some(options.as_c_str()))?;
        let shared = Arc::clone(shared);
        // The thread ends when the file system is unmounted and no process has a file on it open.
        let thread = std::thread::spawn(move || serve(&device, &shared));
        Ok(Self { place: place.to_owned(), thread: Some(thread) })
    }

    /// Unmounts, and waits until no process has a file open. This empties the kernel's cache.
    ///
    /// # Errors
    /// If it is no longer mounted.
    pub(crate) fn end(mut self) -> std::io::Result<()> {
        rustix::mount::unmount(&self.place, UnmountFlags::DETACH)?;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _not_mounted = rustix::mount::unmount(&self.place, UnmountFlags::DETACH);
        }
    }
}
