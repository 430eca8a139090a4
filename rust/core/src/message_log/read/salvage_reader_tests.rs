use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::message_log::tests::fixture::{Log, STREAM, shared};

/// The sequences read in whole batches, those read singly, and the texts of the damage.
#[derive(Default, Debug, PartialEq, Eq)]
struct Seen {
    in_batches: Vec<u64>,
    singly: Vec<u64>,
    damage: Vec<String>,
}

fn seen(log: &Log) -> Seen {
    let mut seen = Seen::default();
    sift(&shared(&log.storage), STREAM, &Holes::default(), &mut |find| match find {
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
    // The damaged byte is in the header of the second record of the second batch.
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

/// Payloads of some batches, and one bit of the written log.
fn damaged_log() -> impl Strategy<Value = (Vec<Vec<Vec<u8>>>, prop::sample::Index, u8)> {
    let payload = prop_oneof![vec(any::<u8>(), 0..100), Just(BATCH_MAGIC.repeat(9)), Just(vec![0; 80])];
    (vec(vec(payload, 1..6), 2..6), any::<prop::sample::Index>(), 0..8_u8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// One damaged bit costs one record. Each record is shown once and in order. Only if the header of the
    /// first batch is damaged, the sequences of its records are unknown and all of them may be lost.
    #[test]
    fn one_rotten_bit_costs_one_record((batches, place, bit) in damaged_log()) {
        let mut log = Log::new(64 << 10);
        let mut first_end = 0;
        for payloads in &batches {
            let appended = log.commit(&payloads.iter().map(Vec::as_slice).collect::<Vec<_>>());
            if first_end == 0 {
                first_end = payloads.len() as u64;
            }
            prop_assert_eq!(appended.start.segment(), Some(SegmentNumber(1)));
        }
        let (start, end) = (u64::from(SEGMENT_HEADER_BYTES), u64::from(log.appender.written().location.offset()));
        let offset = start + place.index((end - start) as usize) as u64;
        prop_assert!(log.storage.damage("log/0000000001.segment", offset, 1 << bit));
        let seen = seen(&log);
        let mut shown: Vec<u64> = seen.in_batches.iter().chain(&seen.singly).copied().collect();
        shown.sort_unstable();
        let written: u64 = batches.iter().map(|payloads| payloads.len() as u64).sum();
        prop_assert!(shown.windows(2).all(|pair| pair[0] < pair[1]), "{shown:?}");
        prop_assert!(shown.iter().all(|sequence| (1..=written).contains(sequence)), "{shown:?}");
        prop_assert!(seen.damage.len() <= 1, "{:?}", seen.damage);
        let missing: Vec<u64> = (1..=written).filter(|sequence| !shown.contains(sequence)).collect();
        let in_first_header = offset < start + BATCH_HEADER_BYTES as u64;
        let may_miss = if in_first_header { first_end as usize } else { 1 };
        prop_assert!(missing.len() <= may_miss, "{missing:?} of {written} are missing, {seen:?}");
        prop_assert!(missing.is_empty() || seen.damage.len() == 1, "{missing:?} went without a word");
    }
}
