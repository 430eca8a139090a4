//! The calls of event loops: none waits, and the descriptor becomes readable.

#![cfg(test)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Faults, eventually, open, options, publish, subscribe};
use delaymq_core::error::Error;
use delaymq_core::store::Selection;
use delaymq_core::units::{Millis, Sequence};
use delaymq_engine::{Due, Durability, ManualClock, Options, Pulled, StartAt, Store, SubscribeOptions, Subscription};

/// Messages that are read again in several pieces.
const MESSAGES: u64 = 30_000;
const DURABILITIES: [Durability; 2] = [Durability::Disk, Durability::Os];

fn messages(pulled: Pulled) -> Vec<delaymq_engine::Delivered> {
    match pulled {
        Pulled::Messages(messages) => messages,
        other => panic!("{other:?}"),
    }
}

/// Pulls as an event loop does: only after it was told.
fn pull_when_told(store: &Store, subscription: &Subscription, token: u64) -> Pulled {
    loop {
        match subscription.try_pull(100, false).unwrap() {
            Pulled::Nothing => {
                eventually("news", || store.drain().unwrap().0.tokens.contains(&token));
            }
            Pulled::WouldWait => {
                let pulled = subscription.pull(100, Duration::ZERO).unwrap();
                if !pulled.is_empty() {
                    return Pulled::Messages(pulled);
                }
            }
            found @ Pulled::Messages(_) => return found,
        }
    }
}

#[test]
fn who_found_nothing_is_told_once_there_is_something() {
    for durability in DURABILITIES {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), options(durability));
        store.listen().unwrap();
        let (first, second) = (subscribe(&store, "a", "g"), subscribe(&store, "b", "g"));
        first.watch(1).unwrap();
        second.watch(2).unwrap();
        publish(&store, "a", Due::After(30), b"1");
        let found = messages(pull_when_told(&store, &first, 1));
        assert_eq!(found[0].body(), b"1");
        assert!(!store.drain().unwrap().0.tokens.contains(&2), "the other one hears nothing of it");
        first.acknowledge(&[found[0].key]).unwrap();
        store.close().unwrap();
    }
}

#[test]
fn a_publish_is_durable_where_its_position_says_so() {
    for durability in DURABILITIES {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), options(durability));
        store.listen().unwrap();
        let mut batch = store.batch();
        let mut last = Sequence(0);
        for number in 0..100_u8 {
            batch.push("a", Due::After(60_000), &[], &[number]).unwrap();
            let ticket = store.try_publish(&mut batch).unwrap().unwrap();
            assert!(ticket.end() > last);
            last = ticket.end();
        }
        if !store.want(last).unwrap() {
            eventually("the position", || store.drain().unwrap().1 >= last);
        }
        assert!(store.want(last).unwrap());
        assert_eq!(store.status().unwrap().pending, 100);
        store.close().unwrap();
        assert!(matches!(store.want(Sequence(last.0 + 1_000)), Err(Error::Closed)));
    }
}

#[test]
fn a_flush_that_does_not_wait_makes_acknowledgements_durable() {
    let folder = tempfile::tempdir().unwrap();
    {
        let store = open(folder.path(), options(Durability::Disk));
        store.listen().unwrap();
        let subscription = subscribe(&store, "a", "g");
        subscription.watch(1).unwrap();
        publish(&store, "a", Due::After(0), b"1");
        let found = messages(pull_when_told(&store, &subscription, 1));
        subscription.acknowledge(&[found[0].key]).unwrap();
        let mut end = None;
        eventually("the owner", || {
            end = subscription.begin_flush().unwrap();
            end.is_some()
        });
        let end = end.unwrap();
        eventually("the flush", || store.want(end).unwrap());
        store.close().unwrap();
    }
    let store = open(folder.path(), options(Durability::Disk));
    assert!(subscribe(&store, "a", "g").pull(1, Duration::from_millis(50)).unwrap().is_empty());
}

#[test]
fn old_payloads_are_left_to_a_thread_that_may_wait() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    store.listen().unwrap();
    publish(&store, "a", Due::After(0), b"old");
    // Several segments of one MiB lie between.
    for _ in 0..8 {
        publish(&store, "other", Due::After(3_600_000), &vec![7; 400_000]);
    }
    let subscription = subscribe(&store, "a", "g");
    subscription.watch(1).unwrap();
    eventually("a pull that would wait", || match subscription.try_pull(10, false).unwrap() {
        Pulled::WouldWait => true,
        Pulled::Nothing => false,
        Pulled::Messages(messages) => panic!("read on the loop: {messages:?}"),
    });
    eventually("the message", || {
        subscription.pull(10, Duration::ZERO).unwrap().first().is_some_and(|message| message.body() == b"old")
    });
}

#[test]
fn who_waits_is_told_of_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    store.listen().unwrap();
    let subscription = subscribe(&store, "a", "g");
    subscription.watch(9).unwrap();
    eventually("nothing", || matches!(subscription.try_pull(1, false).unwrap(), Pulled::Nothing));
    store.drain().unwrap();
    eventually("nothing again", || matches!(subscription.try_pull(1, false).unwrap(), Pulled::Nothing));
    store.close().unwrap();
    assert_eq!(store.drain().unwrap().0.tokens, [9]);
    assert!(matches!(subscription.try_pull(1, false), Err(Error::Closed)));
}

