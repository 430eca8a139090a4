//! Checks a batch of another copy's log before it is written behind this one.
//!
//! The batch must be whole, and the next one: the same position has the same epoch, sequence and chain on every copy.

use crate::error::{Error, Result};
use crate::message_log::read::batch_check::{Cursor, check_each};
use crate::message_log::segment::Stream;
use crate::record::batch::BatchHeader;
use crate::units::padded;

/// Returns the header of a batch with facts that continues from `end`.
pub(super) fn check_foreign(batch: &[u8], end: &Cursor, stream: &Stream) -> Result<BatchHeader> {
    let Some(header) = BatchHeader::read(batch).filter(|header| header.length.get() as usize == batch.len()) else {
        return Err(refused("a batch header, and as many bytes as it says", format!("{} bytes", batch.len())));
    };
    if header.is_seal() || header.is_witness() || header.record_count.get() == 0 {
        return Err(refused("a batch with records", "a seal, a witness or an empty batch".to_owned()));
    }
    check_follows(&header, end)?;
    let mut damaged = None;
    let checked = check_each(batch, 0, &header, &stream.id, &mut Vec::new(), |at, record| {
        let length = record.header.length.get() as usize;
        let end = (at as usize).saturating_add(length);
        let padding = batch.get(end..(at as usize).saturating_add(padded(length))).unwrap_or_default();
        if !record.payload_is_whole() || padding.iter().any(|byte| *byte != 0) {
            damaged.get_or_insert(at);
        }
    });
    if let Err(fault) = checked {
        return Err(refused(&fault.expected, format!("{} at offset {}", fault.found, fault.offset)));
    }
    match damaged {
        Some(at) => {
            Err(refused("whole payloads, padded with zeros", format!("other bytes in the record at offset {at}")))
        }
        None => Ok(header),
    }
}

/// The sequence comes first: a batch that is already here, or that comes too early, may be of any epoch.
fn check_follows(header: &BatchHeader, end: &Cursor) -> Result<()> {
    let (expected, found) = (end.next_sequence.0, header.base_sequence.get());
    if found != expected {
        return Err(Error::NotNext { expected, found });
    }
    let (newest, epoch) = (end.epoch.0, header.epoch.get());
    if epoch < newest {
        return Err(Error::Fenced { newest, found: epoch });
    }
    let chain = header.chain_before.get();
    if chain != end.chain {
        return Err(Error::Diverged { sequence: expected, expected: end.chain, found: chain });
    }
    let (least, trusted) = (end.trusted, header.trusted_ms.get());
    if trusted < least.0 {
        return Err(refused(&format!("trusted time {least} or later"), trusted.to_string()));
    }
    Ok(())
}

/// The refusal of a fact of this copy behind batches of another one.
pub(super) fn not_begun() -> Error {
    let (expected, found) = ("an epoch that was begun here".to_owned(), "a batch of another copy".to_owned());
    Error::InvalidArgument { argument: "epoch", expected, found }
}

fn refused(expected: &str, found: String) -> Error {
    Error::InvalidArgument { argument: "batch", expected: expected.to_owned(), found }
}

#[cfg(test)]
#[path = "foreign_tests.rs"]
mod tests;
