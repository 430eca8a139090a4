//! Takes batches of another copy's log.
//!
//! A batch must be the next one: the same position has the same epoch, sequence and chain on every copy. Its chain binds the
//! headers of its records, and these the checks of their payloads. So a payload that the other disk has damaged is known
//! by its check, and a message with such a payload is taken as it is: whoever has it whole can give it back
//! ([`crate::message_log::restore_payload`]). Damage in transit is not for these checks: the connection has its own.

use super::SegmentAppender;
use crate::error::{Error, Result};
use crate::message_log::append::interface::{Appended, DamagedPayload, Taken, malformed};
use crate::message_log::read::batch_check::{Cursor, check_each};
use crate::message_log::segment::Stream;
use crate::record::batch::{BATCH_HEADER_BYTES, BatchHeader, rewrite_local};
use crate::record::check_format;
use crate::record::command::{KIND_EPOCH_START, decode_epoch_start};
use crate::record::message::KIND_MESSAGE;
use crate::units::{Epoch, Location, Millis, Sequence, padded};

/// A batch that may be written, and what is damaged in it.
struct Foreign {
    header: BatchHeader,
    /// For each damaged message: the offset of its record in the batch, its sequence, and the check of its record.
    damaged: Vec<(u32, Sequence, u32)>,
}

impl SegmentAppender {
    /// Writes one batch of another copy's log, header and records, unchanged but for the fields that belong to this copy
    /// alone. The batch is checked completely before anything is written, and a batch that is refused poisons nothing.
    ///
    /// A batch in which the payloads of messages are damaged, and nothing else, is taken as it is, and the result names
    /// them. It is durable when this returns, and a witness behind it says so: without one, an open would take the damage
    /// for a torn tail and cut it off, after this copy was counted as having it.
    ///
    /// # Errors
    /// `NotNext` if the batch begins at another sequence than the next one. `Fenced` if its epoch is below that of the
    /// last batch. `Diverged` if it follows another content than this log has. `InvalidArgument` if it is not a whole
    /// batch of this stream, if its time is below that of the last batch, or if the payload of a fact that is no message
    /// is damaged: no copy can apply that fact. `NewerFormat` if its epoch is that of a later release. `TooLarge`, and those of the storage.
    pub fn append_foreign(&mut self, batch: &mut [u8], committed: Location) -> Result<Taken> {
        self.refuse_if_done()?;
        let foreign = check_foreign(batch, &self.cursor(), &self.stream)?;
        let witness = if foreign.damaged.is_empty() { 0 } else { BATCH_HEADER_BYTES };
        let room = batch.len().saturating_add(witness) as u64;
        self.refuse_too_large(room)?;
        let appended = self.place_foreign(batch, &foreign, room, committed);
        let appended = self.poison_on_error(appended)?;
        let place = |(offset, sequence, record_check): &(u32, Sequence, u32)| DamagedPayload {
            sequence: *sequence,
            record_check: *record_check,
            location: Location(appended.start.0.saturating_add(u64::from(*offset))),
        };
        Ok(Taken { appended, damaged: foreign.damaged.iter().map(place).collect() })
    }

    fn place_foreign(
        &mut self,
        bytes: &mut [u8],
        foreign: &Foreign,
        room: u64,
        committed: Location,
    ) -> Result<Appended> {
        let rolled = self.make_room(room, committed)?;
        self.begun = None;
        self.epoch = Epoch(foreign.header.epoch.get());
        self.trusted = Millis(foreign.header.trusted_ms.get());
        // A copy answers only for what it has synced.
        let header = rewrite_local(bytes, &self.fields(committed)).ok_or_else(|| malformed(bytes.len(), 1))?;
        let appended = self.write_facts(bytes, header, rolled)?;
        if foreign.damaged.is_empty() {
            return Ok(appended);
        }
        self.sync_current()?;
        self.write_witness(&self.fields(committed))?;
        Ok(Appended { end: self.written(), synced: self.synced, ..appended })
    }
}

/// Checks a batch with facts that must continue from `end`. Padding is set to the zeros that it is: no check covers it.
fn check_foreign(batch: &mut [u8], end: &Cursor, stream: &Stream) -> Result<Foreign> {
    let Some(header) = BatchHeader::read(batch).filter(|header| header.length.get() as usize == batch.len()) else {
        return Err(refused("a batch header, and as many bytes as it says", format!("{} bytes", batch.len())));
    };
    if header.is_seal() || header.is_witness() || header.record_count.get() == 0 {
        return Err(refused("a batch with records", "a seal, a witness or an empty batch".to_owned()));
    }
    check_follows(&header, end)?;
    let (mut damaged, mut paddings, mut lost, mut newer) = (Vec::new(), Vec::new(), None, Ok(()));
    let checked = check_each(batch, 0, &header, &stream.id, &mut Vec::new(), |at, record| {
        let length = record.header.length.get() as usize;
        let start = at as usize;
        paddings.push(start.saturating_add(length)..start.saturating_add(padded(length)));
        match (record.payload_is_whole(), record.header.kind) {
            (true, KIND_EPOCH_START) => {
                if let Some(begun) = decode_epoch_start(record) {
                    newer = check_format("the log of the primary", u64::from(at), begun.format_version);
                }
            }
            (true, _) => {}
            (false, KIND_MESSAGE) => damaged.push((at, record.sequence, record.header.header_check.get())),
            (false, _) => lost = lost.or(Some(at)),
        }
    });
    if let Err(fault) = checked {
        return Err(refused(&fault.expected, format!("{} at offset {}", fault.found, fault.offset)));
    }
    if let Some(at) = lost {
        let found = format!("other bytes in the record at offset {at}, which is no message");
        return Err(refused("whole payloads of all facts but messages", found));
    }
    newer.map_err(|error| match error {
        Error::Corrupt { found, .. } => refused("an epoch of a format from 1 on", found),
        other => other,
    })?;
    for padding in paddings {
        batch.get_mut(padding).unwrap_or_default().fill(0);
    }
    Ok(Foreign { header, damaged })
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

fn refused(expected: &str, found: String) -> Error {
    Error::InvalidArgument { argument: "batch", expected: expected.to_owned(), found }
}

#[cfg(test)]
#[path = "foreign_tests.rs"]
mod tests;
