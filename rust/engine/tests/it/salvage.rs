//! Inspection of a store without its lock, and salvage of a damaged one.

#![cfg(test)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{collect, consume, eventually, open, options, publish, subscribe};
use delaymq_core::error::Error;
use delaymq_core::units::Millis;
use delaymq_engine::{
    CatchUp, DeadLetter, Due, Durability, Expires, FileKind, HolderKind, IfExists, KeepFinished, ManualClock,
    NewRecurring, OnExpiry, Options, PublishTerms, Recurs, Store, inspect, preview_salvage, salvage_into,
};

const HOUR_MS: u64 = 3_600_000;

/// A closed store: 20 pending messages, 10 ready ones of which the group has finished 4.
fn filled(path: &Path) {
    let store = open(path, options(Durability::Disk));
    for number in 0..20_u8 {
        publish(&store, "late", Due::After(HOUR_MS), &[number; 50]);
    }
    let group = subscribe(&store, "now", "group");
    for number in 0..10_u8 {
        publish(&store, "now", Due::After(0), &[number]);
    }
    assert_eq!(consume(&group, 4).len(), 4);
    assert!(group.flush(Duration::from_secs(5)).unwrap());
    group.close().unwrap();
    store.checkpoint().unwrap();
    publish(&store, "late", Due::After(HOUR_MS), b"behind the checkpoint");
    store.close().unwrap();
}

#[test]
fn an_open_store_is_looked_at_without_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    let store = open(folder.path(), options(Durability::Disk));
    let seen = inspect(folder.path(), &KeepFinished::default()).unwrap();
    assert_eq!(seen.open_in, Some(std::process::id()));
    assert_eq!((seen.inspection.pending, seen.inspection.ready), (21, 6));
    let group = seen.inspection.groups.iter().find(|group| group.subject == "now").unwrap();
    assert_eq!((group.lag, group.name.as_str()), (6, "group"));
    assert!(seen.inspection.files.iter().any(|file| file.kind == FileKind::ScheduleRun && file.unfinished == 20));
    let holds = |kind: &HolderKind| matches!(kind, HolderKind::Group { subject, .. } if subject == "now");
    assert!(seen.inspection.holders.iter().any(|holder| holds(&holder.kind) && holder.messages == 6));
    store.close().unwrap();
    assert_eq!(inspect(folder.path(), &KeepFinished::default()).unwrap().open_in, None);
}

#[test]
fn what_a_group_has_finished_is_not_saved_again() {
    let folder = tempfile::tempdir().unwrap();
    let (from, into) = (folder.path().join("from"), folder.path().join("into"));
    filled(&from);
    let found = salvage_into(&from, &into, &mut |_| true).unwrap();
    assert_eq!((found.saved(), found.lost_count(), found.damage.len()), (27, 0, 0));
    let store = open(&into, options(Durability::Disk));
    assert_eq!(store.status().unwrap().pending, 21);
    let group = subscribe(&store, "now", "group");
    let bodies: Vec<u8> = collect(&group, 6).iter().map(|message| message.body()[0]).collect();
    assert_eq!(bodies, [4, 5, 6, 7, 8, 9]);
}

#[test]
fn dead_letters_keep_when_they_died_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let (from, into) = (folder.path().join("from"), folder.path().join("into"));
    filled(&from);
    let store = open(&from, options(Durability::Disk));
    let group = subscribe(&store, "now", "group");
    for message in collect(&group, 4) {
        group.dead_letter(message.key, &format!("reason of {}", message.body()[0])).unwrap();
    }
    group.give_back(collect(&group, 1)[0].key, HOUR_MS).unwrap();
    group.close().unwrap();
    let of = |store: &Store| {
        let letters = store.dead_letters("now", "group", 100).unwrap();
        let told = |one: &DeadLetter| {
            (one.payload.as_ref().unwrap().body()[0], one.reason.clone(), one.died, one.published, one.damage.clone())
        };
        letters.iter().map(told).collect::<Vec<_>>()
    };
    let before = of(&store);
    assert_eq!(before.iter().map(|one| one.1.as_str()).collect::<Vec<_>>()[..2], ["reason of 4", "reason of 5"]);
    store.close().unwrap();
    let found = salvage_into(&from, &into, &mut |_| true).unwrap();
    assert_eq!((found.saved(), found.reasons_count(), found.lost_count()), (27, 4, 0));
    let store = open(&into, options(Durability::Disk));
    assert_eq!(of(&store), before);
    assert_eq!(store.status().unwrap().pending, 22);
    let group = subscribe(&store, "now", "group");
    assert_eq!(collect(&group, 1)[0].body(), [9]);
    assert_eq!(store.redrive("now", "group", None).unwrap(), 4);
    let again: Vec<u8> = collect(&group, 4).iter().map(|message| message.body()[0]).collect();
    assert_eq!(again, [4, 5, 6, 7]);
}

