use super::*;
use crate::error::Error;
use crate::message_log::tests::fixture::{KIND_FACT, Log, STREAM, empty_storage, encode, scan, scan_from, shared};
use crate::message_log::{LaterSegment, segment_path};
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::storage::{Crash, MemoryStorage};
use crate::units::{Epoch, Location, Millis, SegmentNumber, Sequence};

const SMALL: u32 = 8 << 10;

fn damage(storage: &MemoryStorage, location: Location, further: usize) {
    let path = segment_path(location.segment().unwrap());
    assert!(storage.damage(&path, u64::from(location.offset()) + further as u64, 1));
}

fn is_corrupt<T: std::fmt::Debug>(result: crate::Result<T>, segment: u32) -> bool {
    match result {
        Err(Error::Corrupt { path, .. } | Error::MissingFile { path, .. }) => {
            path == segment_path(SegmentNumber(segment))
        }
        _ => false,
    }
}

#[test]
fn an_empty_log_ends_where_it_starts() {
    let log = Log::new(SMALL);
    let (payloads, end) = scan(&log.storage).unwrap();
    assert!(payloads.is_empty());
    assert_eq!(end.end, ScanStart::BEGINNING.location);
    assert!(!end.sealed && end.torn.is_none() && end.later_segments.is_empty());
}

#[test]
fn batches_come_back_across_segments() {
    let mut log = Log::new(SMALL);
    log.prepare(true);
    for number in 0..20_u8 {
        log.commit(&[&[number; 500], &[number; 3]]);
    }
    let (payloads, end) = scan(&log.storage).unwrap();
    assert_eq!(payloads.len(), 40);
    assert_eq!(payloads[39], [19; 3]);
    assert_eq!((end.end, end.chain), (log.appender.written().location, log.appender.chain()));
    assert_eq!((end.epoch, end.trusted, end.sealed), (Epoch(1), Millis(1000), false));
}

#[test]
fn a_segment_that_ends_before_the_place_where_a_scan_begins_is_damage() {
    let mut log = Log::new(SMALL);
    let first = log.commit(&[b"a"]).end;
    let start = ScanStart { location: first.location, next_sequence: first.sequence, ..ScanStart::BEGINNING };
    let start = ScanStart { chain: log.appender.chain(), epoch: Epoch(1), trusted: Millis(1000), ..start };
    assert!(scan_from(&log.storage, &start).unwrap().0.is_empty());
    let path = segment_path(SegmentNumber(1));
    let whole = log.storage.image().remove(&path).unwrap();
    for (length, is_enough) in [(0, true), (1, false), (80, false)] {
        let cut = empty_storage();
        let kept = &whole[..first.location.offset() as usize - length];
        cut.create(&path).and_then(|file| file.write_at(0, kept)).unwrap();
        assert_eq!(is_corrupt(scan_from(&cut, &start), 1), !is_enough, "{length} bytes less");
    }
}

#[test]
fn a_prepared_segment_that_was_not_used_is_named() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    log.prepare(true);
    let end = scan(&log.storage).unwrap().1;
    assert_eq!(end.later_segments, [LaterSegment { number: SegmentNumber(2), has_content: false }]);
    assert_eq!(end.torn, None);
    log.close();
    let end = scan(&log.storage).unwrap().1;
    assert!(end.sealed);
    assert_eq!(end.later_segments, [], "closing removes prepared segments");
}

#[test]
fn a_scan_may_start_at_any_batch_and_at_the_end() {
    let mut log = Log::new(SMALL);
    let mut starts = vec![ScanStart { trusted: Millis(1000), ..ScanStart::BEGINNING }];
    for number in 0..20_u8 {
        log.commit(&[&[number; 700]]);
        let mark = log.appender.written();
        let (location, next_sequence, chain) = (mark.location, mark.sequence, log.appender.chain());
        starts.push(ScanStart {
            location,
            next_sequence,
            chain,
            epoch: Epoch(1),
            trusted: Millis(1000),
            vouched: location,
        });
    }
    for closed in [false, true] {
        let (all, whole_end) = scan(&log.storage).unwrap();
        for (number, start) in starts.iter().enumerate() {
            let (payloads, end) = scan_from(&log.storage, start).unwrap();
            assert_eq!(payloads, all[number..]);
            assert_eq!((end.end, end.chain, end.sealed), (whole_end.end, whole_end.chain, closed));
        }
        if !closed {
            log.close();
        }
    }
}

