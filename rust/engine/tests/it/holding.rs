//! How long a consumer may have a message, if that is limited: on a turned clock, and against real threads.

#![cfg(test)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{bodies, open, options, publish, subscribe, taken};
use delaymq_core::error::Error;
use delaymq_core::units::{Millis, Sequence};
use delaymq_engine::{Due, Durability, ManualClock, Options, Store, SubscribeOptions, Subscription};

const WAIT: Duration = Duration::from_secs(60);

fn within(store: &Store, within_ms: u64, in_flight_max: u32) -> Arc<Subscription> {
    let options = SubscribeOptions { handle_within_ms: Some(within_ms), in_flight_max, ..SubscribeOptions::default() };
    store.subscribe("orders", "billing", options).unwrap()
}

const START: Millis = Millis(1_800_000_000_000);

/// A store on a clock, which is turned.
fn on_a_clock(path: &std::path::Path) -> (Arc<Store>, Arc<ManualClock>, impl Fn(u64)) {
    let clock = Arc::new(ManualClock::new(START).unwrap());
    let store = open(path, Options { clock: Arc::clone(&clock) as _, ..options(Durability::Os) });
    (store, Arc::clone(&clock), move |by_ms| clock.advance(by_ms, WAIT, &mut || true).unwrap())
}

#[test]
fn what_is_held_for_too_long_comes_to_another_consumer_marked_and_cannot_be_settled_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, turn) = on_a_clock(folder.path());
    let (slow, other) = (within(&store, 1_000, 10), subscribe(&store, "orders", "billing"));
    publish(&store, "orders", Due::After(0), b"a");
    publish(&store, "orders", Due::After(0), b"b");
    turn(5);
    let held = taken(&slow);
    assert_eq!(bodies(&held), ["a", "b"]);
    assert!(slow.acknowledge(&[held[1].key]).unwrap().is_empty());
    turn(999);
    assert!(taken(&other).is_empty(), "it may have it for one millisecond more");
    turn(1);
    let again = taken(&other);
    assert_eq!(bodies(&again), ["a"], "the other one was acknowledged");
    assert_eq!((again[0].attempt, again[0].redelivered, again[0].sequence), (2, true, held[0].sequence));
    assert_eq!(slow.acknowledge(&[held[0].key]).unwrap(), [0]);
    assert!(!slow.give_back(held[0].key, 0).unwrap());
    assert!(!slow.dead_letter(held[0].key, "late").unwrap());
    assert!(!slow.extend(held[0].key, Some(5_000)).unwrap());
    turn(10_000);
    assert!(taken(&slow).is_empty() && taken(&other).is_empty(), "the other consumer has no limit");
    assert!(other.acknowledge(&[again[0].key]).unwrap().is_empty());
    assert!(other.flush(WAIT).unwrap());
}

#[test]
fn an_extension_keeps_a_message_and_never_shortens() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, turn) = on_a_clock(folder.path());
    let (slow, other) = (within(&store, 1_000, 10), subscribe(&store, "orders", "billing"));
    publish(&store, "orders", Due::After(0), b"a");
    let held = taken(&slow);
    for _ in 0..5 {
        turn(900);
        assert!(slow.extend(held[0].key, None).unwrap());
    }
    assert!(slow.extend(held[0].key, Some(60_000)).unwrap());
    assert!(slow.extend(held[0].key, Some(1)).unwrap());
    turn(59_999);
    assert!(taken(&other).is_empty());
    turn(1);
    assert_eq!(bodies(&taken(&other)), ["a"]);
    publish(&store, "orders", Due::After(0), b"b");
    let free = taken(&other);
    assert!(other.extend(free[0].key, Some(1)).unwrap(), "without a limit it changes nothing");
    turn(1_000_000);
    assert!(taken(&slow).is_empty());
}

