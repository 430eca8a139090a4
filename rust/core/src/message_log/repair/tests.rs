use super::*;
use crate::message_log::tests::fixture::{Log, STREAM, scan, start};
use crate::message_log::{AppenderStart, LaterSegment, list_segments};
use crate::storage::{Crash, MemoryStorage};
use crate::units::Location;

const SMALL: u32 = 8 << 10;

/// Scans, repairs and continues in the next segment, as an opening does.
fn reopen(storage: &MemoryStorage, epoch: u32) -> (Log, Repaired) {
    let ending = scan(storage).unwrap().1;
    let repaired = repair(storage, STREAM, &ending, Epoch(epoch)).unwrap();
    let next = AppenderStart {
        epoch: Epoch(epoch),
        number: repaired.next_segment,
        chain: ending.chain,
        next_sequence: ending.next_sequence,
        trusted: ending.trusted,
        ..start(SMALL)
    };
    (Log::in_storage(storage.clone(), &next), repaired)
}

#[test]
fn an_unsealed_end_is_copied_and_sealed_and_the_log_goes_on() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    let synced = log.commit(&[b"b"]);
    let before = log.storage.image()[&segment_path(SegmentNumber(1))].clone();
    let (mut again, repaired) = reopen(&log.storage, 2);
    assert!(repaired.copied && repaired.set_aside.is_empty() && repaired.removed.is_empty());
    assert_eq!(repaired.next_segment, SegmentNumber(2));
    let end = synced.end.location.offset() as usize;
    assert_eq!(log.storage.image()[&segment_path(SegmentNumber(1))][..end], before[..end], "nothing has moved");
    again.commit(&[b"c"]);
    let cut = log.storage.crash(Crash::PowerCutLosesAll, 1);
    assert_eq!(scan(&cut).unwrap().0, [b"a", b"b", b"c"]);
}

#[test]
fn what_was_written_before_a_kill_is_durable_after_the_repair() {
    let mut log = Log::new(SMALL);
    log.write(&[b"never synced"]);
    let killed = log.storage.crash(Crash::Kill, 1);
    let (mut again, _) = reopen(&killed, 2);
    again.commit(&[b"later"]);
    assert_eq!(scan(&killed.crash(Crash::PowerCutLosesAll, 1)).unwrap().0.len(), 2);
}

#[test]
fn a_torn_tail_is_kept_aside_at_its_place() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    let torn = log.write(&[b"torn"]);
    let path = segment_path(SegmentNumber(1));
    log.storage.damage(&path, u64::from(torn.start.offset()) + 2, 1);
    let before = log.storage.image()[&path].clone();
    let (_, repaired) = reopen(&log.storage, 5);
    assert_eq!(repaired.set_aside, ["aside/0000000001.segment.5"]);
    let cut = log.storage.crash(Crash::PowerCutLosesAll, 1);
    let aside = cut.image()["aside/0000000001.segment.5"].clone();
    let start = torn.start.offset() as usize;
    assert_eq!(aside[start..], before[start..aside.len()]);
    assert!(before[aside.len()..].iter().all(|byte| *byte == 0));
    assert_eq!(scan(&cut).unwrap().0, [b"a"]);
    assert_eq!(scan(&cut).unwrap().1.torn, None);
}

#[test]
fn a_sealed_end_is_not_copied_and_its_seal_is_made_sure_of() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    log.prepare(true);
    // The seal was written, and the process was killed before the seal was synced.
    log.storage.fail_call_of(crate::storage::Call::Sync, 0, crate::error::StorageFault::Stopped);
    log.appender.seal_and_close(Location(0)).unwrap_err();
    let killed = log.storage.crash(Crash::Kill, 1);
    assert!(scan(&killed).unwrap().1.sealed);
    let (mut again, repaired) = reopen(&killed, 2);
    assert_eq!((repaired.copied, repaired.removed), (false, vec![SegmentNumber(2)]));
    again.commit(&[b"b"]);
    for seed in 0..50 {
        assert_eq!(scan(&killed.crash(Crash::PowerCut, seed)).unwrap().0, [b"a", b"b"]);
    }
}

