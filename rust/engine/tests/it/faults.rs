//! A store on a disk that fails: it refuses, says why, and acknowledges nothing that is not durable.

#![cfg(test)]

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::support::{Faults, bodies, collect, consume, eventually, open, options, publish, subscribe};
use delaymq_core::error::{Error, Result};
use delaymq_engine::{Delivered, Due, Durability, FreeMarks, Options, Receipts, Report, Store, SubscribeOptions};

fn open_faulty(path: &Path, options: Options) -> (Arc<Store>, Arc<crate::support::Switches>) {
    let (storage, switches) = Faults::over(path);
    (Store::open_on(storage, path, options, &mut |_| {}).unwrap(), switches)
}

fn try_publish(store: &Store, body: &[u8]) -> Result<Receipts> {
    let mut batch = store.batch();
    batch.push("orders", Due::After(0), &[0; 5], body).unwrap();
    store.publish(&mut batch)
}

fn reports(store: &Store) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    while let Some(report) = store.next_report(Duration::ZERO).unwrap() {
        kinds.push(report.kind());
    }
    kinds
}

#[test]
fn a_failed_sync_poisons_and_acknowledges_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (store, switches) = open_faulty(folder.path(), options(Durability::Disk));
    let messages = subscribe(&store, "orders", "billing");
    try_publish(&store, b"good").unwrap();
    switches.fail_syncs.store(true, Ordering::SeqCst);
    assert!(matches!(try_publish(&store, b"lost"), Err(Error::Poisoned { .. })));
    switches.fail_syncs.store(false, Ordering::SeqCst);
    assert!(matches!(try_publish(&store, b"refused"), Err(Error::Poisoned { .. })));
    assert!(matches!(messages.pull(1, Duration::ZERO), Err(Error::Poisoned { .. })));
    assert!(matches!(store.cancel_many(&[]), Err(Error::Poisoned { .. })));
    let status = store.status().unwrap();
    assert!(status.poisoned.unwrap().contains("sync of log/"));
    assert!(reports(&store).contains(&"poisoned"));
    assert!(matches!(store.close(), Err(Error::Poisoned { .. })));
    drop(messages);
    let store = open(folder.path(), options(Durability::Disk));
    let messages = subscribe(&store, "orders", "billing");
    assert_eq!(bodies(&collect(&messages, 1)), ["good"]);
}

#[test]
fn a_full_disk_refuses_publishes_and_everything_else_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (store, switches) =
        open_faulty(folder.path(), Options { segment_bytes: 64 << 10, ..options(Durability::Disk) });
    let messages = subscribe(&store, "orders", "billing");
    eventually("segments ahead", || store.status().unwrap().metrics.prepared_segments >= 1);
    switches.no_space.store(true, Ordering::SeqCst);
    let mut stored = Vec::new();
    let refused = loop {
        match try_publish(&store, &[b'x'; 1_000]) {
            Ok(receipts) => stored.push(receipts.get(0).unwrap()),
            Err(error) => break error,
        }
        assert!(stored.len() < 10_000);
    };
    assert_eq!(refused, Error::DiskFull);
    assert!(store.status().unwrap().disk_full);
    // What is stored is delivered, and finished, in the room kept for it.
    assert_eq!(consume(&messages, stored.len()).len(), stored.len());
    assert!(messages.flush(Duration::from_secs(5)).unwrap());
    assert_eq!(try_publish(&store, &[b'y'; 1_000]).err(), Some(Error::DiskFull));
    switches.no_space.store(false, Ordering::SeqCst);
    eventually("publishes resume", || try_publish(&store, &[b'z'; 1_000]).is_ok());
    assert_eq!(collect(&messages, 1).len(), 1);
    let kinds = reports(&store);
    assert!(kinds.contains(&"disk_full") && kinds.contains(&"room_again"), "{kinds:?}");
    store.close().unwrap();
}

