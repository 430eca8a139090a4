//! The index of a segment against the segment itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ready_facts::PayloadOf;
use super::segment_index::SegmentIndex;
use crate::message_log::{
    AppendMarks, AppenderStart, BatchReader, Durability, Holes, LOG_FOLDER, LogPosition, SEGMENT_HEADER_BYTES,
    SegmentAppender, Stream, segment_path,
};
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::record::command::{Move, encode_move};
use crate::record::message::{Message, encode_message};
use crate::storage::{MemoryStorage, Storage};
use crate::store::query::log_lookup::KeptLog;
use crate::store::state::SegmentStart;
use crate::store::state::file_subjects::FileSubjects;
use crate::store::state::segment_ready::SegmentReady;
use crate::units::{DueKey, Epoch, Location, Millis, SegmentNumber, Sequence, SubjectNumber};

const STREAM: Stream = Stream { id: [7; 16], timeline: 1 };
const SUBJECT: SubjectNumber = SubjectNumber(3);
const MESSAGES: u64 = 2_000;
const MOVED: DueKey = DueKey { due: Millis(9), sequence: Sequence(5) };

fn message(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (due, published) = (Millis(10_000), Millis(1_000));
    encode_message(
        &mut bytes,
        &Message { due, published, subject: SUBJECT, meta: &[], body, opaque: false, expiry: None },
    );
    bytes
}

/// One segment of messages with bodies of many lengths; each hundredth fact is a move.
fn log() -> (MemoryStorage, KeptLog, SegmentStart) {
    let storage = MemoryStorage::new(7);
    storage.create_folder(LOG_FOLDER).unwrap();
    let start = AppenderStart {
        stream: STREAM,
        epoch: Epoch(1),
        number: SegmentNumber(1),
        chain: 0,
        next_sequence: Sequence(1),
        trusted: Millis(1_000),
        segment_bytes: 8 << 20,
        opening_bytes: 8 << 20,
        given_bytes: 0,
    };
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut appender = SegmentAppender::open(Arc::clone(&shared), &start).unwrap();
    let (mut number, mut end) = (0_u64, Location(0));
    while number < MESSAGES {
        let count = (1 + number % 150).min(MESSAGES - number);
        let mut batch = vec![0; BATCH_HEADER_BYTES];
        for _ in 0..count {
            number += 1;
            if number.is_multiple_of(100) {
                let due = Millis(20_000);
                encode_move(&mut batch, &Move { target: MOVED, due, delay_ms: None, subject: SUBJECT, size: 0 });
            } else {
                // Some are longer than one byte can say.
                batch.extend(message(&vec![1; usize::try_from(number * 37 % 2_500).unwrap()]));
            }
        }
        let marks = AppendMarks {
            record_count: u32::try_from(count).unwrap(),
            trusted: Millis(1_000),
            held: false,
            committed: Location(0),
            durability: Durability::Disk,
        };
        end = appender.append(&mut batch, &marks).unwrap().end.location;
    }
    let position = LogPosition {
        end: Location::in_segment(SegmentNumber(1), SEGMENT_HEADER_BYTES),
        next_sequence: Sequence(1),
        ..LogPosition::default()
    };
    let (subjects, ready) = (FileSubjects::none(), SegmentReady::none());
    let segment = SegmentStart { segment: SegmentNumber(1), position, subjects, ready };
    let segments = vec![segment.clone()];
    (storage, KeptLog { storage: shared, stream: STREAM, segments, holes: Holes::default(), end }, segment)
}

fn whole(log: &KeptLog, start: &SegmentStart) -> SegmentIndex {
    let mut index = SegmentIndex::of(log, start, log.end);
    index.read_to(log, (Sequence(MESSAGES), log.end), SUBJECT).unwrap();
    index
}

#[test]
fn it_knows_each_place() {
    let (_storage, log, start) = log();
    let index = whole(&log, &start);
    let mut reader = BatchReader::new(Arc::clone(&log.storage), STREAM, start.position.end, log.end);
    let mut places = BTreeMap::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        places.extend(batch.facts().map(|(location, record)| (record.sequence, location)));
    }
    assert_eq!(places.len() as u64, MESSAGES);
    for (sequence, place) in places {
        let moved = sequence.0.is_multiple_of(100);
        let expected = if moved { PayloadOf::Moved(MOVED) } else { PayloadOf::Fact(place, None) };
        assert_eq!(index.payload_of(sequence), Some(expected), "{sequence}");
    }
    assert_eq!(index.payload_of(Sequence(0)), None);
    assert_eq!(index.payload_of(Sequence(MESSAGES + 1)), None);
}

#[test]
fn it_is_small_and_is_read_once() {
    let (storage, log, start) = log();
    let mut index = whole(&log, &start);
    assert!(index.bytes() as u64 <= MESSAGES * 8, "{} bytes", index.bytes());
    storage.remove(&segment_path(SegmentNumber(1))).unwrap();
    for sequence in 1..=MESSAGES {
        index.read_to(&log, (Sequence(sequence), log.end), SUBJECT).unwrap();
        assert!(index.payload_of(Sequence(sequence)).is_some());
    }
}

#[test]
fn it_is_read_as_far_as_it_is_needed_and_grows_with_its_segment() {
    let (_storage, log, start) = log();
    let mut index = SegmentIndex::of(&log, &start, log.end);
    index.read_to(&log, (Sequence(10), log.end), SUBJECT).unwrap();
    assert!(index.reaches(Sequence(10)) && !index.reaches(Sequence(MESSAGES)));
    let early = KeptLog { end: Location::in_segment(SegmentNumber(1), SEGMENT_HEADER_BYTES), ..log.clone() };
    let mut index = SegmentIndex::of(&early, &start, early.end);
    index.read_to(&early, (Sequence(10), early.end), SUBJECT).unwrap();
    assert_eq!(index.payload_of(Sequence(10)), None);
    index.read_to(&log, (Sequence(10), log.end), SUBJECT).unwrap();
    assert!(index.payload_of(Sequence(10)).is_some());
}

#[test]
fn damage_ends_it() {
    let (storage, log, start) = log();
    // Longer than any record, so a header is damaged as well.
    for offset in 400_000..403_000 {
        storage.damage(&segment_path(SegmentNumber(1)), offset, 1);
    }
    let mut index = whole(&log, &start);
    assert!(index.payload_of(Sequence(10)).is_some() && index.payload_of(Sequence(MESSAGES)).is_none());
    index.read_to(&log, (Sequence(MESSAGES), log.end), SUBJECT).unwrap();
    assert_eq!(index.payload_of(Sequence(MESSAGES)), None);
}