#[test]
fn later_segments_go_aside_or_away_before_the_end_is_sealed() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    log.prepare(true);
    log.prepare(true);
    log.storage.damage(&segment_path(SegmentNumber(3)), 5000, 1);
    let ending = scan(&log.storage).unwrap().1;
    let later = |number, has_content| LaterSegment { number: SegmentNumber(number), has_content };
    assert_eq!(ending.later_segments, [later(2, false), later(3, true)]);
    let repaired = repair(&log.storage, STREAM, &ending, Epoch(2)).unwrap();
    assert_eq!(repaired.removed, [SegmentNumber(2)]);
    assert_eq!(repaired.set_aside, ["aside/0000000003.segment.2"]);
    assert_eq!(list_segments(&log.storage).unwrap(), [SegmentNumber(1)]);
}

#[test]
fn unfinished_files_are_removed() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    for name in ["0000000009.segment.ahead.tmp", "0000000001.segment.repair.tmp"] {
        log.storage.create(&format!("log/{name}")).unwrap();
    }
    reopen(&log.storage, 2);
    assert!(log.storage.image().keys().all(|path| !path.contains("tmp")));
}

#[test]
fn a_repair_that_is_stopped_anywhere_is_done_again() {
    let mut log = Log::new(SMALL);
    log.commit(&[&[1; 3000]]);
    log.commit(&[&[2; 3000]]);
    let torn = log.write(&[&[3; 500]]);
    log.storage.damage(&segment_path(SegmentNumber(2)), u64::from(torn.start.offset()) + 400, 1);
    assert_eq!(torn.start.segment(), Some(SegmentNumber(2)));
    log.prepare(true);
    let mut calls = 0;
    loop {
        let mut done = false;
        for seed in 0..40 {
            let storage = log.storage.crash(Crash::Kill, seed);
            let ending = scan(&storage).unwrap().1;
            storage.stop_after_calls(calls);
            done = repair(&storage, STREAM, &ending, Epoch(2)).is_ok();
            let crash = if seed % 2 == 0 { Crash::PowerCut } else { Crash::Kill };
            let after = storage.crash(crash, seed);
            let (mut again, _) = reopen(&after, 3);
            again.commit(&[b"on"]);
            let payloads = scan(&after.crash(Crash::PowerCut, seed)).unwrap().0;
            let expected = [vec![1; 3000], vec![2; 3000], b"on".to_vec()];
            assert!(payloads == expected, "{calls} {seed}: {} batches", payloads.len());
        }
        if done {
            break;
        }
        calls += 1;
    }
    assert!(calls > 15, "{calls}");
}

#[test]
fn openings_that_write_nothing_leave_nothing_behind() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    let mut storage = log.storage.clone();
    for epoch in 2..10 {
        let (again, repaired) = reopen(&storage, epoch);
        assert_eq!(repaired.next_segment, SegmentNumber(2), "it had not been used");
        storage = again.storage.crash(Crash::PowerCutLosesAll, 1);
    }
    assert_eq!(scan(&storage).unwrap().0, [b"a"]);
}

#[test]
fn the_first_segment_is_never_removed() {
    let log = Log::new(SMALL);
    let (again, repaired) = reopen(&log.storage, 2);
    assert!(repaired.copied);
    drop(again);
    assert_eq!(list_segments(&log.storage).unwrap(), [SegmentNumber(1), SegmentNumber(2)]);
}

