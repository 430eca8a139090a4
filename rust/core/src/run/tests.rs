use proptest::prelude::*;

use super::tests_storage::TestStorage;
use super::*;
use crate::error::{Error, Result};
use crate::record::{encode_record, seal_record};
use crate::storage::Storage;
use crate::units::{DueKey, Location, LocationFile, Millis, ReadyNumber, SegmentNumber, Sequence, SubjectNumber};

const STREAM: [u8; 16] = *b"one stream, 16 b";
const NUMBER: RunNumber = RunNumber(3);

fn schedule_row(due: u64, sequence: u64) -> ScheduleRow {
    ScheduleRow {
        key: DueKey { due: Millis(due), sequence: Sequence(sequence) },
        payload_sequence: Sequence(sequence / 2),
        location: Location::in_segment(SegmentNumber(1 + (sequence % 3) as u32), 4_096),
        subject: SubjectNumber(7),
        attempt: 2,
        length: 0,
        size: Some((sequence % 5) as u32),
    }
}

fn dispatch_row(subject: u32, number: u64) -> DispatchRow {
    DispatchRow {
        subject: SubjectNumber(subject),
        number: ReadyNumber(number),
        attempt: 1,
        sequence: Sequence(1_000 - number),
        payload_sequence: Sequence(1_000 - number),
        location: Location::in_segment(SegmentNumber(1), 8),
        due: Millis(5),
    }
}

fn record(sequence: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_record(&mut bytes, 1, 8, &[1; 24], &[payload]);
    seal_record(&mut bytes, Sequence(sequence)).unwrap();
    bytes
}

fn write<R: Row>(storage: &TestStorage, rows: &[R]) -> Result<Run> {
    let head = RunHead { number: NUMBER, stream: STREAM, row_count: rows.len() as u64 };
    let mut writer = RunWriter::create(storage, head)?;
    for row in rows {
        writer.push_row(row)?;
    }
    writer.finish(storage)
}

/// Writes a run in which every other row has its payload.
fn write_with_payloads(storage: &TestStorage, rows: &mut [ScheduleRow]) -> Run {
    let head = RunHead { number: NUMBER, stream: STREAM, row_count: rows.len() as u64 };
    let mut writer = RunWriter::create(storage, head).unwrap();
    for row in rows.iter_mut().step_by(2) {
        let bytes = record(row.payload_sequence.0, &vec![9; row.key.sequence.0 as usize % 40]);
        let offset = writer.push_payload(&bytes).unwrap().unwrap();
        row.location = Location::in_run(NUMBER, offset);
        row.length = u32::from_le_bytes(*bytes.first_chunk().unwrap());
    }
    for row in &*rows {
        writer.push_row(row).unwrap();
    }
    writer.sync().unwrap();
    writer.finish(storage).unwrap()
}

fn read_all<R: Row>(run: &Run, from: RowKey) -> Vec<R> {
    let mut buffer = ScanBuffer::default();
    let mut scan = RowScan::from_key(run, from, None, &mut buffer).unwrap();
    std::iter::from_fn(|| scan.next_row().unwrap()).collect()
}

fn faults(run: &Run) -> Vec<Error> {
    let mut found = Vec::new();
    run.verify::<ScheduleRow>(&mut |error| found.push(error));
    found
}

