use proptest::prelude::*;

use super::*;
use crate::error::Error;
use crate::record::limits::BODY_BYTES_MAX;
use crate::record::message::{Message, Meta, decode_message, encode_message, encode_meta};
use crate::record::seal_record;
use crate::run::tests_storage::TestStorage;
use crate::run::{RowScan, Run, RunWriter, ScanBuffer, ScheduleRow, read_payload};
use crate::storage::Storage;
use crate::units::{DueKey, Location, RunNumber, Sequence, SubjectNumber};

const DUE: u64 = 1_700_000_000_000;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Given {
    due: u64,
    subject: String,
    meta: Vec<u8>,
    body: Vec<u8>,
}

impl Given {
    fn message(&self) -> StagedMessage<'_> {
        StagedMessage {
            due: Millis(self.due),
            subject: &self.subject,
            meta: &self.meta,
            body: &self.body,
            expiry: None,
        }
    }
}

fn given(due: u64, subject: &str, body: &[u8]) -> Given {
    Given { due, subject: subject.to_owned(), meta: Vec::new(), body: body.to_vec() }
}

fn names() -> impl FnMut() -> LoadName {
    let mut next = 0_u128;
    move || {
        next += 1;
        LoadName { staged: Millis(DUE), nonce: next.to_le_bytes() }
    }
}

fn stage(storage: &dyn Storage, limits: StagingLimits, rows: &[Given]) -> Vec<StagedRun> {
    let mut stager = Stager::new(storage, limits, names());
    for row in rows {
        stager.push(&row.message()).unwrap().unwrap();
    }
    stager.finish().unwrap()
}

fn no_limits() -> StagingLimits {
    StagingLimits::until(Millis(u64::MAX))
}

/// All messages of a checked staged run, in its order.
fn messages(staged: &Staged) -> Vec<Given> {
    let (run, mut found) = (&staged.run, Vec::new());
    let mut buffer = ScanBuffer::default();
    let mut scan = RowScan::<ScheduleRow>::from_block(run, 0, None, &mut buffer);
    let mut bytes = Vec::new();
    while let Some(row) = scan.next_row().unwrap() {
        let offset = u64::from(row.location.offset());
        read_payload(run.file().as_ref(), offset, row.payload_sequence, Some(row.length), &mut bytes).unwrap();
        let record = crate::record::header::read_record(&bytes, row.payload_sequence).unwrap();
        let message = decode_message(&record).unwrap();
        found.push(Given {
            due: row.key.due.0,
            subject: staged.subjects()[row.subject.0 as usize - 1].clone(),
            meta: message.meta.to_vec(),
            body: message.body.to_vec(),
        });
    }
    found
}

