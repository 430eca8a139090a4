//! Checkpoints and retention on real files.

#![cfg(test)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Faults, collect, consume, eventually, open, options, publish, subscribe};
use delaymq_engine::{Clock, ClockReading, Due, Durability, Options, Store, Subscription, SystemClock, pin_again};

fn small() -> Options {
    let mut options = Options { segment_bytes: 64 << 10, ..options(Durability::Os) };
    options.owner.checkpoint_bytes = 128 << 10;
    options.owner.keep_finished_ms = 0;
    options
}

fn files(folder: &Path, name: &str) -> usize {
    std::fs::read_dir(folder.join(name)).unwrap().count()
}

#[test]
fn finished_segments_go_and_pending_messages_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), small());
    let messages = subscribe(&store, "orders", "billing");
    for number in 0..50_u32 {
        publish(&store, "late", Due::After(3_600_000 + u64::from(number)), format!("late {number}").as_bytes());
    }
    for _ in 0..80 {
        let mut batch = store.batch();
        for _ in 0..25 {
            batch.push("orders", Due::After(0), &[0; 5], &[7; 1_000]).unwrap();
        }
        store.publish(&mut batch).unwrap();
        assert_eq!(consume(&messages, 25).len(), 25);
    }
    assert!(messages.flush(Duration::from_secs(5)).unwrap());
    for _ in 0..3 {
        publish(&store, "orders", Due::After(0), b"x");
        consume(&messages, 1);
        messages.flush(Duration::from_secs(5)).unwrap();
        store.checkpoint().unwrap();
    }
    eventually("segments retire", || files(folder.path(), "log") < 12);
    assert_eq!(files(folder.path(), "checkpoints"), 2);
    assert_eq!(store.status().unwrap().pending, 50);
    drop(messages);
    store.close().unwrap();
    let store = open(folder.path(), small());
    assert_eq!(store.status().unwrap().pending, 50);
    store.close().unwrap();
}

/// Publishes and finishes messages of more than 12 segments.
fn fill(store: &Store, messages: &Subscription) {
    for _ in 0..40 {
        let mut batch = store.batch();
        for _ in 0..25 {
            batch.push("orders", Due::After(0), &[0; 5], &[7; 1_000]).unwrap();
        }
        store.publish(&mut batch).unwrap();
        assert_eq!(consume(messages, 25).len(), 25);
    }
    messages.flush(Duration::from_secs(5)).unwrap();
}

/// Leaves a store whose retention waits for a pin in this folder. Returns the path of the pin, a time that is over, and the number of segments.
fn leave_pinned(folder: &Path) -> (PathBuf, u64, usize) {
    let store = open(folder, small());
    let messages = subscribe(&store, "orders", "billing");
    let now = store.status().unwrap().now.0;
    let pin = folder.join("pins").join(format!("{}-reader", now + 3_600_000));
    std::fs::write(&pin, "").unwrap();
    fill(&store, &messages);
    for _ in 0..4 {
        publish(&store, "orders", Due::After(0), b"x");
        consume(&messages, 1);
        messages.flush(Duration::from_secs(5)).unwrap();
        store.checkpoint().unwrap();
    }
    let segments = files(folder, "log");
    assert!(segments >= 12, "{segments}");
    assert!(files(folder, "checkpoints") > 2);
    drop(messages);
    store.close().unwrap();
    (pin, now, segments)
}

const PINNED: &str = "log/0000000002.segment";

#[test]
fn a_pin_holds_retired_files_until_it_expires() {
    let folder = tempfile::tempdir().unwrap();
    let (pin, now, segments) = leave_pinned(folder.path());
    let store = open(folder.path(), small());
    assert!(folder.path().join(PINNED).exists(), "opening takes no file from a reader");
    let messages = subscribe(&store, "orders", "billing");
    std::fs::rename(&pin, folder.path().join("pins").join(format!("{now}-reader"))).unwrap();
    for _ in 0..4 {
        publish(&store, "orders", Due::After(0), b"x");
        consume(&messages, 1);
        messages.flush(Duration::from_secs(5)).unwrap();
        store.checkpoint().unwrap();
    }
    drop(messages);
    store.close().unwrap();
    let store = open(folder.path(), small());
    assert!(files(folder.path(), "log") < segments);
    assert_eq!(files(folder.path(), "checkpoints"), 2);
    store.close().unwrap();
}

/// The system's clocks, but the wall clock is an hour ahead until it is corrected.
#[derive(Default)]
struct Ahead {
    is_corrected: AtomicBool,
}

impl Clock for Ahead {
    fn read(&self) -> ClockReading {
        let ahead_ns = if self.is_corrected.load(Ordering::SeqCst) { 0 } else { 3_600_000_000_000 };
        let reading = SystemClock.read();
        ClockReading { wall_ns: reading.wall_ns + ahead_ns, ..reading }
    }
}

#[test]
fn a_pin_holds_while_the_wall_clock_is_behind_the_time_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Ahead::default());
    let store = open(folder.path(), Options { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..small() });
    let messages = subscribe(&store, "orders", "billing");
    publish(&store, "orders", Due::After(0), b"x");
    consume(&messages, 1);
    clock.is_corrected.store(true, Ordering::SeqCst);
    let pin = pin_again(folder.path(), 600_000).unwrap();
    assert!(store.status().unwrap().now > pin.expires);
    fill(&store, &messages);
    for _ in 0..4 {
        publish(&store, "orders", Due::After(0), b"x");
        store.checkpoint().unwrap();
    }
    assert!(folder.path().join(PINNED).exists(), "a file was taken from a reader");
    drop(pin);
    eventually("segments retire", || !folder.path().join(PINNED).exists());
    drop(messages);
    store.close().unwrap();
}

