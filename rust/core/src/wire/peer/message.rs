//! The fields of each [`Message`], in the order in which it has them.
//!
//! | kind | message | fields after `epoch u32` |
//! |---|---|---|
//! | 16 | lead | `attempt u64 \| coordinator u64 \| version u64` |
//! | 17 | promised | `attempt u64 \| answer u64 \| history` |
//! | 18 | match | `attempt u64 \| answer u64 \| last_epoch u32 \| end u64` |
//! | 19 | batches | `attempt u64 \| from u64 \| committed u64 \| blob` |
//! | 20 | heartbeat | `attempt u64 \| end u64 \| committed u64 \| beat u64 \| ahead_ms i64` |
//! | 21 | synced | `attempt u64 \| end u64 \| beat u64 \| wall u64` |
//! | 22 | resend | `attempt u64 \| from u64` |
//! | 23 | unmatched | |
//! | 24 | refused | |
//! | 25 | take over | `attempt u64` |
//! | 26 | snapshot | `attempt u64 \| number u64 \| committed u64 \| end u64 \| bytes u64 \| files` |
//! | 27 | ask part | `attempt u64 \| place` |
//! | 28 | part | `attempt u64 \| place \| zeros u64 \| blob` |
//! | 29 | ask record | `sequence u64 \| record_check u32 \| first_due_ms u64 \| due_ms u64 \| entry_sequence u64` |
//! | 30 | record | `sequence u64 \| is_whole u8`, and if it is 1, `blob` |
//! | 31 | hold load | `attempt u64 \| number u64 \| runs` |
//! | 32 | load held | `attempt u64 \| number u64` |
//!
//! A history is a count (`u32`), so many epochs of `epoch u32 | first_sequence u64 | chain_before u32`, then
//! `last_sequence u64 | chain u32`. A blob is a length (`u32`) and bytes. Files, places and runs are in [`super::files`]. An `ahead_ms`
//! that is not known is the least `i64`.

use bytes::BufMut;

use super::files::{PART_BYTES_MAX, put_files, put_place, put_runs, read_files, read_place, read_runs};
use crate::error::Result;
use crate::message_log::{EpochEntry, HistoryEnd, SEGMENT_BYTES_MAX, fresh_room};
use crate::record::header::RECORD_BYTES_MAX;
use crate::replication::{FilePart, History, LoadMessage, Message, SnapshotOffer, Version, WantedRecord};
use crate::units::{DueKey, Epoch, Millis, Sequence};
use crate::wire::fields::{put_blob, put_count};
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// The most bytes of batches in one message: one batch of the largest segment.
pub const BATCHES_BYTES_MAX: usize = fresh_room(SEGMENT_BYTES_MAX) as usize;
/// The most epochs of a history.
pub const HISTORY_EPOCHS_MAX: usize = 1 << 20;
/// In the place of `ahead_ms`: the clock was not measured.
const UNKNOWN_MS: i64 = i64::MIN;
/// Bytes of an epoch in a history.
const EPOCH_BYTES: usize = 16;

const LEAD: u8 = 16;
const PROMISED: u8 = 17;
const MATCH: u8 = 18;
const BATCHES: u8 = 19;
const HEARTBEAT: u8 = 20;
const SYNCED: u8 = 21;
const RESEND: u8 = 22;
const UNMATCHED: u8 = 23;
const REFUSED: u8 = 24;
const TAKE_OVER: u8 = 25;
const SNAPSHOT: u8 = 26;
const ASK_PART: u8 = 27;
const PART: u8 = 28;
const ASK_RECORD: u8 = 29;
const RECORD: u8 = 30;
const HOLD_LOAD: u8 = 31;
const LOAD_HELD: u8 = 32;

/// True if frames of this kind have messages.
pub(super) const fn is_message(kind: u8) -> bool {
    matches!(kind, LEAD..=LOAD_HELD)
}

pub(super) const fn kind_of(message: &Message) -> u8 {
    match message {
        Message::Lead { .. } => LEAD,
        Message::Promised { .. } => PROMISED,
        Message::Match { .. } => MATCH,
        Message::Batches { .. } => BATCHES,
        Message::Heartbeat { .. } => HEARTBEAT,
        Message::Synced { .. } => SYNCED,
        Message::Resend { .. } => RESEND,
        Message::Unmatched { .. } => UNMATCHED,
        Message::Refused { .. } => REFUSED,
        Message::TakeOver { .. } => TAKE_OVER,
        Message::Snapshot { .. } => SNAPSHOT,
        Message::AskPart { .. } => ASK_PART,
        Message::Part { .. } => PART,
        Message::AskRecord { .. } => ASK_RECORD,
        Message::Record { .. } => RECORD,
        Message::Load { message: LoadMessage::Hold { .. }, .. } => HOLD_LOAD,
        Message::Load { message: LoadMessage::Held { .. }, .. } => LOAD_HELD,
    }
}