#[test]
fn a_wrong_start_finds_nothing_to_follow() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    log.witness();
    for wrong in [
        ScanStart { chain: 1, ..ScanStart::BEGINNING },
        ScanStart { next_sequence: Sequence(2), ..ScanStart::BEGINNING },
        ScanStart { epoch: Epoch(2), ..ScanStart::BEGINNING },
        ScanStart { trusted: Millis(1001), ..ScanStart::BEGINNING },
    ] {
        let vouched = Location(ScanStart::BEGINNING.location.0 + 1);
        assert!(is_corrupt(scan_from(&log.storage, &ScanStart { vouched, ..wrong }), 1), "{wrong:?}");
    }
    let absent = ScanStart { location: Location::in_segment(SegmentNumber(3), 4096), ..ScanStart::BEGINNING };
    assert!(is_corrupt(scan_from(&log.storage, &absent), 3));
    let other = Stream { id: [1; 16], ..STREAM };
    assert!(matches!(
        Scanner::new(shared(&log.storage), other, &ScanStart::BEGINNING).map(drop),
        Err(Error::Corrupt { .. })
    ));
}

#[test]
fn a_flipped_bit_in_the_last_commit_is_a_torn_tail_without_a_witness_and_damage_with_one() {
    for further in [0, 20, 84, BATCH_HEADER_BYTES + 2, BATCH_HEADER_BYTES + 20] {
        let mut log = Log::new(SMALL);
        let first = log.commit(&[b"first"]);
        let last = log.commit(&[b"last"]);
        let flipped = log.storage.crash(Crash::Kill, 1);
        damage(&flipped, last.start, further);
        let (payloads, end) = scan(&flipped).unwrap();
        assert_eq!((payloads.len(), end.end), (1, first.end.location), "{further}");
        let torn = end.torn.unwrap();
        assert_eq!((torn.start, torn.end > last.start.offset()), (last.start, true));
        log.witness();
        damage(&log.storage, last.start, further);
        assert!(is_corrupt(scan(&log.storage), 1), "{further}");
    }
}

#[test]
fn a_damaged_message_is_kept_where_it_was_vouched_for_and_torn_where_not() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"first"]);
    let last = log.commit(&[b"damaged", b"whole"]);
    let payload = BATCH_HEADER_BYTES + 16 + 24;
    let flipped = log.storage.crash(Crash::Kill, 1);
    damage(&flipped, last.start, payload);
    let (payloads, end) = scan(&flipped).unwrap();
    assert_eq!((payloads.len(), end.end, end.damaged_payloads), (1, last.start, 0));
    assert!(end.torn.unwrap().expected.starts_with("payload check"));
    log.witness();
    damage(&log.storage, last.start, payload);
    let (payloads, end) = scan(&log.storage).unwrap();
    assert_eq!((payloads.len(), end.damaged_payloads, end.torn), (3, 1, None));
    assert_eq!(payloads[1], b"eamaged", "it is for the reader of the payload to void it");
}

#[test]
fn a_damaged_fact_is_damage_where_it_was_vouched_for() {
    let mut log = Log::new(SMALL);
    let fact = log.write_records(&[encode(KIND_FACT, b"ranges")]);
    damage(&log.storage, fact.start, BATCH_HEADER_BYTES + 16 + 24);
    log.appender.sync().unwrap();
    let (payloads, end) = scan(&log.storage).unwrap();
    assert!(payloads.is_empty() && end.torn.is_some());
    log.witness();
    assert!(is_corrupt(scan(&log.storage), 1));
}

#[test]
fn a_missing_segment_in_the_middle_is_named() {
    let mut log = Log::new(SMALL);
    for number in 0..4 {
        log.commit(&[&[number; 3000]]);
    }
    log.storage.remove(&segment_path(SegmentNumber(3))).unwrap();
    assert!(is_corrupt(scan(&log.storage), 3));
    log.storage.remove(&segment_path(SegmentNumber(1))).unwrap();
    assert!(is_corrupt(scan(&log.storage), 1));
}

#[test]
fn a_lost_end_below_a_known_position_is_damage() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    let end = log.appender.written().location;
    let known = |vouched| ScanStart { vouched, ..ScanStart::BEGINNING };
    assert!(scan_from(&log.storage, &known(end)).is_ok());
    assert!(is_corrupt(scan_from(&log.storage, &known(Location(end.0 + 8))), 1));
}

#[test]
fn batches_behind_a_break_are_never_handed_out() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    let hole = log.write(&[b"b"]);
    log.write(&[b"c"]);
    damage(&log.storage, hole.start, 3);
    let (payloads, end) = scan(&log.storage).unwrap();
    assert_eq!(payloads, [b"a"]);
    assert_eq!((end.next_sequence, end.end), (Sequence(2), hole.start));
}