#[test]
fn rows_read_back_from_any_key_on() {
    let storage = TestStorage::default();
    let rows: Vec<ScheduleRow> = (0..3_000).map(|at| schedule_row(1_000 + at / 7, at)).collect();
    let written = write(&storage, &rows).unwrap();
    assert_eq!(written.block_count(), 36);
    let run = Run::open(&storage, NUMBER, RunKind::Schedule, &STREAM).unwrap();
    assert_eq!((run.length(), run.digest()), (written.length(), written.digest()));
    assert_eq!(read_all::<ScheduleRow>(&run, RowKey::default()), rows);
    for from in [0, 1, 84, 85, 86, 339, 340, 341, 1_500, 2_999] {
        assert_eq!(read_all::<ScheduleRow>(&run, rows[from].key()), rows[from..]);
        let above = RowKey { minor: rows[from].key.sequence.0 + 1, ..rows[from].key() };
        assert_eq!(read_all::<ScheduleRow>(&run, above), rows[from + 1..], "{from}");
    }
    assert_eq!(read_all::<ScheduleRow>(&run, RowKey { major: u64::MAX, minor: 0 }), []);
    assert_eq!((run.first_sequence(), run.last_sequence()), (Sequence(0), Sequence(2_999)));
    let references: Vec<(LocationFile, u64)> =
        run.references().iter().map(|reference| (reference.file, reference.rows)).collect();
    let segment = |number| LocationFile::Segment(SegmentNumber(number));
    assert_eq!(references, [(segment(1), 1_000), (segment(2), 1_000), (segment(3), 1_000)]);
    assert!(run.memory_bytes() < 700, "{}", run.memory_bytes());
    assert_eq!(faults(&run), []);
}

#[test]
fn a_dispatch_run_says_what_it_holds_of_each_subject() {
    let storage = TestStorage::default();
    let mut rows: Vec<DispatchRow> = (0..200).map(|number| dispatch_row(2, number)).collect();
    rows.extend((50..53).map(|number| dispatch_row(9, number)));
    let run = write(&storage, &rows).unwrap();
    let range = |subject, rows, first, last| SubjectRange {
        subject: SubjectNumber(subject),
        rows,
        first: ReadyNumber(first),
        last: ReadyNumber(last),
    };
    assert_eq!(run.subjects(), [range(2, 200, 0, 199), range(9, 3, 50, 52)]);
    assert_eq!((run.first_sequence(), run.last_sequence()), (Sequence(801), Sequence(1_000)));
    assert_eq!(read_all::<DispatchRow>(&run, RowKey::ready(SubjectNumber(9), ReadyNumber(51))), rows[201..]);
    assert_eq!(run.time_buckets().unwrap(), []);
    let mut found = Vec::new();
    assert_eq!(run.verify::<DispatchRow>(&mut |error| found.push(error)), 203);
    assert_eq!(found, []);
}

#[test]
fn time_buckets_count_rows_and_bytes_by_the_hour() {
    let storage = TestStorage::default();
    let mut rows = vec![schedule_row(10, 1), schedule_row(3_599_999, 3), schedule_row(3_600_000, 5)];
    let run = write_with_payloads(&storage, &mut rows);
    let buckets = run.time_buckets().unwrap();
    let bucket = |start, rows, payload_bytes| TimeBucket { start: Millis(start), rows, payload_bytes };
    assert_eq!(buckets, [bucket(0, 2, 41), bucket(3_600_000, 1, 45)]);
    assert_eq!(run.payload_bytes(), 48 + 48);
    assert_eq!(faults(&run), []);
}

#[test]
fn rows_out_of_order_or_number_are_refused() {
    let storage = TestStorage::default();
    let refused = |result: Result<Run>| matches!(result, Err(Error::InvalidArgument { .. }));
    assert!(refused(write(&storage, &[schedule_row(5, 1), schedule_row(5, 1)])));
    assert!(refused(write(&storage, &[schedule_row(5, 1), schedule_row(4, 2)])));
    let head = RunHead { number: NUMBER, stream: STREAM, row_count: 2 };
    let mut writer = RunWriter::create(&storage, head).unwrap();
    writer.push_row(&schedule_row(1, 1)).unwrap();
    assert!(refused(writer.finish(&storage)));
    let missing = Run::open(&storage, NUMBER, RunKind::Schedule, &STREAM);
    assert!(matches!(missing, Err(Error::MissingFile { .. })), "nothing has the run's name before it is whole");
}

