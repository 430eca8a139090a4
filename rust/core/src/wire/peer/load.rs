//! The fields of each [`LoadMessage`], after `epoch u32 | attempt u64`.
//!
//! | kind | message | fields |
//! |---|---|---|
//! | 31 | hold load | `number u64 \| runs` |
//! | 32 | load held | `number u64` |
//! | 33 | ask for a part of a file | `staged_ms u64 \| nonce 16 bytes \| offset u64` |
//! | 34 | part of a file | `staged_ms u64 \| nonce 16 bytes \| offset u64 \| blob` |
//!
//! Runs are a count (`u32`), and for each `staged_ms u64 | nonce 16 bytes | length u64 | digest u32 | rows u64`.

use bytes::BufMut;

use crate::error::Result;
use crate::record::adopt::LOAD_RUNS_MAX;
use crate::replication::{LoadMessage, LoadPart};
use crate::run::{LoadName, StagedRun};
use crate::units::Millis;
use crate::wire::fields::{put_blob, put_count};
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// The most bytes of a part of a file.
const PART_BYTES_MAX: usize = 4 << 20;
/// Bytes of a run.
const RUN_BYTES: usize = 44;

pub(super) const HOLD_LOAD: u8 = 31;
const LOAD_HELD: u8 = 32;
const ASK_LOAD: u8 = 33;
pub(super) const LOAD_PART: u8 = 34;

pub(super) const fn kind_of(message: &LoadMessage) -> u8 {
    match message {
        LoadMessage::Hold { .. } => HOLD_LOAD,
        LoadMessage::Held { .. } => LOAD_HELD,
        LoadMessage::Ask { .. } => ASK_LOAD,
        LoadMessage::Part(_) => LOAD_PART,
    }
}

/// Appends the fields of a message.
///
/// # Errors
/// `TooLarge` naming `runs` or `part`.
pub(super) fn put_load(out: &mut Vec<u8>, message: &LoadMessage) -> Result<()> {
    match message {
        LoadMessage::Hold { number, runs } => {
            out.put_u64(*number);
            put_count(out, "runs", LOAD_RUNS_MAX, runs.len())?;
            for run in runs {
                put_name(out, &run.name);
                out.put_u64(run.length);
                out.put_u32(run.digest);
                out.put_u64(run.rows);
            }
        }
        LoadMessage::Held { number } => out.put_u64(*number),
        LoadMessage::Ask { name, offset } => put_place(out, name, *offset),
        LoadMessage::Part(part) => {
            put_place(out, &part.name, part.offset);
            put_blob(out, "part", PART_BYTES_MAX, &part.bytes)?;
        }
    }
    Ok(())
}

/// Reads the fields of a message of this kind.
///
/// # Errors
/// `Malformed`, naming the field.
pub(super) fn read_load(kind: u8, reader: &mut Reader<'_>) -> Read<LoadMessage> {
    Ok(match kind {
        HOLD_LOAD => LoadMessage::Hold { number: reader.u64("number")?, runs: read_runs(reader)? },
        LOAD_HELD => LoadMessage::Held { number: reader.u64("number")? },
        ASK_LOAD => LoadMessage::Ask { name: read_name(reader)?, offset: reader.u64("offset")? },
        LOAD_PART => {
            let (name, offset) = (read_name(reader)?, reader.u64("offset")?);
            LoadMessage::Part(LoadPart { name, offset, bytes: reader.blob("part", PART_BYTES_MAX)?.to_vec() })
        }
        _ => return Err(Malformed::Value { field: "kind", expected: "a message", found: i64::from(kind) }),
    })
}

fn read_runs(reader: &mut Reader<'_>) -> Read<Vec<StagedRun>> {
    let count = reader.count("runs", LOAD_RUNS_MAX, RUN_BYTES)?;
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        let (name, length) = (read_name(reader)?, reader.u64("length")?);
        runs.push(StagedRun { name, length, digest: reader.u32("digest")?, rows: reader.u64("rows")? });
    }
    Ok(runs)
}

fn put_place(out: &mut Vec<u8>, name: &LoadName, offset: u64) {
    put_name(out, name);
    out.put_u64(offset);
}

fn put_name(out: &mut Vec<u8>, name: &LoadName) {
    out.put_u64(name.staged.0);
    out.put_slice(&name.nonce);
}

fn read_name(reader: &mut Reader<'_>) -> Read<LoadName> {
    let staged = Millis(reader.u64("staged_ms")?);
    Ok(LoadName { staged, nonce: reader.array("nonce")? })
}
