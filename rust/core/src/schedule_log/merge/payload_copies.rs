//! Copies payloads into a run that is being written.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::error::{Error, Result, StorageFault};
use crate::message_log::segment_path;
use crate::record::header::read_record;
use crate::record::message::decode_message;
use crate::run::{LoadedRuns, RunWriter, ScheduleRow, read_payload, run_path};
use crate::schedule_log::window::row_of;
use crate::storage::{Storage, StorageFile};
use crate::units::{Location, LocationFile, RunNumber};

/// Files that are kept open for copying.
const OPEN_FILES_MAX: usize = 64;

/// The place that a payload was copied to.
#[derive(Clone, Copy, Debug)]
pub(in crate::schedule_log) struct Placed {
    pub(in crate::schedule_log) offset: u32,
    pub(in crate::schedule_log) length: u32,
}

impl Placed {
    /// The place in the run that it was copied into.
    pub(in crate::schedule_log) fn location_in(self, run: RunNumber) -> Location {
        Location::in_run(run, self.offset)
    }
}

/// The files that payloads are copied from, and the current record.
#[derive(Default)]
pub(crate) struct PayloadCopies {
    /// By the file part of a location. `None` for a file that does not exist.
    files: HashMap<u64, Option<Arc<dyn StorageFile>>>,
    loaded: LoadedRuns,
    record: Vec<u8>,
}

impl PayloadCopies {
    /// For a store with loaded runs.
    pub(crate) fn knowing(loaded: LoadedRuns) -> Self {
        Self { loaded, ..Self::default() }
    }

    /// The open file of a location, if a payload was copied from it recently.
    pub(in crate::schedule_log) fn opened(&self, location: Location) -> Option<&Arc<dyn StorageFile>> {
        self.files.get(&(location.0 >> 32)).and_then(Option::as_ref)
    }

    /// Copies a row's payload. `None` if it cannot be read: it then stays where it is, and its reader voids
    /// the message.
    ///
    /// # Errors
    /// Those of writing, and `Stopped` if the storage was stopped.
    pub(in crate::schedule_log) fn copy(
        &mut self,
        storage: &dyn Storage,
        row: &ScheduleRow,
        writer: &mut RunWriter<ScheduleRow>,
    ) -> Result<Option<Placed>> {
        match self.read_record(storage, row) {
            Ok(true) => {
                let length = self.record.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                Ok(writer.push_payload(&self.record)?.map(|offset| Placed { offset, length }))
            }
            Err(error @ Error::Storage { fault: StorageFault::Stopped, .. }) => Err(error),
            Ok(false) | Err(_) => Ok(None),
        }
    }

    /// Bytes of the body of a row's payload. `None` if the payload is damaged or missing.
    ///
    /// # Errors
    /// `Storage` if it could not be read now.
    pub(crate) fn size_of(&mut self, storage: &dyn Storage, row: &ScheduleRow) -> Result<Option<u32>> {
        if row.location == Location::NOWHERE {
            return Ok(None);
        }
        match self.read_record(storage, row) {
            Ok(true) => {}
            Err(error @ Error::Storage { .. }) => return Err(error),
            Ok(false) | Err(_) => return Ok(None),
        }
        let Ok(record) = read_record(&self.record, row.payload_sequence) else { return Ok(None) };
        Ok(decode_message(&record).and_then(|message| u32::try_from(message.body.len()).ok()))
    }

    /// Like [`Self::size_of`], for an entry.
    ///
    /// # Errors
    /// Like [`Self::size_of`].
    pub(crate) fn size_of_entry(
        &mut self,
        storage: &dyn Storage,
        entry: &crate::schedule_log::Entry,
    ) -> Result<Option<u32>> {
        self.size_of(storage, &row_of(entry))
    }

    /// Bytes of the record that was copied last.
    pub(in crate::schedule_log) fn record_bytes(&self) -> usize {
        self.record.len()
    }

    /// Reads and checks a row's payload. False if its file does not exist.
    fn read_record(&mut self, storage: &dyn Storage, row: &ScheduleRow) -> Result<bool> {
        self.record.clear();
        let offset = u64::from(row.location.offset());
        if let Some(run) = self.loaded.get(row.location.file()) {
            run.read_payload(offset, row.payload_sequence, None, &mut self.record)?;
            return Ok(true);
        }
        let source = row.location.0 >> 32;
        if self.files.len() >= OPEN_FILES_MAX && !self.files.contains_key(&source) {
            self.files.clear();
        }
        let opened = match self.files.entry(source) {
            Entry::Occupied(opened) => opened.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(open(storage, row.location.file())?),
        };
        let Some(file) = opened else { return Ok(false) };
        read_payload(file.as_ref(), offset, row.payload_sequence, None, &mut self.record)?;
        Ok(true)
    }
}

/// Opens a file that holds payloads. `None` if it does not exist.
fn open(storage: &dyn Storage, file: LocationFile) -> Result<Option<Arc<dyn StorageFile>>> {
    let path = match file {
        LocationFile::Segment(number) => segment_path(number),
        LocationFile::Run(number) => run_path(number),
    };
    match storage.open(&path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
