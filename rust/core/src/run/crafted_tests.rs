//! Runs whose checks are all right but whose parts contradict each other, as a bug of a writer would leave
//! them.

use super::tests_storage::TestStorage;
use super::*;
use crate::error::{Error, Result};
use crate::record::{encode_record, seal_record};
use crate::units::{DueKey, Location, Millis, ReadyNumber, SegmentNumber, Sequence, SubjectNumber};

const STREAM: [u8; 16] = *b"one stream, 16 b";
const NUMBER: RunNumber = RunNumber(3);
const BLOCK: usize = 4_096;
const ROW: usize = 48;

/// Writes two rows of the first hour and one of the second, each with its payload in the run.
fn schedule_run(storage: &TestStorage) {
    let head = RunHead { number: NUMBER, stream: STREAM, row_count: 3 };
    let mut writer = RunWriter::create(storage, head).unwrap();
    let mut rows = Vec::new();
    for (due, sequence) in [(10_u64, 1_u64), (20, 2), (3_600_000, 3)] {
        let mut record = Vec::new();
        encode_record(&mut record, 1, 8, &[1; 24], &[&[9; 5]]);
        seal_record(&mut record, Sequence(sequence)).unwrap();
        let offset = writer.push_payload(&record).unwrap().unwrap();
        rows.push(ScheduleRow {
            key: DueKey { due: Millis(due), sequence: Sequence(sequence) },
            payload_sequence: Sequence(sequence),
            location: Location::in_run(NUMBER, offset),
            subject: SubjectNumber(7),
            attempt: 1,
            length: u32::from_le_bytes(*record.first_chunk().unwrap()),
            size: Some(9),
        });
    }
    for row in &rows {
        writer.push_row(row).unwrap();
    }
    writer.finish(storage).unwrap();
}

fn dispatch_run(storage: &TestStorage) {
    let head = RunHead { number: NUMBER, stream: STREAM, row_count: 3 };
    let mut writer = RunWriter::create(storage, head).unwrap();
    for (subject, number) in [(1, 0), (1, 1), (2, 5)] {
        let row = DispatchRow {
            subject: SubjectNumber(subject),
            number: ReadyNumber(number),
            attempt: 1,
            sequence: Sequence(10 + number),
            payload_sequence: Sequence(10 + number),
            location: Location::in_segment(SegmentNumber(1), 8),
            due: Millis(5),
        };
        writer.push_row(&row).unwrap();
    }
    writer.finish(storage).unwrap();
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().unwrap())
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The offset of the footer.
fn footer_of(bytes: &[u8]) -> usize {
    u64_at(bytes, bytes.len() - 40) as usize
}

/// Corrects the checks of the first block, the footer and the trailer.
fn seal(bytes: &mut [u8]) {
    let block = crc32fast::hash(&bytes[BLOCK + 4..2 * BLOCK]);
    put(bytes, BLOCK, &block.to_le_bytes());
    let (trailer, footer) = (bytes.len() - 40, footer_of(bytes));
    let check = crc32fast::hash(&bytes[footer.min(trailer)..trailer]);
    put(bytes, trailer + 16, &check.to_le_bytes());
    let check = crc32fast::hash(&bytes[trailer..trailer + 28]);
    put(bytes, trailer + 28, &check.to_le_bytes());
}

/// Changes a whole run and corrects its checks.
fn crafted(kind: RunKind, change: impl FnOnce(&mut Vec<u8>)) -> (TestStorage, Result<Run>) {
    let storage = TestStorage::default();
    match kind {
        RunKind::Schedule => schedule_run(&storage),
        RunKind::Dispatch => dispatch_run(&storage),
    }
    storage.edit(&run_path(NUMBER), |bytes| {
        change(bytes);
        seal(bytes);
    });
    let run = Run::open(&storage, NUMBER, kind, &STREAM);
    (storage, run)
}

/// The offsets and the expected values that verifying an open run reports.
fn expected_by_verify(run: &Run) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let mut report = |error| match error {
        Error::Corrupt { offset, expected, .. } | Error::DamagedPayload { offset, expected, .. } => {
            found.push((offset, expected));
        }
        other => panic!("{other}"),
    };
    match run.kind() {
        RunKind::Schedule => run.verify::<ScheduleRow>(&mut report),
        RunKind::Dispatch => run.verify::<DispatchRow>(&mut report),
    };
    found
}

const OTHER_FOOTER: &str = "a footer that agrees with the rows";

#[test]
fn nothing_is_reported_where_nothing_was_changed() {
    for kind in [RunKind::Schedule, RunKind::Dispatch] {
        let (_storage, run) = crafted(kind, |_| {});
        assert_eq!(expected_by_verify(&run.unwrap()), []);
    }
}

#[test]
fn a_footer_that_says_otherwise_than_its_rows_is_reported() {
    // The fields: the sequences, the first fence, a reference's rows, a bucket's rows, a subject's last
    // number.
    let fields: [(RunKind, usize); 9] = [
        (RunKind::Schedule, 48),
        (RunKind::Schedule, 56),
        (RunKind::Schedule, 80),
        (RunKind::Schedule, 96 + 8),
        (RunKind::Schedule, 112),
        (RunKind::Schedule, 112 + 8),
        (RunKind::Schedule, 112 + 16),
        (RunKind::Dispatch, 112 + 8),
        (RunKind::Dispatch, 112 + 24),
    ];
    for (kind, field) in fields {
        let (_storage, run) = crafted(kind, |bytes| {
            let at = footer_of(bytes) + field;
            bytes[at] ^= 1;
        });
        let run = run.unwrap();
        let end = run.payload_start() + run.payload_bytes();
        assert_eq!(expected_by_verify(&run), [(end, OTHER_FOOTER.to_owned())], "{kind:?} {field}");
    }
}