/// Appends the fields of a message.
///
/// # Errors
/// `TooLarge` naming `history`, `batches`, `files`, `path`, `part`, `payload` or `runs`.
pub(super) fn put_fields(out: &mut Vec<u8>, message: &Message) -> Result<()> {
    let mut put = |epoch: Epoch, numbers: &[u64]| {
        out.put_u32(epoch.0);
        for number in numbers {
            out.put_u64(*number);
        }
    };
    match message {
        Message::Lead { epoch, attempt, seen: (coordinator, version) } => {
            put(*epoch, &[*attempt, *coordinator, version.0]);
        }
        Message::Promised { epoch, attempt, answer, history } => {
            put(*epoch, &[*attempt, *answer]);
            put_history(out, history)?;
        }
        Message::Match { epoch, attempt, answer, last_epoch, end } => {
            put(*epoch, &[*attempt, *answer]);
            put(*last_epoch, &[end.0]);
        }
        Message::Batches { epoch, attempt, from, committed, bytes } => {
            put(*epoch, &[*attempt, from.0, committed.0]);
            put_blob(out, "batches", BATCHES_BYTES_MAX, bytes)?;
        }
        Message::Heartbeat { epoch, attempt, end, committed, beat, ahead_ms } => {
            put(*epoch, &[*attempt, end.0, committed.0, *beat, ahead_ms.unwrap_or(UNKNOWN_MS).cast_unsigned()]);
        }
        Message::Synced { epoch, attempt, end, beat, wall } => put(*epoch, &[*attempt, end.0, *beat, wall.0]),
        Message::Resend { epoch, attempt, from } => put(*epoch, &[*attempt, from.0]),
        Message::Unmatched { epoch } | Message::Refused { epoch } => put(*epoch, &[]),
        Message::TakeOver { epoch, attempt } => put(*epoch, &[*attempt]),
        Message::Snapshot { epoch, attempt, offer } => {
            put(*epoch, &[*attempt, offer.number, offer.committed.0, offer.end.0, offer.bytes]);
            put_files(out, &offer.files)?;
        }
        Message::AskPart { epoch, attempt, place } => {
            put(*epoch, &[*attempt]);
            put_place(out, place);
        }
        Message::Part { epoch, attempt, part } => {
            put(*epoch, &[*attempt]);
            put_place(out, &part.place);
            out.put_u64(part.zeros);
            put_blob(out, "part", PART_BYTES_MAX, &part.bytes)?;
        }
        Message::AskRecord { epoch, wanted } => {
            put(*epoch, &[wanted.sequence.0]);
            out.put_u32(wanted.record_check);
            for number in [wanted.first_due.0, wanted.key.due.0, wanted.key.sequence.0] {
                out.put_u64(number);
            }
        }
        Message::Record { epoch, sequence, payload } => {
            put(*epoch, &[sequence.0]);
            out.put_u8(u8::from(payload.is_some()));
            if let Some(payload) = payload {
                put_blob(out, "payload", RECORD_BYTES_MAX, payload)?;
            }
        }
        Message::Load { epoch, attempt, message: LoadMessage::Hold { number, runs } } => {
            put(*epoch, &[*attempt, *number]);
            put_runs(out, runs)?;
        }
        Message::Load { epoch, attempt, message: LoadMessage::Held { number } } => put(*epoch, &[*attempt, *number]),
    }
    Ok(())
}

