//! Finds the payload of a message to keep: at the location in its entry, otherwise in another copy in the log or a run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::runs::Runs;
use crate::error::{Error, Result};
use crate::message_log::{Find, Holes, Stream, segment_path, sift};
use crate::record::message::KIND_MESSAGE;
use crate::record::retry::{Death, Retry};
use crate::record::{Fact, RawRecord, Records, decode};
use crate::run::{LoadedRuns, read_payload, run_path};
use crate::storage::{Storage, StorageFile};
use crate::units::{Location, LocationFile, Sequence};

/// The maximum number of files held open.
const OPEN_FILES: usize = 64;

/// Reads payloads by their locations.
pub(in crate::store) struct Payloads {
    storage: Arc<dyn Storage>,
    open: HashMap<String, Arc<dyn StorageFile>>,
    loaded: LoadedRuns,
}

impl Payloads {
    pub(in crate::store) fn new(storage: &Arc<dyn Storage>, loaded: &LoadedRuns) -> Self {
        Self { storage: Arc::clone(storage), open: HashMap::new(), loaded: loaded.clone() }
    }

    /// Reads the record at `location` into `into`.
    ///
    /// # Errors
    /// `DamagedPayload` or `MissingFile` if the record is not there; `Storage`.
    pub(in crate::store) fn read(&mut self, location: Location, sequence: Sequence, into: &mut Vec<u8>) -> Result<()> {
        let offset = u64::from(location.offset());
        if let Some(run) = self.loaded.get(location.file()) {
            return run.read_payload(offset, sequence, None, into);
        }
        let path = match location.file() {
            LocationFile::Segment(number) => segment_path(number),
            LocationFile::Run(number) => run_path(number),
        };
        if self.open.len() >= OPEN_FILES {
            self.open.clear();
        }
        let file = match self.open.get(&path) {
            Some(file) => Arc::clone(file),
            None => match self.storage.open(&path) {
                Err(error) if error.is_not_found() => {
                    let reason = format!("the payload of sequence {sequence} lies there");
                    return Err(Error::MissingFile { path, reason });
                }
                other => {
                    let file = other?;
                    self.open.insert(path, Arc::clone(&file));
                    file
                }
            },
        };
        read_payload(file.as_ref(), offset, sequence, None, into)
    }
}

/// Finds other places of these payloads: whole records of the log, otherwise copies that the rows of a run name.
///
/// # Errors
/// `Storage`, `NewerFormat`.
pub(super) fn other_copies(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    runs: &mut Runs,
    wanted: &BTreeSet<Sequence>,
) -> Result<BTreeMap<Sequence, Location>> {
    let mut found = BTreeMap::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    let mut offer = |record: &RawRecord<'_>, location: Location| {
        let is_meant = record.header.kind == KIND_MESSAGE && wanted.contains(&record.sequence);
        if is_meant && record.payload_is_whole() {
            found.insert(record.sequence, location);
        }
    };
    // Without the store's holes, `sift` reports holes as damage, which is ignored here.
    sift(storage, stream, &Holes::default(), &mut |find| each_record(&find, &mut offer))?;
    runs.each_schedule_row(&mut |row| {
        if row.length > 0 && wanted.contains(&row.payload_sequence) {
            found.entry(row.payload_sequence).or_insert(row.location);
        }
    })?;
    Ok(found)
}

/// Finds why these became dead letters, as far as the log still has it.
///
/// # Errors
/// `Storage`, `NewerFormat`.
pub(super) fn deaths_of(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    wanted: &BTreeSet<Sequence>,
) -> Result<BTreeMap<Sequence, Death>> {
    let mut deaths = BTreeMap::new();
    if wanted.is_empty() {
        return Ok(deaths);
    }
    sift(storage, stream, &Holes::default(), &mut |find| {
        each_record(&find, &mut |record, _| {
            if wanted.contains(&record.sequence)
                && record.payload_is_whole()
                && let Some(Fact::Retry(Retry { destination, .. })) = decode(record)
                && let Some(death) = Death::of(destination)
            {
                deaths.insert(record.sequence, death);
            }
        });
    })?;
    Ok(deaths)
}

/// Shows each record of a find, with its location.
pub(in crate::store) fn each_record(find: &Find<'_>, show: &mut dyn FnMut(&RawRecord<'_>, Location)) {
    match find {
        Find::Batch { header, start, records } => {
            let first = start.0.saturating_add(crate::record::batch::BATCH_HEADER_BYTES as u64);
            for (at, record) in Records::new(records, Sequence(header.base_sequence.get())).flatten() {
                show(&record, Location(first.saturating_add(at as u64)));
            }
        }
        Find::Record { record, location, .. } => show(record, *location),
        Find::Damage(_) => {}
    }
}
