//! A storage for tests of runs and views: files in memory, and only the faults that a test plants.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result, StorageFault};
use crate::storage::{Storage, StorageFile};

#[derive(Default)]
pub(crate) struct TestStorage {
    files: Mutex<BTreeMap<String, Arc<Mutex<Contents>>>>,
}

#[derive(Default)]
struct Contents {
    bytes: Vec<u8>,
    /// Ranges that were read.
    read: Vec<Range<u64>>,
    /// Ranges that were prefetched.
    asked: Vec<Range<u64>>,
}

struct TestFile {
    path: String,
    contents: Arc<Mutex<Contents>>,
}

fn failed(operation: &'static str, path: &str, fault: StorageFault) -> Error {
    Error::Storage { operation, path: path.to_owned(), fault, message: "planted by a test".to_owned() }
}

impl TestStorage {
    /// Changes the bytes of a file in place.
    pub(crate) fn edit(&self, path: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let contents = self.files.lock().unwrap().get(path).cloned().unwrap();
        edit(&mut contents.lock().unwrap().bytes);
    }

    pub(crate) fn bytes(&self, path: &str) -> Vec<u8> {
        let contents = self.files.lock().unwrap().get(path).cloned().unwrap();
        contents.lock().unwrap().bytes.clone()
    }

    /// The ranges of a file that were read and prefetched since the last call.
    pub(crate) fn take_reads(&self, path: &str) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        let contents = self.files.lock().unwrap().get(path).cloned().unwrap();
        let mut contents = contents.lock().unwrap();
        (std::mem::take(&mut contents.read), std::mem::take(&mut contents.asked))
    }
}

impl Storage for TestStorage {
    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        let mut files = self.files.lock().unwrap();
        if files.contains_key(path) {
            return Err(failed("create", path, StorageFault::AlreadyExists));
        }
        files.insert(path.to_owned(), Arc::default());
        drop(files);
        self.open(path)
    }

    fn open(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        let contents = self.files.lock().unwrap().get(path).cloned();
        let contents = contents.ok_or_else(|| failed("open", path, StorageFault::NotFound))?;
        Ok(Arc::new(TestFile { path: path.to_owned(), contents }))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let files = self.files.lock().unwrap();
        Ok(files.keys().filter_map(|path| path.strip_prefix(&format!("{folder}/")).map(str::to_owned)).collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut files = self.files.lock().unwrap();
        let contents = files.remove(from).ok_or_else(|| failed("rename", from, StorageFault::NotFound))?;
        files.insert(to.to_owned(), contents);
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        let removed = self.files.lock().unwrap().remove(path);
        removed.map(drop).ok_or_else(|| failed("remove", path, StorageFault::NotFound))
    }

    fn create_folder(&self, _folder: &str) -> Result<()> {
        Ok(())
    }

    fn sync_folder(&self, _folder: &str) -> Result<()> {
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(u64::MAX)
    }
}

impl StorageFile for TestFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        Ok(self.contents.lock().unwrap().bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let mut contents = self.contents.lock().unwrap();
        let rest = contents.bytes.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        contents.read.push(offset..offset + length as u64);
        Ok(length)
    }

    fn prefetch(&self, offset: u64, length: u64) {
        self.contents.lock().unwrap().asked.push(offset..offset + length);
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut contents = self.contents.lock().unwrap();
        let end = offset as usize + bytes.len();
        if contents.bytes.len() < end {
            contents.bytes.resize(end, 0);
        }
        contents.bytes[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn allocate(&self, _length: u64) -> Result<()> {
        Ok(())
    }

    fn punch(&self, _offset: u64, _length: u64) -> Result<bool> {
        Ok(false)
    }

    fn sync_data(&self) -> Result<()> {
        Ok(())
    }
}
