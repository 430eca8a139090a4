use std::sync::Arc;

use arrow_array::builder::{ListBuilder, MapBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, Int64Array, LargeBinaryArray, LargeStringArray, RecordBatch, StringArray, StringViewArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use delaymq_core::error::Error;
use delaymq_core::record::header::read_record;
use delaymq_core::record::message::{Meta, decode_message, decode_meta};
use delaymq_core::run::{
    LOAD_FOLDER, LoadName, RowScan, ScanBuffer, ScheduleRow, StagedRun, Stager, StagingLimits, check_staged,
    read_payload,
};
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::units::Millis;
use proptest::prelude::*;

use super::{Loader, LoadingRules, json_text};
use crate::rows::json;

const DUE_US: i64 = 1_900_000_000_000_000;
const DUE_MAX: Millis = Millis(2_000_000_000_000);

/// When, of which subject, which body, and whose meta.
type Row = (u64, String, Vec<u8>, Option<Meta>);

fn disk() -> Arc<dyn Storage> {
    let disk: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1));
    disk.create_folder(LOAD_FOLDER).unwrap();
    disk
}

fn loader(disk: &Arc<dyn Storage>, rules: LoadingRules) -> Loader {
    let mut next = 0;
    let limits = StagingLimits { rows_max: 4, ..StagingLimits::until(DUE_MAX) };
    let stager = Stager::sharing(Arc::clone(disk), limits, move || {
        next += 1;
        LoadName { staged: Millis(7), nonce: [next; 16] }
    });
    Loader::new(stager, rules)
}

fn rows_of(disk: &Arc<dyn Storage>, runs: &[StagedRun]) -> Vec<Row> {
    let (mut rows, mut buffer, mut bytes) = (Vec::new(), ScanBuffer::default(), Vec::new());
    for named in runs {
        let staged = check_staged(disk.as_ref(), named).unwrap();
        let mut scan = RowScan::<ScheduleRow>::from_block(&staged.run, 0, None, &mut buffer);
        while let Some(row) = scan.next_row().unwrap() {
            let file = staged.run.file();
            let offset = u64::from(row.location.offset());
            read_payload(file.as_ref(), offset, row.payload_sequence, Some(row.length), &mut bytes).unwrap();
            let record = read_record(&bytes, row.payload_sequence).unwrap();
            let message = decode_message(&record).unwrap();
            let subject = staged.subjects()[row.subject.0 as usize - 1].clone();
            rows.push((row.key.due.0, subject, message.body.to_vec(), decode_meta(message.meta)));
        }
    }
    rows
}

