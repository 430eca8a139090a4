//! Segments are small in a new store, grow with what it is given, and give their space back on closing.

#![cfg(test)]

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use crate::support::{eventually, options, segment_lengths};
use delaymq_engine::{CancelOutcome, Due, Durability, Options, Receipt, Store};

const MIB: u64 = 1 << 20;
const HOUR_MS: u64 = 3_600_000;

fn open(path: &Path) -> Arc<Store> {
    Store::open(path, Options { segment_bytes: 128 << 20, ..options(Durability::Os) }, &mut |_| {}).unwrap()
}

/// Bytes of the disk that a folder takes.
fn disk_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().filter_map(Result::ok);
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        // Removed since the folder was read.
        Err(_) => 0,
    });
    sizes.sum()
}

fn publish(store: &Store, count: usize, body_bytes: usize) -> Vec<Receipt> {
    let mut batch = store.batch();
    for _ in 0..count {
        batch.push("orders", Due::After(HOUR_MS), &[], &vec![b'x'; body_bytes]).unwrap();
    }
    store.publish(&mut batch).unwrap().iter().collect()
}

fn await_stock(store: &Store) {
    eventually("a segment is prepared", || store.status().unwrap().metrics.prepared_segments >= 1);
}

#[test]
fn a_store_of_one_message_takes_four_mebibytes_open_and_one_closed_also_when_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    for turn in 0..3 {
        let store = open(folder.path());
        if turn == 0 {
            publish(&store, 1, 100);
        }
        await_stock(&store);
        let open_bytes = disk_bytes(folder.path());
        assert!(open_bytes <= 4 * MIB, "{open_bytes} bytes while open, turn {turn}");
        assert_eq!(store.status().unwrap().pending, 1);
        store.close().unwrap();
        let closed_bytes = disk_bytes(folder.path());
        assert!(closed_bytes <= MIB, "{closed_bytes} bytes closed, turn {turn}");
    }
}

#[test]
fn segments_grow_to_their_full_size_with_what_the_store_is_given_and_stay_large_when_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for _ in 0..50 {
        publish(&store, 1, 1 << 20);
    }
    let has_large = || segment_lengths(folder.path()).last() == Some(&(128 * MIB));
    eventually("a segment has the full size", has_large);
    let grown = segment_lengths(folder.path());
    // The first one ends with the open that created the store.
    assert_eq!(grown.get(1), Some(&MIB));
    assert!(grown.is_sorted(), "{grown:?}");
    store.close().unwrap();
    let closed_bytes = disk_bytes(folder.path());
    assert!(closed_bytes < 60 * MIB, "{closed_bytes} bytes for 50 MiB of messages");
    let store = open(folder.path());
    eventually("a segment has the full size again", has_large);
    store.close().unwrap();
}

#[test]
fn facts_that_end_messages_get_a_segment_that_has_room_for_all_of_them_in_a_new_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let receipt = publish(&store, 1, 100).remove(0);
    await_stock(&store);
    // More than any segment of the stock takes.
    let receipts = vec![receipt; 60_000];
    let outcomes = store.cancel_many(&receipts).unwrap();
    assert_eq!((outcomes.len(), outcomes[0]), (60_000, CancelOutcome::Done));
    store.close().unwrap();
}
