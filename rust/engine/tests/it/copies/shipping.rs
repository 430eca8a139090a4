//! Batches for other nodes, and the log that is kept for them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::Error;
use delaymq_core::replication::LogView;
use delaymq_core::store::{Follower, OwnerOptions};
use delaymq_core::units::Sequence;
use delaymq_engine::{Due, Store};

use super::{Copy, ENOUGH, LATER, commit_all, committing, try_publish};
use crate::support::{collect, consume, eventually, subscribe};

/// Gives the follower all that the store has, in shipments of so many bytes. Returns their number.
fn catch_up(store: &Store, follower: &mut Follower, bytes_max: usize) -> u64 {
    let mut shipments = 0;
    loop {
        let shipped = store.ship(follower.ends().end(), bytes_max).unwrap();
        if shipped.is_empty() {
            return shipments;
        }
        follower.append(&shipped).unwrap();
        shipments += 1;
    }
}

#[test]
fn another_copy_gets_all_of_the_log_and_reaches_the_same_state() {
    let (copy, other) = (Copy::new(1), Copy::new(2));
    let store = copy.lead_begun(1);
    let mut follower = other.follow();
    committing(&store, ENOUGH, || {
        let messages = subscribe(&store, "orders", "billing");
        for number in 0..40 {
            try_publish(&store, LATER, &format!("pending {number}")).unwrap();
            try_publish(&store, Due::After(0), &format!("ready {number}")).unwrap();
        }
        assert_eq!(catch_up(&store, &mut follower, usize::MAX), 1);
        assert_eq!(consume(&messages, 20).len(), 20);
        assert!(messages.flush(Duration::from_secs(5)).unwrap());
    });
    assert!(catch_up(&store, &mut follower, 1) > 1, "one batch at a time");
    follower.sync().unwrap();
    eventually("everything is durable", || store.durable() == store.end());
    commit_all(&store, ENOUGH);
    catch_up(&store, &mut follower, 1 << 20);
    let status = store.status().unwrap();
    follower.commit(status.visible).unwrap();
    let state = follower.owner().state();
    assert_eq!(follower.owner().applied(), status.applied);
    assert_eq!((state.schedule.pending(), state.dispatch.unfinished()), (status.pending, status.ready));
    assert_eq!(follower.ends().history(), store.history());
    assert!(status.pending >= 40 && status.ready >= 1);
    // The other node goes on where this one ends.
    store.abandon().unwrap();
    let next = Store::lead(other.leading(follower, 2)).unwrap();
    commit_all(&next, ENOUGH);
    committing(&next, ENOUGH, || {
        let messages = subscribe(&next, "orders", "billing");
        assert_eq!(collect(&messages, 20).len(), 20);
    });
    assert_eq!(next.status().unwrap().pending, status.pending);
}

#[test]
fn places_that_no_batch_begins_at_are_refused() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    let begins = store.end();
    committing(&store, ENOUGH, || {
        let mut batch = store.batch();
        for _ in 0..3 {
            batch.push("orders", LATER, &[0; 5], b"x").unwrap();
        }
        store.publish(&mut batch).unwrap();
    });
    assert!(!store.ship(begins, 1).unwrap().is_empty());
    for first in [begins.next(), store.end().next()] {
        let refused = store.ship(first, 1);
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "sequence", .. })), "{first}");
    }
    assert!(store.ship(store.end(), 1).unwrap().is_empty());
}

#[test]
fn a_place_where_a_shipment_has_ended_needs_no_search() {
    let (copy, other) = (Copy::with_segments(1, 16 << 20), Copy::with_segments(2, 16 << 20));
    let store = copy.lead_begun(1);
    committing(&store, ENOUGH, || {
        let body = "x".repeat(100_000);
        for _ in 0..150 {
            try_publish(&store, LATER, &body).unwrap();
        }
    });
    let mut follower = other.follow();
    let before = copy.switches.segment_bytes_read.load(Ordering::SeqCst);
    let shipments = catch_up(&store, &mut follower, 1);
    let read = copy.switches.segment_bytes_read.load(Ordering::SeqCst) - before;
    // A search would pass half of the batches of a segment for each shipment.
    assert!(shipments >= 150 && read < shipments * 400_000, "{read} bytes for {shipments} shipments");
}

#[test]
fn a_node_that_has_nothing_gets_files_once_there_is_a_checkpoint() {
    let copy = Copy::with_segments(1, 64 << 10);
    let store = Store::lead(copy.leading(copy.follow(), 1)).unwrap();
    commit_all(&store, ENOUGH);
    let first = store.end();
    committing(&store, ENOUGH, || {
        try_publish(&store, Due::After(60_000), "x").unwrap();
        assert!(!store.ship(Sequence(1), 1).unwrap().is_empty(), "there is nothing but the log");
        store.checkpoint().unwrap();
        assert!(matches!(store.ship(Sequence(1), 1), Err(Error::NotKept { sequence: 1, .. })));
        assert!(!store.ship(first, 1).unwrap().is_empty(), "a node that has something gets the log");
        let offer = store.snapshot().unwrap().offer(1);
        assert!(offer.files[0].path.starts_with("checkpoints/") && offer.committed > first, "{offer:?}");
        assert_eq!(offer.end, store.end());
    });
}

#[test]
fn the_log_is_kept_for_a_node_that_lags() {
    let copy = Copy::with_segments(1, 64 << 10);
    let owner = OwnerOptions { keep_finished_ms: 0, ..OwnerOptions::default() };
    let store = Store::lead(copy.leading(copy.follow_with(owner), 1)).unwrap();
    commit_all(&store, ENOUGH);
    let first = store.end();
    store.keep_log_from(first).unwrap();
    committing(&store, ENOUGH, || {
        let messages = subscribe(&store, "orders", "billing");
        let work = || {
            for _ in 0..30 {
                let mut batch = store.batch();
                for _ in 0..25 {
                    batch.push("orders", Due::After(0), &[0; 5], &[7; 1_000]).unwrap();
                }
                store.publish(&mut batch).unwrap();
                assert_eq!(consume(&messages, 25).len(), 25);
            }
            assert!(messages.flush(Duration::from_secs(5)).unwrap());
            for _ in 0..4 {
                try_publish(&store, Due::After(0), "x").unwrap();
                consume(&messages, 1);
                assert!(messages.flush(Duration::from_secs(5)).unwrap());
                store.checkpoint().unwrap();
            }
        };
        work();
        assert!(!store.ship(first, 1).unwrap().is_empty());
        store.keep_log_from(store.end()).unwrap();
        work();
        eventually("the log goes", || matches!(store.ship(first, 1), Err(Error::NotKept { .. })));
    });
}
