use super::*;
use crate::message_log::fixture::{Log, STREAM, shared};

/// Sequences that were read whole in batches, those read singly, and the places of damage.
#[derive(Default, Debug, PartialEq, Eq)]
struct Seen {
    in_batches: Vec<u64>,
    singly: Vec<u64>,
    damage: Vec<String>,
}

fn seen(log: &Log) -> Seen {
    let mut seen = Seen::default();
    sift(&shared(&log.storage), STREAM, &mut |find| match find {
        Find::Batch { header, .. } => {
            let base = header.base_sequence.get();
            seen.in_batches.extend(base..base + u64::from(header.count.get()));
        }
        Find::Record { record, .. } => seen.singly.push(record.sequence.0),
        Find::Damage(error) => seen.damage.push(error.to_string()),
    })
    .unwrap();
    seen
}

fn log_of_three() -> (Log, Location) {
    let mut log = Log::new(64 << 10);
    log.commit(&[b"one", b"two"]);
    let start = log.commit(&[b"three", b"four", b"five"]).start;
    log.commit(&[b"six"]);
    (log, start)
}

#[test]
fn a_whole_log_is_shown_whole() {
    let (log, _) = log_of_three();
    let seen = seen(&log);
    assert_eq!(seen, Seen { in_batches: (1..=6).collect(), ..Seen::default() });
}

#[test]
fn records_behind_a_damaged_batch_header_are_found_again() {
    let (log, start) = log_of_three();
    log.storage.damage("log/0000000001.segment", u64::from(start.offset()) + 20, 1);
    let seen = seen(&log);
    assert_eq!((seen.in_batches, seen.singly), (vec![1, 2, 6], vec![3, 4, 5]));
    assert_eq!(seen.damage.len(), 1);
}

#[test]
fn records_on_both_sides_of_a_damaged_one_are_found_again() {
    let (log, start) = log_of_three();
    // In the header of the second record of the second batch.
    let second = u64::from(start.offset()) + BATCH_HEADER_BYTES as u64 + padded(RECORD_HEADER_BYTES + 24 + 5) as u64;
    log.storage.damage("log/0000000001.segment", second + 12, 1);
    let seen = seen(&log);
    assert_eq!((seen.in_batches, seen.singly), (vec![1, 2, 6], vec![3, 5]));
    assert_eq!(seen.damage.len(), 1);
}

#[test]
fn a_missing_segment_is_named_and_the_next_is_read() {
    let mut log = Log::new(8 << 10);
    for number in 1..=6_u8 {
        log.commit(&[&[number; 1500]]);
    }
    log.storage.remove("log/0000000002.segment").unwrap();
    let seen = seen(&log);
    assert!(seen.in_batches.first() == Some(&1) && seen.in_batches.last() == Some(&6));
    assert!(seen.in_batches.len() < 6);
    assert!(seen.damage[0].starts_with("log/0000000002.segment is missing"));
}