#[test]
fn a_run_of_another_kind_number_or_stream_is_refused() {
    let storage = TestStorage::default();
    write(&storage, &[schedule_row(5, 1)]).unwrap();
    assert!(matches!(Run::open(&storage, NUMBER, RunKind::Dispatch, &STREAM), Err(Error::Corrupt { .. })));
    assert!(matches!(Run::open(&storage, NUMBER, RunKind::Schedule, &[0; 16]), Err(Error::Corrupt { .. })));
    storage.rename(&run_path(NUMBER), &run_path(RunNumber(4))).unwrap();
    assert!(matches!(Run::open(&storage, RunNumber(4), RunKind::Schedule, &STREAM), Err(Error::Corrupt { .. })));
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let storage = TestStorage::default();
    write(&storage, &[schedule_row(5, 1)]).unwrap();
    storage.edit(&run_path(NUMBER), |bytes| {
        let trailer = bytes.len() - 40;
        bytes[trailer + 24] += 1;
        let check = crc32fast::hash(&bytes[trailer..trailer + 28]);
        bytes[trailer + 28..trailer + 32].copy_from_slice(&check.to_le_bytes());
    });
    let refused = Run::open(&storage, NUMBER, RunKind::Schedule, &STREAM);
    assert!(matches!(refused, Err(Error::NewerFormat { found: 2, supported: 1, .. })), "{refused:?}");
}

#[test]
fn a_damaged_block_costs_its_own_rows_only() {
    let storage = TestStorage::default();
    let rows: Vec<ScheduleRow> = (0..1_000).map(|at| schedule_row(at, at)).collect();
    let run = write(&storage, &rows).unwrap();
    storage.edit(&run_path(NUMBER), |bytes| bytes[4_096 * 6 + 100] ^= 1);
    let mut buffer = ScanBuffer::default();
    let mut scan = RowScan::<ScheduleRow>::from_key(&run, rows[340].key(), None, &mut buffer).unwrap();
    let mut read = Vec::new();
    let damaged = loop {
        match scan.next_row() {
            Ok(row) => read.extend(row),
            Err(damaged) => break damaged,
        }
    };
    assert_eq!(read, rows[340..425]);
    assert_eq!((damaged.run, damaged.block), (NUMBER, 5));
    assert_eq!((damaged.from, damaged.to), (rows[340].key(), Some(rows[680].key())));
    assert!(matches!(damaged.error, Error::Corrupt { offset: 24_576, .. }), "{}", damaged.error);
    assert!(scan.peek().is_err());
    scan.skip_block();
    assert_eq!(scan.next_row().unwrap(), Some(rows[510]));
    let patches = Patches::from([(5, rows[425..427].to_vec())]);
    let mut scan = RowScan::from_key(&run, rows[424].key(), Some(&patches), &mut buffer).unwrap();
    let patched: Vec<ScheduleRow> = std::iter::from_fn(|| scan.next_row().unwrap()).take(4).collect();
    assert_eq!(patched, [rows[424], rows[425], rows[426], rows[510]]);
    assert_eq!(faults(&run).len(), 1);
}

/// The check that finds a flipped bit, counted.
#[derive(Default, Debug)]
struct Found {
    opening: usize,
    rows: usize,
    payload: usize,
    verify_only: Vec<usize>,
}

