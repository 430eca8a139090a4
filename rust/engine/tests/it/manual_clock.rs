//! Stores on a manual clock, and stores that are abandoned as by `kill -9`.

#![cfg(test)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{bodies, open, options, publish, subscribe, taken};
use delaymq_core::error::Error;
use delaymq_core::units::Millis;
use delaymq_engine::{Due, Durability, ManualClock, Options, Ready, Store, SubscribeOptions, Subscription};

const START: Millis = Millis(1_800_000_000_000);
const DAY: u64 = 24 * 3_600_000;
const PATIENCE: Duration = Duration::from_secs(20);
const BOTH: [Durability; 2] = [Durability::Disk, Durability::Os];

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(START).unwrap())
}

fn open_by(path: &Path, clock: &Arc<ManualClock>, durability: Durability) -> Arc<Store> {
    open(path, Options { clock: Arc::clone(clock) as _, segment_bytes: 256 << 10, ..options(durability) })
}

fn turn(clock: &ManualClock, by_ms: u64) {
    clock.advance(by_ms, PATIENCE, &mut || true).unwrap();
}

fn texts(ready: &[Ready]) -> Vec<String> {
    ready.iter().map(|one| String::from_utf8(one.payload.body().to_vec()).unwrap()).collect()
}

#[test]
fn thirty_days_pass_in_a_moment() {
    for durability in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let store = open_by(folder.path(), &clock, durability);
        let messages = subscribe(&store, "orders", "billing");
        publish(&store, "orders", Due::After(30 * DAY), b"a month later");
        assert!(taken(&messages).is_empty());
        turn(&clock, 30 * DAY - 1);
        assert!(taken(&messages).is_empty(), "early");
        turn(&clock, 1);
        assert_eq!(bodies(&taken(&messages)), ["a month later"]);
        assert_eq!(messages.now().0, START.0 + 30 * DAY);
        assert!(!store.status().unwrap().held);
    }
}

#[test]
fn delays_count_from_the_first_message_until_the_time_is_renewed() {
    let folder = tempfile::tempdir().unwrap();
    let clock = clock();
    let store = open_by(folder.path(), &clock, Durability::Os);
    let mut batch = store.batch();
    let push = |batch: &mut delaymq_engine::PublishBatch| batch.push("orders", Due::After(DAY), &[], b"x").unwrap();
    push(&mut batch);
    turn(&clock, 5);
    push(&mut batch);
    batch.renew_time();
    push(&mut batch);
    let due: Vec<_> =
        store.publish(&mut batch).unwrap().iter().map(|receipt| receipt.key.due.0 - START.0 - DAY).collect();
    assert_eq!(due, [0, 0, 5]);
}

#[test]
fn what_lies_between_comes_in_the_order_of_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let clock = clock();
    let store = open_by(folder.path(), &clock, Durability::Os);
    let mut batch = store.batch();
    for number in 0..10_000_u64 {
        if number % 1_000 == 0 && number > 0 {
            store.publish(&mut batch).unwrap();
        }
        let due = Due::After(number.wrapping_mul(7_919) % 10_000 * 250_000 + number % 3);
        batch.push("orders", due, &[0; 5], &number.to_le_bytes()).unwrap();
    }
    store.publish(&mut batch).unwrap();
    turn(&clock, 30 * DAY);
    assert_eq!(store.status().unwrap().pending, 0);
    assert_eq!(store.ready("orders", None).unwrap().len(), 10_000);
    let options = SubscribeOptions { in_flight_max: 20_000, ..Default::default() };
    let messages = store.subscribe("orders", "billing", options).unwrap();
    let all = taken(&messages);
    assert_eq!(all.len(), 10_000);
    assert!(all.windows(2).all(|pair| (pair[0].due, pair[0].sequence) < (pair[1].due, pair[1].sequence)));
}

