//! How a store begins to lead, what it waits for, and how it ends.

use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::Error;
use delaymq_core::message_log::{Durability, segment_path};
use delaymq_core::replication::LogView;
use delaymq_core::store::CheckpointProgress;
use delaymq_core::units::{Epoch, Sequence};
use delaymq_engine::{Leading, Store};

use super::{Copy, ENOUGH, LATER, committing, try_publish};
use crate::support::{eventually, open, options};

#[test]
fn copies_need_disk_durability_and_a_new_epoch() {
    let copy = Copy::new(1);
    let leading = copy.leading(copy.follow(), 3);
    let os = Leading { options: options(Durability::Os), ..leading };
    assert!(matches!(Store::lead(os), Err(Error::InvalidArgument { argument: "durability", .. })));
    drop(copy.lead_begun(3));
    let again = Leading { epoch: Epoch(3), ..copy.leading(copy.follow(), 4) };
    assert_eq!(Store::lead(again).err(), Some(Error::Fenced { newest: 3, found: 3 }));
    assert_eq!(copy.lead_begun(5).status().unwrap().epoch, Epoch(5));
}

#[test]
fn a_store_alone_has_no_copies() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    assert!(store.has_begun());
    let refused =
        [store.commit(Sequence(1), ENOUGH), store.ship(Sequence(1), 1).map(drop), store.keep_log_from(Sequence(1))];
    assert!(refused.iter().all(|one| matches!(one, Err(Error::InvalidArgument { argument: "store", .. }))));
    assert_eq!((store.end(), store.durable(), store.history().epochs.len()), (Sequence(1), Sequence(1), 0));
}

#[test]
fn a_store_that_is_closed_goes_on_and_one_that_is_dropped_writes_nothing_more() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    committing(&store, ENOUGH, || try_publish(&store, LATER, "one").unwrap());
    store.close().unwrap();
    let end = store.end();
    drop(store);
    let follower = copy.follow();
    assert_eq!(follower.ends().end(), end);
    let store = Store::lead(copy.leading(follower, 2)).unwrap();
    let written = store.status().unwrap().position.segment().unwrap();
    let bytes = || std::fs::read(copy.path().join(segment_path(written))).unwrap();
    let before = bytes();
    drop(store);
    assert!(bytes() == before, "not even a seal");
    // The lock is the caller's.
    assert!(matches!(delaymq_engine::StoreLock::take(copy.path()), Err(Error::Locked { .. })));
    let store = copy.lead_begun(3);
    assert_eq!(store.status().unwrap().pending, 1);
}

#[test]
fn a_checkpoint_of_the_follower_goes_on_in_the_store() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    committing(&store, ENOUGH, || {
        for number in 0..50 {
            try_publish(&store, LATER, &format!("{number}")).unwrap();
        }
    });
    store.abandon().unwrap();
    drop(store);
    let mut follower = copy.follow();
    let end = follower.ends().end();
    follower.commit(end).unwrap();
    let mut work = follower.owner_mut().freeze().unwrap();
    let written = work.write_piece(&copy.storage, 1, follower.synced().location).unwrap();
    assert!(matches!(written, CheckpointProgress::More));
    let mut leading = copy.leading(follower, 2);
    leading.checkpoint = Some(work);
    let store = Store::lead(leading).unwrap();
    eventually("the checkpoint is taken", || store.status().unwrap().metrics.checkpoints == 1);
    super::commit_all(&store, ENOUGH);
    committing(&store, ENOUGH, || store.checkpoint().unwrap());
    assert_eq!(store.status().unwrap().metrics.checkpoints, 2);
    store.abandon().unwrap();
    assert_eq!(copy.lead_begun(3).status().unwrap().pending, 50);
}

/// True if the disk does nothing that the store waits for. It is looked at several times: the helper may have a piece to do.
fn hangs(store: &Store) -> bool {
    (0..100).any(|_| {
        let before = store.disk_work();
        std::thread::sleep(Duration::from_millis(50));
        before.is_awaited && store.disk_work() == before
    })
}

#[test]
fn a_disk_that_hangs_in_a_write_a_sync_or_an_allocation_is_waited_for() {
    let copy = Copy::with_segments(1, 64 << 10);
    let store = copy.lead_begun(1);
    eventually("nothing is to do", || !store.disk_work().is_awaited);
    for stuck in [&copy.switches.stuck_writes, &copy.switches.stuck] {
        stuck.store(true, Ordering::SeqCst);
        let mut batch = store.batch();
        batch.push("orders", LATER, &[0; 5], b"one").unwrap();
        let ticket = store.submit(&mut batch).unwrap();
        let does_hang = hangs(&store);
        stuck.store(false, Ordering::SeqCst);
        assert!(does_hang);
        eventually("it is durable", || !store.disk_work().is_awaited);
        assert!(store.disk_work().done.0 >= ticket.end());
    }
    copy.switches.no_segments.store(true, Ordering::SeqCst);
    let does_hang = std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                committing(&store, ENOUGH, || try_publish(&store, LATER, &"x".repeat(20 << 10)).unwrap());
            }
        });
        let does_hang = hangs(&store);
        copy.switches.no_segments.store(false, Ordering::SeqCst);
        does_hang
    });
    assert!(does_hang, "a publish waits for a segment");
    eventually("nothing is to do", || !store.disk_work().is_awaited);
}
