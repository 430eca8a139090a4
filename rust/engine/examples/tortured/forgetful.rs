//! A disk that says that it made durable what it did not.

use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::storage::{Storage, StorageFile};

use crate::arguments::Forgets;

/// Files, of which some syncs are answered and not done.
pub(crate) struct ForgetfulStorage {
    files: Arc<dyn Storage>,
    forgets: Forgets,
}

impl ForgetfulStorage {
    pub(crate) fn new(files: Arc<dyn Storage>, forgets: Forgets) -> Self {
        Self { files, forgets }
    }

    fn wrapped(&self, file: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        if self.forgets == Forgets::Syncs { Arc::new(ForgetfulFile(file)) } else { file }
    }
}

impl Storage for ForgetfulStorage {
    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        self.files.create(path).map(|file| self.wrapped(file))
    }

    fn open(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        self.files.open(path).map(|file| self.wrapped(file))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.files.list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.files.remove(path)
    }

    fn create_folder(&self, folder: &str) -> Result<()> {
        self.files.create_folder(folder)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        if self.forgets == Forgets::FolderSyncs { Ok(()) } else { self.files.sync_folder(folder) }
    }
}

struct ForgetfulFile(Arc<dyn StorageFile>);

impl StorageFile for ForgetfulFile {
    fn path(&self) -> &str {
        self.0.path()
    }

    fn length(&self) -> Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, into)
    }

    fn view(&self) -> Option<&[u8]> {
        self.0.view()
    }

    fn prefetch(&self, offset: u64, length: u64) {
        self.0.prefetch(offset, length);
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn allocate(&self, length: u64) -> Result<()> {
        self.0.allocate(length)
    }

    fn sync_data(&self) -> Result<()> {
        Ok(())
    }
}