/// If a segment with a damaged header were copied, every later opening would refuse the copy.
#[test]
fn a_damaged_header_behind_a_seal_goes_aside_and_the_store_opens_ever_after() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    let (mut second, _) = reopen(&log.storage, 2);
    second.commit(&[b"nobody vouched for it"]);
    second.storage.damage(&segment_path(SegmentNumber(2)), 20, 1);
    let (mut third, repaired) = reopen(&log.storage, 3);
    assert_eq!(repaired.set_aside, ["aside/0000000002.segment.3"]);
    third.commit(&[b"c"]);
    let (mut fourth, _) = reopen(&log.storage, 4);
    fourth.commit(&[b"d"]);
    assert_eq!(scan(&log.storage).unwrap().0, [b"a".as_slice(), b"c", b"d"]);
}

/// The files that were set aside, by name.
fn aside(storage: &MemoryStorage) -> Vec<(String, Vec<u8>)> {
    storage.image().into_iter().filter(|(path, _)| path.starts_with("aside/")).collect()
}

#[test]
fn segments_of_one_number_that_go_aside_in_one_epoch_are_all_kept() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    let (mut next, _) = reopen(&log.storage, 2);
    for (payload, again) in [(b"x", ""), (b"y", ".2"), (b"z", ".3")] {
        next.commit(&[payload]);
        next.storage.damage(&segment_path(SegmentNumber(2)), 20, 1);
        let found = next.storage.image()[&segment_path(SegmentNumber(2))].clone();
        let (opened, repaired) = reopen(&log.storage, 5);
        let name = format!("aside/0000000002.segment.5{again}");
        assert_eq!(repaired.set_aside, std::slice::from_ref(&name));
        assert!(opened.storage.crash(Crash::PowerCutLosesAll, 1).image()[&name] == found);
        next = opened;
    }
    assert_eq!(aside(&log.storage).len(), 3);
}

#[test]
fn torn_tails_of_one_segment_and_one_epoch_are_all_kept_once() {
    let storage = Log::new(SMALL).storage;
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for (payload, name) in [(b"one", "5"), (b"two", "5.2"), (b"one", "5"), (b"six", "5.3")] {
        let mut log = Log::in_storage(storage.clone(), &start(SMALL));
        log.commit(&[b"a"]);
        let torn = log.write(&[payload]);
        storage.damage(&segment_path(SegmentNumber(1)), u64::from(torn.start.offset()) + 2, 1);
        let found = storage.image()[&segment_path(SegmentNumber(1))][torn.start.offset() as usize..][..100].to_vec();
        let (_, repaired) = reopen(&storage, 5);
        assert_eq!(repaired.set_aside, [format!("aside/0000000001.segment.{name}")]);
        kept.push(found);
        let after = storage.crash(Crash::PowerCutLosesAll, 1);
        for tail in &kept {
            let has = |(_, bytes): &(String, Vec<u8>)| bytes[torn.start.offset() as usize..].starts_with(tail);
            assert_eq!(aside(&after).iter().filter(|one| has(one)).count(), 1);
        }
        storage.remove(&segment_path(SegmentNumber(2))).unwrap();
    }
}

#[test]
fn a_repair_that_is_stopped_and_done_again_in_its_epoch_keeps_one_evidence() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    let torn = log.commit(&[&[3; 1_500]]);
    let path = segment_path(SegmentNumber(1));
    log.storage.damage(&path, u64::from(torn.start.offset()) + 400, 1);
    let (before, from) = (log.storage.image()[&path].clone(), torn.start.offset() as usize);
    for calls in 0.. {
        let mut done = false;
        for seed in 0..20 {
            let storage = log.storage.crash(Crash::Kill, seed);
            let ending = scan(&storage).unwrap().1;
            storage.stop_after_calls(calls);
            done = repair(&storage, STREAM, &ending, Epoch(5)).is_ok();
            let after = storage.crash(if seed % 2 == 0 { Crash::PowerCut } else { Crash::Kill }, seed);
            reopen(&after, 5);
            let kept = aside(&after.crash(Crash::PowerCutLosesAll, seed));
            let [(_, bytes)] = kept.as_slice() else { panic!("{calls} {seed}: {} files", kept.len()) };
            assert!(bytes[from..] == before[from..bytes.len()], "{calls} {seed}");
        }
        if done {
            break;
        }
    }
}
