//! Broadcast consumers: named consumers that have their groups for themselves.

#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::Error;
use delaymq_core::units::Millis;
use delaymq_engine::{
    ConsumerId, Due, Durability, GivenRun, ManualClock, NamedConsumer, NamedOptions, Options, PullBounds, RetryRule,
    StartAt, Store,
};

use crate::support::{bodies, eventually, open, options, publish, subscribe};

const ID: ConsumerId<'_> = ConsumerId { subject: "orders", group: "host-7@@0a1b", consumer: "host-7@@0a1b" };
const BOUNDS: PullBounds = PullBounds { count_max: 100, bytes_max: usize::MAX, in_flight_max: 256 };
const AT_ONCE: RetryRule = RetryRule { delay_ms: 0, attempts_max: 3, reason: None };
const START: Millis = Millis(1_800_000_000_000);
const HOUR: u64 = 3_600_000;

fn begin(store: &Store, id: ConsumerId<'_>) -> Arc<NamedConsumer> {
    let options = NamedOptions { start: StartAt::Latest, is_broadcast: true, ..NamedOptions::default() };
    store.register_named_consumer(id, options).unwrap().finish().unwrap().0
}

fn pull(consumer: &NamedConsumer) -> GivenRun {
    let mut run = None;
    eventually("a message", || {
        run = consumer.pull(BOUNDS).unwrap();
        run.is_some()
    });
    run.unwrap()
}

fn seen(store: &Store) -> Vec<(bool, u64)> {
    let listed = store.named_consumers().unwrap();
    listed.iter().map(|one| (one.is_broadcast, one.seen.0 - START.0)).collect()
}

#[test]
fn the_store_knows_when_it_was_last_seen_over_opens() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START).unwrap());
    let begun = |clock: &Arc<ManualClock>| {
        let chosen = Options { clock: Arc::clone(clock) as _, ..options(Durability::Disk) };
        open(folder.path(), chosen)
    };
    let later = |by_ms| clock.advance(by_ms, Duration::from_secs(20), &mut || true).unwrap();
    let store = begun(&clock);
    let consumer = begin(&store, ID);
    assert_eq!(seen(&store), [(true, 0)]);
    later(HOUR);
    eventually("it to be told", || consumer.try_renew(true).unwrap());
    eventually("it to be applied", || seen(&store) == [(true, HOUR)]);
    later(HOUR);
    store.close().unwrap();
    let store = begun(&clock);
    assert_eq!(seen(&store), [(true, HOUR)]);
    let consumer = begin(&store, ID);
    assert_eq!(seen(&store), [(true, 2 * HOUR)]);
    // One that is no broadcast consumer any more.
    eventually("it to be told", || consumer.try_renew(false).unwrap());
    eventually("it to be applied", || seen(&store) == [(false, 2 * HOUR)]);
    assert!(store.end_named_consumer(ID, RetryRule::default()).unwrap().is_some());
    assert_eq!(consumer.try_renew(true), Err(Error::Closed), "a sign of one that has ended makes nobody");
    assert!(store.named_consumers().unwrap().is_empty());
    store.close().unwrap();
}

#[test]
fn it_ends_with_its_group_and_what_the_group_did_not_finish() {
    for durability in [Durability::Disk, Durability::Os] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), options(durability));
        let consumer = begin(&store, ID);
        let retries = begin(&store, ConsumerId { subject: "%RETRY%orders%host-7@@0a1b", ..ID });
        for body in [b"a", b"b", b"c"] {
            publish(&store, "orders", Due::After(0), body);
        }
        let run = pull(&consumer);
        assert_eq!(bodies(&run.messages).concat(), "abc");
        // A message that it gave back, and one that waits for that.
        let mut ended = Vec::new();
        for delivery in &run.deliveries[..2] {
            ended.push(consumer.settle(&[], std::slice::from_ref(delivery), AT_ONCE).unwrap());
        }
        eventually("both", || ended.iter().all(|end| store.want(*end).unwrap()));
        assert_eq!(store.end_named_consumer(ID, RetryRule::default()).unwrap(), Some(1));
        assert!(consumer.is_gone() && retries.is_gone());
        assert!(store.named_consumers().unwrap().is_empty() && store.groups().unwrap().is_empty());
        store.close().unwrap();
        let store = open(folder.path(), options(durability));
        assert!(store.groups().unwrap().is_empty());
        let again = begin(&store, ID);
        let retries = begin(&store, ConsumerId { subject: "%RETRY%orders%host-7@@0a1b", ..ID });
        assert!(retries.pull(BOUNDS).unwrap().is_none(), "its retries ended with it");
        publish(&store, "orders", Due::After(0), b"d");
        let run = pull(&again);
        assert_eq!((bodies(&run.messages).concat(), run.first.0 > 2), ("d".to_owned(), true));
        store.close().unwrap();
    }
}

#[test]
fn a_group_with_others_stays_and_they_have_what_it_held() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let consumer = begin(&store, ID);
    publish(&store, "orders", Due::After(0), b"a");
    assert_eq!(pull(&consumer).messages.len(), 1);
    let other = subscribe(&store, ID.subject, ID.group);
    assert_eq!(store.end_named_consumer(ID, RetryRule::default()).unwrap(), Some(1));
    let pulled = other.pull(1, Duration::from_secs(20)).unwrap();
    assert_eq!(bodies(&pulled).concat(), "a");
    assert!(pulled[0].redelivered);
    store.close().unwrap();
}
