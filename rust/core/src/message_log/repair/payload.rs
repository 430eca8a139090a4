//! Gives a message back the payload that this disk has damaged, from the bytes of another copy.
//!
//! The record's header is whole, and has the check of the payload. The payload is written in its place: whatever part of it a
//! stop leaves is either whole or still fails that check, and nothing else in the segment changes.

use crate::error::{Error, Result};
use crate::message_log::append::interface::DamagedPayload;
use crate::message_log::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, Stream, segment_path};
use crate::planted::{Planted, is_on};
use crate::record::header::{RECORD_BYTES_MAX, RECORD_HEADER_BYTES, RawRecord, read_record};
use crate::storage::{Storage, StorageFile, read_upto};
use crate::units::Location;

/// Bytes of the length at the front of a record.
const LENGTH_BYTES: usize = 4;

/// Writes `payload` into the record at `damaged`, durably, if it is exactly what the record's check says. Returns false,
/// and writes nothing, if the payload there is whole already. A repair that stops at any point can be done again.
///
/// # Errors
/// `InvalidArgument` naming `location` if no record with that sequence and check begins there, or naming `payload` if the
/// bytes are not its payload; nothing was changed. `MissingFile`, `Corrupt`, `NewerFormat` for the segment, and those of
/// the storage.
pub fn restore_payload(
    storage: &dyn Storage,
    stream: Stream,
    damaged: &DamagedPayload,
    payload: &[u8],
) -> Result<bool> {
    restore_record(segment_of(storage, stream, damaged.location)?.as_ref(), damaged, payload)
}

/// As [`restore_payload`], in the file that has the record.
///
/// # Errors
/// As there, but for the file.
pub(crate) fn restore_record(file: &dyn StorageFile, damaged: &DamagedPayload, payload: &[u8]) -> Result<bool> {
    let offset = u64::from(damaged.location.offset());
    let bytes = read_record_at(file, offset)?;
    let record = read_record(&bytes, damaged.sequence).ok();
    let Some(record) = record.filter(|record| record.header.header_check.get() == damaged.record_check) else {
        let expected = format!("record {} with check {:08x}", damaged.sequence, damaged.record_check);
        return Err(Error::InvalidArgument { argument: "location", expected, found: "other bytes".to_owned() });
    };
    let restored = RawRecord { payload, ..record };
    let is_its_own = restored.payload_is_whole() || is_on(Planted::RepairUnchecked);
    if payload.len() != record.payload.len() || !is_its_own {
        let expected = format!("{} bytes with check {:08x}", record.payload.len(), record.header.payload_check);
        let found = format!("{} bytes with check {:08x}", payload.len(), crc32fast::hash(payload));
        return Err(Error::InvalidArgument { argument: "payload", expected, found });
    }
    if record.payload_is_whole() {
        return Ok(false);
    }
    let before = RECORD_HEADER_BYTES.saturating_add(record.fixed.len()) as u64;
    file.write_at(offset.saturating_add(before), payload)?;
    file.sync_data()?;
    Ok(true)
}

/// Opens the segment that a location is in.
fn segment_of(storage: &dyn Storage, stream: Stream, location: Location) -> Result<std::sync::Arc<dyn StorageFile>> {
    let Some(number) = location.segment() else {
        let (expected, found) = ("a segment".to_owned(), location.to_string());
        return Err(Error::InvalidArgument { argument: "location", expected, found });
    };
    let path = segment_path(number);
    let file = storage.open(&path).map_err(|error| {
        let reason = "a payload in it is to be repaired".to_owned();
        if error.is_not_found() { Error::MissingFile { path: path.clone(), reason } } else { error }
    })?;
    let header = SegmentHeader::read(&path, &read_upto(&*file, 0, SEGMENT_HEADER_BYTES as usize)?)?;
    header.check_place(&path, number, &stream)?;
    Ok(file)
}

/// The bytes of the record that begins there, as many as its length says.
///
/// # Errors
/// Those of the storage.
pub(crate) fn read_record_at(file: &dyn StorageFile, offset: u64) -> Result<Vec<u8>> {
    let length = read_upto(file, offset, LENGTH_BYTES)?;
    let length = length.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize;
    read_upto(file, offset, length.min(RECORD_BYTES_MAX))
}

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;
