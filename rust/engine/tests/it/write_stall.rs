//! The write stall: however fast messages come, entries in memory are bounded. Publishes wait for the checkpoint that
//! writes them, and nothing else waits.

#![cfg(test)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Faults, Switches, eventually, segment_lengths};
use delaymq_core::store::ForecastQuery;
use delaymq_engine::{CancelOutcome, Due, Durability, Options, OwnerOptions, Store};

const FAR: Due = Due::After(86_400_000);
/// Entries in memory, and how many of them make a checkpoint due.
const RECENT_MAX: u64 = 30_000;
const CHECKPOINT_FACTS: u64 = 10_000;
const BATCH: u64 = 500;
const MESSAGES: u64 = 90_000;
/// One of these holds all of the messages.
const SEGMENT_BYTES: u32 = 8 << 20;

fn opened(path: &Path) -> (Arc<Store>, Arc<Switches>) {
    let owner =
        OwnerOptions { recent_entries_max: RECENT_MAX, checkpoint_facts: CHECKPOINT_FACTS, ..OwnerOptions::default() };
    let options = Options { durability: Durability::Os, segment_bytes: SEGMENT_BYTES, owner, ..Options::default() };
    let (storage, switches) = Faults::over(path);
    (Store::open_on(storage, path, options, &mut |_| {}).unwrap(), switches)
}

/// Publishes so many, and has them applied: what is not is bounded by its bytes.
fn published(store: &Store, count: u64) -> u64 {
    let mut batch = store.batch();
    for number in 0..count {
        batch.push("far", FAR, &[0; 5], &number.to_le_bytes()).unwrap();
    }
    let receipts = store.publish(&mut batch).unwrap();
    store.forecast(&ForecastQuery::default()).unwrap();
    receipts.len() as u64
}

/// Publishes large messages until an untouched segment of the full size is ready besides the one that is kept for what
/// ends messages. The thread that writes runs prepares segments too, so a stuck run would keep messages out before the
/// write stall does. Returns how many it published.
fn grow_segments(store: &Store, path: &Path) -> u64 {
    let mut count = 0;
    eventually("three segments have the full size", || {
        let mut batch = store.batch();
        batch.push("far", FAR, &[0; 5], &vec![b'x'; 1 << 20]).unwrap();
        store.publish(&mut batch).unwrap();
        count += 1;
        segment_lengths(path).iter().rev().take(3).filter(|length| **length == u64::from(SEGMENT_BYTES)).count() == 3
    });
    count
}

#[test]
fn whoever_publishes_faster_than_runs_are_written_waits_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let (store, switches) = opened(folder.path());
    let large = grow_segments(&store, folder.path());
    let mut first = store.batch();
    first.push("far", FAR, &[0; 5], b"first").unwrap();
    let receipt = store.publish(&mut first).unwrap().get(0).unwrap();
    switches.stuck_runs.store(true, Ordering::SeqCst);
    // A busy machine may begin it long after it is due, and who publishes before that does not wait.
    let count = Arc::new(AtomicU64::new(published(&store, CHECKPOINT_FACTS)));
    eventually("a checkpoint is under way", || switches.run_syncs.load(Ordering::SeqCst) > 0);
    let (filling, counted) = (Arc::clone(&store), Arc::clone(&count));
    let publisher = std::thread::spawn(move || {
        while counted.load(Ordering::SeqCst) < MESSAGES {
            counted.fetch_add(published(&filling, BATCH), Ordering::SeqCst);
        }
    });
    eventually("messages are let in", || count.load(Ordering::SeqCst) >= RECENT_MAX - BATCH);
    let mut let_in = u64::MAX;
    while let_in != count.load(Ordering::SeqCst) {
        let_in = count.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(500));
    }
    let cancelled = store.cancel(&receipt);
    switches.stuck_runs.store(false, Ordering::SeqCst);
    assert!((RECENT_MAX - BATCH..=RECENT_MAX + BATCH).contains(&let_in), "{let_in} were let in");
    assert_eq!(cancelled.unwrap(), CancelOutcome::Done, "what ends something does not wait");
    publisher.join().unwrap();
    assert_eq!(store.status().unwrap().pending, MESSAGES + large);
    store.close().unwrap();
}