fn micros(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A batch of rows that are due at these times.
fn due_at(dues: ArrayRef) -> RecordBatch {
    let names: Vec<&str> = (0..dues.len()).map(|_| "s").collect();
    batch(vec![("subject", texts(&names)), ("due", dues), ("body", texts(&names))])
}

fn loaded(batch: &RecordBatch) -> Vec<Row> {
    let disk = disk();
    let mut loader = loader(&disk, LoadingRules::default());
    assert_eq!(loader.add(batch).unwrap(), vec![]);
    rows_of(&disk, &loader.finish().unwrap())
}

fn refusal(batch: &RecordBatch) -> (usize, &'static str, String) {
    let bad = loader(&disk(), LoadingRules::default()).add(batch).unwrap();
    assert_eq!(bad.len(), 1, "{bad:?}");
    match &bad[0].error {
        Error::InvalidArgument { argument, expected, .. } => (bad[0].place, argument, expected.clone()),
        Error::TooLarge { argument, limit, .. } => (bad[0].place, argument, limit.to_string()),
        other => panic!("{other}"),
    }
}

#[test]
fn rows_are_staged_sorted_over_several_files_with_all_that_they_have() {
    let disk = disk();
    let mut loader = loader(&disk, LoadingRules::default());
    for part in 0..3 {
        let dues = (0..3).map(|row| Some(DUE_US - (part * 3 + row) * 1_000)).collect();
        let bodies: Vec<Vec<u8>> = (0..3).map(|row| format!("{}", part * 3 + row).into_bytes()).collect();
        let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
        let found = loader.add(&batch(vec![
            ("body", Arc::new(BinaryArray::from(bodies)) as ArrayRef),
            ("subject", texts(&["a", "b", "a"])),
            ("due", micros(dues)),
            ("message_id", Arc::new(StringArray::from(vec![Some("id"), None, None]))),
        ]));
        assert_eq!(found.unwrap(), vec![]);
    }
    let runs = loader.finish().unwrap();
    assert_eq!(runs.iter().map(|run| run.rows).collect::<Vec<_>>(), [4, 4, 1]);
    let rows = rows_of(&disk, &runs);
    let first = &rows[0];
    assert_eq!((first.0, first.1.as_str(), first.2.as_slice()), (1_899_999_999_997, "a", b"3".as_slice()));
    assert_eq!(first.3.as_ref().unwrap().message_id, "id");
    assert_eq!(rows[2].3, None);
    assert!(rows[..4].is_sorted_by_key(|row| row.0) && rows[4..8].is_sorted_by_key(|row| row.0));
}

#[test]
fn every_unit_of_time_is_taken_and_rounded_up() {
    let zone = "Europe/Berlin";
    for (dues, expected) in [
        (Arc::new(TimestampSecondArray::from(vec![5]).with_timezone(zone)) as ArrayRef, 5_000),
        (Arc::new(TimestampMillisecondArray::from(vec![5]).with_timezone(zone)), 5),
        (Arc::new(TimestampMicrosecondArray::from(vec![5_001]).with_timezone(zone)), 6),
        (Arc::new(TimestampMicrosecondArray::from(vec![5_000]).with_timezone(zone)), 5),
        (Arc::new(TimestampNanosecondArray::from(vec![5_000_001]).with_timezone(zone)), 6),
        (texts(&["1970-01-01T01:00:00.0051+01:00"]), 6),
    ] {
        assert_eq!(loaded(&due_at(dues))[0].0, expected);
    }
}

#[test]
fn every_layout_of_texts_and_bytes_is_taken() {
    let subjects: [ArrayRef; 3] =
        [texts(&["s"]), Arc::new(LargeStringArray::from(vec!["s"])), Arc::new(StringViewArray::from(vec!["s"]))];
    let bodies: [ArrayRef; 3] = [
        texts(&["text"]),
        Arc::new(BinaryArray::from(vec![b"text".as_slice()])),
        Arc::new(LargeBinaryArray::from(vec![b"text".as_slice()])),
    ];
    for (subject, body) in subjects.into_iter().zip(bodies) {
        let rows = loaded(&batch(vec![("subject", subject), ("due", micros(vec![Some(DUE_US)])), ("body", body)]));
        assert_eq!(rows, [(1_900_000_000_000, "s".to_owned(), b"text".to_vec(), None)]);
    }
}

#[test]
fn a_row_that_is_no_message_is_refused_by_its_place_and_column() {
    let naive: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![DUE_US]));
    assert_eq!(refusal(&due_at(micros(vec![Some(DUE_US), None]))), (1, "due", "a time".to_owned()));
    assert_eq!(refusal(&due_at(naive)), (0, "due", "a time with a zone".to_owned()));
    assert_eq!(refusal(&due_at(micros(vec![Some(-1_000)]))).1, "due");
    assert_eq!(refusal(&due_at(texts(&["2030-01-01T00:00:00"]))).1, "due");
    let seconds = |value: i64| {
        let dues = TimestampSecondArray::from(vec![value]).with_timezone("UTC");
        refusal(&due_at(Arc::new(dues) as ArrayRef)).2
    };
    assert_eq!(seconds(-1), "a time after 1970");
    assert_eq!(seconds(i64::MAX), "a time that fits into 64 bits of ms since 1970", "it is not before 1970");
    let late = refusal(&due_at(micros(vec![Some(2_000_000_000_001_000)])));
    assert_eq!(late, (0, "due", format!("at most {DUE_MAX} ms since 1970")));
    let one = |name: &'static str, array: ArrayRef| {
        let mut columns =
            vec![("subject", texts(&["s"])), ("due", micros(vec![Some(DUE_US)])), ("body", texts(&["b"]))];
        columns.retain(|(known, _)| *known != name);
        columns.push((name, array));
        refusal(&batch(columns)).1
    };
    assert_eq!(one("subject", texts(&["a/b"])), "subject");
    assert_eq!(one("subject", Arc::new(StringArray::from(vec![None::<&str>]))), "subject");
    assert_eq!(one("body", Arc::new(BinaryArray::from(vec![None]))), "body");
    assert_eq!(one("body", texts(&["x".repeat((4 << 20) + 1).as_str()])), "body");
    assert_eq!(one("message_id", texts(&[""])), "message_id");
    for tags in ["[1]", "[\"a\"", "[\"a\"] x", "{}", "[\"\"]", &format!("[{}\"l\"]", "\"t\", ".repeat(10))] {
        assert_eq!(one("tags", texts(&[tags])), "tags", "{tags}");
    }
    for attributes in ["[]", "{\"a\": 1}", "{\"a\"}", "{\"\": \"\"}", "{\"a\": \"\\ud800\"}"] {
        assert_eq!(one("attributes", texts(&[attributes])), "attributes", "{attributes}");
    }
}