#[test]
fn rows_out_of_order_are_reported_with_their_block() {
    let (_storage, run) = crafted(RunKind::Dispatch, |bytes| {
        let first = BLOCK + 16;
        let rows = bytes[first..first + 2 * ROW].to_vec();
        put(bytes, first, &rows[ROW..]);
        put(bytes, first + ROW, &rows[..ROW]);
    });
    let run = run.unwrap();
    let found = expected_by_verify(&run);
    assert_eq!(found[0], (BLOCK as u64, "keys in order".to_owned()));
    assert_eq!(found[1].1, OTHER_FOOTER);
}

#[test]
fn payloads_that_do_not_follow_each_other_are_reported() {
    let location = |row: usize| BLOCK + 16 + row * ROW + 24;
    let (_storage, run) = crafted(RunKind::Schedule, |bytes| {
        let moved = u64_at(bytes, location(1)) + 8;
        put(bytes, location(1), &moved.to_le_bytes());
    });
    let run = run.unwrap();
    let start = run.payload_start();
    let found = expected_by_verify(&run);
    assert_eq!(found[0], (start + 56, format!("a payload at {}", start + 48)));
    // The next payload is in its old place, which does not follow the moved one.
    assert_eq!(found[1], (start + 96, format!("a payload at {}", start + 104)));
    // A row states a shorter length than its record, and a record is followed by bytes that are not zeros.
    let (_storage, run) = crafted(RunKind::Schedule, |bytes| bytes[location(0) + 16] -= 1);
    let found = expected_by_verify(&run.unwrap());
    assert_eq!(found[0], (start, "a record of 44 bytes and zeros behind it".to_owned()));
    let (_storage, run) = crafted(RunKind::Schedule, |bytes| bytes[2 * BLOCK + 46] = 7);
    let found = expected_by_verify(&run.unwrap());
    assert_eq!(found, [(start, "a record of 45 bytes and zeros behind it".to_owned())]);
}

#[test]
fn a_header_block_that_ends_early_is_reported() {
    let (storage, run) = crafted(RunKind::Dispatch, |_| {});
    let run = run.unwrap();
    storage.edit(&run_path(NUMBER), |bytes| bytes.truncate(5));
    let found = expected_by_verify(&run);
    assert_eq!(found[0], (5, "4e".to_owned()), "the magic's next letter");
    assert!(found.len() > 1);
}

#[test]
fn a_footer_whose_parts_do_not_fill_it_is_refused() {
    // The counts of fences, references, buckets and subjects, and the number of rows.
    for field in [64, 68, 72, 76] {
        for value in [0_u32, 9, u32::MAX] {
            let (_storage, run) = crafted(RunKind::Schedule, |bytes| {
                let at = footer_of(bytes) + field;
                put(bytes, at, &value.to_le_bytes());
            });
            match run {
                Err(Error::Corrupt { expected, .. }) => assert_eq!(expected, "a footer whose parts fit", "{field}"),
                other => panic!("{field} {value}: {other:?}"),
            }
        }
    }
    let (_storage, run) = crafted(RunKind::Schedule, |bytes| {
        let at = footer_of(bytes) + 24;
        put(bytes, at, &1_000_u64.to_le_bytes());
    });
    assert!(matches!(run, Err(Error::Corrupt { expected, .. }) if expected == "a footer whose parts fit"));
}

#[test]
fn numbers_that_no_file_or_subject_has_are_refused() {
    for (kind, field) in [(RunKind::Schedule, 96 + 4), (RunKind::Dispatch, 112 + 4)] {
        let (_storage, run) = crafted(kind, |bytes| {
            let at = footer_of(bytes) + field;
            bytes[at] = 1;
        });
        assert!(matches!(run, Err(Error::Corrupt { expected, .. }) if expected == "a footer whose parts fit"));
    }
}

#[test]
fn payloads_that_do_not_lie_between_rows_and_footer_are_refused() {
    for (field, value) in [(32, 0_u64), (32, 4_096), (40, 0), (40, u64::MAX)] {
        let (_storage, run) = crafted(RunKind::Schedule, |bytes| {
            let at = footer_of(bytes) + field;
            put(bytes, at, &value.to_le_bytes());
        });
        match run {
            Err(Error::Corrupt { expected, .. }) => assert!(expected.starts_with("payloads from 8192"), "{expected}"),
            other => panic!("{field}: {other:?}"),
        }
    }
}

#[test]
fn a_trailer_that_names_another_place_is_refused() {
    for (at, value) in [(0, 0_u64), (0, u64::MAX), (8, 0), (8, u64::MAX)] {
        let (_storage, run) = crafted(RunKind::Schedule, |bytes| {
            let trailer = bytes.len() - 40;
            put(bytes, trailer + at, &value.to_le_bytes());
        });
        match run {
            Err(Error::Corrupt { expected, .. }) => {
                assert!(expected.starts_with("a footer that ends at"), "{expected}");
            }
            other => panic!("{at} {value}: {other:?}"),
        }
    }
}

#[test]
fn a_block_of_another_place_or_size_is_damaged() {
    // The block's count, row size, index and run.
    for field in [4, 6, 8, 12] {
        let (_storage, run) = crafted(RunKind::Dispatch, |bytes| bytes[BLOCK + field] ^= 1);
        let run = run.unwrap();
        let found = expected_by_verify(&run);
        assert_eq!(found.len(), 1, "{field}: {found:?}");
        assert!(found[0].1.starts_with("run, block, rows, row bytes"), "{found:?}");
    }
}