/// Within a tenth of a second and a second, as a rule: any one may meet a busy machine.
#[test]
fn the_publish_that_finds_the_disk_full_is_refused_quickly_and_the_next_is_stored_soon_after_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let (store, switches) =
        open_faulty(folder.path(), Options { segment_bytes: 64 << 10, ..options(Durability::Disk) });
    let (mut refused_after, mut stored_after) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        switches.no_space.store(true, Ordering::SeqCst);
        eventually("the disk is full", || {
            let began = Instant::now();
            let is_refused = try_publish(&store, &[b'x'; 10_000]).is_err();
            refused_after.extend(is_refused.then(|| began.elapsed()));
            is_refused
        });
        switches.no_space.store(false, Ordering::SeqCst);
        let began = Instant::now();
        eventually("publishes resume", || try_publish(&store, &[b'x'; 10_000]).is_ok());
        stored_after.push(began.elapsed());
    }
    refused_after.sort();
    stored_after.sort();
    assert!(refused_after[2] < Duration::from_millis(100), "{refused_after:?}");
    assert!(stored_after[2] < Duration::from_secs(1), "{stored_after:?}");
}

/// More than a log of small segments has prepared, which counts as free.
const UNIT: u64 = 256 << 10;

#[test]
fn below_a_mark_somebody_is_told_and_below_the_next_publishes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let marks = FreeMarks { warn_bytes: 2_000 * UNIT, refuse_bytes: 1_000 * UNIT };
    let with_marks = || Options { marks, segment_bytes: 64 << 10, ..options(Durability::Disk) };
    let (store, switches) = open_faulty(folder.path(), with_marks());
    let free = |units: u64| switches.free_bytes.store(units.saturating_mul(UNIT), Ordering::SeqCst);
    let status = || store.status().unwrap();
    let messages = subscribe(&store, "orders", "billing");
    assert!(status().free_bytes.is_some_and(|bytes| bytes > 2_000 * UNIT), "the real disk was asked");
    free(1_500);
    eventually("little room", || status().room_low);
    assert!(!status().disk_full && try_publish(&store, b"a").is_ok());
    free(999);
    eventually("publishes are refused", || status().disk_full);
    assert_eq!(
        try_publish(&store, b"no").err(),
        Some(Error::BelowMark { free_bytes: 999 * UNIT, mark_bytes: 1_000 * UNIT })
    );
    let new = store.subscribe("others", "new", SubscribeOptions::default());
    assert!(matches!(new.err(), Some(Error::BelowMark { .. })), "a new name");
    assert_eq!(consume(&messages, 1).len(), 1);
    assert!(messages.flush(Duration::from_secs(5)).unwrap(), "what finishes goes on");
    store.checkpoint().unwrap();
    free(1_000);
    eventually("publishes are taken", || try_publish(&store, b"b").is_ok());
    assert!(status().room_low);
    let kinds = reports(&store);
    let told = |kind| kinds.iter().filter(|one| **one == kind).count();
    assert_eq!([told("room_low"), told("below_mark"), told("room_again")], [1, 1, 1], "{kinds:?}");
    free(u64::MAX);
    eventually("much room", || !status().room_low);
    store.close().unwrap();
    drop(messages);
    let (storage, switches) = Faults::over(folder.path());
    switches.free_bytes.store(1, Ordering::SeqCst);
    let store = Store::open_on(storage, folder.path(), with_marks(), &mut |_| {}).unwrap();
    assert!(try_publish(&store, b"no").is_err_and(|error| error.is_no_space()), "an open looks");
    store.close().unwrap();
}

#[test]
fn marks_the_wrong_way_round_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let marks = FreeMarks { warn_bytes: 1_000, refuse_bytes: 1_001 };
    let refused = Store::open(folder.path(), Options { marks, ..Options::default() }, &mut |_| {});
    assert!(matches!(refused.err(), Some(Error::InvalidArgument { argument: "refuse_free_bytes", .. })));
    assert!(!folder.path().join("identity").exists(), "nothing was made");
}

