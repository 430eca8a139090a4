//! Runs as another process finds them: opened by their footers, after a complete write and after a stop at
//! any point of one.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::error::{Error, Result};
use crate::record::{encode_record, seal_record};
use crate::storage::{Crash, MemoryStorage, Storage};
use crate::units::{DueKey, Location, Millis, ReadyNumber, SegmentNumber, Sequence, SubjectNumber};

const STREAM: [u8; 16] = *b"another stream..";
const NUMBER: RunNumber = RunNumber(12);

fn storage() -> MemoryStorage {
    let storage = MemoryStorage::new(3);
    storage.create_folder(RUN_FOLDER).unwrap();
    storage.sync_folder("").unwrap();
    storage
}

/// Writes payloads, then rows.
fn write<R: Row>(storage: &dyn Storage, rows: &[R], payloads: &[Vec<u8>], sync_every: usize) -> Result<Run> {
    let head = RunHead { number: NUMBER, stream: STREAM, row_count: rows.len() as u64 };
    let mut writer = RunWriter::create(storage, head)?;
    for payload in payloads {
        writer.push_payload(payload)?;
    }
    for (at, row) in rows.iter().enumerate() {
        writer.push_row(row)?;
        if at % sync_every == 0 {
            writer.sync()?;
        }
    }
    writer.finish(storage)
}

fn opened<R: Row>(storage: &dyn Storage) -> Result<Run> {
    Run::open(storage, NUMBER, R::KIND, &STREAM)
}

/// Checks that a run reads back as it was written, and that its footer describes each part correctly.
fn check<R: Row + PartialEq>(run: &Run, rows: &[R], probes: &[RowKey]) {
    let mut buffer = ScanBuffer::<R>::default();
    let mut faults = Vec::new();
    assert_eq!(run.verify::<R>(&mut |error| faults.push(error)), rows.len() as u64);
    assert_eq!(faults, []);
    assert_eq!((run.number(), run.kind(), run.stream()), (NUMBER, R::KIND, STREAM));
    assert_eq!(run.row_count(), rows.len() as u64);
    assert_eq!(run.first_key(), rows.first().map(Row::key));
    assert_eq!(Some(run.first_sequence()), rows.iter().map(Row::sequence).min());
    assert_eq!(Some(run.last_sequence()), rows.iter().map(Row::sequence).max());
    let mut files = BTreeMap::new();
    for row in rows {
        *files.entry(row.location().file()).or_insert(0_u64) += 1;
    }
    let references: BTreeMap<_, _> =
        run.references().iter().map(|reference| (reference.file, reference.rows)).collect();
    assert_eq!(references, files);
    for key in probes.iter().copied().chain([RowKey::default()]) {
        let above = rows.partition_point(|row| row.key() < key);
        let mut scan = RowScan::from_key(run, key, None, &mut buffer).unwrap();
        let read: Vec<R> = std::iter::from_fn(|| scan.next_row().unwrap()).collect();
        assert_eq!(read, rows[above..]);
        let mut group = Vec::new();
        run.read_group(key, None, &mut buffer, &mut group).unwrap();
        let found = group.iter().find(|row| row.key() == key);
        assert_eq!(found, rows.get(above).filter(|row| row.key() == key));
    }
}

fn check_payloads(run: &Run, rows: &[ScheduleRow], payloads: &BTreeMap<u64, Vec<u8>>) {
    let mut record = Vec::new();
    for row in rows {
        let Some(payload) = payloads.get(&row.key.sequence.0) else { continue };
        let offset = u64::from(row.location.offset());
        read_payload(run.file().as_ref(), offset, row.payload_sequence, Some(row.length), &mut record).unwrap();
        assert_eq!(&record, payload);
    }
}

/// Rows by (due, sequence). Every third has its payload in the run.
fn schedule_rows(keys: &[(u64, u64)]) -> (Vec<ScheduleRow>, BTreeMap<u64, Vec<u8>>) {
    let (mut rows, mut payloads) = (Vec::new(), BTreeMap::new());
    let mut offset = u32::MAX;
    for (at, (due, sequence)) in keys.iter().enumerate() {
        let mut row = ScheduleRow {
            key: DueKey { due: Millis(*due), sequence: Sequence(*sequence) },
            payload_sequence: Sequence(sequence / 2),
            location: Location::in_segment(SegmentNumber(1 + (sequence % 3) as u32), 4_096),
            subject: SubjectNumber(7),
            attempt: 1 + (sequence % 4) as u16,
            length: 0,
            size: Some((sequence % 5) as u32),
        };
        if at % 3 == 0 && !payloads.contains_key(sequence) {
            let mut bytes = Vec::new();
            encode_record(&mut bytes, 1, 8, &[1; 24], &[&vec![9; (*sequence % 300) as usize]]);
            seal_record(&mut bytes, row.payload_sequence).unwrap();
            if offset == u32::MAX {
                offset = first_payload(keys.len());
            }
            row.location = Location::in_run(NUMBER, offset);
            row.length = u32::from_le_bytes(*bytes.first_chunk().unwrap());
            offset += bytes.len() as u32;
            payloads.insert(*sequence, bytes);
        }
        rows.push(row);
    }
    (rows, payloads)
}

/// The offset of the payload area in a run of this many rows.
fn first_payload(rows: usize) -> u32 {
    4_096 * (1 + rows.div_ceil(BLOCK_ROWS) as u32)
}

