//! When batches are visible, messages delivered, and requests answered.

use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::Error;
use delaymq_core::replication::LogView;
use delaymq_core::store::Follower;
use delaymq_engine::{CancelOutcome, Due};

use super::{Copy, ENOUGH, LATER, commit_all, committing, try_publish};
use crate::support::{bodies, collect, consume, eventually, subscribe};

#[test]
fn nothing_is_answered_delivered_or_visible_before_it_is_committed() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    let messages = committing(&store, ENOUGH, || subscribe(&store, "orders", "billing"));
    let mut batch = store.batch();
    batch.push("orders", Due::After(40), &[0; 5], b"soon").unwrap();
    batch.push("orders", LATER, &[0; 5], b"later").unwrap();
    let ticket = store.submit(&mut batch).unwrap();
    eventually("it is durable here", || store.durable() >= ticket.end());
    assert!(!ticket.is_done());
    assert!(ticket.wait(Duration::from_millis(30)).unwrap().is_none());
    let status = store.status().unwrap();
    assert_eq!((status.pending, status.ready), (0, 0));
    assert!(status.visible < ticket.end() && status.synced >= ticket.end());
    store.commit(ticket.end(), ENOUGH).unwrap();
    assert_eq!(ticket.wait(Duration::ZERO).unwrap().unwrap().len(), 2, "it is answered at once");
    // The message becomes ready by a fact, which must be committed, too.
    eventually("a fact makes it ready", || store.durable() > ticket.end());
    assert!(messages.pull(1, Duration::from_millis(30)).unwrap().is_empty());
    assert_eq!(store.status().unwrap().ready, 0);
    committing(&store, ENOUGH, || {
        assert_eq!(bodies(&consume(&messages, 1)), ["soon"]);
        assert!(messages.flush(Duration::from_secs(5)).unwrap());
    });
    assert_eq!(store.status().unwrap().pending, 1);
}

#[test]
fn a_commit_waits_for_no_sync_and_batches_are_told_of_before_theirs() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    let mut batch = store.batch();
    batch.push("orders", LATER, &[0; 5], b"first").unwrap();
    let first = store.submit(&mut batch).unwrap();
    eventually("the first is durable", || store.durable() >= first.end());
    let told = copy.told.load(Ordering::SeqCst);
    copy.switches.stuck.store(true, Ordering::SeqCst);
    batch.push("orders", LATER, &[0; 5], b"second").unwrap();
    let second = store.submit(&mut batch).unwrap();
    eventually("the second is written", || store.end() >= second.end());
    assert!(copy.told.load(Ordering::SeqCst) > told, "the node learns of it before it is durable");
    assert_eq!(store.durable(), first.end());
    let shipped = store.ship(first.end(), 1 << 20).unwrap();
    assert!(shipped.windows(6).any(|bytes| bytes == b"second"));
    store.commit(first.end(), ENOUGH).unwrap();
    assert!(first.is_done() && !second.is_done());
    copy.switches.stuck.store(false, Ordering::SeqCst);
    eventually("the second is durable", || store.durable() >= second.end());
    commit_all(&store, ENOUGH);
    assert!(second.is_done());
}