fn rows() -> impl Strategy<Value = Vec<Given>> {
    let meta = prop_oneof![
        3 => Just(Vec::new()),
        1 => "[a-z]{1,9}".prop_map(|message_id| encode_meta(&Meta { message_id, ..Meta::default() }).unwrap()),
    ];
    let row = (0..40_u64, 0..6_u32, meta, proptest::collection::vec(any::<u8>(), 0..90));
    let row = row.prop_map(|(due, subject, meta, body)| Given {
        due: DUE + due * 7_777,
        subject: format!("subject-{subject}"),
        meta,
        body,
    });
    proptest::collection::vec(row, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every given message is staged once, in files that are each sorted and follow each other in the order
    /// of arrival.
    #[test]
    fn what_is_given_is_staged_sorted_and_whole(
        rows in rows(), rows_max in 1_u32..300, names_max in 1_u32..7, record_bytes_max in 0_u32..9_000
    ) {
        let storage = TestStorage::default();
        let limits = StagingLimits { rows_max, names_max, record_bytes_max, ..no_limits() };
        let mut left = rows.as_slice();
        for named in stage(&storage, limits, &rows) {
            let staged = check_staged(&storage, &named).unwrap();
            prop_assert!(named.rows <= u64::from(rows_max) && staged.subjects().len() <= names_max as usize);
            prop_assert!(staged.run.payload_bytes() <= u64::from(record_bytes_max) || named.rows == 1);
            let (here, rest) = left.split_at(named.rows as usize);
            let mut sorted = here.to_vec();
            sorted.sort_by_key(|row| row.due);
            prop_assert_eq!((staged.first_due.0, staged.last_due.0), (sorted[0].due, sorted[sorted.len() - 1].due));
            prop_assert_eq!(messages(&staged), sorted);
            left = rest;
        }
        prop_assert!(left.is_empty());
    }
}

#[test]
fn what_is_no_message_is_refused_by_row_and_column_and_the_others_go_on() {
    let storage = TestStorage::default();
    let mut stager = Stager::new(&storage, StagingLimits::until(Millis(DUE + 9)), names());
    let large = vec![0; BODY_BYTES_MAX + 1];
    let long_id = encode_meta(&Meta { message_id: "i".repeat(101), ..Meta::default() }).unwrap();
    let bad = [
        ("subject", given(DUE, "", b"")),
        ("subject", given(DUE, "a b", b"")),
        ("subject", given(DUE, "%RETRY%a%b", b"")),
        ("body", given(DUE, "a", &large)),
        ("message_id", Given { meta: long_id, ..given(DUE, "a", b"") }),
        ("meta", Given { meta: vec![7], ..given(DUE, "a", b"") }),
        ("due", given(DUE + 10, "a", b"")),
    ];
    for (place, (column, row)) in bad.iter().enumerate() {
        stager.push(&given(DUE + place as u64, "a", b"good").message()).unwrap().unwrap();
        let refused = stager.push(&row.message()).unwrap().unwrap_err();
        assert_eq!(refused.row, place as u64 * 2 + 1);
        let (Error::InvalidArgument { argument, .. } | Error::TooLarge { argument, .. }) = refused.error else {
            panic!("{refused:?}");
        };
        assert_eq!(argument, *column);
    }
    let written = stager.finish().unwrap();
    assert_eq!(written.iter().map(|run| run.rows).collect::<Vec<_>>(), [bad.len() as u64]);
    assert!(messages(&check_staged(&storage, &written[0]).unwrap()).iter().all(|row| row.body == b"good"));
}

#[test]
fn what_is_given_up_leaves_no_file() {
    let storage = TestStorage::default();
    let mut stager = Stager::new(&storage, StagingLimits { rows_max: 2, ..no_limits() }, names());
    assert_eq!(stager.finish().unwrap(), [], "nothing was given, and nothing is written");
    for due in 0..7 {
        stager.push(&given(due, "a", b"").message()).unwrap().unwrap();
    }
    assert_eq!(storage.list(LOAD_FOLDER).unwrap().len(), 3);
    stager.abandon().unwrap();
    assert_eq!(storage.list(LOAD_FOLDER).unwrap(), Vec::<String>::new());
}

#[test]
fn each_changed_byte_of_a_staged_run_is_found() {
    let storage = TestStorage::default();
    let rows = [given(DUE + 5, "a", b"one"), given(DUE, "b", b"another"), given(DUE + 90_000, "a", b"")];
    let named = stage(&storage, no_limits(), &rows)[0];
    let path = named.name.path();
    check_staged(&storage, &named).unwrap();
    for at in 0..named.length as usize {
        storage.edit(&path, |bytes| bytes[at] ^= 1 << (at % 8));
        assert!(check_staged(&storage, &named).is_err(), "byte {at}");
        storage.edit(&path, |bytes| bytes[at] ^= 1 << (at % 8));
    }
    for length in [0, 100, named.length as usize - 1] {
        let whole = storage.bytes(&path);
        storage.edit(&path, |bytes| bytes.truncate(length));
        assert!(check_staged(&storage, &named).is_err(), "{length} bytes");
        storage.edit(&path, |bytes| *bytes = whole);
    }
    check_staged(&storage, &named).unwrap();
}

/// Two attempts of one job, whose rows differ only in a body.
#[test]
fn a_file_of_the_same_shape_has_another_digest() {
    let storage = TestStorage::default();
    let staged = |nonce: u8, body: &[u8]| {
        let name = LoadName { staged: Millis(DUE), nonce: [nonce; 16] };
        let mut stager = Stager::new(&storage, no_limits(), move || name);
        stager.push(&given(DUE, "a", body).message()).unwrap().unwrap();
        stager.finish().unwrap()[0]
    };
    let first = staged(1, b"first");
    let bytes = storage.bytes(&first.name.path());
    storage.remove(&first.name.path()).unwrap();
    let other = staged(1, b"other");
    assert_eq!((first.name, first.length, first.rows), (other.name, other.length, other.rows));
    assert_ne!(first.digest, other.digest);
    let found = check_staged(&storage, &first).unwrap_err();
    assert!(matches!(found, Error::Corrupt { offset: 0, .. }), "{found}");
    storage.edit(&first.name.path(), |now| *now = bytes.clone());
    check_staged(&storage, &first).unwrap();
    let missing = StagedRun { name: LoadName { staged: Millis(1), ..first.name }, ..first };
    assert!(matches!(check_staged(&storage, &missing), Err(Error::MissingFile { .. })));
    // A file with another file's name is not that file.
    let renamed = StagedRun { name: LoadName { nonce: [2; 16], ..first.name }, ..first };
    storage.rename(&first.name.path(), &renamed.name.path()).unwrap();
    assert!(matches!(check_staged(&storage, &renamed), Err(Error::Corrupt { .. })));
}

/// One valid row, which is changed before it is written with correct checks.
struct Crafted {
    row: ScheduleRow,
    message: Given,
    published: u64,
    record_subject: u32,
    opaque: bool,
    names: Vec<String>,
}

impl Crafted {
    fn new() -> Self {
        Self {
            row: ScheduleRow {
                key: DueKey { due: Millis(DUE), sequence: Sequence(0) },
                payload_sequence: Sequence(0),
                location: Location::NOWHERE,
                subject: SubjectNumber(1),
                attempt: 1,
                length: 0,
                size: Some(4),
            },
            message: given(DUE, "a", b"body"),
            published: 0,
            record_subject: 1,
            opaque: true,
            names: vec!["a".to_owned()],
        }
    }

    /// The fault that checking reports.
    fn fault(mut self) -> Option<String> {
        let storage = TestStorage::default();
        let name = LoadName { staged: Millis(DUE), nonce: [3; 16] };
        let mut record = Vec::new();
        let message = Message {
            due: Millis(self.message.due),
            published: Millis(self.published),
            subject: SubjectNumber(self.record_subject),
            opaque: self.opaque,
            expiry: None,
            meta: &self.message.meta,
            body: &self.message.body,
        };
        encode_message(&mut record, &message);
        self.row.length = u32::from_le_bytes(*record.first_chunk().unwrap());
        seal_record(&mut record, self.row.payload_sequence).unwrap();
        let mut writer = RunWriter::<ScheduleRow>::create_staged(&storage, &name, 1).unwrap();
        let offset = writer.push_payload(&record).unwrap().unwrap();
        if self.row.location == Location::NOWHERE {
            self.row.location = Location::in_run(RunNumber(0), offset);
        }
        writer.push_row(&self.row).unwrap();
        let run: Run = writer.finish_staged(&storage, &name, self.names).unwrap();
        let named = StagedRun { name, length: run.length(), digest: run.digest(), rows: 1 };
        check_staged(&storage, &named).err().map(|error| error.to_string())
    }
}

fn fault_of(change: impl FnOnce(&mut Crafted)) -> String {
    let mut crafted = Crafted::new();
    change(&mut crafted);
    crafted.fault().unwrap_or_else(|| "none".to_owned())
}

#[test]
fn a_row_that_staging_would_not_write_is_refused_although_all_checks_fit() {
    assert_eq!(Crafted::new().fault(), None);
    let found = [
        fault_of(|crafted| crafted.row.key.sequence = Sequence(1)),
        fault_of(|crafted| crafted.row.payload_sequence = Sequence(1)),
        fault_of(|crafted| crafted.row.attempt = 2),
        fault_of(|crafted| crafted.row.subject = SubjectNumber(0)),
        fault_of(|crafted| crafted.row.subject = SubjectNumber(2)),
        fault_of(|crafted| crafted.record_subject = 2),
        fault_of(|crafted| crafted.row.key.due = Millis(DUE + 1)),
        fault_of(|crafted| crafted.row.size = Some(3)),
        fault_of(|crafted| crafted.row.size = None),
        fault_of(|crafted| crafted.published = 9),
        fault_of(|crafted| crafted.opaque = false),
        fault_of(|crafted| crafted.names = vec!["a/b".to_owned()]),
        fault_of(|crafted| crafted.names.push("b".to_owned())),
        fault_of(|crafted| crafted.message.meta = vec![1, 2, 3]),
        fault_of(|crafted| crafted.row.location = Location::in_run(RunNumber(4), 9)),
    ];
    let words = [
        "sequences 0 and attempt 1",
        "sequences 0 and attempt 1",
        "sequences 0 and attempt 1",
        "one of 1 subjects",
        "one of 1 subjects",
        "due, subject",
        "due, subject",
        "due, subject",
        "due, subject",
        "due, subject",
        "an opaque message",
        "a message that staging takes",
        "names that rows have",
        "a message that staging takes",
        "a footer that agrees with the rows",
    ];
    for (found, words) in found.iter().zip(words) {
        assert!(found.contains(words), "{words}: {found}");
    }
    let twice = |crafted: &mut Crafted| crafted.names = vec!["a".to_owned(), "a".to_owned()];
    assert!(fault_of(twice).contains("names that rows have"));
}

#[test]
fn a_name_that_stands_at_two_places_is_refused() {
    let storage = TestStorage::default();
    let name = LoadName { staged: Millis(DUE), nonce: [3; 16] };
    let named = stage(&storage, no_limits(), &[given(DUE, "a", b""), given(DUE, "b", b"")])[0];
    let staged = check_staged(&storage, &named).unwrap();
    let mut writer = RunWriter::<ScheduleRow>::create_staged(&storage, &name, 2).unwrap();
    let mut buffer = ScanBuffer::default();
    let mut scan = RowScan::<ScheduleRow>::from_block(&staged.run, 0, None, &mut buffer);
    let (mut rows, mut record) = (Vec::new(), Vec::new());
    while let Some(row) = scan.next_row().unwrap() {
        let offset = u64::from(row.location.offset());
        read_payload(staged.run.file().as_ref(), offset, row.payload_sequence, None, &mut record).unwrap();
        writer.push_payload(&record).unwrap();
        rows.push(row);
    }
    for row in &rows {
        writer.push_row(row).unwrap();
    }
    let run = writer.finish_staged(&storage, &name, vec!["a".to_owned(), "a".to_owned()]).unwrap();
    let named = StagedRun { name, length: run.length(), digest: run.digest(), rows: 2 };
    let found = check_staged(&storage, &named).unwrap_err().to_string();
    assert!(found.contains("each name once"), "{found}");
}

/// The checks of footer and trailer are corrected after the change.
#[test]
fn a_digest_that_is_not_of_the_contents_is_refused() {
    let storage = TestStorage::default();
    let named = stage(&storage, no_limits(), &[given(DUE, "a", b"body")])[0];
    let mut digest = named.digest;
    storage.edit(&named.name.path(), |bytes| {
        let trailer = bytes.len() - 40;
        let footer = u64::from_le_bytes(*bytes[trailer..].first_chunk().unwrap()) as usize;
        // The number of names is before the only name, which has a length and one byte.
        bytes[trailer - 11] ^= 1;
        digest = crc32fast::hash(&bytes[footer..trailer]);
        bytes[trailer + 16..trailer + 20].copy_from_slice(&digest.to_le_bytes());
        let check = crc32fast::hash(&bytes[trailer..trailer + 28]);
        bytes[trailer + 28..trailer + 32].copy_from_slice(&check.to_le_bytes());
    });
    let found = check_staged(&storage, &StagedRun { digest, ..named }).unwrap_err().to_string();
    assert!(found.contains("contents"), "{found}");
}
