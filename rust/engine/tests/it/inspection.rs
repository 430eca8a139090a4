//! Inspection: the files of a real store, and who needs them.

#![cfg(test)]

use std::time::Duration;

use crate::support::{collect, consume, eventually, open, options, publish, subscribe};
use delaymq_engine::{Due, Durability, FileKind, HolderKind, KeepFinished, Options, SpaceReason, inspect};

fn small() -> Options {
    let mut options = Options { segment_bytes: 64 << 10, ..options(Durability::Os) };
    options.owner.keep_finished_ms = 0;
    options
}

/// Both need the same segments, so that neither holds them alone.
#[test]
fn dead_letters_and_what_a_group_has_not_finished_come_back_with_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), small());
    let messages = subscribe(&store, "orders", "billing");
    for _ in 0..300 {
        publish(&store, "orders", Due::After(0), &[b'x'; 1_000]);
    }
    let first = collect(&messages, 1).remove(0);
    messages.dead_letter(first.key, "no such order").unwrap();
    assert!(messages.flush(Duration::from_secs(5)).unwrap());
    store.checkpoint().unwrap();
    store.checkpoint().unwrap();
    let seen = inspect(folder.path(), &KeepFinished::default()).unwrap().inspection;
    let of = |wanted: &dyn Fn(&HolderKind) -> bool| seen.holders.iter().find(|holder| wanted(&holder.kind)).unwrap();
    let group = of(&|kind| matches!(kind, HolderKind::Group { subject, .. } if subject == "orders"));
    let dead = of(&|kind| matches!(kind, HolderKind::DeadLetters { .. }));
    let alone = [group.alone, dead.alone];
    assert!(alone[0] >= 3 * (64 << 10) && alone[1] < 64 << 10, "{:?}", seen.holders);
}

#[test]
fn what_is_prepared_is_held_by_nobody_and_is_upkeep() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), small());
    let messages = subscribe(&store, "orders", "billing");
    publish(&store, "orders", Due::After(0), b"one");
    assert_eq!(consume(&messages, 1).len(), 1);
    eventually("segments ahead", || store.status().unwrap().metrics.prepared_segments >= 1);
    let pin = folder.path().join("pins").join(format!("{}-reader", u64::MAX / 2));
    std::fs::write(pin, "").unwrap();
    let seen = inspect(folder.path(), &KeepFinished::default()).unwrap().inspection;
    let segments: Vec<_> = seen.files.iter().filter(|file| file.path.ends_with(".segment")).collect();
    let prepared: Vec<_> = segments.iter().filter(|file| file.kind == FileKind::Preparing).collect();
    assert!(!prepared.is_empty() && prepared.len() < segments.len(), "{segments:?}");
    assert!(prepared.iter().all(|file| file.held_by_count == 0), "{prepared:?}");
    let bytes: u64 = prepared.iter().map(|file| file.bytes).sum();
    let upkeep = seen.space.iter().find(|held| held.reason == SpaceReason::Upkeep).unwrap();
    assert!(upkeep.bytes >= bytes, "{upkeep:?}");
    store.close().unwrap();
}