#[test]
fn what_a_killed_primary_had_committed_is_kept_and_the_rest_is_its_tail() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    let kept = committing(&store, ENOUGH, || try_publish(&store, LATER, "committed").unwrap());
    // The next batch says that the one before is committed.
    let mut batch = store.batch();
    batch.push("another", LATER, &[0; 5], b"uncommitted").unwrap();
    batch.push("later", LATER, &[0; 5], b"uncommitted").unwrap();
    let open = store.submit(&mut batch).unwrap();
    eventually("it is durable", || store.durable() >= open.end());
    store.abandon().unwrap();
    let unknown = open.wait(Duration::from_secs(5)).unwrap_err();
    assert!(matches!(unknown, Error::NotEnoughCopies { maybe_stored: true, .. }), "{unknown}");
    let follower = copy.follow();
    assert_eq!(follower.owner().state().schedule.pending(), 1, "what is known to be committed");
    assert_eq!(follower.ends().end(), open.end(), "and the rest is there");
    let store = delaymq_engine::Store::lead(copy.leading(follower, 2)).unwrap();
    assert_eq!(store.status().unwrap().pending, 1);
    store.commit(open.end(), ENOUGH).unwrap();
    eventually("the tail is applied", || store.status().unwrap().pending == 3);
    assert!(!store.has_begun());
    commit_all(&store, ENOUGH);
    assert!(store.has_begun());
    assert_eq!(store.status().unwrap().epoch.0, 2);
    let epochs: Vec<_> = store.history().epochs.iter().map(|entry| entry.epoch.0).collect();
    assert_eq!(epochs, [1, 2]);
    committing(&store, ENOUGH, || {
        assert_eq!(store.cancel(&kept).unwrap(), CancelOutcome::Done, "receipts of the epoch before are known");
        // The subject came with the tail, and keeps its number.
        let mut batch = store.batch();
        batch.push("later", Due::After(0), &[0; 5], b"of the same subject").unwrap();
        store.publish(&mut batch).unwrap();
        let messages = subscribe(&store, "later", "billing");
        assert_eq!(bodies(&consume(&messages, 1)), ["of the same subject"]);
        let listed = store.subjects().unwrap();
        let grown: Vec<_> = listed.iter().filter(|subject| subject.next_number.0 > 0).collect();
        assert!(matches!(grown.as_slice(), [later] if later.name == "later"), "{listed:?}");
    });
    assert_eq!(store.status().unwrap().pending, 2);
}

#[test]
fn nothing_is_decided_before_the_epoch_is_committed() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    let mut batch = store.batch();
    batch.push("orders", Due::After(20), &[0; 5], b"due").unwrap();
    let due = store.submit(&mut batch).unwrap();
    eventually("it is durable", || store.durable() >= due.end());
    store.abandon().unwrap();
    let store = copy.lead(2);
    let begun = store.end();
    // The message is due, and the store knows it; what it would propose would stand behind the epoch's first fact.
    store.commit(due.end(), ENOUGH).unwrap();
    eventually("the tail is applied", || store.status().unwrap().pending == 1);
    let refused = [
        try_publish(&store, LATER, "early").map(drop),
        store.subscribe("orders", "billing", delaymq_engine::SubscribeOptions::default()).map(drop),
        store.checkpoint(),
    ];
    for refused in refused {
        assert_eq!(refused, Err(Error::NotPrimary { epoch: 2 }));
    }
    std::thread::sleep(Duration::from_millis(120));
    assert_eq!(store.end(), begun, "something was decided");
    store.commit(begun, ENOUGH).unwrap();
    assert!(store.has_begun());
    eventually("a fact makes the message ready", || store.durable() > begun);
    assert_eq!(store.status().unwrap().ready, 0);
    committing(&store, ENOUGH, || {
        let messages = subscribe(&store, "orders", "billing");
        assert_eq!(bodies(&collect(&messages, 1)), ["due"]);
    });
}

#[test]
fn a_failed_disk_is_told_and_nothing_is_committed_any_more() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    copy.switches.fail_syncs.store(true, Ordering::SeqCst);
    let told = copy.told.load(Ordering::SeqCst);
    let mut batch = store.batch();
    batch.push("orders", LATER, &[0; 5], b"lost").unwrap();
    let ticket = store.submit(&mut batch).unwrap();
    let failed = ticket.wait(Duration::from_secs(10)).unwrap_err();
    assert!(matches!(failed, Error::Poisoned { .. }), "{failed}");
    eventually("the batch and the failure are told", || copy.told.load(Ordering::SeqCst) >= told + 2);
    assert!(matches!(store.commit(ticket.end(), ENOUGH), Err(Error::Poisoned { .. })));
    assert!(matches!(store.ship(ticket.end(), 1), Err(Error::Poisoned { .. })));
    drop(store);
    copy.switches.fail_syncs.store(false, Ordering::SeqCst);
    drop::<Follower>(copy.follow());
}
