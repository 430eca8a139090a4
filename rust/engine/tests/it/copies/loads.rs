//! Loads of a store that leads: their files come to the copies before their fact is written.

use std::path::Path;
use std::time::Duration;

use delaymq_core::error::Error;
use delaymq_core::replication::LogView;
use delaymq_core::run::{StagedMessage, StagedRun, StagingLimits};
use delaymq_core::units::Millis;
use delaymq_engine::{Clock, CopyCount, Intake, Loaded, Store, SystemClock, stager_at};

use super::{Copy, ENOUGH, SHORT, commit_all, committing};
use crate::support::eventually;

const COUNT: u64 = 30;
const REFUSED: Error = Error::NotEnoughCopies { copies: 1, min_copies: 2, maybe_stored: false };
const UNKNOWN: Error = Error::NotEnoughCopies { copies: 1, min_copies: 2, maybe_stored: true };

fn staged(folder: &Path) -> Vec<StagedRun> {
    let limits = StagingLimits { rows_max: 10, ..StagingLimits::until(Millis(u64::MAX)) };
    let mut stager = stager_at(folder, limits).unwrap();
    for row in 0..COUNT {
        let due = SystemClock.read().wall().plus(3_600_000 + row);
        let message = StagedMessage { due, subject: "orders", meta: &[0; 5], body: b"loaded", expiry: None };
        stager.push(&message).unwrap().unwrap();
    }
    stager.finish().unwrap()
}

/// Says that the copies have the files of the next load, as a node does.
fn hold_next(store: &Store) {
    let mut number = None;
    eventually("a load waits", || {
        number = store.load_offers().first().map(|offer| offer.number);
        number.is_some()
    });
    store.load_is_held(number.unwrap());
}

#[test]
fn a_load_is_written_when_the_copies_have_its_files_and_once() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    let (runs, before) = (staged(copy.path()), store.end());
    let (loaded, again) = committing(&store, ENOUGH, || {
        std::thread::scope(|scope| {
            let loading = scope.spawn(|| store.load("job", &runs));
            eventually("a load waits", || !store.load_offers().is_empty());
            std::thread::sleep(Duration::from_millis(150));
            assert_eq!(store.end(), before, "nothing is written before");
            assert_eq!(*store.load_offers()[0].runs, runs[..]);
            hold_next(&store);
            let loaded = loading.join().unwrap();
            (loaded, store.load("job", &runs))
        })
    });
    let base = loaded.unwrap().base;
    assert_eq!(again, Ok(Loaded { base, count: COUNT, again: true }));
    assert_eq!(store.status().unwrap().pending, COUNT);
    assert!(store.load_offers().is_empty());
    // The next primary answers the same.
    store.abandon().unwrap();
    let next = copy.lead_begun(2);
    assert_eq!(next.load("job", &runs), Ok(Loaded { base, count: COUNT, again: true }));
}

#[test]
fn a_load_whose_files_do_not_come_to_a_copy_is_refused_and_may_be_tried_again() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    let (runs, before) = (staged(copy.path()), store.end());
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| store.load("job", &runs));
        eventually("a load waits", || !store.load_offers().is_empty());
        store.refuse_load(store.load_offers()[0].number, CopyCount { copies: 1, min_copies: 2 });
        assert_eq!(loading.join().unwrap(), Err(REFUSED));
        let loading = scope.spawn(|| store.load("job", &runs));
        eventually("a load waits", || !store.load_offers().is_empty());
        store.set_intake(Intake::NotEnough(SHORT));
        assert_eq!(loading.join().unwrap(), Err(REFUSED), "while it waits");
    });
    assert_eq!(store.load("job", &runs), Err(REFUSED));
    assert_eq!(store.end(), before);
    store.set_intake(Intake::Yes);
    committing(&store, ENOUGH, || {
        std::thread::scope(|scope| {
            let loading = scope.spawn(|| store.load("job", &runs));
            hold_next(&store);
            assert!(!loading.join().unwrap().unwrap().again);
        });
    });
}

#[test]
fn a_load_on_too_few_copies_or_of_a_store_that_ends_is_not_answered_as_stored() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    let runs = staged(copy.path());
    committing(&store, SHORT, || {
        std::thread::scope(|scope| {
            let loading = scope.spawn(|| store.load("short", &runs));
            hold_next(&store);
            assert_eq!(loading.join().unwrap(), Err(UNKNOWN));
        });
    });
    let more = staged(copy.path());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.load("waiting", &more));
        eventually("a load waits", || !store.load_offers().is_empty());
        let written = scope.spawn(|| store.load("written", &more));
        eventually("both wait", || store.load_offers().len() == 2);
        let before = store.end();
        store.load_is_held(store.load_offers()[1].number);
        eventually("it is written", || store.end() > before);
        store.abandon().unwrap();
        assert_eq!(waiting.join().unwrap(), Err(Error::Closed));
        assert!(matches!(written.join().unwrap(), Err(Error::NotEnoughCopies { maybe_stored: true, .. })));
    });
    let next = copy.lead(2);
    commit_all(&next, ENOUGH);
    assert_eq!(next.status().unwrap().pending, 2 * COUNT);
}
