//! A store in a real folder: publish, wait, deliver, acknowledge, give back, cancel, reopen.

#![cfg(test)]

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::{bodies, collect, consume, open, options, publish, subscribe};
use delaymq_core::error::Error;
use delaymq_core::units::Millis;
use delaymq_engine::{
    CancelOutcome, Due, Durability, ManualClock, MoveOutcome, Options, Receipt, StartAt, Store, SubscribeOptions,
};

const DURABILITIES: [Durability; 2] = [Durability::Disk, Durability::Os];

fn wall_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

#[test]
fn what_is_published_arrives_when_due_and_not_before() {
    for durability in DURABILITIES {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), options(durability));
        let messages = subscribe(&store, "orders", "billing");
        publish(&store, "orders", Due::After(0), b"now");
        publish(&store, "orders", Due::After(1_000), b"later");
        publish(&store, "orders", Due::At(Millis(1)), b"long past");
        let received = collect(&messages, 3);
        assert_eq!(bodies(&received), ["now", "long past", "later"]);
        assert!(wall_ms() >= received[2].due.0, "early");
        // The delay counts from the next whole millisecond.
        assert!((1_000..=1_001).contains(&(received[2].due.0 - received[2].published.0)));
        assert!(received.iter().all(|message| message.attempt == 1 && !message.redelivered));
        assert_eq!(&*received[0].subject, "orders");
        store.close().unwrap();
    }
}

#[test]
fn lateness_stays_small_while_idle() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let messages = subscribe(&store, "orders", "billing");
    let mut late = Vec::new();
    for _ in 0..20 {
        publish(&store, "orders", Due::After(10), b"x");
        let received = consume(&messages, 1);
        late.push(wall_ms() - received[0].due.0);
    }
    late.sort_unstable();
    assert!(late[10] <= 20, "{late:?}");
}

#[test]
fn what_is_acknowledged_does_not_come_again_and_the_rest_does_marked() {
    for durability in DURABILITIES {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), options(durability));
        let messages = subscribe(&store, "orders", "billing");
        for body in [b"a", b"b", b"c"] {
            publish(&store, "orders", Due::After(0), body);
        }
        let received = collect(&messages, 3);
        messages.acknowledge(&[received[1].key]).unwrap();
        assert!(messages.flush(Duration::from_secs(5)).unwrap());
        drop(messages);
        drop(store);
        let store = open(folder.path(), options(durability));
        let messages = subscribe(&store, "orders", "billing");
        let again = collect(&messages, 2);
        assert_eq!(bodies(&again), ["a", "c"]);
        assert!(again.iter().all(|message| message.redelivered && message.attempt == 2));
        assert!(messages.pull(1, Duration::from_millis(50)).unwrap().is_empty());
    }
}

#[test]
fn what_is_given_back_comes_again_after_its_delay() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let messages = subscribe(&store, "orders", "billing");
    publish(&store, "orders", Due::After(0), b"a");
    let first = collect(&messages, 1);
    let began = Instant::now();
    messages.give_back(first[0].key, 100).unwrap();
    let second = collect(&messages, 1);
    assert!(began.elapsed() >= Duration::from_millis(99));
    assert_eq!((second[0].attempt, second[0].redelivered, second[0].key.queue), (2, true, 1));
    assert_eq!(second[0].sequence, first[0].sequence);
    assert_eq!(&*second[0].subject, "orders");
    messages.give_back(second[0].key, 0).unwrap();
    let third = consume(&messages, 1);
    assert_eq!(third[0].attempt, 3);
    assert!(messages.flush(Duration::from_secs(5)).unwrap());
    assert!(messages.pull(1, Duration::from_millis(30)).unwrap().is_empty());
    store.close().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let messages = subscribe(&store, "orders", "billing");
    assert!(messages.pull(1, Duration::from_millis(50)).unwrap().is_empty());
}