/// A consumer thread that gives everything back `times` times, an hour each, and notes when.
fn retrying(messages: &Subscription, times: u32, seen: &AtomicU64) -> Vec<(u64, u32)> {
    let mut when = Vec::new();
    loop {
        let pulled = messages.pull(100, Duration::from_secs(60)).unwrap();
        if pulled.is_empty() {
            return when;
        }
        for message in pulled {
            when.push((messages.now().0 - START.0, message.attempt));
            if message.attempt <= times {
                messages.give_back(message.key, 3_600_000).unwrap();
            } else {
                messages.acknowledge(&[message.key]).unwrap();
            }
            seen.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_consumer_acts_at_each_time_that_is_passed() {
    let folder = tempfile::tempdir().unwrap();
    let clock = clock();
    let store = open_by(folder.path(), &clock, Durability::Os);
    let messages = subscribe(&store, "orders", "billing");
    let seen = AtomicU64::new(0);
    publish(&store, "orders", Due::After(1_000), b"first");
    publish(&store, "orders", Due::After(DAY), b"second");
    std::thread::scope(|scope| {
        let consumer = scope.spawn(|| retrying(&messages, 3, &seen));
        assert!(!clock.await_consumers(2, Duration::from_millis(20), &mut || true));
        assert!(clock.await_consumers(1, PATIENCE, &mut || true));
        turn(&clock, 2 * DAY);
        assert_eq!(seen.load(Ordering::SeqCst), 8, "all of it happened before the clock was turned to its end");
        messages.stop();
        let hours = |start: u64| (0..4_u32).map(move |hour| (start + u64::from(hour) * 3_600_000, hour + 1));
        let expected: Vec<_> = hours(1_000).chain(hours(DAY)).collect();
        assert_eq!(consumer.join().unwrap(), expected);
    });
    assert_eq!(store.status().unwrap().ready, 0);
}

#[test]
fn a_thread_that_never_comes_back_is_waited_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let clock = clock();
    let store = open_by(folder.path(), &clock, Durability::Os);
    let messages = subscribe(&store, "orders", "billing");
    let (over, wait) = std::sync::mpsc::channel::<()>();
    publish(&store, "orders", Due::After(0), b"kept");
    for hour in 1..100 {
        publish(&store, "orders", Due::After(hour * 3_600_000), b"later");
    }
    std::thread::scope(|scope| {
        let (took, has_taken) = std::sync::mpsc::channel();
        let messages = &messages;
        scope.spawn(move || {
            assert_eq!(messages.pull(1, PATIENCE).unwrap().len(), 1);
            took.send(()).unwrap();
            assert!(wait.recv().is_err(), "told by the end of the sender");
        });
        has_taken.recv().unwrap();
        clock.advance(10 * DAY, Duration::from_millis(50), &mut || true).unwrap();
        drop(over);
    });
    assert_eq!(store.ready("orders", Some("billing")).unwrap().len(), 99);
}

#[test]
fn stores_share_a_clock_and_hand_on_to_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let clock = clock();
    let [first, second] = ["first", "second"].map(|name| open_by(&folder.path().join(name), &clock, Durability::Os));
    let messages = subscribe(&first, "orders", "relay");
    publish(&first, "orders", Due::After(DAY), b"relayed");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(message) = messages.pull(1, PATIENCE).unwrap().pop() {
                publish(&second, "orders", Due::After(DAY), message.body());
                messages.acknowledge(&[message.key]).unwrap();
            }
        });
        assert!(clock.await_consumers(1, PATIENCE, &mut || true));
        turn(&clock, 2 * DAY);
        messages.stop();
    });
    let ready = second.ready("orders", None).unwrap();
    assert_eq!(texts(&ready), ["relayed"]);
    assert_eq!(ready[0].due.0 - START.0, 2 * DAY);
}

#[test]
fn what_is_ready_is_seen_and_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let clock = clock();
    let store = open_by(folder.path(), &clock, Durability::Os);
    assert!(store.ready("orders", None).unwrap().is_empty());
    for body in [b"a", b"b", b"c"] {
        publish(&store, "orders", Due::After(0), body);
    }
    publish(&store, "orders", Due::After(1), b"later");
    assert_eq!(texts(&store.ready("orders", Some("billing")).unwrap()), ["a", "b", "c"]);
    let messages = subscribe(&store, "orders", "billing");
    let pulled = messages.pull(2, Duration::ZERO).unwrap();
    assert_eq!(bodies(&pulled), ["a", "b"]);
    assert_eq!(texts(&store.ready("orders", Some("billing")).unwrap()), ["c"]);
    assert_eq!(texts(&store.ready("orders", Some("audit")).unwrap()), ["a", "b", "c"], "a group that is not there yet");
    messages.acknowledge(&[pulled[0].key]).unwrap();
    messages.give_back(pulled[1].key, 10).unwrap();
    assert_eq!(texts(&store.ready("orders", Some("billing")).unwrap()), ["c"]);
    turn(&clock, 10);
    let ready = store.ready("orders", Some("billing")).unwrap();
    let attempts: Vec<_> = texts(&ready).into_iter().zip(ready.iter().map(|one| one.attempt)).collect();
    assert_eq!(attempts, [("c".to_owned(), 1), ("later".to_owned(), 1), ("b".to_owned(), 2)]);
    store.checkpoint().unwrap();
    assert_eq!(store.ready("orders", Some("billing")).unwrap().len(), 3);
    assert!(matches!(store.ready("or/ders", None), Err(Error::InvalidArgument { argument: "subject", .. })));
}