#[test]
fn rows_behind_one_that_is_none_are_taken_where_that_is_asked() {
    let rows = due_at(micros(vec![None, Some(DUE_US), None, Some(DUE_US + 1)]));
    let disk = disk();
    let mut careful = loader(&disk, LoadingRules::default());
    assert_eq!(careful.add(&rows).unwrap().len(), 1);
    let mut going = loader(&disk, LoadingRules { goes_on: true, ..LoadingRules::default() });
    let bad: Vec<usize> = going.add(&rows).unwrap().iter().map(|row| row.place).collect();
    assert_eq!(bad, [0, 2]);
    assert_eq!(rows_of(&disk, &going.finish().unwrap()).len(), 2);
}

#[test]
fn columns_must_be_those_of_a_message() {
    let refused = |columns: Vec<(&str, ArrayRef)>, rules| match loader(&disk(), rules).add(&batch(columns)) {
        Err(Error::InvalidArgument { argument: "columns", found, .. }) => found,
        other => panic!("{other:?}"),
    };
    let numbers = || Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let whole = || vec![("subject", texts(&["s"])), ("due", micros(vec![Some(DUE_US)])), ("body", texts(&["b"]))];
    let strict = LoadingRules::default();
    let mut other = whole();
    other.push(("sequence", numbers()));
    assert_eq!(refused(other.clone(), strict), "sequence");
    let ignoring = LoadingRules { ignores_others: true, ..strict };
    assert_eq!(loader(&disk(), ignoring).add(&batch(other)).unwrap(), vec![]);
    for place in 0..3 {
        let mut missing = whole();
        missing.remove(place);
        assert_eq!(refused(missing, ignoring), "none of that name");
        let mut wrong = whole();
        wrong[place].1 = numbers();
        assert_eq!(refused(wrong, ignoring), "Int64");
    }
}

#[test]
fn lists_and_maps_are_taken_for_tags_and_attributes() {
    let mut tags = ListBuilder::new(StringBuilder::new());
    tags.append_value([Some("a"), Some("b")]);
    tags.append_null();
    let mut attributes = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    attributes.append(false).unwrap();
    attributes.keys().append_value("k");
    attributes.values().append_value("v");
    attributes.append(true).unwrap();
    let rows = loaded(&batch(vec![
        ("subject", texts(&["s", "s"])),
        ("due", micros(vec![Some(DUE_US), Some(DUE_US)])),
        ("body", texts(&["1", "2"])),
        ("tags", Arc::new(tags.finish())),
        ("attributes", Arc::new(attributes.finish())),
    ]));
    let (first, second) = (rows[0].3.as_ref().unwrap(), rows[1].3.as_ref().unwrap());
    assert_eq!((first.tags.join(" "), first.attributes.len()), ("a b".to_owned(), 0));
    assert_eq!((second.tags.len(), second.attributes[0].clone()), (0, ("k".to_owned(), b"v".to_vec())));
}

proptest! {
    #[test]
    fn what_a_table_says_of_tags_and_attributes_is_read_back(
        tags in prop::collection::vec(any::<String>(), 0..5),
        attributes in prop::collection::vec((any::<String>(), prop::collection::vec(any::<u8>(), 0..9)), 0..5),
    ) {
        let (mut list, mut object) = (String::new(), String::new());
        json::put_list(&mut list, tags.iter().map(String::as_str));
        json::put_object(&mut object, attributes.iter().map(|(key, value)| (key.as_str(), value.as_slice())));
        prop_assert_eq!(json_text::list(&list, 5), Some(tags));
        prop_assert_eq!(json_text::object(&object, 5), Some(attributes));
    }
}
