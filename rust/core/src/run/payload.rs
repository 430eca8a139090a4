//! Reads one payload record from any file.

use super::Run;
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::record::RecordFault;
use crate::record::header::{RECORD_BYTES_MAX, RECORD_HEADER_BYTES, read_record};
use crate::storage::StorageFile;
use crate::units::{Sequence, padded};

/// The size of the first read if the length is unknown. Most records are smaller.
const FIRST_READ_BYTES: usize = 4_096;

/// Reads the record at `offset` into `into`, which then holds exactly its padded bytes, and checks header,
/// sequence and payload. `length` is the record's length, if it is known.
///
/// # Errors
/// [`Error::DamagedPayload`] if the bytes are not that record; those of the storage if they could not be
/// read.
pub fn read_payload(
    file: &dyn StorageFile,
    offset: u64,
    sequence: Sequence,
    length: Option<u32>,
    into: &mut Vec<u8>,
) -> Result<()> {
    if copy_viewed(file, offset, sequence, into) {
        return Ok(());
    }
    let hint = length.map_or(FIRST_READ_BYTES, |length| padded(length as usize));
    read_exactly(file, offset, hint.clamp(RECORD_HEADER_BYTES, RECORD_BYTES_MAX), into)?;
    let said = into.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize;
    let whole = padded(said);
    if said <= RECORD_BYTES_MAX && whole > into.len() {
        read_exactly(file, offset, whole, into)?;
    }
    let damaged = |expected: String, found: String| Error::DamagedPayload {
        sequence: sequence.0,
        path: file.path().to_owned(),
        offset,
        expected,
        found,
    };
    let record = read_record(into, sequence).map_err(|fault| match fault {
        RecordFault::Short => damaged(format!("a record of {said} bytes"), "the end of the file".to_owned()),
        RecordFault::Length(length) => damaged("a record's length".to_owned(), length.to_string()),
        RecordFault::HeaderCheck { expected, found } => {
            damaged(format!("header check {expected:08x}"), format!("{found:08x}"))
        }
    })?;
    if !record.payload_is_whole() && !is_on(Planted::DamageHandedOver) {
        let found = crc32fast::hash(record.payload);
        return Err(damaged(format!("payload check {:08x}", record.header.payload_check), format!("{found:08x}")));
    }
    if into.len() < whole {
        return Err(damaged(format!("{whole} bytes"), into.len().to_string()));
    }
    into.truncate(whole);
    Ok(())
}

impl Run {
    /// Like [`read_payload`], for this run's own file. A record of an adopted run is returned as the log
    /// would have it.
    ///
    /// # Errors
    /// Like [`read_payload`].
    pub fn read_payload(&self, offset: u64, sequence: Sequence, length: Option<u32>, into: &mut Vec<u8>) -> Result<()> {
        let Some(relation) = self.relation() else {
            return read_payload(self.file().as_ref(), offset, sequence, length, into);
        };
        let damaged = |expected: String, found: &str| Error::DamagedPayload {
            sequence: sequence.0,
            path: self.file().path().to_owned(),
            offset,
            expected,
            found: found.to_owned(),
        };
        // A lower sequence has no record in this file, and must not be taken for the first one.
        let relative = relation
            .relative(sequence)
            .ok_or_else(|| damaged(format!("sequence {} or above", relation.base), "one below"))?;
        read_payload(self.file().as_ref(), offset, relative, length, into)?;
        relation.record(into, sequence).ok_or_else(|| damaged("a message".to_owned(), "another record"))
    }
}

/// Copies the record from the file's memory map. False if it is not there or not whole: a read then finds the
/// reason.
fn copy_viewed(file: &dyn StorageFile, offset: u64, sequence: Sequence, into: &mut Vec<u8>) -> bool {
    let head = file.view_at(offset, RECORD_HEADER_BYTES).and_then(<[u8]>::first_chunk::<4>);
    let Some(said) = head.map(|bytes| u32::from_le_bytes(*bytes) as usize) else { return false };
    if said > RECORD_BYTES_MAX {
        return false;
    }
    let Some(whole) = file.view_at(offset, padded(said)) else { return false };
    into.clear();
    into.extend_from_slice(whole);
    // The copy is checked, not the map: a hole may be punched in the map while a finished message is looked
    // up.
    read_record(into, sequence).is_ok_and(|record| record.payload_is_whole())
}

fn read_exactly(file: &dyn StorageFile, offset: u64, length: usize, into: &mut Vec<u8>) -> Result<()> {
    into.clear();
    into.resize(length, 0);
    let read = file.read_at(offset, into)?;
    into.truncate(read);
    Ok(())
}
