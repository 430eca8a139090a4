//! A golden run of each kind, written by the library on the disk in memory.

use delaymq_core::record::message::{Meta, encode_meta};
use delaymq_core::record::seal_record;
use delaymq_core::run::{
    DispatchRow, LOAD_FOLDER, LoadName, RUN_FOLDER, Row, RunHead, RunWriter, ScheduleRow, StagedMessage, StagedRun,
    Stager, StagingLimits, run_path,
};
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::units::{DueKey, Location, Millis, ReadyNumber, RunNumber, SegmentNumber, Sequence, SubjectNumber};

use crate::batches::STREAM;
use crate::files::{Outcome, compare_file};
use crate::records;

const DUE: u64 = 1_700_000_600_000;

fn head(number: u32, row_count: u64) -> RunHead {
    RunHead { number: RunNumber(number), stream: STREAM, row_count }
}

fn begin<R: Row>(storage: &dyn Storage, head: RunHead) -> Result<RunWriter<R>, Box<dyn std::error::Error>> {
    storage.create_folder(RUN_FOLDER)?;
    Ok(RunWriter::create(storage, head)?)
}

/// Two blocks: 88 entries whose payloads lie in a segment, every fourth of them a retry, and two
/// more, an hour later, whose payloads were copied.
#[test]
fn schedule_run() -> Outcome {
    let storage = MemoryStorage::new(1);
    let number = RunNumber(12);
    let mut writer = begin::<ScheduleRow>(&storage, head(number.0, 90))?;
    let mut copied = Vec::new();
    for sequence in [1_089, 1_090] {
        let mut record = Vec::new();
        records::message(&mut record);
        seal_record(&mut record, Sequence(sequence)).ok_or("too short")?;
        copied.push((sequence, writer.push_payload(&record)?.ok_or("too far")?));
    }
    for place in 1..=88 {
        let retry = place % 4 == 0;
        writer.push_row(&ScheduleRow {
            key: DueKey { due: Millis(DUE + place / 2), sequence: Sequence(1_000 + place) },
            payload_sequence: Sequence(if retry { place } else { 1_000 + place }),
            location: Location::in_segment(SegmentNumber(if retry { 3 } else { 7 }), 4_096 + place as u32 * 8),
            subject: SubjectNumber(if place > 80 { 5 } else { 3 }),
            attempt: if retry { 2 } else { 1 },
            length: 0,
            size: if place == 7 { None } else { Some(place as u32) },
        })?;
    }
    for (sequence, offset) in copied {
        writer.push_row(&ScheduleRow {
            key: DueKey { due: Millis(DUE + 3_600_000), sequence: Sequence(sequence) },
            payload_sequence: Sequence(sequence),
            location: Location::in_run(number, offset),
            subject: SubjectNumber(3),
            attempt: 1,
            length: 76,
            size: Some(2),
        })?;
    }
    writer.finish(&storage)?;
    compare_file(&storage, &run_path(number), "run_schedule")
}

#[test]
fn dispatch_run() -> Outcome {
    let storage = MemoryStorage::new(1);
    let number = RunNumber(13);
    let mut writer = begin::<DispatchRow>(&storage, head(number.0, 3))?;
    for (subject, ready, sequence, in_run) in [(3, 41, 900, false), (3, 42, 1_001, true), (8, 0, 1_002, true)] {
        let location = if in_run {
            Location::in_run(RunNumber(12), 12_288)
        } else {
            Location::in_segment(SegmentNumber(7), 4_184)
        };
        writer.push_row(&DispatchRow {
            subject: SubjectNumber(subject),
            number: ReadyNumber(ready),
            attempt: if sequence == 1_002 { 2 } else { 1 },
            sequence: Sequence(sequence),
            payload_sequence: Sequence(if sequence == 1_002 { 1_001 } else { sequence }),
            location,
            due: Millis(DUE),
        })?;
    }
    writer.finish(&storage)?;
    compare_file(&storage, &run_path(number), "run_dispatch")
}

#[test]
fn staged_run() -> Outcome {
    let storage = MemoryStorage::new(1);
    let staged = stage(&storage)?;
    let expected = (records::STAGED.length, records::STAGED.digest);
    assert_eq!((staged.length, staged.digest), expected, "the golden adoption names this run");
    compare_file(&storage, &staged.name.path(), "run_staged")
}

/// Four messages of two subjects, given in another order than they are due in.
pub(crate) fn stage(storage: &dyn Storage) -> Result<StagedRun, Box<dyn std::error::Error>> {
    storage.create_folder(LOAD_FOLDER)?;
    let name = LoadName { staged: Millis(1_700_000_000_000), nonce: STREAM };
    let mut stager = Stager::new(storage, StagingLimits::until(Millis(DUE + 60_000)), || name);
    let meta = Meta { message_id: "order-17".to_owned(), ..Meta::default() };
    let meta = encode_meta(&meta).ok_or("no meta")?;
    for (after_ms, subject, body) in [(60_000, "orders", "late"), (5, "orders", "soon"), (5, "β", "too"), (0, "β", "")]
    {
        let meta = if body == "soon" { meta.as_slice() } else { &[] };
        let message = StagedMessage { due: Millis(DUE + after_ms), subject, meta, body: body.as_bytes(), expiry: None };
        stager.push(&message)?.map_err(|refused| refused.error)?;
    }
    Ok(*stager.finish()?.first().ok_or("no run")?)
}
