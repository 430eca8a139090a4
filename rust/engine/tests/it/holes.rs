//! Holes in real files: the disk space that they give back, and the readers that they wait for.

#![cfg(test)]

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Faults, bodies, collect, consume, eventually, open, options, publish, subscribe};
use delaymq_core::units::Millis;
use delaymq_engine::{Delivered, Due, Durability, ManualClock, Options, Report, Store, Subscription};

const MESSAGES_OF_A_BATCH: usize = 25;

fn hollow() -> Options {
    let mut options = Options { segment_bytes: 256 << 10, ..options(Durability::Os) };
    options.owner.checkpoint_bytes = u64::MAX;
    options.owner.checkpoint_facts = u64::MAX;
    options.owner.keep_finished_ms = 0;
    options.owner.reclaim_bytes = 1;
    options
}

/// Bytes of the disk that a segment takes.
fn taken(folder: &Path, segment: u32) -> u64 {
    std::fs::metadata(folder.join(format!("log/{segment:010}.segment"))).map_or(0, |data| data.blocks() * 512)
}

/// Eight openings, each with one message: what was prepared for more of them is not kept.
#[test]
fn a_segment_that_an_opening_left_takes_no_more_room_than_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options { segment_bytes: 8 << 20, ..options(Durability::Disk) };
    for opening in 0..8 {
        let store = open(folder.path(), options());
        publish(&store, "slow", Due::After(3_600_000), format!("slow {opening}").as_bytes());
        store.close().unwrap();
    }
    let path = |segment: u32| folder.path().join(format!("log/{segment:010}.segment"));
    let whole = (1..9).filter(|segment| std::fs::metadata(path(*segment)).unwrap().len() == 1 << 20).count();
    assert!(whole >= 7, "{whole} of them keep their length");
    let full = |segment: &u32| taken(folder.path(), *segment) > 64 << 10;
    assert_eq!((1..10).filter(full).count(), 0, "closing gives back what no message took");
    let store = open(folder.path(), options());
    assert_eq!(store.status().unwrap().pending, 8);
}

fn noise(store: &Store, messages: &Subscription) -> Vec<Delivered> {
    let mut batch = store.batch();
    for _ in 0..MESSAGES_OF_A_BATCH {
        batch.push("noise", Due::After(0), &[0; 5], &[7; 1_000]).unwrap();
    }
    store.publish(&mut batch).unwrap();
    consume(messages, MESSAGES_OF_A_BATCH)
}

/// A message that nobody takes, and five segments of others that are taken; one of the latter.
fn fill(store: &Store, quick: &Subscription) -> Delivered {
    let mut seen = None;
    for turn in 0..45 {
        if turn % 15 == 0 {
            publish(store, "slow", Due::After(0), format!("slow {turn}").as_bytes());
        }
        let of_turn = noise(store, quick);
        if turn == 12 {
            seen = of_turn.into_iter().next();
        }
    }
    assert!(quick.flush(Duration::from_secs(5)).unwrap());
    seen.unwrap()
}

fn two_checkpoints(store: &Store, quick: &Subscription) {
    for _ in 0..2 {
        noise(store, quick);
        store.checkpoint().unwrap();
    }
}

#[test]
fn what_is_finished_behind_a_straggler_is_given_back_once_nobody_looks_at_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), hollow());
    let slow = subscribe(&store, "slow", "g");
    let quick = subscribe(&store, "noise", "g");
    let seen = fill(&store, &quick);
    let full = || (1..6).filter(|segment| taken(folder.path(), *segment) > 200 << 10).count();
    assert!(full() >= 4, "{}", full());
    two_checkpoints(&store, &quick);
    // One segment has what somebody still looks at, the others are given back.
    eventually("all but one are hollow", || full() == 1);
    assert_eq!(seen.body(), [7; 1_000]);
    drop(seen);
    eventually("so is that one", || full() == 0);
    assert!(store.status().unwrap().metrics.punched_bytes > 400 << 10);
    drop((quick, slow));
    store.close().unwrap();
    let found = Store::verify(folder.path()).unwrap();
    assert_eq!(found.findings, Vec::<String>::new());
    let store = open(folder.path(), hollow());
    let slow = subscribe(&store, "slow", "g");
    assert_eq!(bodies(&collect(&slow, 3)), ["slow 0", "slow 15", "slow 30"]);
}

#[test]
fn what_an_archive_has_not_got_yet_is_not_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), hollow());
    let slow = subscribe(&store, "slow", "g");
    let quick = subscribe(&store, "noise", "g");
    drop(fill(&store, &quick));
    let mark = folder.path().join("pins/archived-00000000000000000001-audit");
    std::fs::write(&mark, b"").unwrap();
    for _ in 0..3 {
        two_checkpoints(&store, &quick);
    }
    assert_eq!(store.status().unwrap().metrics.punched_bytes, 0);
    assert!((1..6).filter(|segment| taken(folder.path(), *segment) > 200 << 10).count() >= 4);
    std::fs::remove_file(&mark).unwrap();
    eventually("it is archived, and nobody waits", || {
        two_checkpoints(&store, &quick);
        (1..6).all(|segment| taken(folder.path(), segment) < 200 << 10)
    });
    assert_eq!(bodies(&collect(&slow, 3)), ["slow 0", "slow 15", "slow 30"]);
}

