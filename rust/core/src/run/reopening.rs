//! A file that is opened for each read: very many open files would use up the file descriptors.

use std::sync::Arc;

use crate::error::Result;
use crate::storage::{Storage, StorageFile};

/// A file that is held by its path only. Each call opens it.
pub(super) struct ReopenedFile {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) path: String,
}

impl ReopenedFile {
    fn open(&self) -> Result<Arc<dyn StorageFile>> {
        self.storage.open(&self.path)
    }
}

impl StorageFile for ReopenedFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        self.open()?.length()
    }

    fn room(&self) -> Result<u64> {
        self.open()?.room()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.open()?.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.open()?.write_at(offset, bytes)
    }

    fn allocate(&self, length: u64) -> Result<()> {
        self.open()?.allocate(length)
    }

    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        self.open()?.punch(offset, length)
    }

    fn sync_data(&self) -> Result<()> {
        self.open()?.sync_data()
    }
}
