//! Messages that the disk of one copy has damaged, and another copy gives back.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use delaymq_core::error::Error;
use delaymq_core::replication::LogView;
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::{DamagedMessage, Follower, KeptMessages, OwnerOptions};
use delaymq_core::units::{Location, Sequence};
use delaymq_engine::{Due, Leading, Store};

use super::{Copy, ENOUGH, LATER, commit_all, committing, try_publish};
use crate::support::{bodies, collect, subscribe};

/// Turns a bit over in the only copy of this text in the files of a folder.
fn damage(folder: &Path, text: &str) {
    let found = std::fs::read_dir(folder).unwrap().find_map(|file| {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(text.len()).position(|window| window == text.as_bytes())?;
        Some((path, at, bytes[at] ^ 1))
    });
    let (path, at, byte) = found.unwrap();
    // In place: the store has the file open.
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(&[byte], at as u64).unwrap();
}

/// True if a file of this folder has this text.
fn has(folder: &Path, text: &str) -> bool {
    let has = |path: &Path| std::fs::read(path).unwrap().windows(text.len()).any(|window| window == text.as_bytes());
    std::fs::read_dir(folder).unwrap().any(|file| has(&file.unwrap().path()))
}

/// A store that leads, and a follower with the same log, which gives back what the store has damaged.
struct Pair {
    copy: Copy,
    store: Arc<Store>,
    other: Copy,
    follower: Arc<Mutex<Follower>>,
}

impl Pair {
    /// `answered` is what the store gets where the follower answers a payload.
    fn new(answered: impl Fn(Vec<u8>) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let (copy, other) = (Copy::new(1), Copy::new(2));
        let follower = Arc::new(Mutex::new(other.follow()));
        let (asked, storage, stream) = (Arc::clone(&follower), Arc::clone(&copy.storage), copy.identity().stream);
        let mend = move |entry: &Entry| {
            let (location, sequence) = (entry.location(), entry.payload_sequence());
            let Some(message) = DamagedMessage::at(storage.as_ref(), location, sequence, Some(entry.key())).unwrap()
            else {
                return false;
            };
            let payload = KeptMessages::of(asked.lock().unwrap().owner()).payload_of(&message.wanted).unwrap();
            payload.is_some_and(|payload| match message.restore(storage.as_ref(), stream, &answered(payload)) {
                Ok(was_damaged) => was_damaged,
                Err(Error::InvalidArgument { argument: "payload", .. }) => false,
                Err(error) => panic!("{error}"),
            })
        };
        // A checkpoint copies all payloads that are not due.
        let owner = OwnerOptions { copy_after_ms: 0, ..OwnerOptions::default() };
        let leading = copy.leading(copy.follow_with(owner), 1);
        let leading = Leading { mend: Arc::new(mend), ..leading };
        let store = Store::lead(leading).unwrap();
        commit_all(&store, ENOUGH);
        Self { copy, store, other, follower }
    }

    /// The follower gets and applies all that is committed.
    fn follow(&self) {
        let mut follower = self.follower.lock().unwrap();
        loop {
            let shipped = self.store.ship(follower.ends().end(), 1 << 20).unwrap();
            if shipped.is_empty() {
                break;
            }
            follower.append(&shipped).unwrap();
        }
        follower.sync().unwrap();
        follower.commit(self.store.status().unwrap().visible).unwrap();
    }

    /// The sequence and the place of the pending message of the follower.
    fn location_at_follower(&self) -> (Sequence, Location) {
        let follower = self.follower.lock().unwrap();
        let mut found = None;
        follower
            .owner()
            .state()
            .schedule
            .each_pending(&mut |entry| found = Some((entry.payload_sequence(), entry.location())), &mut |damage| {
                panic!("{damage:?}")
            });
        found.unwrap()
    }

    /// The bodies that a group receives.
    fn received(&self, count: usize) -> Vec<String> {
        bodies(&collect(&subscribe(&self.store, "orders", "billing"), count))
    }
}

fn log(copy: &Copy) -> PathBuf {
    copy.path().join("log")
}

fn runs(copy: &Copy) -> PathBuf {
    copy.path().join("runs")
}

#[test]
fn a_message_that_is_damaged_in_the_log_comes_whole_from_another_copy() {
    let pair = Pair::new(|payload| payload);
    committing(&pair.store, ENOUGH, || {
        for body in ["first one", "second one", "third one"] {
            try_publish(&pair.store, Due::After(0), body).unwrap();
        }
        pair.follow();
        damage(&log(&pair.copy), "second one");
        assert_eq!(pair.received(3), ["first one", "second one", "third one"]);
    });
    assert_eq!(pair.store.status().unwrap().voided, 0);
    assert!(has(&log(&pair.copy), "second one"), "it was written again");
}

#[test]
fn a_message_that_is_damaged_in_a_run_comes_whole_from_the_log_of_another_copy() {
    let pair = Pair::new(|payload| payload);
    committing(&pair.store, ENOUGH, || {
        let receipts = ["first one", "second one"].map(|body| try_publish(&pair.store, LATER, body).unwrap());
        pair.follow();
        pair.store.checkpoint().unwrap();
        damage(&runs(&pair.copy), "first one");
        damage(&log(&pair.copy), "first one");
        for receipt in receipts {
            pair.store.move_to(&receipt, Due::After(0)).unwrap();
        }
        assert_eq!(pair.received(2), ["first one", "second one"]);
    });
    assert!(has(&runs(&pair.copy), "first one"), "it was written again");
    assert_eq!(pair.store.status().unwrap().voided, 0);
}

#[test]
fn a_message_of_a_run_is_given_to_another_copy() {
    let pair = Pair::new(|payload| payload);
    committing(&pair.store, ENOUGH, || {
        try_publish(&pair.store, LATER, "first one").unwrap();
        pair.follow();
        pair.store.checkpoint().unwrap();
    });
    let location = pair.location_at_follower();
    damage(&log(&pair.other), "first one");
    damage(&log(&pair.copy), "first one");
    let storage = pair.other.storage.as_ref();
    let message = DamagedMessage::at(storage, location.1, location.0, None).unwrap().unwrap();
    let payload = pair.store.payload_of(&message.wanted).unwrap().unwrap();
    assert_eq!(message.restore(storage, pair.other.identity().stream, &payload), Ok(true));
    assert!(has(&log(&pair.other), "first one"));
    damage(&runs(&pair.copy), "first one");
    assert_eq!(pair.store.payload_of(&message.wanted), Ok(None), "it is damaged everywhere");
}

#[test]
fn what_another_copy_sends_is_written_only_if_it_is_the_payload() {
    let pair = Pair::new(|payload| payload.iter().map(|byte| byte ^ 2).collect());
    committing(&pair.store, ENOUGH, || {
        for body in ["first one", "second one"] {
            try_publish(&pair.store, Due::After(0), body).unwrap();
        }
        pair.follow();
        damage(&log(&pair.copy), "first one");
        assert_eq!(pair.received(1), ["second one"]);
    });
    assert_eq!(pair.store.status().unwrap().voided, 1);
}

#[test]
fn a_message_that_both_copies_have_damaged_is_voided() {
    let pair = Pair::new(|payload| payload);
    committing(&pair.store, ENOUGH, || {
        for body in ["first one", "second one"] {
            try_publish(&pair.store, Due::After(0), body).unwrap();
        }
        pair.follow();
        damage(&log(&pair.copy), "first one");
        damage(&log(&pair.other), "first one");
        assert_eq!(pair.received(1), ["second one"]);
    });
    assert_eq!(pair.store.status().unwrap().voided, 1);
}