#[cfg(feature = "planted")]
#[test]
fn a_pin_that_retention_ignores_is_found() {
    use delaymq_core::planted::{Planted, plant};
    let folder = tempfile::tempdir().unwrap();
    leave_pinned(folder.path());
    plant(Some(Planted::PinIgnored));
    let opened = Store::open(folder.path(), small(), &mut |_| {});
    plant(None);
    opened.unwrap().close().unwrap();
    assert!(!folder.path().join(PINNED).exists(), "a file was taken from a reader");
}

#[test]
fn what_an_archive_has_not_stays_over_an_opening_until_its_mark_moves_on() {
    let folder = tempfile::tempdir().unwrap();
    let mark = |name: &str| folder.path().join("pins").join(name);
    let used = |turns: u32| {
        let store = open(folder.path(), small());
        let messages = subscribe(&store, "orders", "billing");
        for _ in 0..turns {
            let mut batch = store.batch();
            for _ in 0..25 {
                batch.push("orders", Due::After(0), &[0; 5], &[7; 1_000]).unwrap();
            }
            store.publish(&mut batch).unwrap();
            assert_eq!(consume(&messages, 25).len(), 25);
        }
        for _ in 0..4 {
            publish(&store, "orders", Due::After(0), b"x");
            consume(&messages, 1);
            messages.flush(Duration::from_secs(5)).unwrap();
            store.checkpoint().unwrap();
        }
        drop(messages);
        store.close().unwrap();
    };
    open(folder.path(), small()).close().unwrap();
    std::fs::write(mark("archived-0-a"), "").unwrap();
    used(40);
    used(0);
    assert!(files(folder.path(), "log") >= 12, "{}", files(folder.path(), "log"));
    assert!(folder.path().join("log/0000000002.segment").exists());
    std::fs::rename(mark("archived-0-a"), mark("archived-1000000-a")).unwrap();
    used(0);
    used(0);
    assert!(files(folder.path(), "log") < 12, "{}", files(folder.path(), "log"));
}

#[test]
fn what_lies_in_runs_is_delivered_when_due() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = small();
    options.owner.copy_after_ms = 0;
    let store = open(folder.path(), options.clone());
    let mut batch = store.batch();
    for number in 0..2_000_u32 {
        batch.push("orders", Due::After(1_500 + u64::from(number % 500)), &[0; 5], &number.to_le_bytes()).unwrap();
        if batch.len() == 20 {
            store.publish(&mut batch).unwrap();
        }
    }
    store.checkpoint().unwrap();
    store.checkpoint().unwrap();
    store.close().unwrap();
    let store = open(folder.path(), options);
    assert!(store.status().unwrap().recovered_facts < 100);
    let messages = subscribe(&store, "orders", "billing");
    let received = consume(&messages, 2_000);
    assert_eq!(received.len(), 2_000);
    assert!(received.windows(2).all(|pair| pair[0].due <= pair[1].due));
    let mut numbers: Vec<_> = received.iter().map(|m| u32::from_le_bytes(m.body().try_into().unwrap())).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..2_000));
}

#[test]
fn a_backlog_beyond_memory_is_read_from_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = small();
    options.owner.ready_entries_max = 100;
    let store = open(folder.path(), options);
    let first = subscribe(&store, "orders", "billing");
    let mut batch = store.batch();
    for number in 0..3_000_u32 {
        batch.push("orders", Due::After(0), &[0; 5], &number.to_le_bytes()).unwrap();
        if batch.len() == 100 {
            store.publish(&mut batch).unwrap();
        }
    }
    assert_eq!(collect(&first, 256).len(), 256);
    store.checkpoint().unwrap();
    let audit = subscribe(&store, "orders", "audit");
    let received = consume(&audit, 3_000);
    let numbers: Vec<_> = received.iter().map(|m| u32::from_le_bytes(m.body().try_into().unwrap())).collect();
    assert!(numbers.into_iter().eq(0..3_000));
}

/// The system's clock, under which nobody looks up without being woken.
struct Patient;

impl Clock for Patient {
    fn read(&self) -> ClockReading {
        SystemClock.read()
    }
    fn sleep_max(&self) -> Duration {
        Duration::from_secs(3_600)
    }
}

#[test]
fn what_came_while_a_checkpoint_was_written_is_in_the_next_one_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (storage, switches) = Faults::over(folder.path());
    let mut options = Options { clock: Arc::new(Patient), ..options(Durability::Os) };
    options.owner.checkpoint_facts = 20;
    let store = Store::open_on(storage, folder.path(), options, &mut |_| {}).unwrap();
    let burst = || {
        for _ in 0..30 {
            publish(&store, "orders", Due::After(3_600_000), b"x");
        }
    };
    let checkpoints = || {
        let names = std::fs::read_dir(folder.path().join("checkpoints")).unwrap();
        names.map(|one| one.unwrap().file_name()).filter(|name| name.to_string_lossy().ends_with(".checkpoint")).count()
    };
    assert_eq!(checkpoints(), 0);
    // Its run is not synced, so the first one cannot be finished.
    switches.stuck_runs.store(true, Ordering::SeqCst);
    burst();
    eventually("a checkpoint is written", || switches.run_syncs.load(Ordering::SeqCst) > 0);
    burst();
    // The driver comes to rest, so that it is woken only by what is to be told to it.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(checkpoints(), 0);
    switches.stuck_runs.store(false, Ordering::SeqCst);
    eventually("the next checkpoint", || checkpoints() == 2);
    store.close().unwrap();
}
