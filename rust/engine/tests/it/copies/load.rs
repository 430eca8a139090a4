//! Publishers and a consumer while the copies commit, and a primary that is killed meanwhile.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use delaymq_core::error::Error;
use delaymq_core::replication::LogView;
use delaymq_engine::{Due, Store};

use super::{Copy, ENOUGH, commit_all, committing, try_publish};
use crate::support::{bodies, subscribe};

const PUBLISHERS: u64 = 4;
/// So many messages of 4 MiB are as far behind as the copies may be.
const BEHIND: usize = 16;

/// Publishes until the store ends. Returns the bodies that were answered as stored.
fn publish_until_the_end(store: &Store, name: u64, count: &AtomicU64) -> Vec<String> {
    let mut stored = Vec::new();
    for number in 0.. {
        let body = format!("{name}-{number}");
        match try_publish(store, Due::After(number % 3), &body) {
            Ok(_) => stored.push(body),
            Err(Error::Closed | Error::NotEnoughCopies { maybe_stored: true, .. }) => break,
            Err(error) => panic!("{error}"),
        }
        count.fetch_add(1, Ordering::SeqCst);
    }
    stored
}

#[test]
fn nothing_that_was_answered_is_lost_with_its_primary() {
    let copy = Copy::new(1);
    let mut stored = BTreeSet::new();
    let handled = Mutex::new(BTreeSet::new());
    for epoch in 1..=3 {
        let store = copy.lead_begun(epoch);
        let (count, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let publishers: Vec<_> = (0..PUBLISHERS)
                .map(|number| {
                    let (store, count) = (&store, &count);
                    scope.spawn(move || publish_until_the_end(store, u64::from(epoch) * 100 + number, count))
                })
                .collect();
            scope.spawn(|| {
                // A node is told, and commits what is durable then.
                let mut told = 0;
                while !is_over.load(Ordering::SeqCst) {
                    let now = copy.told.load(Ordering::SeqCst);
                    if now == told {
                        std::thread::yield_now();
                    } else if store.commit(store.durable(), ENOUGH).is_err() {
                        return;
                    }
                    told = now;
                }
            });
            scope.spawn(|| {
                let messages = subscribe(&store, "orders", "billing");
                while let Ok(pulled) = messages.pull(64, Duration::from_millis(50)) {
                    let keys: Vec<_> = pulled.iter().map(|message| message.key).collect();
                    handled.lock().unwrap().extend(bodies(&pulled));
                    if messages.acknowledge(&keys).is_err() {
                        return;
                    }
                }
            });
            while count.load(Ordering::SeqCst) < 400 {
                std::thread::sleep(Duration::from_millis(2));
            }
            store.abandon().unwrap();
            for publisher in publishers {
                stored.extend(publisher.join().unwrap());
            }
            is_over.store(true, Ordering::SeqCst);
        });
    }
    let store = copy.lead(4);
    commit_all(&store, ENOUGH);
    committing(&store, ENOUGH, || {
        let messages = subscribe(&store, "orders", "billing");
        loop {
            let pulled = messages.pull(256, Duration::from_secs(1)).unwrap();
            if pulled.is_empty() {
                break;
            }
            handled.lock().unwrap().extend(bodies(&pulled));
            let keys: Vec<_> = pulled.iter().map(|message| message.key).collect();
            messages.acknowledge(&keys).unwrap();
        }
    });
    let handled = handled.into_inner().unwrap();
    let lost: Vec<_> = stored.difference(&handled).collect();
    assert!(lost.is_empty(), "{} of {}: {lost:?}", lost.len(), stored.len());
    assert!(stored.len() >= 1_000);
}

#[test]
fn publishes_wait_while_the_copies_are_far_behind() {
    let copy = Copy::with_segments(1, 16 << 20);
    let store = copy.lead_begun(1);
    let body = vec![7; 4 << 20];
    let mut tickets = Vec::new();
    let mut batch = store.batch();
    let mut refusals = 0;
    // Room for a segment is waited for, too, but not for long.
    while refusals < 60 {
        if batch.is_empty() {
            batch.push("orders", Due::After(3_600_000), &[0; 5], &body).unwrap();
        }
        match store.begin_publish(&mut batch).unwrap() {
            Some(ticket) => {
                tickets.push(ticket);
                refusals = 0;
            }
            None => refusals += u32::from(tickets.len() >= BEHIND),
        }
        assert!(tickets.len() < 2 * BEHIND, "nothing bounds what the copies do not have");
    }
    assert_eq!(batch.len(), 1);
    committing(&store, ENOUGH, || {
        store.publish(&mut batch).unwrap();
        assert!(tickets.iter().all(delaymq_engine::Ticket::is_done));
    });
}
