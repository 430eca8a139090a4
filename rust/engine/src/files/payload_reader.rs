//! A reader of many payloads, one after the other. The mapping or block of one mostly has the next, too, so it is kept:
//! a backlog costs a lock and a call for hundreds of payloads.

use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::record::RawRecord;
use delaymq_core::record::expire::Expiry;
use delaymq_core::record::header::{RECORD_BYTES_MAX, RECORD_HEADER_BYTES, read_record};
use delaymq_core::record::message::{Message, decode_message};
use delaymq_core::run::read_payload;
use delaymq_core::storage::StorageFile;
use delaymq_core::units::{Location, Millis, SegmentNumber, Sequence, SubjectNumber, padded};

use crate::consume::delivery::{Payload, PayloadForm};
use crate::files::block_cache::Block;
use crate::files::mapping::Mapping;
use crate::files::payload_cache::Payloads;

/// A message as it was stored, its payload checked.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) due: Millis,
    pub(crate) published: Millis,
    pub(crate) subject: SubjectNumber,
    pub(crate) expiry: Option<Expiry>,
    pub(crate) payload: Payload,
}

/// See the module. It is for as long as some messages are read together, and no longer: what it has at hand
/// keeps its room on the disk.
pub(crate) struct PayloadReader<'a> {
    payloads: &'a Payloads,
    mapping: Option<(SegmentNumber, Arc<Mapping>)>,
    block: Option<Arc<Block>>,
}

impl Payloads {
    /// A reader for messages that are read one after the other.
    pub(crate) fn reader(&self) -> PayloadReader<'_> {
        PayloadReader::new(self)
    }
}

impl<'a> PayloadReader<'a> {
    pub(crate) fn new(payloads: &'a Payloads) -> Self {
        Self { payloads, mapping: None, block: None }
    }

    /// Reads the message at `location`, whose record has `sequence`.
    /// Fails with `DamagedPayload` if record or payload fail their check, or the file is too short or missing;
    /// `Storage` if it cannot be read now, which may pass.
    pub(crate) fn read(&mut self, location: Location, sequence: Sequence) -> Result<Stored> {
        let Some(run) = self.payloads.loaded_in(location.file()) else { return self.read_own(location, sequence) };
        let Some(relation) = run.relation() else { return self.read_own(location, sequence) };
        let Some(relative) = relation.relative(sequence) else {
            let at = u64::from(location.offset());
            return Err(damaged(
                run.file().path(),
                at,
                sequence,
                &format!("sequence {} or above", relation.base),
                "one below",
            ));
        };
        let stored = self.read_own(location, relative).map_err(|error| renamed(error, sequence))?;
        let subject = relation.subject_at(stored.subject);
        Ok(Stored { published: relation.published, subject, ..stored })
    }

    /// Reads the record that has this sequence in its own file.
    fn read_own(&mut self, location: Location, sequence: Sequence) -> Result<Stored> {
        // If neither mapping nor block have a complete message, reading the file finds it or returns the reason.
        let mapped = self.mapping_of(location).and_then(|mapping| read_mapped(mapping, location, sequence));
        if let Some(stored) = mapped {
            return Ok(stored);
        }
        let block = self.block_of(location);
        if let Some(stored) = block.and_then(|block| read_in(block.bytes_from(location), sequence)) {
            return Ok(stored);
        }
        let path = self.payloads.path_of(location.file());
        let file = match self.payloads.file(&path) {
            Err(error) if error.is_not_found() => {
                return Err(damaged(&path, u64::from(location.offset()), sequence, "the file", "none"));
            }
            other => other?,
        };
        match self.walk(file.as_ref(), location, sequence) {
            Some(stored) => Ok(stored),
            None => read_alone(file.as_ref(), location, sequence),
        }
    }