#[test]
fn a_disk_without_holes_is_told_once_and_keeps_all() {
    let folder = tempfile::tempdir().unwrap();
    let (storage, switches) = Faults::over(folder.path());
    switches.no_holes.store(true, Ordering::SeqCst);
    let store = Store::open_on(storage, folder.path(), hollow(), &mut |_| {}).unwrap();
    let slow = subscribe(&store, "slow", "g");
    let quick = subscribe(&store, "noise", "g");
    let mut told = Vec::new();
    for _ in 0..3 {
        // Each time there are others that could be given back.
        drop(fill(&store, &quick));
        two_checkpoints(&store, &quick);
        eventually("it is asked", || switches.punches.load(Ordering::SeqCst) > 0);
        told.extend(std::iter::from_fn(|| store.next_report(Duration::ZERO).unwrap()));
    }
    let of_holes = told.iter().filter(|report| matches!(report, Report::NoHoles)).count();
    assert_eq!(of_holes, 1, "{told:?}");
    assert_eq!(switches.punches.load(Ordering::SeqCst), 1, "it was told once that there are no holes");
    assert!(taken(folder.path(), 3) > 200 << 10);
    assert_eq!(bodies(&collect(&slow, 9)), ["slow 0", "slow 15", "slow 30"].repeat(3));
}

/// The largest run, how many bytes of the disk it takes, and how long it is.
fn largest_run(folder: &Path) -> (PathBuf, u64, u64) {
    let files = std::fs::read_dir(folder.join("runs")).unwrap().filter_map(|entry| {
        let entry = entry.ok()?;
        let data = entry.metadata().ok()?;
        Some((entry.path(), data.blocks() * 512, data.len()))
    });
    files.max_by_key(|(_, _, length)| *length).unwrap()
}

const FAR_MS: u64 = 24 * 3_600_000;

fn far(number: u64) -> String {
    format!("far {number:03} {}", "x".repeat(2_000))
}

/// More than half of a run waits, so it is not written again; the room of what was cancelled comes back.
#[test]
fn what_was_cancelled_of_a_run_that_stays_is_given_back_and_all_else_comes_whole() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Millis(1_800_000_000_000)).unwrap());
    let by_hand = || {
        let mut options = Options { clock: Arc::clone(&clock) as _, ..hollow() };
        // Payloads of small runs would be copied by the next merge.
        options.owner.merge_payload_bytes = 0;
        options
    };
    let store = open(folder.path(), by_hand());
    let all = subscribe(&store, "far", "g");
    let receipts: Vec<_> = (0..400)
        .map(|number| publish(&store, "far", Due::After(FAR_MS + number * 1_000), far(number).as_bytes()))
        .collect();
    store.checkpoint().unwrap();
    let (run, full, length) = largest_run(folder.path());
    assert!(full > 400 * 2_000 && full >= length, "{full} of {length}");
    store.cancel_many(&receipts[100..250]).unwrap();
    let hollow_by = 140 * 2_000;
    eventually("the room of what was cancelled comes back", || {
        publish(&store, "noise", Due::After(0), b"behind");
        store.checkpoint().unwrap();
        largest_run(folder.path()).1 + hollow_by < full
    });
    let (stays, _, now_long) = largest_run(folder.path());
    assert_eq!((stays, now_long), (run, length), "the run stays, as long as it was");
    assert!(store.status().unwrap().metrics.punched_bytes > hollow_by);
    drop(all);
    store.close().unwrap();
    assert_eq!(Store::verify(folder.path()).unwrap().findings, Vec::<String>::new());
    let store = open(folder.path(), by_hand());
    let all = subscribe(&store, "far", "g");
    clock.advance(2 * FAR_MS, Duration::from_secs(20), &mut || true).unwrap();
    let found = bodies(&consume(&all, 250));
    assert_eq!(found, (0..100).chain(250..400).map(far).collect::<Vec<_>>());
}

/// Whoever copies a store by second names of its files, as a simulation does, has other checkpoints than the store.
#[test]
fn what_has_another_name_is_the_copy_of_somebody_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = hollow();
    options.owner.merge_payload_bytes = 0;
    let store = open(folder.path(), options);
    let receipts: Vec<_> = (0..400)
        .map(|number| publish(&store, "far", Due::After(FAR_MS + number * 1_000), far(number).as_bytes()))
        .collect();
    store.checkpoint().unwrap();
    let (run, full, _) = largest_run(folder.path());
    let copy = folder.path().join("copy");
    std::fs::hard_link(&run, &copy).unwrap();
    let before = std::fs::read(&copy).unwrap();
    store.cancel_many(&receipts[100..250]).unwrap();
    eventually("what was cancelled is given back", || {
        publish(&store, "noise", Due::After(0), b"behind");
        store.checkpoint().unwrap();
        store.status().unwrap().metrics.punched_bytes > 140 * 2_000
    });
    assert_eq!(largest_run(folder.path()).1, full);
    assert!(std::fs::read(&copy).unwrap() == before, "the copy has other bytes");
    store.close().unwrap();
    assert_eq!(Store::verify(folder.path()).unwrap().findings, Vec::<String>::new());
}
