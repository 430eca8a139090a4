//! A disk that is slow to make things durable, or says that it did and did not.

use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::storage::{Storage, StorageFile};

use crate::arguments::Forgets;

/// Files, whose syncs begin late, or are answered and not done.
pub(crate) struct ForgetfulStorage {
    files: Arc<dyn Storage>,
    forgets: Forgets,
    sync_after: Duration,
}

impl ForgetfulStorage {
    pub(crate) fn new(files: Arc<dyn Storage>, forgets: Forgets, sync_after: Duration) -> Self {
        Self { files, forgets, sync_after }
    }

    fn wrapped(&self, file: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        Arc::new(ForgetfulFile { file, forgets: self.forgets, sync_after: self.sync_after })
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

    fn free_bytes(&self) -> Result<u64> {
        self.files.free_bytes()
    }
}

struct ForgetfulFile {
    file: Arc<dyn StorageFile>,
    forgets: Forgets,
    sync_after: Duration,
}

impl StorageFile for ForgetfulFile {
    fn path(&self) -> &str {
        self.file.path()
    }

    fn length(&self) -> Result<u64> {
        self.file.length()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.file.read_at(offset, into)
    }

    fn view(&self) -> Option<&[u8]> {
        self.file.view()
    }

    fn prefetch(&self, offset: u64, length: u64) {
        self.file.prefetch(offset, length);
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn allocate(&self, length: u64) -> Result<()> {
        self.file.allocate(length)
    }

    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        self.file.punch(offset, length)
    }

    fn sync_data(&self) -> Result<()> {
        std::thread::sleep(self.sync_after);
        if self.forgets == Forgets::Syncs { Ok(()) } else { self.file.sync_data() }
    }
}