#[test]
fn an_abandoned_store_keeps_what_it_answered_and_delivers_the_rest_again() {
    for durability in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let store = open_by(folder.path(), &clock, durability);
        let messages = subscribe(&store, "orders", "billing");
        for body in [b"a", b"b", b"c"] {
            publish(&store, "orders", Due::After(1), body);
        }
        let waits = publish(&store, "orders", Due::After(DAY), b"waits");
        turn(&clock, 1);
        let pulled = taken(&messages);
        assert_eq!(bodies(&pulled), ["a", "b", "c"]);
        messages.acknowledge(&[pulled[0].key]).unwrap();
        assert!(messages.flush(PATIENCE).unwrap());
        assert!(matches!(store.reopen(), Err(Error::Locked { .. })));
        store.abandon().unwrap();
        assert_eq!(store.abandon(), Err(Error::Closed));
        assert!(matches!(messages.pull(1, Duration::ZERO), Err(Error::Closed)));
        assert!(matches!(store.ready("orders", None), Err(Error::Closed)));
        assert_eq!(messages.acknowledge(&[pulled[1].key]), Err(Error::Closed));
        assert_eq!(messages.close(), Ok(()));
        assert_eq!(store.close(), Ok(()));
        let again = store.reopen().unwrap();
        assert_eq!(again.status().unwrap().epoch.0, 2);
        let messages = subscribe(&again, "orders", "billing");
        let pulled = taken(&messages);
        assert_eq!(bodies(&pulled), ["b", "c"]);
        assert!(pulled.iter().all(|message| message.redelivered && message.attempt == 2));
        assert_eq!(again.cancel(&waits).unwrap(), delaymq_engine::CancelOutcome::Done);
        turn(&clock, DAY);
        assert!(taken(&messages).is_empty());
    }
}

#[test]
fn abandoning_under_load_loses_nothing_that_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let clock = clock();
    let mut store = open_by(folder.path(), &clock, Durability::Disk);
    let mut answered = 0_u64;
    for _ in 0..8 {
        let counts: Vec<u64> = std::thread::scope(|scope| {
            let publish_all = || {
                let mut batch = store.batch();
                let mut count = 0;
                loop {
                    batch.push("orders", Due::After(DAY), &[0; 5], b"x").unwrap();
                    match store.publish(&mut batch) {
                        Ok(_) => count += 1,
                        Err(error) => {
                            assert_eq!(error, Error::Closed);
                            return count;
                        }
                    }
                }
            };
            let publishers = [scope.spawn(publish_all), scope.spawn(publish_all)];
            std::thread::sleep(Duration::from_millis(20));
            store.abandon().unwrap();
            publishers.map(|publisher| publisher.join().unwrap()).to_vec()
        });
        answered += counts.iter().sum::<u64>();
        store = store.reopen().unwrap();
        let pending = store.status().unwrap().pending;
        assert!((answered..=answered + 2).contains(&pending), "{pending} of {answered}");
        answered = pending;
    }
}

#[test]
fn a_clock_behind_the_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ahead = clock();
    turn(&ahead, DAY);
    let store = open_by(folder.path(), &ahead, Durability::Os);
    publish(&store, "orders", Due::After(1), b"x");
    store.close().unwrap();
    let options = Options { clock: clock(), ..options(Durability::Os) };
    let refused = Store::open(folder.path(), options, &mut |_| {}).map(drop);
    assert!(matches!(refused, Err(Error::InvalidArgument { argument: "clock", .. })), "{refused:?}");
    open_by(folder.path(), &ahead, Durability::Os).close().unwrap();
}
