//! Reading a subject by its numbers, without a group.

#![cfg(test)]

use std::sync::Arc;

use crate::support::{bodies, consume, eventually, open, options, subscribe};
use delaymq_core::units::ReadyNumber;
use delaymq_engine::{CreationLimits, Due, Durability, Options, OwnerOptions, ReadNumbers, Store, SubjectReader};

const ALL: usize = usize::MAX;

fn publish_numbers(store: &Store, numbers: std::ops::Range<u64>) {
    let mut batch = store.batch();
    for number in numbers {
        batch.push("news", Due::After(0), &[], number.to_string().as_bytes()).unwrap();
    }
    store.publish(&mut batch).unwrap();
}

/// Reads on until `count` messages are there; where it goes on, and the bodies.
fn read(reader: &SubjectReader, from: ReadyNumber, count: usize) -> (ReadyNumber, Vec<u64>) {
    let (mut from, mut found) = (from, Vec::new());
    eventually("all are read", || {
        if let ReadNumbers::Messages { first, messages } = reader.read(from, 700, ALL).unwrap() {
            assert_eq!(first, from);
            assert!(messages.iter().zip(first.0..).all(|(message, number)| message.key.offset == number));
            found.extend(bodies(&messages).iter().map(|body| body.parse::<u64>().unwrap()));
            from = first.plus(messages.len() as u64);
        }
        found.len() >= count
    });
    (from, found)
}

#[test]
fn a_reader_reads_from_the_latest_on_whatever_groups_have_finished() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let group = subscribe(&store, "news", "archive");
    publish_numbers(&store, 0..3);
    assert_eq!(consume(&group, 3).len(), 3);
    let reader = store.subject_reader("news").unwrap();
    assert!(Arc::ptr_eq(&reader, &store.subject_reader("news").unwrap()));
    assert_eq!(reader.began_at(), ReadyNumber(3));
    assert!(matches!(reader.try_read(ReadyNumber(3), 10, ALL).unwrap(), ReadNumbers::Nothing { next: ReadyNumber(3) }));
    publish_numbers(&store, 3..2_003);
    // The group is done with all of it before the reader comes.
    assert_eq!(consume(&group, 2_000).len(), 2_000);
    assert!(group.flush(std::time::Duration::from_secs(5)).unwrap());
    eventually("all is finished", || store.status().unwrap().ready == 0);
    let (next, found) = read(&reader, ReadyNumber(3), 2_000);
    assert_eq!((next, found), (ReadyNumber(2_003), (3..2_003).collect()));
    let below = reader.try_read(ReadyNumber(0), 10, ALL).unwrap();
    assert!(matches!(below, ReadNumbers::BelowFloor { floor: ReadyNumber(3) }), "{below:?}");
}

#[test]
fn a_reader_that_falls_far_behind_what_groups_finish_is_told_where_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let group = subscribe(&store, "news", "archive");
    let reader = store.subject_reader("news").unwrap();
    publish_numbers(&store, 0..5_000);
    assert_eq!(consume(&group, 5_000).len(), 5_000);
    assert!(group.flush(std::time::Duration::from_secs(5)).unwrap());
    eventually("all is finished", || store.status().unwrap().ready == 0);
    let ReadNumbers::BelowFloor { floor } = reader.read(ReadyNumber(0), 10, ALL).unwrap() else { panic!("kept") };
    assert_eq!(floor, ReadyNumber(5_000 - 4_096), "as many as are kept in memory");
    assert_eq!(read(&reader, floor, 4_096).1, (floor.0..5_000).collect::<Vec<_>>());
}

#[test]
fn without_a_group_all_there_is_can_be_read_from_runs_too() {
    let folder = tempfile::tempdir().unwrap();
    let owner = OwnerOptions { ready_entries_max: 0, ..OwnerOptions::default() };
    let options = Options { owner, ..options(Durability::Disk) };
    let store = open(folder.path(), options.clone());
    publish_numbers(&store, 0..3_000);
    store.checkpoint().unwrap();
    store.close().unwrap();
    let store = open(folder.path(), options);
    publish_numbers(&store, 3_000..3_010);
    let reader = store.subject_reader("news").unwrap();
    assert!(matches!(reader.try_read(ReadyNumber(0), 10, ALL).unwrap(), ReadNumbers::WouldWait));
    assert_eq!(read(&reader, ReadyNumber(0), 3_010).1, (0..3_010).collect::<Vec<_>>());
    assert_eq!(store.status().unwrap().ready, 3_010, "nothing of it was taken");
    let ReadNumbers::Messages { messages, .. } = reader.read(ReadyNumber(3_000), 10, 5).unwrap() else {
        panic!("gone")
    };
    assert_eq!(messages.len(), 2, "as many bytes as asked for, or one message more");
}

/// What is there now, once nobody else looks.
fn tried(reader: &SubjectReader, from: ReadyNumber) -> ReadNumbers {
    loop {
        match reader.try_read(from, 10, ALL).unwrap() {
            ReadNumbers::WouldWait => std::thread::yield_now(),
            found => return found,
        }
    }
}

#[test]
fn a_reader_of_a_subject_that_does_not_exist_yet_hears_of_its_first_message() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    store.limit_creation(CreationLimits { subjects_max: 1, ..CreationLimits::default() });
    let listener = store.listener(Box::new(|| {})).unwrap();
    let reader = store.subject_reader("news").unwrap();
    assert!(store.subject_reader("other").is_err());
    reader.watch_by(&listener, 9).unwrap();
    assert!(matches!(tried(&reader, reader.began_at()), ReadNumbers::Nothing { .. }));
    for number in 0..3_u64 {
        publish_numbers(&store, number..number + 1);
        eventually("it is told", || listener.drain().unwrap().0.tokens == [9]);
        let found = tried(&reader, ReadyNumber(number));
        assert!(matches!(&found, ReadNumbers::Messages { messages, .. } if messages.len() == 1), "{found:?}");
    }
    drop(reader);
    publish_numbers(&store, 3..4);
    let reader = store.subject_reader("news").unwrap();
    assert_eq!(reader.began_at(), ReadyNumber(4));
    assert!(listener.drain().unwrap().0.tokens.is_empty(), "who reads no more is not told");
}
