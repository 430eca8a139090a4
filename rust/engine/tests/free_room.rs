//! Marks of free room on a disk of a given size: room comes back without anybody's help, and what a store has set
//! aside for its own messages is not held against it.

#![cfg(test)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::units::Millis;
use delaymq_engine::{Due, Durability, FreeMarks, ManualClock, Options, Receipts, Store};
use support::{Faults, Switches, consume, eventually, options, subscribe};

const START: Millis = Millis(1_800_000_000_000);
const HOUR: u64 = 3_600_000;
const SEGMENT: u64 = 64 << 10;
/// Of the disk that others need.
const MARK: u64 = 20 * SEGMENT;

fn with_marks(refuse_bytes: u64) -> Options {
    let marks = FreeMarks { warn_bytes: 0, refuse_bytes };
    Options { marks, segment_bytes: 64 << 10, ..options(Durability::Os) }
}

/// On a disk that is `segments` larger than the mark.
fn open_on_disk(path: &Path, disk_bytes: u64, options: Options) -> (Arc<Store>, Arc<Switches>) {
    let (storage, switches) = Faults::over(path);
    switches.disk_bytes.store(disk_bytes, Ordering::SeqCst);
    (Store::open_on(storage, path, options, &mut |_| {}).unwrap(), switches)
}

fn try_publish(store: &Store) -> Result<Receipts> {
    let mut batch = store.batch();
    batch.push("orders", Due::After(0), &[0; 5], &[b'x'; 1_000])?;
    store.publish(&mut batch)
}

#[test]
fn below_the_mark_what_has_grown_old_goes_and_publishes_are_taken_again() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START).unwrap());
    let mut options = Options { clock: Arc::clone(&clock) as _, ..with_marks(MARK) };
    options.owner.keep_finished_ms = HOUR;
    let (store, _switches) = open_on_disk(folder.path(), MARK + 8 * SEGMENT, options);
    let messages = subscribe(&store, "orders", "billing");
    let refused = loop {
        match try_publish(&store) {
            Ok(_) => assert_eq!(consume(&messages, 1).len(), 1),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::BelowMark { .. }), "{refused}");
    assert!(messages.flush(Duration::from_secs(5)).unwrap());
    // Until now it is kept for who wants to read it.
    let retired = || store.status().unwrap().metrics.retired_files;
    assert_eq!(retired(), 0);
    clock.advance(HOUR + 1, Duration::from_secs(20), &mut || true).unwrap();
    eventually("publishes are taken again", || try_publish(&store).is_ok());
    assert!(retired() > 0);
    store.close().unwrap();
}