#[test]
fn a_flush_covers_what_the_log_had_no_room_for() {
    let folder = tempfile::tempdir().unwrap();
    let (store, switches) = open_faulty(folder.path(), Options { segment_bytes: 64 << 10, ..options(Durability::Os) });
    let one_call = SubscribeOptions { in_flight_max: 8_192, ..SubscribeOptions::default() };
    let messages = store.subscribe("orders", "billing", one_call).unwrap();
    let mut batch = store.batch();
    for chunk in 0..50_u8 {
        for _ in 0..100 {
            batch.push("orders", Due::After(0), &[0; 5], &[chunk]).unwrap();
        }
        store.publish(&mut batch).unwrap();
    }
    let given = collect(&messages, 5_000);
    assert_eq!(given.len(), 5_000);
    switches.no_segments.store(true, Ordering::SeqCst);
    let settles_all = |chunk: &[Delivered]| {
        for message in chunk {
            messages.give_back(message.key, 60_000).unwrap();
        }
        messages.flush(Duration::from_millis(20)).unwrap()
    };
    // The facts of all of them need more than the segments that are there.
    let are_settled = given.chunks(100).all(settles_all);
    let begun = messages.begin_flush();
    switches.no_segments.store(false, Ordering::SeqCst);
    assert_eq!((are_settled, begun.unwrap()), (false, None));
    assert!(messages.flush(Duration::from_secs(10)).unwrap());
    store.close().unwrap();
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder.join("log")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Where `needle` lies in the log.
fn find(folder: &Path, needle: &[u8]) -> (PathBuf, u64) {
    for path in segments(folder) {
        let bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(needle.len()).position(|window| window == needle) {
            return (path, at as u64);
        }
    }
    panic!("not in the log");
}

fn log_name(path: &Path) -> String {
    format!("log/{}", path.file_name().unwrap().to_str().unwrap())
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

#[test]
fn a_damaged_payload_is_given_up_by_name_and_the_next_message_flows() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    publish(&store, "orders", Due::After(0), b"first body");
    publish(&store, "orders", Due::After(0), b"second body");
    publish(&store, "orders", Due::After(0), b"third body");
    let (path, at) = find(folder.path(), b"second body");
    overwrite(&path, at, b"S");
    let messages = subscribe(&store, "orders", "billing");
    assert_eq!(bodies(&consume(&messages, 2)), ["first body", "third body"]);
    assert!(messages.flush(Duration::from_secs(5)).unwrap());
    assert_eq!(store.status().unwrap().voided, 1);
    let report = loop {
        match store.next_report(Duration::from_secs(1)).unwrap() {
            Some(report @ Report::Voided { .. }) => break report,
            other => assert!(other.is_some(), "no report of the damage"),
        }
    };
    let text = report.to_string();
    assert!(text.contains("orders") && text.contains(&log_name(&path)), "{text}");
    drop(messages);
    store.close().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let messages = subscribe(&store, "orders", "billing");
    assert!(messages.pull(1, Duration::from_millis(50)).unwrap().is_empty(), "the void is durable");
}

/// A pull that finds nothing but damage in what it takes first goes on with what it was assigned beside.
#[test]
fn damage_in_all_of_a_short_pull_does_not_hold_up_what_was_assigned_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let texts: Vec<String> = (0..6).map(|number| format!("body number {number}")).collect();
    for text in &texts {
        publish(&store, "orders", Due::After(0), text.as_bytes());
    }
    let messages = subscribe(&store, "orders", "billing");
    eventually("all are ready", || store.status().unwrap().ready >= 6);
    for text in &texts[1..5] {
        let (path, at) = find(folder.path(), text.as_bytes());
        overwrite(&path, at, b"B");
    }
    // The bytes that fill a pull are those of the first message, so that the others stay assigned.
    assert_eq!(bodies(&messages.pull_within(6, 1, Duration::from_secs(5)).unwrap()), ["body number 0"]);
    assert_eq!(bodies(&messages.pull_within(4, 1, Duration::ZERO).unwrap()), ["body number 5"]);
    eventually("the damaged ones are given up", || store.status().unwrap().voided == 4);
}

