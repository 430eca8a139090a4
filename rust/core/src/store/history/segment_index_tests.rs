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
/// More than one part has.
const MESSAGES: u64 = 6_000;
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
    // Some are longer than one byte can say.
    log_of(|number| 1 + number % 150, |number| number * 37 % 2_500)
}

/// The same, with batches and bodies of these lengths.
fn log_of(count_of: fn(u64) -> u64, length_of: fn(u64) -> u64) -> (MemoryStorage, KeptLog, SegmentStart) {
    let storage = MemoryStorage::new(7);
    storage.create_folder(LOG_FOLDER).unwrap();
    let start = AppenderStart {
        stream: STREAM,
        epoch: Epoch(1),
        number: SegmentNumber(1),
        chain: 0,
        next_sequence: Sequence(1),
        trusted: Millis(1_000),
        segment_bytes: 16 << 20,
        opening_bytes: 16 << 20,
        given_bytes: 0,
    };
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut appender = SegmentAppender::open(Arc::clone(&shared), &start).unwrap();
    let (mut number, mut end) = (0_u64, Location(0));
    while number < MESSAGES {
        let count = count_of(number).min(MESSAGES - number);
        let mut batch = vec![0; BATCH_HEADER_BYTES];
        for _ in 0..count {
            number += 1;
            if number.is_multiple_of(100) {
                let due = Millis(20_000);
                encode_move(&mut batch, &Move { target: MOVED, due, delay_ms: None, subject: SUBJECT, size: 0 });
            } else {
                batch.extend(message(&vec![1; usize::try_from(length_of(number)).unwrap()]));
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

/// The indexes of all parts.
fn whole(log: &KeptLog, start: &SegmentStart) -> Vec<SegmentIndex> {
    let (mut parts, last) = (vec![SegmentIndex::of(log, start)], Sequence(MESSAGES));
    loop {
        let part = parts.last_mut().unwrap();
        part.read_to(log, (last, log.end), SUBJECT).unwrap();
        match part.following(last) {
            Some(following) => parts.push(following),
            None => return parts,
        }
    }
}

fn payload_of(parts: &[SegmentIndex], sequence: Sequence) -> Option<PayloadOf> {
    parts.iter().rfind(|part| part.first() <= sequence)?.payload_of(sequence)
}

fn reader(log: &KeptLog, start: &SegmentStart) -> BatchReader {
    BatchReader::new(Arc::clone(&log.storage), STREAM, start.position.end, log.end)
}

#[test]
fn it_knows_each_place() {
    let (_storage, log, start) = log();
    let parts = whole(&log, &start);
    assert!(parts.len() > 1);
    let mut reader = reader(&log, &start);
    let mut places = BTreeMap::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        places.extend(batch.facts().map(|(location, record)| (record.sequence, location)));
    }
    assert_eq!(places.len() as u64, MESSAGES);
    for (sequence, place) in places {
        let moved = sequence.0.is_multiple_of(100);
        let expected = if moved { PayloadOf::Moved(MOVED) } else { PayloadOf::Fact(place, None) };
        assert_eq!(payload_of(&parts, sequence), Some(expected), "{sequence}");
    }
    assert_eq!(payload_of(&parts, Sequence(0)), None);
    assert_eq!(payload_of(&parts, Sequence(MESSAGES + 1)), None);
}

#[test]
fn it_is_small_and_is_read_once() {
    let (storage, log, start) = log();
    let mut parts = whole(&log, &start);
    let bytes: usize = parts.iter().map(SegmentIndex::bytes).sum();
    assert!(bytes as u64 <= MESSAGES * 9, "{bytes} bytes");
    storage.remove(&segment_path(SegmentNumber(1))).unwrap();
    for sequence in (1..=MESSAGES).map(Sequence) {
        let part = parts.iter_mut().rfind(|part| part.first() <= sequence).unwrap();
        part.read_to(&log, (sequence, log.end), SUBJECT).unwrap();
        assert!(part.payload_of(sequence).is_some());
    }
}

#[test]
fn batches_of_one_message_share_a_place() {
    let (_storage, log, start) = log_of(|_| 1, |_| 100);
    let bytes: usize = whole(&log, &start).iter().map(SegmentIndex::bytes).sum();
    assert!(bytes as u64 <= MESSAGES * 3, "{bytes} bytes");
}

#[test]
fn what_it_forgets_is_read_again_up_to_the_next_part() {
    let (_storage, log, start) = log();
    let mut parts = whole(&log, &start);
    let (behind, before) = (parts[1].first(), payload_of(&parts, Sequence(10)));
    parts[0].forget();
    assert_eq!((parts[0].bytes(), parts[0].payload_of(Sequence(10))), (0, None));
    // A sequence of the next part ends it, too.
    for sequence in [Sequence(10), Sequence(MESSAGES)] {
        parts[0].read_to(&log, (sequence, log.end), SUBJECT).unwrap();
        assert_eq!(parts[0].payload_of(Sequence(10)), before);
        assert_eq!(parts[0].following(Sequence(MESSAGES)).unwrap().first(), behind);
        assert_eq!(parts[0].payload_of(behind), None);
    }
}

#[test]
fn batches_that_are_added_make_the_same_index_as_those_that_it_reads() {
    let (_storage, log, start) = log();
    let read = whole(&log, &start);
    let mut added = vec![SegmentIndex::of(&log, &start)];
    let (mut reader, mut passed) = (reader(&log, &start), 0);
    while let Some(batch) = reader.next_batch().unwrap() {
        let part = added.last_mut().unwrap();
        if !part.goes_on_with(&batch) {
            let following = part.following(Sequence(batch.header.base_sequence.get())).unwrap();
            assert!(following.goes_on_with(&batch));
            added.push(following);
        }
        let part = added.last_mut().unwrap();
        part.add(&batch, SUBJECT);
        assert!(!part.goes_on_with(&batch), "it has the batch");
        passed += 1;
    }
    assert!(passed > 10 && added.len() == read.len());
    for sequence in (0..=MESSAGES + 1).map(Sequence) {
        assert_eq!(payload_of(&added, sequence), payload_of(&read, sequence), "{sequence}");
    }
}

#[test]
fn it_is_read_as_far_as_it_is_needed_and_grows_with_its_segment() {
    let (_storage, log, start) = log();
    let mut index = SegmentIndex::of(&log, &start);
    index.read_to(&log, (Sequence(10), log.end), SUBJECT).unwrap();
    assert!(index.reaches(Sequence(10)) && !index.reaches(Sequence(MESSAGES)));
    let early = KeptLog { end: Location::in_segment(SegmentNumber(1), SEGMENT_HEADER_BYTES), ..log.clone() };
    let mut index = SegmentIndex::of(&early, &start);
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
    let mut parts = whole(&log, &start);
    assert!(payload_of(&parts, Sequence(10)).is_some() && payload_of(&parts, Sequence(MESSAGES)).is_none());
    parts[0].read_to(&log, (Sequence(MESSAGES), log.end), SUBJECT).unwrap();
    assert_eq!(parts[0].payload_of(Sequence(MESSAGES)), None);
}