#[test]
fn every_flipped_bit_of_a_small_run_is_found() {
    let storage = TestStorage::default();
    let mut rows: Vec<ScheduleRow> = (0..24).map(|at| schedule_row(1_000 + at, at)).collect();
    write_with_payloads(&storage, &mut rows);
    let path = run_path(NUMBER);
    let good = storage.bytes(&path);
    let opened = Run::open(&storage, NUMBER, RunKind::Schedule, &STREAM).unwrap();
    let cells_start = opened.cells_start() as usize;
    let mut found = Found::default();
    let mut record = Vec::new();
    let mut buffer = ScanBuffer::default();
    let bits = (0..good.len() * 8).filter(|bit| bit / 8 >= 4_096 || bit % 61 == 0);
    let mut tried = 0;
    for bit in bits {
        tried += 1;
        storage.edit(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        match Run::open(&storage, NUMBER, RunKind::Schedule, &STREAM) {
            Err(Error::Corrupt { .. } | Error::NewerFormat { .. }) => found.opening += 1,
            Err(other) => panic!("bit {bit}: {other}"),
            Ok(run) => {
                let mut scan = RowScan::<ScheduleRow>::from_block(&run, 0, None, &mut buffer);
                let scanned = std::iter::from_fn(|| scan.next_row().transpose()).take(24).any(|row| row.is_err());
                let payload_fails = !scanned
                    && rows.iter().step_by(2).any(|row| {
                        let offset = u64::from(row.location.offset());
                        read_payload(run.file().as_ref(), offset, row.payload_sequence, Some(row.length), &mut record)
                            .is_err()
                    });
                assert!(scanned || !faults(&run).is_empty(), "bit {bit} is not found by verify");
                if scanned {
                    found.rows += 1;
                } else if payload_fails {
                    found.payload += 1;
                } else {
                    found.verify_only.push(bit / 8);
                }
            }
        }
        storage.edit(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
    }
    // Readers of rows ignore these bits, and a verification reports them: those of the header block, which is
    // not read, of the zeros after a payload record, and of the cells, which are replaced by counting rows.
    let padding = |at: usize| {
        rows.iter().step_by(2).any(|row| {
            let end = row.location.offset() as usize + row.length as usize;
            (end..end.next_multiple_of(8)).contains(&at)
        })
    };
    let in_cells = |at: usize| (cells_start..cells_start + 4_096).contains(&at);
    assert!(found.verify_only.iter().all(|at| *at < 4_096 || padding(*at) || in_cells(*at)), "{:?}", found.verify_only);
    let total = found.opening + found.rows + found.payload + found.verify_only.len();
    assert_eq!(total, tried);
    assert!(found.opening > 1_000 && found.rows > 30_000 && found.payload > 3_000, "{found:?}");
}

#[test]
fn every_shorter_file_is_refused() {
    let storage = TestStorage::default();
    write(&storage, &[schedule_row(5, 1)]).unwrap();
    let path = run_path(NUMBER);
    for _ in 0..200 {
        storage.edit(&path, |bytes| bytes.truncate(bytes.len() - 1));
        let refused = Run::open(&storage, NUMBER, RunKind::Schedule, &STREAM);
        assert!(matches!(refused, Err(Error::Corrupt { .. })));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_run_gives_back_what_was_written(
        mut keys in prop::collection::btree_set((0_u64..400, 0_u64..5_000), 1..900),
        probes in prop::collection::vec((0_u64..410, 0_u64..5_000), 20),
    ) {
        keys.insert((7, 7));
        let storage = TestStorage::default();
        let mut rows: Vec<ScheduleRow> = keys.iter().map(|(due, sequence)| schedule_row(*due, *sequence)).collect();
        let run = write_with_payloads(&storage, &mut rows);
        prop_assert_eq!(read_all::<ScheduleRow>(&run, RowKey::default()), rows.clone());
        let mut buffer = ScanBuffer::<ScheduleRow>::default();
        for (major, minor) in probes {
            let key = RowKey { major, minor };
            let above = rows.partition_point(|row| row.key() < key);
            prop_assert_eq!(read_all::<ScheduleRow>(&run, key), rows[above..].to_vec());
            let mut group = Vec::new();
            run.read_group(key, None, &mut buffer, &mut group).unwrap();
            let found: Option<&ScheduleRow> = group.iter().find(|row| row.key() == key);
            prop_assert_eq!(found, rows.get(above).filter(|row| row.key() == key));
        }
        prop_assert_eq!(faults(&run), vec![]);
    }
}
