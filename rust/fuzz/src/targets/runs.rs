//! Files that have the name of a run.

use std::sync::Arc;

use delaymq_core::Error;
use delaymq_core::record::header::read_record;
use delaymq_core::run::{
    BLOCK_ROWS, DispatchRow, RUN_FOLDER, Row, RowScan, Run, RunHead, RunWriter, ScanBuffer, ScheduleRow, read_payload,
    run_path,
};
use delaymq_core::storage::{MemoryStorage, Storage, read_upto};
use delaymq_core::units::{LocationFile, RunNumber};

use super::log::STREAM;
use crate::resealing::reseal_run;
use crate::verdict::{Judged, Verdict, holds, same, unexpected};

const DISPATCH: u8 = 1;
const RESEALED: u8 = 2;
/// The numbers of the golden runs.
const SCHEDULE_RUN: RunNumber = RunNumber(12);
const DISPATCH_RUN: RunNumber = RunNumber(13);

/// The first byte chooses the kind of run, and whether the checks are recomputed; the file follows.
pub(super) fn judge(input: &[u8]) -> Judged {
    let Some((mode, file)) = input.split_first() else { return Ok(Verdict::Refused) };
    let mut bytes = file.to_vec();
    if mode & RESEALED != 0 {
        reseal_run(&mut bytes);
    }
    if mode & DISPATCH == 0 {
        judge_run::<ScheduleRow>(&bytes, SCHEDULE_RUN)
    } else {
        judge_run::<DispatchRow>(&bytes, DISPATCH_RUN)
    }
}

fn judge_run<R: Row + PartialEq>(bytes: &[u8], number: RunNumber) -> Judged {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1));
    let written = storage
        .create_folder(RUN_FOLDER)
        .and_then(|()| storage.create(&run_path(number)))
        .and_then(|file| file.write_at(0, bytes));
    written.map_err(unexpected("writing the run"))?;
    let run = match Run::open(storage.as_ref(), number, R::KIND, &STREAM.id) {
        Ok(run) => run,
        Err(Error::Corrupt { .. } | Error::NewerFormat { .. }) => return Ok(Verdict::Refused),
        Err(error) => return Err(format!("opening a run that is there: {error}")),
    };
    let room = bytes.len() / 4_096;
    holds("blocks that are there", run.block_count() as usize <= room)?;
    holds("memory follows the file", run.memory_bytes() <= bytes.len().saturating_mul(2).saturating_add(1 << 10))?;
    let (rows, damaged) = rows_of::<R>(&run)?;
    let mut findings = Vec::new();
    let verified = run.verify::<R>(&mut |error| findings.push(error.to_string()));
    same("rows read and rows verified", &(rows.len() as u64), &verified)?;
    holds("each damaged block is told", findings.len() >= damaged)?;
    run.time_buckets().map_err(unexpected("the footer, again"))?;
    if findings.is_empty() {
        judge_whole(storage.as_ref(), &run, &rows, bytes)?;
    }
    Ok(if rows.is_empty() { Verdict::Refused } else { Verdict::Taken })
}

/// The readable rows, and the number of unreadable blocks.
fn rows_of<R: Row>(run: &Run) -> Result<(Vec<R>, usize), String> {
    let mut buffer = ScanBuffer::default();
    let mut scan = RowScan::<R>::from_block(run, 0, None, &mut buffer);
    let (mut rows, mut damaged) = (Vec::new(), 0_usize);
    let most = (run.block_count() as usize).saturating_mul(BLOCK_ROWS);
    loop {
        match scan.next_row() {
            Ok(Some(row)) => rows.push(row),
            Ok(None) => return Ok((rows, damaged)),
            Err(block) => {
                holds("a block of this run", block.run == run.number() && block.block < run.block_count())?;
                damaged = damaged.saturating_add(1);
                scan.skip_block();
            }
        }
        holds("a scan that ends", rows.len() <= most && damaged <= run.block_count() as usize)?;
    }
}

/// An undamaged run is found by key, and equals what the writer makes of its rows.
fn judge_whole<R: Row + PartialEq>(storage: &dyn Storage, run: &Run, rows: &[R], bytes: &[u8]) -> Result<(), String> {
    same("rows", &run.row_count(), &(rows.len() as u64))?;
    for row in rows.iter().step_by(7) {
        let mut buffer = ScanBuffer::default();
        let mut scan = RowScan::<R>::from_key(run, row.key(), None, &mut buffer)
            .map_err(|damaged| format!("a run without a fault: {}", damaged.error))?;
        let found = scan.peek().map_err(|damaged| format!("a run without a fault: {}", damaged.error))?;
        holds("a row is found by its key", found.as_ref() == Some(row))?;
    }
    if run.references().iter().any(|reference| reference.rows == 0) {
        return Ok(());
    }
    let head = RunHead { number: run.number(), stream: run.stream(), row_count: run.row_count() };
    let mut writer = RunWriter::<R>::create(storage, head).map_err(unexpected("writing it again"))?;
    let mut record = Vec::new();
    for row in rows.iter().filter(|row| row.location().file() == LocationFile::Run(run.number())) {
        let (offset, length) = (u64::from(row.location().offset()), Some(row.payload_length()));
        read_payload(run.file().as_ref(), offset, row.payload_sequence(), length, &mut record)
            .map_err(unexpected("a payload that was verified"))?;
        let whole = read_record(&record, row.payload_sequence()).is_ok_and(|record| record.payload_is_whole());
        holds("a payload that is handed out fits its check", whole)?;
        writer.push_payload(&record).map_err(unexpected("writing it again"))?;
    }
    rows.iter().try_for_each(|row| writer.push_row(row)).map_err(unexpected("writing it again"))?;
    let again = writer.finish(storage).map_err(unexpected("writing it again"))?;
    let written =
        read_upto(again.file().as_ref(), 0, bytes.len().saturating_add(1)).map_err(unexpected("reading it"))?;
    holds("the same run, written again, has the same bytes", written == bytes || differs_in_reserved(bytes, &written))
}

/// Rows have reserved fields that no reader uses.
fn differs_in_reserved(bytes: &[u8], written: &[u8]) -> bool {
    bytes.len() == written.len() && bytes.iter().zip(written).any(|(found, put)| *put == 0 && *found != 0)
}
