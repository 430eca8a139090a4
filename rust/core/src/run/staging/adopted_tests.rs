//! An adopted staged run reads like the run that the store would have written itself.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::error::Error;
use crate::record::message::{Message, Meta, encode_message, encode_meta};
use crate::record::seal_record;
use crate::run::tests_storage::TestStorage;
use crate::run::{
    Cell, RUN_FOLDER, Row, RowKey, RowScan, Run, RunHead, RunKind, RunWriter, ScanBuffer, ScheduleRow, run_path,
};
use crate::storage::Storage;
use crate::units::{DueKey, Location, RunNumber, Sequence, SubjectNumber};

const DUE: u64 = 1_700_000_000_000;
const STREAM: [u8; 16] = *b"one stream, 16 b";
const NUMBER: RunNumber = RunNumber(41);
const PUBLISHED: Millis = Millis(DUE - 5);

#[derive(Clone, Debug)]
struct Given {
    due: Millis,
    subject: usize,
    meta: Vec<u8>,
    body: Vec<u8>,
}

/// The order of the names differs from that of the numbers.
const SUBJECTS: [(&str, u32); 5] = [("e", 9), ("d", 2), ("c", 700), ("b", 31), ("a", 30)];

fn number_of(name: &str) -> Option<SubjectNumber> {
    SUBJECTS.iter().find(|(other, _)| *other == name).map(|(_, number)| SubjectNumber(*number))
}

fn stage(storage: &TestStorage, rows: &[Given]) -> StagedRun {
    let name = LoadName { staged: Millis(DUE), nonce: [5; 16] };
    let mut stager = Stager::new(storage, StagingLimits::until(Millis(u64::MAX)), move || name);
    for row in rows {
        let subject = SUBJECTS[row.subject].0;
        stager
            .push(&StagedMessage { due: row.due, subject, meta: &row.meta, body: &row.body, expiry: None })
            .unwrap()
            .unwrap();
    }
    stager.finish().unwrap()[0]
}

fn adopt(storage: &TestStorage, named: &StagedRun, base: u64) -> Run {
    Run::open_adopted(storage, named, (NUMBER, &STREAM), (Sequence(base), PUBLISHED), &number_of).unwrap()
}

/// Writes the run that the store itself would write if these messages came through the log, from `base` on.
fn written(storage: &TestStorage, rows: &[Given], base: u64) -> Run {
    let mut sorted = rows.to_vec();
    sorted.sort_by_key(|row| row.due);
    let head = RunHead { number: NUMBER, stream: STREAM, row_count: rows.len() as u64 };
    let mut writer = RunWriter::create(storage, head).unwrap();
    let mut lines = Vec::new();
    for (row, sequence) in sorted.iter().zip(base..) {
        let (sequence, subject) = (Sequence(sequence), SubjectNumber(SUBJECTS[row.subject].1));
        let (mut record, published) = (Vec::new(), PUBLISHED);
        let (meta, body) = (row.meta.as_slice(), row.body.as_slice());
        encode_message(
            &mut record,
            &Message { due: row.due, published, subject, opaque: true, expiry: None, meta, body },
        );
        seal_record(&mut record, sequence).unwrap();
        let offset = writer.push_payload(&record).unwrap().unwrap();
        lines.push(ScheduleRow {
            key: DueKey { due: row.due, sequence },
            payload_sequence: sequence,
            location: Location::in_run(NUMBER, offset),
            subject,
            attempt: 1,
            length: u32::from_le_bytes(*record.first_chunk().unwrap()),
            size: Some(row.body.len() as u32),
        });
    }
    for line in &lines {
        writer.push_row(line).unwrap();
    }
    writer.finish(storage).unwrap()
}

fn rows_from(run: &Run, key: RowKey) -> Vec<ScheduleRow> {
    let mut buffer = ScanBuffer::default();
    let mut scan = RowScan::from_key(run, key, None, &mut buffer).unwrap();
    std::iter::from_fn(|| scan.next_row().unwrap()).collect()
}

fn cells(run: &Run, subject: Option<u32>) -> BTreeMap<(u32, u32), Cell> {
    let mut found = BTreeMap::new();
    run.each_cell(subject.map(SubjectNumber), &mut |cell| {
        assert!(found.insert((cell.subject.0, cell.minute.0), cell).is_none());
    })
    .unwrap();
    found
}

fn record(run: &Run, row: &ScheduleRow) -> Vec<u8> {
    let mut bytes = Vec::new();
    let offset = u64::from(row.location.offset());
    run.read_payload(offset, row.payload_sequence, Some(row.length), &mut bytes).unwrap();
    bytes
}

fn findings(run: &Run) -> Vec<Error> {
    let mut found = Vec::new();
    run.verify::<ScheduleRow>(&mut |error| found.push(error));
    found
}

