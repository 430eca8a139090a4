//! Messages whose payload the disk of one copy has damaged, and which another copy has whole.
//!
//! In, at the copy with the damage: the place of a record. Out: what another copy needs to find it there, where it has another place.
//! In, at the other copy: that. Out: the payload. The first copy then writes it in its place, if it has the check that the record says.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message_log::{DamagedPayload, Stream, read_record_at, restore_payload, restore_record, segment_path};
use crate::record::header::read_record;
use crate::record::message::{KIND_MESSAGE, decode_message};
use crate::replication::WantedRecord;
use crate::run::{LoadedRuns, run_path};
use crate::schedule_log::{Entry, RowLookups};
use crate::storage::Storage;
use crate::store::owner::Owner;
use crate::store::query::log_lookup::visit_facts;
use crate::store::recovery::rescue::KeptFacts;
use crate::store::salvage::payloads::Payloads;
use crate::units::{DueKey, Location, LocationFile, Sequence};

/// A message that is to be made whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DamagedMessage {
    /// Its record on this copy.
    pub record: DamagedPayload,
    /// The record that another copy is asked for.
    pub wanted: WantedRecord,
}

impl DamagedMessage {
    /// The message at this place, whose entry has this key. `None` if its payload is whole, or if its header is damaged, too, so that
    /// nothing says what belongs there.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn at(
        storage: &dyn Storage,
        location: Location,
        sequence: Sequence,
        key: Option<DueKey>,
    ) -> Result<Option<Self>> {
        let file = storage.open(&match location.file() {
            LocationFile::Segment(number) => segment_path(number),
            LocationFile::Run(number) => run_path(number),
        })?;
        let bytes = read_record_at(file.as_ref(), u64::from(location.offset()))?;
        let record = read_record(&bytes, sequence).ok();
        let Some(record) = record.filter(|record| record.header.kind == KIND_MESSAGE && !record.payload_is_whole())
        else {
            return Ok(None);
        };
        let Some(message) = decode_message(&record) else { return Ok(None) };
        let (record_check, first_due) = (record.header.header_check.get(), message.due);
        let record = DamagedPayload { sequence, record_check, location };
        let key = key.unwrap_or(DueKey { due: first_due, sequence });
        Ok(Some(Self { record, wanted: WantedRecord { sequence, record_check, first_due, key } }))
    }

    /// Writes the payload of another copy into the record, durably, if it is exactly what the record's check says. Returns false, and
    /// writes nothing, if the payload there is whole already.
    ///
    /// # Errors
    /// As [`restore_payload`].
    pub fn restore(&self, storage: &dyn Storage, stream: Stream, payload: &[u8]) -> Result<bool> {
        match self.record.location.file() {
            LocationFile::Segment(_) => restore_payload(storage, stream, &self.record, payload),
            LocationFile::Run(number) => {
                restore_record(storage.open(&run_path(number))?.as_ref(), &self.record, payload)
            }
        }
    }
}

/// The messages that a copy has, in its log and its runs. They are read without the owner, which may be at work meanwhile.
pub struct KeptMessages {
    facts: KeptFacts,
    loaded: LoadedRuns,
}

impl KeptMessages {
    /// The messages of the store of this owner.
    pub fn of(owner: &Owner) -> Self {
        let (storage, state) = (&owner.effects.storage, &owner.state);
        Self { facts: KeptFacts::of(storage, state), loaded: state.loaded_runs() }
    }

    /// The payload of a message that another copy has damaged. `None` if this one does not have it whole. May read much of a segment.
    ///
    /// # Errors
    /// `Storage`.
    pub fn payload_of(&self, wanted: &WantedRecord) -> Result<Option<Vec<u8>>> {
        let mut payloads = Payloads::new(&self.facts.log.storage, &self.loaded);
        let first = DueKey { due: wanted.first_due, sequence: wanted.sequence };
        for key in BTreeSet::from([wanted.key, first]) {
            for entry in self.rows_of(key)?.iter().filter(|row| row.payload_sequence() == wanted.sequence) {
                let mut bytes = Vec::new();
                match payloads.read(entry.location(), wanted.sequence, &mut bytes) {
                    Err(error @ Error::Storage { .. }) => return Err(error),
                    // Its segment may be gone, and this copy may be damaged there as well.
                    Err(_) => continue,
                    Ok(()) => {}
                }
                let record = read_record(&bytes, wanted.sequence).ok();
                if let Some(record) = record.filter(|record| record.header.header_check.get() == wanted.record_check) {
                    return Ok(Some(record.payload.to_vec()));
                }
            }
        }
        self.payload_in_log(wanted)
    }

    fn payload_in_log(&self, wanted: &WantedRecord) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        let visited = visit_facts(&self.facts.log, &BTreeSet::from([wanted.sequence]), &mut |_, record| {
            if record.header.header_check.get() == wanted.record_check && record.payload_is_whole() {
                found = Some(record.payload.to_vec());
            }
        });
        match visited {
            Err(error @ Error::Storage { .. }) => Err(error),
            // The log is damaged before it, or its segment is gone.
            Err(_) | Ok(()) => Ok(found),
        }
    }

    /// The rows with this key in all runs. A block that cannot be read has none.
    fn rows_of(&self, key: DueKey) -> Result<Vec<Entry>> {
        let (mut lookups, mut rows) = (RowLookups::default(), Vec::new());
        for run in self.facts.runs.iter().map(Arc::as_ref) {
            if !(run.first_sequence()..=run.last_sequence()).contains(&key.sequence) {
                continue;
            }
            match lookups.find_unpatched(run, key) {
                Ok(row) => rows.extend(row),
                Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
                Err(_) => {}
            }
        }
        Ok(rows)
    }
}