#[test]
fn a_torn_tail_opens_and_what_was_acknowledged_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    for body in [b"a", b"b", b"c"] {
        publish(&store, "orders", Due::After(0), body);
    }
    eventually("the end is vouched for", || store.status().unwrap().metrics.syncs >= 3);
    let mut expected = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
    // An idle store vouches for its end within a twentieth of a second, and a machine that does other things
    // may need longer to copy it; what is vouched for is no torn tail, and the open is refused.
    let (_copy, store) = (0..20)
        .find_map(|attempt| {
            let copy = tempfile::tempdir().unwrap();
            let torn = format!("torn away {attempt:02}");
            publish(&store, "orders", Due::After(0), torn.as_bytes());
            copy_store(folder.path(), copy.path());
            let (path, at) = find(copy.path(), torn.as_bytes());
            overwrite(&path, at, &[0; 9]);
            match Store::open(copy.path(), options(Durability::Disk), &mut |_| {}) {
                Ok(store) => Some((copy, store)),
                Err(Error::Corrupt { .. }) => {
                    expected.push(torn);
                    None
                }
                Err(error) => panic!("{error}"),
            }
        })
        .unwrap();
    let messages = subscribe(&store, "orders", "billing");
    assert_eq!(bodies(&collect(&messages, expected.len())), expected);
    assert!(messages.pull(1, Duration::from_millis(50)).unwrap().is_empty());
    publish(&store, "orders", Due::After(0), b"after");
    assert_eq!(bodies(&collect(&messages, 1)), ["after"]);
    assert!(!store.status().unwrap().aside.is_empty());
    assert!(reports(&store).contains(&"tail_repaired"));
}

fn copy_store(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_store(&entry.path(), &target);
        } else {
            // What is being prepared gets its name meanwhile, and nothing is in it yet.
            let copied = std::fs::copy(entry.path(), target);
            assert!(copied.is_ok() || copied.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound));
        }
    }
}

#[test]
fn a_header_damaged_before_a_vouched_position_is_refused_and_nothing_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    for body in [b"body one", b"body two"] {
        publish(&store, "orders", Due::After(0), body);
    }
    store.close().unwrap();
    let (path, at) = find(folder.path(), b"body one");
    let name = log_name(&path);
    overwrite(&path, at - 60, &[0xFF; 8]);
    let before: Vec<_> = segments(folder.path()).iter().map(|path| std::fs::read(path).unwrap()).collect();
    let refused = Store::open(folder.path(), options(Durability::Disk), &mut |_| {}).err().unwrap();
    assert!(matches!(&refused, Error::Corrupt { path, .. } if *path == name), "{refused}");
    let after: Vec<_> = segments(folder.path()).iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert_eq!(before, after);
}

#[test]
fn a_store_in_use_and_a_folder_of_something_else_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let again = Store::open(folder.path(), options(Durability::Os), &mut |_| {}).err().unwrap();
    assert!(matches!(again, Error::Locked { .. }));
    assert!(matches!(Store::verify(folder.path()), Err(Error::Locked { .. })));
    store.close().unwrap();
    let found = Store::verify(folder.path()).unwrap();
    assert_eq!(found.findings, Vec::<String>::new());
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("letters.txt"), "mine").unwrap();
    let refused = Store::open(other.path(), options(Durability::Os), &mut |_| {}).err().unwrap();
    assert!(matches!(refused, Error::NotAStore { .. }), "{refused}");
    assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 1);
    let absent = other.path().join("absent");
    let no_create = Options { create: false, ..options(Durability::Os) };
    assert!(Store::open(&absent, no_create, &mut |_| {}).is_err());
    assert!(!absent.exists());
}

/// Found by the models: nobody told him, and he waited for ever.
#[test]
fn a_wait_for_room_ends_when_the_store_is_abandoned() {
    let folder = tempfile::tempdir().unwrap();
    let (store, switches) = open_faulty(folder.path(), Options { segment_bytes: 64 << 10, ..options(Durability::Os) });
    switches.no_segments.store(true, Ordering::SeqCst);
    let (ends, ended) = std::sync::mpsc::channel();
    let publishing = Arc::clone(&store);
    std::thread::spawn(move || ends.send((0..10_000).find_map(|_| try_publish(&publishing, &[b'x'; 1_000]).err())));
    let mut accepted = store.status().unwrap().accepted;
    eventually("the publisher waits for room", || {
        std::thread::sleep(Duration::from_millis(100));
        let before = std::mem::replace(&mut accepted, store.status().unwrap().accepted);
        before == accepted
    });
    let leaving = Arc::clone(&store);
    let leaving = std::thread::spawn(move || leaving.abandon());
    eventually("the store is being let go of", || store.check().is_err());
    switches.no_segments.store(false, Ordering::SeqCst);
    leaving.join().unwrap().unwrap();
    assert_eq!(ended.recv_timeout(Duration::from_secs(10)), Ok(Some(Error::Closed)));
}