#[test]
fn what_was_passed_on_takes_no_room_and_comes_to_the_same_consumer_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, turn) = on_a_clock(folder.path());
    let slow = within(&store, 1_000, 1);
    publish(&store, "orders", Due::After(0), b"a");
    publish(&store, "orders", Due::After(0), b"b");
    let mut seen = Vec::new();
    for _ in 0..4 {
        let held = taken(&slow);
        assert_eq!(held.len(), 1, "one is in flight at most");
        seen.push((bodies(&held).remove(0), held[0].attempt));
        turn(1_000);
    }
    seen.sort_unstable();
    assert!(seen.iter().any(|(_, attempt)| *attempt > 1) && seen.iter().any(|(body, _)| body == "b"), "{seen:?}");
    let held = taken(&slow);
    slow.close().unwrap();
    turn(10_000);
    let other = subscribe(&store, "orders", "billing");
    assert_eq!(taken(&other).len(), 2, "each once, although {:?} was held", bodies(&held));
}

#[test]
fn a_turned_clock_stops_when_a_message_was_held_for_too_long() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock, turn) = on_a_clock(folder.path());
    let (slow, other) = (within(&store, 1_000, 10), subscribe(&store, "orders", "billing"));
    publish(&store, "orders", Due::After(0), b"a");
    let held = taken(&slow);
    std::thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            let again = other.pull(1, WAIT).unwrap();
            other.acknowledge(&[again[0].key]).unwrap();
            (other.now().since(START), again[0].sequence)
        });
        assert!(clock.await_consumers(1, WAIT, &mut || true));
        turn(60_000);
        assert_eq!(consumer.join().unwrap(), (1_000, held[0].sequence));
    });
}

#[test]
fn no_time_at_all_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let none = SubscribeOptions { handle_within_ms: Some(0), ..SubscribeOptions::default() };
    let refused = store.subscribe("orders", "billing", none).err().unwrap();
    assert!(matches!(refused, Error::InvalidArgument { argument: "handle_within", .. }), "{refused:?}");
    let longest = within(&store, u64::MAX, 10);
    publish(&store, "orders", Due::After(0), b"a");
    let held = longest.pull(1, WAIT).unwrap();
    assert!(longest.acknowledge(&[held[0].key]).unwrap().is_empty());
}

/// The thread that got the message never calls again, as one whose program is stuck.
#[test]
fn another_consumer_gets_what_a_stuck_one_holds() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let (stuck, other) = (within(&store, 20, 10), subscribe(&store, "orders", "billing"));
    publish(&store, "orders", Due::After(0), b"a");
    let held = stuck.pull(1, WAIT).unwrap();
    assert_eq!(held.len(), 1);
    let again = other.pull(1, WAIT).unwrap();
    assert_eq!((bodies(&again), again[0].redelivered), (vec!["a".to_owned()], true));
}

/// Acknowledgements at about the end of the time: each is accepted, and the message does not come again, or it is
/// refused, and the message does.
#[test]
fn an_acknowledgement_and_the_end_of_the_time_exclude_each_other() {
    const COUNT: usize = 400;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let messages = within(&store, 3, 64);
    for _ in 0..COUNT {
        publish(&store, "orders", Due::After(0), b"x");
    }
    let (mut delivered, mut late_count) = (0_usize, 0_usize);
    // By its message: how often an acknowledgement was accepted.
    let mut accepted: BTreeMap<Sequence, usize> = BTreeMap::new();
    for round in 0_u64.. {
        let batch = messages.pull(8, WAIT).unwrap();
        delivered += batch.len();
        for message in &batch {
            assert!(!accepted.contains_key(&message.sequence), "it came after its acknowledgement was accepted");
        }
        // Sometimes before the end, sometimes about then, and sometimes later.
        std::thread::sleep(Duration::from_micros(round % 2 * (2_000 + round * 911 % 2_500)));
        let keys: Vec<_> = batch.iter().map(|message| message.key).collect();
        let late = messages.acknowledge(&keys).unwrap();
        late_count += late.len();
        for (place, message) in batch.iter().enumerate() {
            if !late.contains(&place) {
                *accepted.entry(message.sequence).or_default() += 1;
            }
        }
        if accepted.len() == COUNT {
            break;
        }
    }
    assert!(accepted.values().all(|count| *count == 1), "{accepted:?}");
    assert_eq!(delivered, accepted.len() + late_count);
    messages.close().unwrap();
    store.close().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let messages = subscribe(&store, "orders", "billing");
    assert!(taken(&messages).is_empty(), "all of it is acknowledged");
}
