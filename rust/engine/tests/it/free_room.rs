//! The marks of free room, on a disk of a given size: room is freed without help, and space that a store has set aside
//! for its own messages counts as free.

#![cfg(test)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Faults, Switches, consume, eventually, options, subscribe};
use delaymq_core::error::{Error, Result};
use delaymq_core::units::Millis;
use delaymq_engine::{
    ConsumerId, Due, Durability, FreeMarks, ManualClock, NamedOptions, Options, Receipts, Registration, Report, Store,
    SubscribeOptions,
};

const START: Millis = Millis(1_800_000_000_000);
const HOUR: u64 = 3_600_000;
const SEGMENT: u64 = 64 << 10;
/// Of the disk that others need.
const MARK: u64 = 20 * SEGMENT;

fn with_marks(refuse_bytes: u64) -> Options {
    let marks = FreeMarks { warn_bytes: 0, refuse_bytes };
    Options { marks, segment_bytes: 64 << 10, ..options(Durability::Os) }
}

/// On a disk of a given size.
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

#[test]
fn what_the_log_has_prepared_is_not_held_against_it() {
    let folder = tempfile::tempdir().unwrap();
    let (store, switches) = open_on_disk(folder.path(), MARK + 3 * SEGMENT / 2, with_marks(MARK));
    try_publish(&store).unwrap();
    // It has prepared what it wants, and nothing else took room.
    eventually("a segment ahead", || store.status().unwrap().metrics.prepared_segments >= 1);
    eventually("a look at less than the mark", || store.status().unwrap().free_bytes.is_some_and(|free| free < MARK));
    try_publish(&store).unwrap();
    eventually("the rest is for others", || matches!(try_publish(&store), Err(Error::BelowMark { .. })));
    switches.disk_bytes.store(MARK + 10_000 * SEGMENT, Ordering::SeqCst);
    eventually("publishes are taken again", || try_publish(&store).is_ok());
    store.close().unwrap();
}

#[test]
fn below_the_mark_new_consumers_finish_what_groups_have_and_new_groups_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::support::open(folder.path(), with_marks(0));
    let named = |store: &Store, group, consumer| {
        let id = ConsumerId { subject: "orders", group, consumer };
        store.register_named_consumer(id, NamedOptions::default()).and_then(Registration::finish)
    };
    drop(named(&store, "billing", "host-1").unwrap());
    try_publish(&store).unwrap();
    store.close().unwrap();
    let store = crate::support::open(folder.path(), with_marks(u64::MAX));
    assert!(matches!(try_publish(&store), Err(Error::BelowMark { .. })));
    named(&store, "billing", "host-2").unwrap();
    assert!(matches!(named(&store, "new", "host-2").err(), Some(Error::BelowMark { .. })));
    let new = store.subscribe("orders", "new", SubscribeOptions::default());
    assert!(matches!(new.err(), Some(Error::BelowMark { .. })));
    // The group has no retry subject yet, which an embedded consumer makes.
    let messages = subscribe(&store, "orders", "billing");
    assert_eq!(consume(&messages, 1).len(), 1);
    assert!(messages.flush(Duration::from_secs(5)).unwrap());
    store.close().unwrap();
}

#[test]
fn room_is_told_again_when_neither_the_disk_nor_the_mark_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let (store, switches) = open_on_disk(folder.path(), MARK + 100 * SEGMENT, with_marks(MARK));
    switches.no_space.store(true, Ordering::SeqCst);
    eventually("the disk is full", || matches!(try_publish(&store), Err(Error::DiskFull)));
    switches.disk_bytes.store(1, Ordering::SeqCst);
    eventually("it is below the mark, too", || matches!(try_publish(&store), Err(Error::BelowMark { .. })));
    switches.no_space.store(false, Ordering::SeqCst);
    switches.disk_bytes.store(MARK + 10_000 * SEGMENT, Ordering::SeqCst);
    eventually("publishes are taken", || try_publish(&store).is_ok());
    let kinds: Vec<_> = std::iter::from_fn(|| store.next_report(Duration::ZERO).unwrap()).collect();
    // The mark ends first, and what was full is known to be so no more by the next segment that is prepared.
    let again = kinds.iter().filter(|report| matches!(report, Report::RoomAgain)).count();
    assert_eq!(again, 1, "{kinds:?}");
    store.close().unwrap();
}