/// Reads the fields of a message of this kind.
///
/// # Errors
/// `Malformed`, naming the field.
pub(super) fn read_message(kind: u8, reader: &mut Reader<'_>) -> Read<Message> {
    let epoch = Epoch(reader.u32("epoch")?);
    match kind {
        UNMATCHED => return Ok(Message::Unmatched { epoch }),
        REFUSED => return Ok(Message::Refused { epoch }),
        ASK_RECORD => return Ok(Message::AskRecord { epoch, wanted: read_wanted(reader)? }),
        RECORD => return read_record(epoch, reader),
        _ => {}
    }
    let attempt = reader.u64("attempt")?;
    let mut sequence = |field| reader.u64(field).map(Sequence);
    Ok(match kind {
        LEAD => {
            let seen = (reader.u64("coordinator")?, Version(reader.u64("version")?));
            Message::Lead { epoch, attempt, seen }
        }
        PROMISED => {
            let answer = reader.u64("answer")?;
            Message::Promised { epoch, attempt, answer, history: read_history(reader)? }
        }
        MATCH => {
            let (answer, last_epoch) = (reader.u64("answer")?, Epoch(reader.u32("last_epoch")?));
            Message::Match { epoch, attempt, answer, last_epoch, end: Sequence(reader.u64("end")?) }
        }
        BATCHES => {
            let (from, committed) = (sequence("from")?, sequence("committed")?);
            let bytes = reader.blob("batches", BATCHES_BYTES_MAX)?.to_vec();
            Message::Batches { epoch, attempt, from, committed, bytes }
        }
        HEARTBEAT => {
            let (end, committed) = (sequence("end")?, sequence("committed")?);
            let (beat, ahead_ms) = (reader.u64("beat")?, reader.u64("ahead_ms")?.cast_signed());
            let ahead_ms = Some(ahead_ms).filter(|ahead_ms| *ahead_ms != UNKNOWN_MS);
            Message::Heartbeat { epoch, attempt, end, committed, beat, ahead_ms }
        }
        SYNCED => {
            let end = sequence("end")?;
            Message::Synced { epoch, attempt, end, beat: reader.u64("beat")?, wall: Millis(reader.u64("wall")?) }
        }
        RESEND => Message::Resend { epoch, attempt, from: sequence("from")? },
        TAKE_OVER => Message::TakeOver { epoch, attempt },
        SNAPSHOT => {
            let (number, committed) = (reader.u64("number")?, Sequence(reader.u64("committed")?));
            let (end, bytes) = (Sequence(reader.u64("end")?), reader.u64("bytes")?);
            let offer = SnapshotOffer { number, committed, end, bytes, files: read_files(reader)? };
            Message::Snapshot { epoch, attempt, offer }
        }
        ASK_PART => Message::AskPart { epoch, attempt, place: read_place(reader)? },
        PART => {
            let (place, zeros) = (read_place(reader)?, reader.u64("zeros")?);
            let bytes = reader.blob("part", PART_BYTES_MAX)?.to_vec();
            Message::Part { epoch, attempt, part: FilePart { place, zeros, bytes } }
        }
        HOLD_LOAD => {
            let number = reader.u64("number")?;
            Message::Load { epoch, attempt, message: LoadMessage::Hold { number, runs: read_runs(reader)? } }
        }
        LOAD_HELD => Message::Load { epoch, attempt, message: LoadMessage::Held { number: reader.u64("number")? } },
        _ => return Err(Malformed::Value { field: "kind", expected: "a message", found: i64::from(kind) }),
    })
}

fn put_history(out: &mut Vec<u8>, history: &History) -> Result<()> {
    put_count(out, "history", HISTORY_EPOCHS_MAX, history.epochs.len())?;
    for entry in &history.epochs {
        out.put_u32(entry.epoch.0);
        out.put_u64(entry.first_sequence.0);
        out.put_u32(entry.chain_before);
    }
    out.put_u64(history.end.sequence.0);
    out.put_u32(history.end.chain);
    Ok(())
}

fn read_history(reader: &mut Reader<'_>) -> Read<History> {
    let count = reader.count("history", HISTORY_EPOCHS_MAX, EPOCH_BYTES)?;
    let mut epochs = Vec::with_capacity(count);
    for _ in 0..count {
        epochs.push(EpochEntry {
            epoch: Epoch(reader.u32("history")?),
            first_sequence: Sequence(reader.u64("history")?),
            chain_before: reader.u32("history")?,
        });
    }
    let end = HistoryEnd { sequence: Sequence(reader.u64("last_sequence")?), chain: reader.u32("chain")? };
    Ok(History { epochs, end })
}

fn read_wanted(reader: &mut Reader<'_>) -> Read<WantedRecord> {
    let (sequence, record_check) = (Sequence(reader.u64("sequence")?), reader.u32("record_check")?);
    let (first_due, due) = (Millis(reader.u64("first_due")?), Millis(reader.u64("due")?));
    let key = DueKey { due, sequence: Sequence(reader.u64("entry_sequence")?) };
    Ok(WantedRecord { sequence, record_check, first_due, key })
}

fn read_record(epoch: Epoch, reader: &mut Reader<'_>) -> Read<Message> {
    let (sequence, is_whole) = (Sequence(reader.u64("sequence")?), reader.flag("is_whole")?);
    let payload = if is_whole { Some(reader.blob("payload", RECORD_BYTES_MAX)?.to_vec()) } else { None };
    Ok(Message::Record { epoch, sequence, payload })
}
