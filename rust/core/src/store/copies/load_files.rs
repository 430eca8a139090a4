//! The files of loads on a copy. A fact that names files is appended only when the copy has them, durably.
//!
//! A file is received next to its name, as one that is being staged: if it is never finished, it is removed when it is a day old.

use std::sync::Arc;

use super::incoming_files::{IncomingFile, IncomingFiles, check_room};
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::record::adopt::{KIND_ADOPT, decode_adopt};
use crate::record::batch::{BATCH_HEADER_BYTES, BatchHeader};
use crate::record::header::Records;
use crate::replication::SentFile;
use crate::run::{LOAD_FOLDER, StagedRun, check_still_staged};
use crate::storage::Storage;
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

/// Begins to receive those of these files that are not here. If there are none, all of them are durable.
///
/// # Errors
/// `Storage` if the disk has no room for them; `NewerFormat`; those of the storage.
pub fn receive_load(storage: Arc<dyn Storage>, runs: &[StagedRun]) -> Result<IncomingFiles> {
    storage.create_folder(LOAD_FOLDER)?;
    storage.sync_folder("")?;
    let lacking = lacking(storage.as_ref(), runs)?;
    let bytes = lacking.iter().fold(0_u64, |bytes, run| bytes.saturating_add(run.length));
    check_room(storage.as_ref(), LOAD_FOLDER, bytes)?;
    let incoming = |run: &StagedRun| IncomingFile {
        file: SentFile::Load(run.name),
        path: format!("{}.tmp", run.name.path()),
        length: run.length,
        run: Some(*run),
    };
    Ok(IncomingFiles::new(storage, lacking.iter().map(incoming).collect(), UNSYNCED_BYTES_MAX))
}