fn publish_expiring(store: &Store, then: OnExpiry, body: &str) {
    let mut batch = store.batch();
    let terms = PublishTerms { expires: Some((Expires::After(10), then)), ..PublishTerms::NONE };
    batch.push_on_terms("now", Due::After(0), (&[], body.as_bytes()), &terms).unwrap();
    store.publish(&mut batch).unwrap();
}

#[test]
fn dead_letters_of_messages_that_have_expired_are_saved_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let (from, into) = (folder.path().join("from"), folder.path().join("into"));
    // Long ago: when the store is salvaged, all of it has expired.
    let clock = Arc::new(ManualClock::new(Millis(1_600_000_000_000)).unwrap());
    let store = open(&from, Options { clock: Arc::clone(&clock) as _, ..options(Durability::Disk) });
    let group = subscribe(&store, "now", "group");
    for (then, body) in [(OnExpiry::Drop, "a"), (OnExpiry::DeadLetter, "b"), (OnExpiry::DeadLetter, "c")] {
        publish_expiring(&store, then, body);
    }
    for (message, reason) in collect(&group, 2).iter().zip(["broken", "expired"]) {
        group.dead_letter(message.key, reason).unwrap();
    }
    clock.advance(10, Duration::from_secs(20), &mut || true).unwrap();
    assert!(group.pull(10, Duration::ZERO).unwrap().is_empty());
    let of = |store: &Store| {
        let letters = store.dead_letters("now", "group", 100).unwrap();
        let told = |one: &DeadLetter| (one.payload.as_ref().unwrap().body()[0], one.reason.clone(), one.attempt);
        (letters.iter().map(told).collect::<Vec<_>>(), store.subjects().unwrap()[0].expired)
    };
    let expected = [(b'a', "broken", 1), (b'b', "expired", 1), (b'c', "expired", 0)];
    let expected = (expected.map(|(body, reason, attempt)| (body, reason.to_owned(), attempt)).to_vec(), 1);
    assert_eq!(of(&store), expected);
    // One that nobody came to, and a crash.
    assert!(group.flush(Duration::from_secs(5)).unwrap());
    publish_expiring(&store, OnExpiry::Drop, "d");
    drop(group);
    store.abandon().unwrap();
    let found = salvage_into(&from, &into, &mut |_| true).unwrap();
    assert_eq!((found.saved(), found.reasons_count(), found.lost_count()), (4, 3, 0));
    let store = open(&into, options(Durability::Disk));
    assert_eq!(of(&store), expected);
    assert!(subscribe(&store, "now", "group").pull(10, Duration::ZERO).unwrap().is_empty());
    assert_eq!(of(&store), (expected.0, 2));
}

#[test]
fn an_open_store_is_not_salvaged() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    let store = open(folder.path(), options(Durability::Disk));
    assert!(matches!(preview_salvage(folder.path()), Err(Error::Locked { .. })));
    store.close().unwrap();
    assert_eq!(preview_salvage(folder.path()).unwrap().saved(), 27);
}

#[test]
fn a_folder_with_something_in_it_is_not_written_into() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    filled(&from);
    for into in [folder.path(), from.as_path()] {
        let refused = salvage_into(&from, into, &mut |_| true).map(|found| found.saved());
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "into", .. })), "{refused:?}");
    }
}

const HOURLY: NewRecurring<'_> = NewRecurring {
    name: "hourly",
    recurs: Recurs::Every(HOUR_MS),
    zone: "UTC",
    start: None,
    catch_up: CatchUp::All,
    expires_after: None,
    if_exists: IfExists::Refuse,
    meta: b"",
    body: b"tick",
};