fn given() -> impl Strategy<Value = Vec<Given>> {
    let meta = prop_oneof![
        3 => Just(Vec::new()),
        1 => "[a-z]{1,9}".prop_map(|message_id| encode_meta(&Meta { message_id, ..Meta::default() }).unwrap()),
    ];
    let row = (0..90_u64, 0..SUBJECTS.len(), meta, proptest::collection::vec(any::<u8>(), 0..30));
    let row = row.prop_map(|(due, subject, meta, body)| Given { due: Millis(DUE + due * 7_777), subject, meta, body });
    proptest::collection::vec(row, 1..900)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn an_adopted_run_is_the_one_that_the_store_would_have_written(
        rows in given(), base in 1_u64..1 << 40, from in 0_usize..900
    ) {
        let storage = TestStorage::default();
        let named = stage(&storage, &rows);
        let (adopted, own) = (adopt(&storage, &named, base), written(&storage, &rows, base));
        prop_assert_eq!((adopted.number(), adopted.kind(), adopted.stream()), (NUMBER, RunKind::Schedule, STREAM));
        prop_assert_eq!(adopted.row_count(), own.row_count());
        prop_assert_eq!(adopted.first_sequence(), own.first_sequence());
        prop_assert_eq!(adopted.last_sequence(), own.last_sequence());
        prop_assert_eq!(adopted.references(), own.references());
        prop_assert_eq!(adopted.first_key(), own.first_key());
        prop_assert!(adopted.fenced().eq(own.fenced()));
        prop_assert_eq!(adopted.time_buckets().unwrap(), own.time_buckets().unwrap());
        prop_assert_eq!((adopted.payload_start(), adopted.payload_bytes()), (own.payload_start(), own.payload_bytes()));
        let all = rows_from(&own, RowKey::default());
        let key = all[from % all.len()].key();
        for key in [RowKey::default(), key, RowKey { minor: key.minor + 1, ..key }] {
            prop_assert_eq!(rows_from(&adopted, key), rows_from(&own, key));
        }
        for subject in SUBJECTS.iter().map(|(_, number)| Some(*number)).chain([None, Some(1), Some(701)]) {
            prop_assert_eq!(cells(&adopted, subject), cells(&own, subject));
        }
        for row in &all {
            prop_assert_eq!(record(&adopted, row), record(&own, row));
        }
        prop_assert_eq!(findings(&adopted), []);
    }
}

fn three() -> [Given; 3] {
    [0, 1, 1].map(|subject| Given { due: Millis(DUE), subject, meta: Vec::new(), body: vec![7; 9] })
}

#[test]
fn a_record_of_an_adopted_run_is_no_other_one() {
    let storage = TestStorage::default();
    let run = adopt(&storage, &stage(&storage, &three()), 1_000);
    let rows = rows_from(&run, RowKey::default());
    let mut bytes = Vec::new();
    for sequence in [0, 1, 999, 1_001, 1_002] {
        let read = run.read_payload(u64::from(rows[0].location.offset()), Sequence(sequence), None, &mut bytes);
        // A sequence below the base has no record in the file, and is not taken for the first one.
        assert!(matches!(read, Err(Error::DamagedPayload { .. })), "{sequence}: {read:?}");
    }
}

#[test]
fn what_is_adopted_is_what_was_named_and_has_known_subjects() {
    let storage = TestStorage::default();
    let named = stage(&storage, &three());
    let open = |named: &StagedRun, number_of: &dyn Fn(&str) -> Option<SubjectNumber>| {
        Run::open_adopted(&storage, named, (NUMBER, &STREAM), (Sequence(1), PUBLISHED), number_of)
    };
    for other in [
        StagedRun { length: named.length + 1, ..named },
        StagedRun { digest: named.digest ^ 1, ..named },
        StagedRun { rows: 4, ..named },
    ] {
        assert!(matches!(open(&other, &number_of), Err(Error::Corrupt { .. })));
    }
    let known = |name: &str| number_of(name).filter(|number| *number != SubjectNumber(2));
    let unknown = open(&named, &known).unwrap_err().to_string();
    assert!(unknown.contains("subjects that are known") && unknown.contains('d'), "{unknown}");
    open(&named, &number_of).unwrap();
}

#[test]
fn damage_of_an_adopted_run_is_told_where_it_is() {
    let storage = TestStorage::default();
    let named = stage(&storage, &three());
    for (offset, what) in [(0, "header"), (4_096 + 100, "block"), (8_192 + 50, "payload")] {
        storage.edit(&named.name.path(), |bytes| bytes[offset] ^= 4);
        let found = findings(&adopt(&storage, &named, 77));
        assert!(!found.is_empty() && found[0].to_string().contains(&named.name.path()), "{what}: {found:?}");
        storage.edit(&named.name.path(), |bytes| bytes[offset] ^= 4);
    }
    assert_eq!(findings(&adopt(&storage, &named, 77)), []);
}

#[test]
fn a_staged_run_is_no_run_of_a_store_until_it_is_adopted() {
    let storage = TestStorage::default();
    let named = stage(&storage, &three());
    storage.rename(&named.name.path(), &run_path(RunNumber(0))).unwrap();
    assert!(storage.list(RUN_FOLDER).unwrap().len() == 1);
    for stream in [&STREAM, &named.name.nonce] {
        let opened = Run::open(&storage, RunNumber(0), RunKind::Schedule, stream);
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
        assert!(matches!(Run::open_any(&storage, RunNumber(0), stream), Err(Error::Corrupt { .. })));
    }
}