#[test]
fn the_receipt_of_what_is_delivered_is_that_of_its_publish() {
    let folder = tempfile::tempdir().unwrap();
    let receipt = {
        let store = open(folder.path(), options(Durability::Disk));
        publish(&store, "a", Due::After(1), b"four")
    };
    let store = open(folder.path(), options(Durability::Disk));
    let subscription = subscribe(&store, "a", "g");
    for attempt in 1..=2 {
        let found = crate::support::collect(&subscription, 1);
        assert_eq!(found[0].attempt, attempt);
        let key = delaymq_core::units::DueKey { due: found[0].first_due, sequence: found[0].sequence };
        assert_eq!(subscription.receipt_of(key, &found[0].subject, 4).unwrap(), receipt);
        assert_eq!(store.receipt(&found[0]).unwrap(), receipt);
        subscription.give_back(found[0].key, 20).unwrap();
    }
}

/// Consumes all messages of a new group of these subjects that starts at the earliest one. Returns how many came.
fn read_again(
    store: &Store,
    (subjects, group): (&[&str], &str),
    mut pull: impl FnMut(&Subscription) -> Vec<delaymq_engine::Delivered>,
) -> usize {
    let options = SubscribeOptions { start: StartAt::Earliest, ..SubscribeOptions::default() };
    let subscription = store.subscribe_to(Selection::of(subjects).unwrap(), group, options).unwrap();
    let mut came = 0;
    loop {
        let pulled = pull(&subscription);
        if pulled.is_empty() {
            return came;
        }
        came += pulled.len();
        let keys: Vec<_> = pulled.iter().map(|message| message.key).collect();
        subscription.acknowledge(&keys).unwrap();
    }
}

/// The same for two consumers of a group. Both want each piece, and one of them reads it after the other has passed it.
fn read_again_by_two(store: &Store, subjects: &[&str]) -> usize {
    let options = SubscribeOptions { start: StartAt::Earliest, ..SubscribeOptions::default() };
    let [early, late] =
        [(); 2].map(|()| store.subscribe_to(Selection::of(subjects).unwrap(), "two", options.clone()).unwrap());
    let mut came = 0;
    let mut acknowledge = |subscription: &Subscription, messages: Vec<delaymq_engine::Delivered>| {
        came += messages.len();
        let keys: Vec<_> = messages.iter().map(|message| message.key).collect();
        subscription.acknowledge(&keys).unwrap();
        !messages.is_empty()
    };
    loop {
        let mut any = false;
        for subscription in [&early, &late] {
            if let Pulled::Messages(messages) = subscription.try_pull(1_000, true).unwrap() {
                any |= acknowledge(subscription, messages);
            }
        }
        for subscription in [&early, &early, &early, &early, &early, &late] {
            let messages = subscription.pull(1_000, Duration::ZERO).unwrap();
            any |= acknowledge(subscription, messages);
        }
        if !any {
            return came;
        }
    }
}

#[test]
fn a_replay_by_an_event_loop_reads_no_more_of_the_log_than_one_by_a_thread() {
    // The indexes of the log are in the load that an event loop leaves: of each subject in another one.
    for subjects in [&["a"][..], &["a", "b"]] {
        replay_of(subjects);
    }
}

fn replay_of(subjects: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (storage, switches) = Faults::over(folder.path());
    let clock = Arc::new(ManualClock::new(Millis(1_000_000)).unwrap());
    let options = Options { segment_bytes: 8 << 20, clock: Arc::clone(&clock) as _, ..options(Durability::Os) };
    let store = Store::open_on(storage, folder.path(), options, &mut |_| {}).unwrap();
    let mut batch = store.batch();
    for number in 0..MESSAGES {
        let subject = subjects[number as usize % subjects.len()];
        batch.push(subject, Due::After(10 + number % 50), &[], b"delayed").unwrap();
        if batch.len() == 1_000 {
            store.publish(&mut batch).unwrap();
        }
    }
    clock.advance(100, Duration::from_secs(60), &mut || true).unwrap();
    let at_once = |subscription: &Subscription| subscription.pull(1_000, Duration::ZERO).unwrap();
    assert_eq!(read_again(&store, (subjects, "first"), at_once), MESSAGES as usize);
    store.checkpoint().unwrap();
    let read_by = |group, pull: fn(&Subscription) -> Vec<delaymq_engine::Delivered>| {
        let before = switches.segment_bytes_read.load(Ordering::SeqCst);
        assert_eq!(read_again(&store, (subjects, group), pull), MESSAGES as usize);
        switches.segment_bytes_read.load(Ordering::SeqCst) - before
    };
    let by_thread = read_by("thread", |subscription| subscription.pull(1_000, Duration::ZERO).unwrap());
    let by_loop = read_by("loop", |subscription| match subscription.try_pull(1_000, true).unwrap() {
        Pulled::Messages(messages) => messages,
        Pulled::Nothing | Pulled::WouldWait => subscription.pull(1_000, Duration::ZERO).unwrap(),
    });
    assert!(by_loop < by_thread * 3 / 2, "{by_loop} bytes by an event loop, {by_thread} by a thread");
    let before = switches.segment_bytes_read.load(Ordering::SeqCst);
    assert_eq!(read_again_by_two(&store, subjects), MESSAGES as usize);
    let by_two = switches.segment_bytes_read.load(Ordering::SeqCst) - before;
    assert!(by_two < by_thread * 3, "{by_two} bytes by two consumers, {by_thread} by one");
    store.close().unwrap();
}