/// The series of a store: subject, name and rule.
fn series_of(store: &Store) -> Vec<(String, String, String)> {
    let all = store.recurring(None, 0, 100).unwrap();
    all.into_iter().map(|one| (one.subject, one.name, one.rule)).collect()
}

fn named(subject: &str, name: &str, rule: &str) -> (String, String, String) {
    (subject.to_owned(), name.to_owned(), rule.to_owned())
}

#[test]
fn series_go_on_behind_their_last_message() {
    let folder = tempfile::tempdir().unwrap();
    let (from, into) = (folder.path().join("from"), folder.path().join("into"));
    let store = open(&from, options(Durability::Disk));
    store.recur("checks", &HOURLY).unwrap();
    store.recur("checks", &NewRecurring { name: "gone", ..HOURLY }).unwrap();
    store.checkpoint().unwrap();
    store.end_recurring("checks", "gone").unwrap();
    let nightly = NewRecurring { name: "nightly", recurs: Recurs::Cron("0 3 * * *"), zone: "Europe/Berlin", ..HOURLY };
    let due = store.recur("reports", &nightly).unwrap().pending.unwrap().key.due;
    store.close().unwrap();

    let found = salvage_into(&from, &into, &mut |_| true).unwrap();
    assert_eq!((found.saved(), found.series.len()), (2, 2));
    let store = open(&into, options(Durability::Disk));
    assert_eq!(
        series_of(&store),
        [named("checks", "hourly", "every 3600000ms"), named("reports", "nightly", "0 3 * * *")]
    );
    let nightly = &store.recurring(Some("reports"), 0, 10).unwrap()[0];
    assert_eq!((nightly.zone.as_str(), nightly.catch_up), ("Europe/Berlin", CatchUp::All));
    eventually("each goes on", || store.status().unwrap().pending == 4);
    let again = store.recurring(Some("reports"), 0, 10).unwrap()[0].pending.unwrap().key.due;
    let day = 23 * HOUR_MS..=25 * HOUR_MS;
    assert!(day.contains(&again.since(due)), "{due:?} is saved as a message, and {again:?} comes after it");
}

#[test]
fn what_later_facts_say_of_series_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let (from, into) = (folder.path().join("from"), folder.path().join("into"));
    let store = open(&from, options(Durability::Disk));
    for name in ["hourly", "gone"] {
        store.recur("checks", &NewRecurring { name, ..HOURLY }).unwrap();
    }
    publish(&store, "checks", Due::After(HOUR_MS), b"a fact whose bytes are lost");
    store.end_recurring("checks", "gone").unwrap();
    let replaced = NewRecurring { recurs: Recurs::Every(2 * HOUR_MS), if_exists: IfExists::Replace, ..HOURLY };
    let due = store.recur("checks", &replaced).unwrap().pending.unwrap().key.due;
    store.recur("reports", &HOURLY).unwrap();
    store.close().unwrap();
    for checkpoint in std::fs::read_dir(from.join("checkpoints")).unwrap() {
        std::fs::remove_file(checkpoint.unwrap().path()).unwrap();
    }
    damage(&from, b"a fact whose bytes are lost");

    let found = salvage_into(&from, &into, &mut |_| true).unwrap();
    assert!(!found.gaps.is_empty(), "the fact is lost, with its header");
    let rules: Vec<_> = found.series.iter().map(|one| (&*one.subject, &*one.recurs.name, &*one.recurs.rule)).collect();
    assert_eq!(rules, [("checks", "hourly", "every 7200000ms"), ("reports", "hourly", "every 3600000ms")]);
    assert_eq!(found.series[0].last_due, due);
}

/// Damages the header and the body of the record with this body.
fn damage(store: &Path, body: &[u8]) {
    for segment in std::fs::read_dir(store.join("log")).unwrap() {
        let path = segment.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let Some(at) = bytes.windows(body.len()).position(|window| window == body) else { continue };
        bytes[at - 40..at + body.len()].fill(0x55);
        std::fs::write(&path, bytes).unwrap();
        return;
    }
    panic!("no segment has it");
}
