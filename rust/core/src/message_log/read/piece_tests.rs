use super::*;
use crate::message_log::tests::fixture::{Log, STREAM, shared};
use crate::units::Location;

/// The sequences that were shown, and the texts of the damage.
fn seen(log: &Log, piece: LogPiece) -> (Vec<u64>, Vec<String>) {
    let (mut sequences, mut damage) = (Vec::new(), Vec::new());
    let mut reader = PieceReader::new(&shared(&log.storage), STREAM, piece);
    while reader
        .read_next(&mut |find| match find {
            Find::Batch { header, .. } => {
                let base = header.base_sequence.get();
                sequences.extend(base..base + u64::from(header.count.get()));
            }
            Find::Record { record, .. } => sequences.push(record.sequence.0),
            Find::Damage(error) => damage.push(error.to_string()),
        })
        .unwrap()
    {}
    (sequences, damage)
}

fn piece(segment: u32, to: Option<Location>, first: u64, end: u64) -> LogPiece {
    LogPiece {
        segment: SegmentNumber(segment),
        from: 4096,
        to: to.map(Location::offset),
        first: Sequence(first),
        end: Sequence(end),
        chain: 0,
        trusted_from: Millis(0),
        trusted_to: Millis(u64::MAX),
    }
}

fn log_of_three() -> (Log, Location, Location) {
    let mut log = Log::new(64 << 10);
    log.commit(&[b"one", b"two"]);
    let start = log.commit(&[b"three", b"four", b"five"]).start;
    let end = log.commit(&[b"six"]).end.location;
    (log, start, end)
}

#[test]
fn it_ends_where_it_is_told_and_behind_a_seal() {
    let (mut log, start, end) = log_of_three();
    assert_eq!(seen(&log, piece(1, Some(end), 1, 7)), ((1..=6).collect(), vec![]));
    assert_eq!(seen(&log, piece(1, Some(start), 1, 3)), ((1..=2).collect(), vec![]));
    log.close();
    assert_eq!(seen(&log, piece(1, None, 1, 7)), ((1..=6).collect(), vec![]));
}

#[test]
fn what_was_durable_and_is_zeros_is_damage() {
    let (log, start, end) = log_of_three();
    let file = log.storage.open("log/0000000001.segment").unwrap();
    let lost = end.offset() - start.offset();
    file.write_at(u64::from(start.offset()), &vec![0; lost as usize]).unwrap();
    let (sequences, damage) = seen(&log, piece(1, Some(end), 1, 7));
    assert_eq!(sequences, [1, 2]);
    assert_eq!(damage.len(), 1);
    assert!(damage[0].contains(&format!("log/0000000001.segment is damaged at offset {}", start.offset())));
}

#[test]
fn a_damaged_batch_is_named_and_what_can_be_read_of_it_and_behind_it_is_shown() {
    let (log, start, end) = log_of_three();
    log.storage.damage("log/0000000001.segment", u64::from(start.offset()) + 20, 1);
    let (sequences, damage) = seen(&log, piece(1, Some(end), 1, 7));
    assert_eq!((sequences, damage.len()), ((1..=6).collect(), 1));
}

#[test]
fn another_history_is_damage() {
    let (log, _, end) = log_of_three();
    let other = LogPiece { chain: 7, ..piece(1, Some(end), 1, 7) };
    assert_eq!(seen(&log, other).1.len(), 1);
}

#[test]
fn a_missing_and_a_short_segment_are_damage() {
    let (log, _, end) = log_of_three();
    assert!(seen(&log, piece(2, None, 7, 9)).1[0].contains("log/0000000002.segment is missing"));
    let (sequences, damage) = seen(&log, piece(1, Some(end), 1, 9));
    assert_eq!((sequences.len(), damage.len()), (6, 1));
}