#[test]
fn a_moved_message_comes_at_its_new_time_also_where_that_is_soon() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let messages = subscribe(&store, "orders", "billing");
    let far: Vec<Receipt> =
        (0..3).map(|number| publish(&store, "orders", Due::After(3_600_000), format!("{number}").as_bytes())).collect();
    store.checkpoint().unwrap();
    let soon = Due::After(50);
    let moved =
        store.move_many(&[(far[0], soon), (far[1], Due::After(7_200_000)), (far[2], Due::At(Millis(1)))]).unwrap();
    let receipts: Vec<Receipt> = moved
        .iter()
        .map(|outcome| match outcome {
            MoveOutcome::Done(receipt) => *receipt,
            other => panic!("{other:?}"),
        })
        .collect();
    // The one that the past makes ready is first, and nothing but a move has told the driver of the other.
    assert_eq!(bodies(&consume(&messages, 2)), ["2", "0"]);
    assert_eq!(store.move_to(&far[0], soon).unwrap(), MoveOutcome::Done(receipts[0]));
    assert_eq!(store.move_to(&receipts[0], soon).unwrap(), MoveOutcome::AlreadyDispatched);
    drop(messages);
    store.close().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    assert_eq!(store.move_to(&far[1], Due::After(7_200_000)).unwrap(), MoveOutcome::Done(receipts[1]));
    assert_eq!(store.move_to(&far[1], Due::After(7_200_001)).unwrap(), MoveOutcome::NotFound);
    assert_eq!(store.cancel(&far[1]).unwrap(), CancelOutcome::NotFound);
    let stranger = Receipt { stream: [7; 16], ..receipts[1] };
    assert_eq!(store.move_to(&stranger, soon).unwrap(), MoveOutcome::NotFound);
    let never = store.move_many(&[(receipts[1], soon), (receipts[1], Due::After(u64::MAX))]);
    assert!(matches!(never, Err(Error::InvalidArgument { argument: "due", .. })));
    assert_eq!(store.status().unwrap().pending, 1);
    assert_eq!(store.cancel(&receipts[1]).unwrap(), CancelOutcome::Done);
}

#[test]
fn a_cancel_is_answered_truthfully_before_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let messages = subscribe(&store, "orders", "billing");
    let far = publish(&store, "orders", Due::After(3_600_000), b"far");
    let now = publish(&store, "orders", Due::After(0), b"now");
    let other = publish(&store, "orders", Due::After(3_600_000), b"other");
    assert_eq!(store.cancel_many(&[far, now]).unwrap(), [CancelOutcome::Done, CancelOutcome::AlreadyDispatched]);
    assert_eq!(store.cancel(&far).unwrap(), CancelOutcome::Done);
    let mut forged = other;
    forged.key.sequence.0 += 1;
    assert!(matches!(store.cancel(&forged), Err(Error::InvalidArgument { argument: "receipt", .. })));
    let stranger = Receipt { stream: [7; 16], ..other };
    assert_eq!(store.cancel(&stranger).unwrap(), CancelOutcome::NotFound);
    assert_eq!(bodies(&consume(&messages, 1)), ["now"]);
    assert_eq!(store.status().unwrap().pending, 1);
    drop(messages);
    store.close().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    assert_eq!(store.cancel(&far).unwrap(), CancelOutcome::Done);
    assert_eq!(store.cancel(&other).unwrap(), CancelOutcome::Done);
    assert_eq!(store.cancel(&now).unwrap(), CancelOutcome::AlreadyDispatched);
    assert_eq!(store.status().unwrap().pending, 0);
}

#[test]
fn a_group_shares_and_groups_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let first = subscribe(&store, "orders", "billing");
    let second = subscribe(&store, "orders", "billing");
    let audit = subscribe(&store, "orders", "audit");
    let mut batch = store.batch();
    for number in 0..500_u32 {
        batch.push("orders", Due::After(0), &[0; 5], &number.to_le_bytes()).unwrap();
    }
    assert_eq!(store.publish(&mut batch).unwrap().len(), 500);
    let mut shared = Vec::new();
    while shared.len() < 500 {
        shared.extend(consume(&first, 1));
        shared.extend(consume(&second, 1));
    }
    let mut seen: Vec<_> = shared.iter().map(|message| message.sequence).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 500);
    let audited = consume(&audit, 500);
    assert_eq!(audited.len(), 500);
    assert!(audited.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
}

#[test]
fn a_closed_subscription_gives_back_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let first = subscribe(&store, "orders", "billing");
    publish(&store, "orders", Due::After(0), b"a");
    assert_eq!(collect(&first, 1).len(), 1);
    first.close().unwrap();
    assert!(first.pull(1, Duration::from_millis(1)).unwrap().is_empty());
    let second = subscribe(&store, "orders", "billing");
    let again = collect(&second, 1);
    assert_eq!((again[0].attempt, again[0].redelivered), (2, true));
}

/// The group of a retry subject begins with the first retry, and is woken when that is due. A consumer that joined
/// between the two once kept the others of the group from hearing of it.
#[test]
fn a_retry_comes_to_each_consumer_although_another_joined_before_it_was_due() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Millis(1_800_000_000_000)).unwrap());
    let store = open(folder.path(), Options { clock: Arc::clone(&clock) as _, ..options(Durability::Disk) });
    let first = subscribe(&store, "orders", "billing");
    publish(&store, "orders", Due::After(0), b"a");
    let held = collect(&first, 1);
    first.give_back(held[0].key, 1_000).unwrap();
    assert!(first.flush(Duration::from_secs(20)).unwrap());
    let second = subscribe(&store, "orders", "billing");
    clock.step(1_000).unwrap();
    let again = collect(&first, 1);
    assert_eq!(again.iter().map(|message| message.attempt).collect::<Vec<_>>(), [2]);
    second.close().unwrap();
}