/// Rows by (subject, number), dense within each subject.
fn dispatch_rows(parts: &[(u32, u64, u64)]) -> Vec<DispatchRow> {
    let mut rows = Vec::new();
    let mut subject = 0;
    for (gap, first, count) in parts {
        subject += gap;
        rows.extend((*first..first + count).map(|number| DispatchRow {
            subject: SubjectNumber(subject),
            number: ReadyNumber(number),
            attempt: 1 + (number % 3) as u16,
            sequence: Sequence(9_000 - number + u64::from(subject) * 10_000),
            payload_sequence: Sequence(number),
            location: Location::in_segment(SegmentNumber(1 + (number % 2) as u32), 8),
            due: Millis(number * 3),
        }));
    }
    rows
}

fn subject_ranges(parts: &[(u32, u64, u64)]) -> Vec<SubjectRange> {
    let mut subject = 0;
    let range = |(gap, first, count): &(u32, u64, u64)| {
        subject += gap;
        let last = ReadyNumber(first + count - 1);
        SubjectRange { subject: SubjectNumber(subject), rows: *count, first: ReadyNumber(*first), last }
    };
    parts.iter().map(range).collect()
}

/// Stops the machine while a run is written. A run with its final name must then be whole, a run reported as
/// written must exist, and the same run can be written again.
fn stop_in_writing<R: Row + PartialEq>(rows: &[R], payloads: &[Vec<u8>], calls: u64, end: Crash, seed: u64) -> bool {
    let storage = storage();
    storage.stop_after_calls(calls);
    let written = write(&storage, rows, payloads, 100);
    let after = storage.crash(end, seed);
    let is_named = list_runs(&after).unwrap().contains(&NUMBER);
    assert!(is_named || written.is_err(), "what was said to be written is gone");
    if is_named {
        check(&opened::<R>(&after).unwrap(), rows, &[]);
    } else {
        assert!(matches!(opened::<R>(&after), Err(Error::MissingFile { .. })));
    }
    write(&after, rows, payloads, 100).unwrap();
    let after = after.crash(Crash::PowerCutLosesAll, seed);
    check(&opened::<R>(&after).unwrap(), rows, &[]);
    written.is_ok()
}

const ENDS: [Crash; 3] = [Crash::Kill, Crash::PowerCut, Crash::PowerCutLosesAll];

/// Stops at each call of a write, and after the last one.
fn stop_everywhere<R: Row + PartialEq>(rows: &[R], payloads: &[Vec<u8>]) -> u64 {
    for calls in 0_u64.. {
        let mut ended = 0;
        for (end, seed) in ENDS.into_iter().flat_map(|end| (0..6).map(move |seed| (end, seed))) {
            ended += u32::from(stop_in_writing(rows, payloads, calls, end, seed));
        }
        if ended == 18 {
            return calls;
        }
    }
    0
}

#[test]
fn a_stop_in_any_call_of_writing_leaves_a_whole_run_or_none() {
    let keys: Vec<(u64, u64)> = (0..400).map(|at| (at / 3, at)).collect();
    let (rows, payloads) = schedule_rows(&keys);
    let payloads: Vec<Vec<u8>> = rows.iter().filter_map(|row| payloads.get(&row.key.sequence.0).cloned()).collect();
    assert!(stop_everywhere(&rows, &payloads) > 8);
    assert!(stop_everywhere(&dispatch_rows(&[(1, 7, 300), (4, 0, 2)]), &[]) > 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_schedule_run_is_read_by_who_opens_it(
        keys in prop::collection::btree_set((0_u64..400, 0_u64..5_000), 1..900),
        probes in prop::collection::vec((0_u64..410, 0_u64..5_000), 12),
        sync_every in 1_usize..200,
        end in prop::sample::select(ENDS.to_vec()),
        seed in any::<u64>(),
    ) {
        let keys: Vec<(u64, u64)> = keys.into_iter().collect();
        let (rows, payloads) = schedule_rows(&keys);
        let in_order: Vec<Vec<u8>> =
            rows.iter().filter(|row| row.length > 0).filter_map(|row| payloads.get(&row.key.sequence.0).cloned()).collect();
        let storage = storage();
        let written = write(&storage, &rows, &in_order, sync_every).unwrap();
        let after = storage.crash(end, seed);
        let run = opened::<ScheduleRow>(&after).unwrap();
        prop_assert_eq!((run.length(), run.digest()), (written.length(), written.digest()));
        let probes: Vec<RowKey> = probes.into_iter().map(|(major, minor)| RowKey { major, minor }).collect();
        check(&run, &rows, &probes);
        let with_payload: Vec<ScheduleRow> = rows.iter().filter(|row| row.length > 0).copied().collect();
        check_payloads(&run, &with_payload, &payloads);
        let bytes: usize = in_order.iter().map(Vec::len).sum();
        prop_assert_eq!(run.payload_bytes(), bytes as u64);
    }

    #[test]
    fn a_dispatch_run_is_read_by_who_opens_it(
        parts in prop::collection::vec((1_u32..5, 0_u64..300, 1_u64..200), 1..8),
        probes in prop::collection::vec((0_u64..40, 0_u64..600), 12),
        end in prop::sample::select(ENDS.to_vec()),
        seed in any::<u64>(),
    ) {
        let rows = dispatch_rows(&parts);
        let storage = storage();
        let written = write(&storage, &rows, &[], 64).unwrap();
        let after = storage.crash(end, seed);
        let run = opened::<DispatchRow>(&after).unwrap();
        prop_assert_eq!((run.length(), run.digest()), (written.length(), written.digest()));
        let probes: Vec<RowKey> = probes.into_iter().map(|(major, minor)| RowKey { major, minor }).collect();
        check(&run, &rows, &probes);
        let ranges = subject_ranges(&parts);
        prop_assert_eq!(run.subjects(), &ranges[..]);
    }
}
