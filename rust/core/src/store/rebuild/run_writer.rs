//! Stages the run of a piece, with copies of all its payloads.

use crate::error::{Error, Result};
use crate::message_log::Stream;
use crate::planted::{Planted, is_on};
use crate::record::header::read_record;
use crate::record::message::decode_message;
use crate::run::{LOAD_FOLDER, LoadName, RunHead, RunWriter, ScheduleRow, StagedRun};
use crate::storage::Storage;
use crate::store::salvage::payloads::Payloads;
use crate::units::{Location, RunNumber};

/// Writes these rows, which must be in key order, as a staged run with this number. The run is complete and durable
/// afterwards.
///
/// # Errors
/// The errors of the storage; `DamagedPayload` if a payload can no longer be read.
pub(super) fn write_beside(
    storage: &dyn Storage,
    name: LoadName,
    (number, stream): (RunNumber, &Stream),
    rows: &[ScheduleRow],
    payloads: &mut Payloads,
) -> Result<StagedRun> {
    let dropped = usize::from(is_on(Planted::RebuiltRowDropped) && rows.len() > 1);
    let rows = rows.get(dropped..).unwrap_or_default();
    storage.create_folder(LOAD_FOLDER)?;
    storage.sync_folder("")?;
    let head = RunHead { number, stream: stream.id, row_count: rows.len() as u64 };
    let written = write_rows(storage, name, head, rows, payloads);
    if written.is_err() {
        // If the removal also fails, the file is removed by its age.
        for path in [format!("{}.tmp", name.path()), name.path()] {
            drop(storage.remove(&path));
        }
    }
    written
}

fn write_rows(
    storage: &dyn Storage,
    name: LoadName,
    head: RunHead,
    rows: &[ScheduleRow],
    payloads: &mut Payloads,
) -> Result<StagedRun> {
    let mut writer = RunWriter::create_beside(storage, &name, head)?;
    let mut record = Vec::new();
    for row in rows {
        let mut row = *row;
        payloads.read(row.location, row.payload_sequence, &mut record)?;
        row.size = row.size.or_else(|| size_of(&record, &row));
        row.length = 0;
        // A payload whose offset would not fit into a location stays in its present file.
        if let Some(offset) = writer.push_payload(&record)? {
            row.location = Location::in_run(head.number, offset);
            row.length = record.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        }
        writer.push_row(&row)?;
    }
    let run = writer.finish_beside(storage, &name)?;
    if run.row_count() != head.row_count {
        return Err(Error::corrupt(&name.path(), 0, head.row_count, run.row_count()));
    }
    Ok(StagedRun { name, length: run.length(), digest: run.digest(), rows: run.row_count() })
}

/// The size of the body of a record in bytes.
fn size_of(record: &[u8], row: &ScheduleRow) -> Option<u32> {
    let record = read_record(record, row.payload_sequence).ok()?;
    u32::try_from(decode_message(&record)?.body.len()).ok()
}