#[test]
fn a_batch_inside_a_torn_message_vouches_for_nothing() {
    let mut other = Log::new(SMALL);
    other.commit(&[b"x"]);
    other.commit(&[b"y"]);
    let copied = other.storage.image()[&segment_path(SegmentNumber(1))].clone();
    let mut log = Log::new(64 << 10);
    let last = log.write(&[&copied[4096..6000]]);
    damage(&log.storage, last.start, BATCH_HEADER_BYTES + 2);
    let (payloads, end) = scan(&log.storage).unwrap();
    assert!(payloads.is_empty());
    assert!(end.torn.is_some());
}

#[test]
fn every_part_of_the_last_batch_that_may_survive_is_torn_or_whole() {
    let mut log = Log::new(SMALL);
    log.commit(&[&[1; 300]]);
    let last = log.write(&[&[2; 900], &[3; 1500]]);
    log.appender.sync().unwrap();
    let path = segment_path(SegmentNumber(1));
    let whole = log.storage.image()[&path].clone();
    let (start, end) = (last.start.offset() as usize, last.end.location.offset() as usize);
    let sectors: Vec<usize> = (start / 512..end.div_ceil(512)).collect();
    for kept in 0..1_u32 << sectors.len() {
        let storage = log.storage.crash(Crash::Kill, 1);
        let file = crate::storage::Storage::open(&storage, &path).unwrap();
        for (bit, sector) in sectors.iter().enumerate() {
            let from = (sector * 512).max(start);
            let to = ((sector + 1) * 512).min(end);
            if kept & (1 << bit) == 0 {
                file.write_at(from as u64, &vec![0; to - from]).unwrap();
            }
        }
        let is_whole = storage.image()[&path] == whole;
        let (payloads, ending) = scan(&storage).unwrap();
        assert_eq!(payloads.len(), if is_whole { 3 } else { 1 }, "{kept:b}");
        assert_eq!(ending.torn.is_some(), !is_whole && kept != 0, "{kept:b}");
    }
}

#[test]
fn every_flipped_bit_is_refused_voided_torn_or_harmless_and_the_scan_changes_nothing() {
    let mut log = Log::new(SMALL);
    log.prepare(true);
    for number in 0..9_u8 {
        log.commit(&[&[number; 400], &[number; 77]]);
    }
    log.commit(&[b"last"]);
    log.prepare(true);
    let (all, whole_end) = scan(&log.storage).unwrap();
    let mut seen = [0_u32; 4];
    for number in 1..=3 {
        let path = segment_path(SegmentNumber(number));
        for offset in (0..u64::from(SMALL)).filter(|offset| *offset < 64 || *offset % 3 == 0) {
            assert!(log.storage.damage(&path, offset, 1 << (offset % 8)));
            let before = (log.storage.image(), log.storage.counts().changing());
            let place = Location::in_segment(SegmentNumber(number), offset as u32);
            match scan(&log.storage) {
                Err(Error::Corrupt { path: named, .. }) => {
                    assert!(place < whole_end.vouched && named == path, "{place}: {named}");
                    seen[0] += 1;
                }
                Err(error) => panic!("{place}: {error}"),
                Ok((payloads, end)) if end.damaged_payloads > 0 => {
                    assert!(place < whole_end.vouched && payloads.len() == all.len(), "{place}");
                    seen[1] += 1;
                }
                Ok((payloads, end)) if payloads != all => {
                    assert!(place >= whole_end.vouched && payloads == all[..all.len() - 1], "{place}");
                    assert!(end.torn.is_some());
                    seen[2] += 1;
                }
                Ok(_) => seen[3] += 1,
            }
            assert_eq!(before, (log.storage.image(), log.storage.counts().changing()), "{place}");
            assert!(log.storage.damage(&path, offset, 1 << (offset % 8)));
        }
    }
    assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_torn_tail_is_accepted() {
    use crate::planted::{Planted, plant};
    let mut log = Log::new(SMALL);
    let last = log.write(&[b"torn"]);
    damage(&log.storage, last.start, BATCH_HEADER_BYTES + 2);
    plant(Some(Planted::TornTailAccepted));
    let mut scanner = Scanner::new(shared(&log.storage), STREAM, &ScanStart::BEGINNING).unwrap();
    let accepted = scanner.next_batch().unwrap().is_some();
    plant(None);
    assert!(accepted);
}