    /// Reads the message with those behind it, if the one before it was just read. A block without a complete message
    /// is dropped.
    fn walk(&mut self, file: &dyn StorageFile, location: Location, sequence: Sequence) -> Option<Stored> {
        let block = Arc::new(self.payloads.walked(file, location)?);
        let stored = read_in(block.bytes_from(location), sequence)?;
        self.payloads.keep(Arc::clone(&block));
        self.block = Some(block);
        Some(stored)
    }

    /// The mapping of a location's segment; `None` if it must be read instead.
    fn mapping_of(&mut self, location: Location) -> Option<&Arc<Mapping>> {
        let number = location.segment()?;
        if self.mapping.as_ref().is_none_or(|(at_hand, _)| *at_hand != number) {
            self.mapping = Some((number, self.payloads.mapping(number)?));
        }
        self.mapping.as_ref().map(|(_, mapping)| mapping)
    }

    /// The block in which the payload at `location` begins.
    fn block_of(&mut self, location: Location) -> Option<&Block> {
        if self.block.as_ref().is_none_or(|block| !block.holds(location)) {
            self.block = self.payloads.block_holding(location);
        }
        self.block.as_deref()
    }
}

/// Reads one message, and nothing else.
fn read_alone(file: &dyn StorageFile, location: Location, sequence: Sequence) -> Result<Stored> {
    let at = u64::from(location.offset());
    let mut bytes = Vec::new();
    read_payload(file, at, sequence, None, &mut bytes)?;
    let record = read_record(&bytes, sequence).ok();
    record.and_then(|record| copied(&record)).ok_or_else(|| {
        let found = bytes.get(4).map_or_else(String::new, |kind| format!("kind {kind}"));
        damaged(file.path(), at, sequence, "a message", &found)
    })
}

/// The message at the beginning of these bytes; `None` if any check fails.
fn read_in(bytes: &[u8], sequence: Sequence) -> Option<Stored> {
    copied(&read_record(bytes, sequence).ok().filter(RawRecord::payload_is_whole)?)
}

/// The message of this record; `None` if it is none.
fn copied(record: &RawRecord<'_>) -> Option<Stored> {
    let message = decode_message(record)?;
    let payload = Payload::owned(record.payload, form_of(record, &message));
    Some(stored(&message, payload))
}

/// The message at `location`; `None` if any check fails.
fn read_mapped(mapping: &Arc<Mapping>, location: Location, sequence: Sequence) -> Option<Stored> {
    let at = location.offset() as usize;
    let said = mapping.bytes_at(at, RECORD_HEADER_BYTES)?.first_chunk::<4>()?;
    let said = u32::from_le_bytes(*said) as usize;
    let whole = mapping.bytes_at(at, padded(said.min(RECORD_BYTES_MAX)))?;
    let record = read_record(whole, sequence).ok().filter(RawRecord::payload_is_whole)?;
    let message = decode_message(&record)?;
    let start = at.saturating_add(RECORD_HEADER_BYTES).saturating_add(record.fixed.len());
    let payload = Payload::mapped(Arc::clone(mapping), start, form_of(&record, &message));
    Some(stored(&message, payload))
}

fn stored(message: &Message<'_>, payload: Payload) -> Stored {
    let Message { due, published, subject, expiry, .. } = *message;
    Stored { due, published, subject, expiry, payload }
}

fn form_of(record: &RawRecord<'_>, message: &Message<'_>) -> PayloadForm {
    PayloadForm {
        is_opaque: message.opaque,
        meta_length: length_of(message.meta),
        length: length_of(record.payload),
        check: record.header.payload_check.get(),
    }
}

fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// Turns an error of a record into one of its message.
fn renamed(error: Error, sequence: Sequence) -> Error {
    match error {
        Error::DamagedPayload { path, offset, expected, found, .. } => {
            Error::DamagedPayload { sequence: sequence.0, path, offset, expected, found }
        }
        other => other,
    }
}

fn damaged(path: &str, offset: u64, sequence: Sequence, expected: &str, found: &str) -> Error {
    Error::DamagedPayload {
        sequence: sequence.0,
        path: path.to_owned(),
        offset,
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}
