//! The files of loads on a copy. A fact that names files is appended only when the copy has them, durably.
//!
//! A file is received next to its name, as one that is being staged: if it is never finished, it is removed when it is a day old.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::{Error, Result, StorageFault};
use crate::planted::{Planted, is_on};
use crate::record::adopt::{KIND_ADOPT, decode_adopt};
use crate::record::batch::{BATCH_HEADER_BYTES, BatchHeader};
use crate::record::header::Records;
use crate::replication::LoadPart;
use crate::run::{LOAD_FOLDER, LoadName, StagedRun, check_received, check_still_staged};
use crate::storage::{Storage, StorageFile};
use crate::store::apply::loads::staged;
use crate::units::Sequence;

/// Bytes that are written before they are synced: few, since batches wait meanwhile.
const UNSYNCED_BYTES_MAX: u64 = 8 << 20;

/// The files that a batch names, and that are not here. If there are none, those that it names are durable.
///
/// # Errors
/// Those of the storage; `NewerFormat`.
pub(super) fn lacking_of_batch(storage: &dyn Storage, header: &BatchHeader, batch: &[u8]) -> Result<Vec<StagedRun>> {
    let named = named_by(header, batch);
    if named.is_empty() || is_on(Planted::LoadAcknowledgedWithoutFiles) {
        return Ok(Vec::new());
    }
    lacking(storage, &named)
}

/// The files of the load that a batch stores. Its fact is the last one.
fn named_by(header: &BatchHeader, batch: &[u8]) -> Vec<StagedRun> {
    let records = batch.get(BATCH_HEADER_BYTES..).unwrap_or_default();
    let records = Records::checked(records, Sequence(header.base_sequence.get()));
    let last = records.last().and_then(std::result::Result::ok).map(|(_, record)| record);
    let adopt = last.filter(|record| record.header.kind == KIND_ADOPT && record.payload_is_whole());
    let adopt = adopt.as_ref().and_then(decode_adopt);
    adopt.map_or_else(Vec::new, |adopt| adopt.runs().map(staged).collect())
}

/// Those of these files that are not here. If there are none, all are durable.
fn lacking(storage: &dyn Storage, runs: &[StagedRun]) -> Result<Vec<StagedRun>> {
    let mut lacking = Vec::new();
    for run in runs {
        match check_still_staged(storage, run) {
            Ok(()) => {}
            Err(Error::MissingFile { .. } | Error::Corrupt { .. }) => lacking.push(*run),
            Err(error) => return Err(error),
        }
    }
    if lacking.is_empty() {
        // A process may have ended between a rename and this.
        storage.sync_folder(LOAD_FOLDER)?;
    }
    Ok(lacking)
}

/// A file that is being received.
struct Receiving {
    run: StagedRun,
    file: Arc<dyn StorageFile>,
    offset: u64,
    unsynced_bytes: u64,
}

/// The files of a load that are received, one after the other.
pub struct IncomingLoad {
    storage: Arc<dyn Storage>,
    lacking: VecDeque<StagedRun>,
    receiving: Option<Receiving>,
}

impl IncomingLoad {
    /// Begins to receive those of these files that are not here. If there are none, all of them are durable.
    ///
    /// # Errors
    /// `Storage` if the disk has no room for them; `NewerFormat`; those of the storage.
    pub fn begin(storage: Arc<dyn Storage>, runs: &[StagedRun]) -> Result<Self> {
        storage.create_folder(LOAD_FOLDER)?;
        storage.sync_folder("")?;
        let lacking: VecDeque<StagedRun> = lacking(storage.as_ref(), runs)?.into();
        let bytes = lacking.iter().fold(0_u64, |bytes, run| bytes.saturating_add(run.length));
        let free = storage.free_bytes()?;
        if free < bytes {
            return Err(Error::Storage {
                operation: "receive",
                path: LOAD_FOLDER.to_owned(),
                fault: StorageFault::NoSpace,
                message: format!("the files of the load have {bytes} bytes, and {free} are free"),
            });
        }
        Ok(Self { storage, lacking, receiving: None })
    }

    /// The file, and the offset in it, where the next part begins. `None` if all files are here, durably.
    pub fn next(&self) -> Option<(LoadName, u64)> {
        let run = self.lacking.front()?;
        Some((run.name, self.receiving.as_ref().map_or(0, |receiving| receiving.offset)))
    }

    /// The place where the part after this one begins. `None` if this part is not the next, or the last one.
    pub fn next_after(&self, part: &LoadPart) -> Option<(LoadName, u64)> {
        let run = self.lacking.front().filter(|_| self.next() == Some((part.name, part.offset)))?;
        let end = part.offset.saturating_add(part.bytes.len() as u64);
        if end < run.length {
            return Some((run.name, end));
        }
        self.lacking.get(1).map(|run| (run.name, 0))
    }

    /// Writes a part. False if it is not the next one: it came twice, or one before it was lost. A file of which this is the last part is
    /// checked, and gets its name.
    ///
    /// # Errors
    /// `Corrupt` if the file is another one than the load names; `NewerFormat`; those of the storage. The received files must be
    /// dropped then.
    pub fn take(&mut self, part: &LoadPart) -> Result<bool> {
        let is_next = self.next() == Some((part.name, part.offset));
        let Some(run) = self.lacking.front().copied().filter(|_| is_next && !part.bytes.is_empty()) else {
            return Ok(false);
        };
        let end = part.offset.saturating_add(part.bytes.len() as u64);
        if end > run.length {
            return Ok(false);
        }
        let mut receiving = match self.receiving.take() {
            Some(receiving) => receiving,
            None => Receiving { run, file: self.create(&run)?, offset: 0, unsynced_bytes: 0 },
        };
        receiving.file.write_at(part.offset, &part.bytes)?;
        receiving.offset = end;
        receiving.unsynced_bytes = receiving.unsynced_bytes.saturating_add(part.bytes.len() as u64);
        if end == run.length || receiving.unsynced_bytes >= UNSYNCED_BYTES_MAX {
            receiving.file.sync_data()?;
            receiving.unsynced_bytes = 0;
        }
        if end == run.length {
            self.finish(&receiving)?;
            self.lacking.pop_front();
        } else {
            self.receiving = Some(receiving);
        }
        Ok(true)
    }

    fn create(&self, run: &StagedRun) -> Result<Arc<dyn StorageFile>> {
        let path = unfinished(run);
        match self.storage.remove(&path) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        self.storage.create(&path)
    }

    fn finish(&self, receiving: &Receiving) -> Result<()> {
        let path = unfinished(&receiving.run);
        check_received(self.storage.as_ref(), &path, &receiving.run)?;
        self.storage.rename(&path, &receiving.run.name.path())?;
        self.storage.sync_folder(LOAD_FOLDER)
    }
}

fn unfinished(run: &StagedRun) -> String {
    format!("{}.tmp", run.name.path())
}
