//! The parts of the files of loads, as the reader sends them.

use std::sync::Arc;

use delaymq_core::error::Error;
use delaymq_core::replication::{FilePart, FilePlace, SentFile};
use delaymq_core::run::LoadName;
use delaymq_core::storage::{Storage, StorageFile, read_upto};

/// Bytes of a file that are sent at once.
const PART_BYTES: usize = 1 << 20;

/// See the module.
pub(crate) struct Parts {
    storage: Arc<dyn Storage>,
    /// The file that was read last.
    opened: Option<(LoadName, Arc<dyn StorageFile>)>,
}

impl Parts {
    pub(crate) fn new(storage: Arc<dyn Storage>) -> Self {
        Self { storage, opened: None }
    }

    /// The part of a file that begins there.
    ///
    /// # Errors
    /// Those of the storage, of which `NotFound` means that the file was removed: its load is finished, or was refused.
    pub(crate) fn read(&mut self, name: LoadName, offset: u64) -> Result<FilePart, Error> {
        let file = match self.opened.take() {
            Some((known, file)) if known == name => file,
            _ => self.storage.open(&name.path())?,
        };
        let bytes = read_upto(file.as_ref(), offset, PART_BYTES)?;
        self.opened = Some((name, file));
        Ok(FilePart { place: FilePlace { file: SentFile::Load(name), offset }, zeros: 0, bytes })
    }
}
