//! Runs that checkpoints merge, remove and punch, while messages in them are cancelled, moved and delivered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use delaymq_engine::{CancelOutcome, Due, MoveOutcome, OwnerOptions, Receipt, Store, Subscription, modelled};

use crate::changes::{changer, checkpoint};
use crate::consumers::body_of;
use crate::publishers::at_once_since;
use crate::world::{Kept, World, batch_of, subscribe};

const LONG: Duration = Duration::from_secs(30);
const FAR_MS: u64 = 60_000;
/// Each run has some that have ended before, beside what waits.
const RUNS: [[&str; 4]; 2] =
    [["ended-1", "cancelled", "moved", "waits-1"], ["ended-2", "waits-2", "waits-3", "waits-4"]];
const WAITS: [&str; 4] = ["waits-1", "waits-2", "waits-3", "waits-4"];

/// Whatever is finished is given back by the next checkpoints. Two runs make one: a merge of one alone, which stands
/// beside the older one for a while, would make the next checkpoint due for ever.
fn options(merge_payload_bytes: u64) -> OwnerOptions {
    OwnerOptions {
        copy_after_ms: 0,
        keep_finished_ms: 0,
        merge_windows_min: 2,
        merge_payload_bytes,
        reclaim_bytes: 1,
        hole_bytes_min: 1,
        hole_block_bytes: 8,
        ..OwnerOptions::default()
    }
}

/// Longer than a hole has to be.
fn body(name: &str) -> String {
    format!("{name}:{}", "x".repeat(300))
}

fn filled(store: &Store) -> BTreeMap<&'static str, Receipt> {
    let mut receipts = BTreeMap::new();
    for names in RUNS {
        let bodies = names.map(body);
        let mut batch = batch_of(store, &bodies.each_ref().map(String::as_str), Due::After(FAR_MS));
        let stored = store.publish(&mut batch).unwrap();
        receipts.extend(names.into_iter().zip(0..).map(|(name, place)| (name, stored.get(place).unwrap())));
        store.checkpoint().unwrap();
    }
    for ended in ["ended-1", "ended-2"] {
        assert_eq!(store.cancel(&receipts[ended]).unwrap(), CancelOutcome::Done);
    }
    receipts
}

/// Takes so many messages, whole and in order.
fn take(messages: &Subscription, names: &[&str]) {
    let mut bodies = Vec::new();
    while bodies.len() < names.len() {
        let pulled = messages.pull(names.len(), LONG).unwrap();
        assert!(!pulled.is_empty(), "a payload is gone, behind {} of {names:?}", bodies.len());
        bodies.extend(pulled.iter().map(body_of));
        messages.acknowledge(&pulled.iter().map(|message| message.key).collect::<Vec<_>>()).unwrap();
    }
    assert_eq!(bodies, names.iter().map(|name| body(name)).collect::<Vec<_>>());
    assert!(messages.flush(LONG).unwrap());
}

fn is_as_told(world: &World, store: &Store) {
    let expected = (WAITS.len() as u64, WAITS.len() as u64);
    let found = (store.status().unwrap().pending, world.left().pending);
    assert_eq!(found, expected, "what has ended is pending, or what waits is not");
}

fn merged(world: &Arc<World>, merge_payload_bytes: u64) {
    let store = world.open_with(options(merge_payload_bytes));
    let messages = subscribe(&store);
    let receipts = filled(&store);
    // Checkpoints that nobody waited for have made pauses.
    let began = modelled::now();
    let (cancelled, moved) = (receipts["cancelled"], receipts["moved"]);
    let canceller = changer(world, &store, move |_, store| store.cancel(&cancelled).unwrap());
    let mover = changer(world, &store, move |_, store| store.move_to(&moved, Due::After(0)).unwrap());
    let written = checkpoint(&store);
    take(&messages, &["moved"]);
    at_once_since(began, "what was moved to now");
    assert_eq!(canceller.join().unwrap(), CancelOutcome::Done);
    assert!(matches!(mover.join().unwrap(), MoveOutcome::Done(_)));
    written.join().unwrap();
    is_as_told(world, &store);
    // What both kept checkpoints call finished is punched, or goes with its file.
    for _ in 0..3 {
        store.checkpoint().unwrap();
    }
    is_as_told(world, &store);
    drop(messages);
    store.close().unwrap();
    drop(store);
    let store: Kept<Arc<Store>> = world.open_with(options(merge_payload_bytes));
    let messages = subscribe(&store);
    modelled::sleep(Duration::from_millis(FAR_MS));
    take(&messages, &WAITS);
    store.close().unwrap();
    let left = world.left();
    assert_eq!((left.pending, left.ready), (0, 0));
}

/// Payloads are copied into the merged run, and their files go.
pub(crate) fn copied(world: &Arc<World>) {
    merged(world, 8 << 20);
}

/// Rows are merged, and payloads stay where they are, between holes.
pub(crate) fn left(world: &Arc<World>) {
    merged(world, 0);
}