#[test]
fn in_flight_is_bounded_and_acknowledging_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let options = SubscribeOptions { in_flight_max: 4, ..SubscribeOptions::default() };
    let messages = store.subscribe("orders", "billing", options).unwrap();
    for _ in 0..10 {
        publish(&store, "orders", Due::After(0), b"x");
    }
    let held = collect(&messages, 4);
    assert_eq!(held.len(), 4);
    assert!(messages.pull(10, Duration::from_millis(50)).unwrap().is_empty());
    messages.acknowledge(&[held[0].key, held[3].key]).unwrap();
    assert_eq!(collect(&messages, 2).len(), 2);
}

#[test]
fn a_group_that_begins_at_latest_gets_what_comes_after_its_held_pull_and_a_kill() {
    let latest = SubscribeOptions { start: StartAt::Latest, ..SubscribeOptions::default() };
    for (durability, subject_is_used) in DURABILITIES.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), options(durability));
        if subject_is_used {
            publish(&store, "orders", Due::After(0), b"before it began");
        }
        let messages = store.subscribe("orders", "billing", latest.clone()).unwrap();
        assert!(messages.pull(1, Duration::from_millis(20)).unwrap().is_empty(), "there is nothing for it");
        let waiter = Arc::clone(&messages);
        let held = std::thread::spawn(move || waiter.pull(1, Duration::from_secs(60)));
        store.abandon().unwrap();
        assert!(held.join().unwrap().map_or(true, |pulled| pulled.is_empty()));
        drop((messages, store));
        let store = open(folder.path(), options(durability));
        // Before anybody says again that the group is wanted, and from where.
        publish(&store, "orders", Due::After(0), b"after");
        let messages = store.subscribe("orders", "billing", latest.clone()).unwrap();
        assert_eq!(bodies(&collect(&messages, 1)), ["after"], "{durability:?} {subject_is_used}");
        assert!(messages.pull(1, Duration::ZERO).unwrap().is_empty());
    }
}

#[test]
fn stop_ends_a_pull_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let messages = subscribe(&store, "orders", "billing");
    let waiter = Arc::clone(&messages);
    let thread = std::thread::spawn(move || waiter.pull(1, Duration::from_secs(60)).unwrap());
    std::thread::sleep(Duration::from_millis(30));
    messages.stop();
    assert!(thread.join().unwrap().is_empty());
}

#[test]
fn closing_releases_a_pull_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let messages = subscribe(&store, "orders", "billing");
    let waiter = Arc::clone(&messages);
    let thread = std::thread::spawn(move || waiter.pull(1, Duration::from_secs(60)));
    std::thread::sleep(Duration::from_millis(30));
    store.close().unwrap();
    store.close().unwrap();
    assert_eq!(thread.join().unwrap().err(), Some(Error::Closed));
    assert_eq!(store.publish(&mut store.batch()).err(), Some(Error::Closed));
}

#[test]
fn bad_arguments_are_refused_by_name_and_store_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let mut batch = store.batch();
    let named = |error: Error| match error {
        Error::InvalidArgument { argument, .. } | Error::TooLarge { argument, .. } => argument,
        other => panic!("{other}"),
    };
    assert_eq!(named(batch.push("a b", Due::After(0), &[], b"").unwrap_err()), "subject");
    assert_eq!(named(batch.push("a", Due::After(u64::MAX), &[], b"").unwrap_err()), "due");
    assert_eq!(named(batch.push("a", Due::After(0), &[], &vec![0; (4 << 20) + 1]).unwrap_err()), "body");
    assert!(batch.is_empty());
    assert_eq!(named(store.subscribe("a", "g/h", SubscribeOptions::default()).err().unwrap()), "group");
    assert_eq!(store.status().unwrap().metrics.published, 0);
    let small = Options { segment_bytes: 7, ..Options::default() };
    assert_eq!(named(Store::open(folder.path(), small, &mut |_| {}).err().unwrap()), "segment_bytes");
}

#[test]
fn many_tickets_in_flight_become_durable_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let mut batch = store.batch();
    let mut tickets = std::collections::VecDeque::new();
    for number in 0..5_000_u32 {
        batch.push("orders", Due::After(3_600_000), &[0; 5], &number.to_le_bytes()).unwrap();
        tickets.push_back(store.submit(&mut batch).unwrap());
        if tickets.len() == 256 {
            assert_eq!(tickets.pop_front().unwrap().finish().unwrap().len(), 1);
        }
    }
    for ticket in tickets {
        assert!(ticket.wait(Duration::from_secs(5)).unwrap().is_some());
    }
    assert_eq!(store.status().unwrap().pending, 5_000);
}
