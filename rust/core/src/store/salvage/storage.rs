//! Reads a failing disk for salvage. A failed read is repeated, and then abandoned piece by piece, so that one bad
//! sector does not cost the whole store. An abandoned piece is damage: it is filled with bytes that pass no check, so
//! that its content is missed and reported.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result, StorageFault};
use crate::storage::{Storage, StorageFile};

/// The number of tries before a read is abandoned.
const TRIES: usize = 3;
/// The unit of an abandoned read: operating systems read whole pages.
const PIECE_BYTES: u64 = 4_096;
/// Replaces bytes that cannot be read. Not zero, since zeros would mark the end of the log.
const FILLER: u8 = 0xbd;

/// The abandoned pieces by file and offset; limited by the number of bad pieces of the disk under the store.
type GivenUp = Mutex<BTreeMap<String, BTreeMap<u64, Error>>>;

/// A storage that is only read.
pub(in crate::store) struct PatientStorage {
    inner: Arc<dyn Storage>,
    given_up: Arc<GivenUp>,
}

impl PatientStorage {
    pub(in crate::store) fn new(inner: &Arc<dyn Storage>) -> Self {
        Self { inner: Arc::clone(inner), given_up: Arc::default() }
    }

    /// The errors of the abandoned pieces, by file.
    pub(super) fn given_up(&self) -> Vec<Error> {
        held(&self.given_up).values().flat_map(BTreeMap::values).cloned().collect()
    }
}

/// A file of such a storage.
struct PatientFile {
    inner: Arc<dyn StorageFile>,
    length: u64,
    given_up: Arc<GivenUp>,
}

impl Storage for PatientStorage {
    fn open(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        let opened = tried(|| {
            let file = self.inner.open(path)?;
            let length = file.length()?;
            Ok((file, length))
        });
        match opened {
            Ok((inner, length)) => Ok(Arc::new(PatientFile { inner, length, given_up: Arc::clone(&self.given_up) })),
            // The file is treated as missing, and the failure to open it is noted as damage.
            Err(error) if may_pass(&error) => {
                let message = error.to_string();
                let error = Error::corrupt(path, 0, "a file that can be opened", &message);
                held(&self.given_up).entry(path.to_owned()).or_default().insert(0, error);
                Err(Error::Storage { operation: "open", path: path.to_owned(), fault: StorageFault::NotFound, message })
            }
            Err(error) => Err(error),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        tried(|| self.inner.list(folder))
    }

    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        Err(refused("create", path))
    }

    fn rename(&self, from: &str, _to: &str) -> Result<()> {
        Err(refused("rename", from))
    }

    fn remove(&self, path: &str) -> Result<()> {
        Err(refused("remove", path))
    }

    fn create_folder(&self, folder: &str) -> Result<()> {
        Err(refused("create", folder))
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        Err(refused("sync", folder))
    }

    fn free_bytes(&self) -> Result<u64> {
        self.inner.free_bytes()
    }
}

impl StorageFile for PatientFile {
    fn path(&self) -> &str {
        self.inner.path()
    }

    fn length(&self) -> Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let end = offset.saturating_add(into.len() as u64);
        if !self.has_given_up(offset, end) {
            match tried(|| self.inner.read_at(offset, into)) {
                Err(error) if may_pass(&error) => {}
                other => return other,
            }
        }
        let mut read = 0_usize;
        while let Some(rest) = into.get_mut(read..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(read as u64);
            let in_piece = PIECE_BYTES.saturating_sub(at % PIECE_BYTES);
            let size = in_piece.min(self.length.saturating_sub(at)).min(rest.len() as u64);
            let Some(piece) = rest.get_mut(..usize::try_from(size).unwrap_or(0)) else { break };
            let got = self.read_piece(at, piece)?;
            read = read.saturating_add(got);
            if got == 0 || got < piece.len() {
                break;
            }
        }
        Ok(read)
    }

    fn prefetch(&self, offset: u64, length: u64) {
        self.inner.prefetch(offset, length);
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> Result<()> {
        Err(refused("write", self.path()))
    }

    fn allocate(&self, _length: u64) -> Result<()> {
        Err(refused("allocate", self.path()))
    }

    fn punch(&self, _offset: u64, _length: u64) -> Result<bool> {
        Err(refused("punch", self.path()))
    }

    fn sync_data(&self) -> Result<()> {
        Err(refused("sync", self.path()))
    }
}

impl PatientFile {
    fn has_given_up(&self, from: u64, to: u64) -> bool {
        let first = from / PIECE_BYTES * PIECE_BYTES;
        first < to && held(&self.given_up).get(self.path()).is_some_and(|of| of.range(first..to).next().is_some())
    }

    /// Reads bytes within one piece, or fills them with the filler.
    fn read_piece(&self, at: u64, into: &mut [u8]) -> Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        if !self.has_given_up(at, at.saturating_add(1)) {
            match tried(|| self.inner.read_at(at, into)) {
                Err(error) if may_pass(&error) => {
                    let start = at / PIECE_BYTES * PIECE_BYTES;
                    let found = error.to_string();
                    let error = Error::corrupt(self.path(), start, "bytes that can be read", found);
                    held(&self.given_up).entry(self.path().to_owned()).or_default().insert(start, error);
                }
                other => return other,
            }
        }
        into.fill(FILLER);
        Ok(into.len())
    }
}

/// True for a failure of the device, which may not recur.
fn may_pass(error: &Error) -> bool {
    matches!(error, Error::Storage { fault: StorageFault::Io, .. })
}

/// Repeats a call after a failure of the device, up to [`TRIES`] times in total.
fn tried<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..TRIES {
        match call() {
            Err(error) if may_pass(&error) => {}
            other => return other,
        }
    }
    call()
}

fn refused(operation: &'static str, path: &str) -> Error {
    let message = "salvage only reads".to_owned();
    Error::Storage { operation, path: path.to_owned(), fault: StorageFault::PermissionDenied, message }
}

fn held(given_up: &GivenUp) -> MutexGuard<'_, BTreeMap<String, BTreeMap<u64, Error>>> {
    given_up.lock().unwrap_or_else(PoisonError::into_inner)
}
