//! A step that holds dispatch is accepted as an operator saw it, is reported once, and is known to the next opening.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::clock::manual_clock::ManualClock;
use crate::options::{Due, Durability, Options, SubscribeOptions};
use crate::store::Store;

const START: Millis = Millis(1_800_000_000_000);
const HOUR_MS: u64 = 3_600_000;

/// A machine whose wall clock a test sets, and that is not restarted.
struct Machine {
    hands: ManualClock,
}

impl Clock for Machine {
    fn read(&self) -> ClockReading {
        self.hands.read()
    }

    fn boot(&self) -> Option<Boot> {
        Some(Boot { id: "0d2f-77".to_owned(), namespace: String::new() })
    }

    fn sleep_max(&self) -> Duration {
        Duration::from_millis(5)
    }
}

fn machine() -> Arc<Machine> {
    Arc::new(Machine { hands: ManualClock::new(START).unwrap() })
}

fn pass(machine: &Machine, by_ms: u64) {
    machine.hands.advance(by_ms, Duration::ZERO, &mut || true).unwrap();
}

fn step(machine: &Machine, by_ms: u64) {
    machine.hands.step(i64::try_from(by_ms).unwrap()).unwrap();
}

fn open_with(path: &Path, machine: &Arc<Machine>, clock_accept_after_ms: Option<u64>) -> Result<Arc<Store>> {
    let clock: Arc<dyn Clock> = Arc::<Machine>::clone(machine);
    let durability = Durability::Os;
    let options = Options { segment_bytes: 64 << 10, durability, clock, clock_accept_after_ms, ..Options::default() };
    Store::open(path, options, &mut |_| {})
}

fn open(path: &Path, machine: &Arc<Machine>) -> Arc<Store> {
    open_with(path, machine, None).unwrap()
}

/// The words of the reports up to the first of this kind.
fn reported(store: &Store, last: &str) -> Vec<String> {
    let mut words = Vec::new();
    loop {
        let report = store.next_report(Duration::from_secs(20)).unwrap().expect("a report");
        words.push(report.to_string());
        if report.kind() == last {
            return words;
        }
    }
}

fn is_refused(store: &Store, ahead_ms: u64, word: &str) {
    let Err(error) = store.accept_clock(ahead_ms) else { panic!("{ahead_ms} was accepted") };
    assert!(matches!(error, Error::InvalidArgument { argument: "ahead_ms", .. }), "{error}");
    assert!(error.to_string().contains(word), "{error}");
}

#[test]
fn an_operator_accepts_the_step_that_holds_dispatch_and_no_other() {
    let (folder, machine) = (tempfile::tempdir().unwrap(), machine());
    let store = open(folder.path(), &machine);
    let messages = store.subscribe("s", "g", SubscribeOptions::default()).unwrap();
    let mut batch = store.batch();
    batch.push("s", Due::At(START.plus(HOUR_MS)), &[], b"in an hour").unwrap();
    store.publish(&mut batch).unwrap();
    assert_eq!(store.clock().unwrap().held, None);
    is_refused(&store, HOUR_MS, "not held");

    step(&machine, HOUR_MS);
    pass(&machine, 1_500);
    let clock = store.clock().unwrap();
    assert_eq!(clock.ahead_ms(), 3_600_000);
    assert_eq!((clock.now, clock.wall), (START.plus(1_500), START.plus(HOUR_MS + 1_500)));
    assert!(store.status().unwrap().held);
    let told = reported(&store, "dispatch_held");
    assert!(told.last().unwrap().ends_with("`delaymq clock accept --ahead-ms 3600000` ends the hold"), "{told:?}");

    step(&machine, 60_000);
    is_refused(&store, HOUR_MS, "3660000, the step that holds dispatch now");
    assert!(store.status().unwrap().held, "a step since the operator looked");
    let told = reported(&store, "dispatch_held");
    assert!(told.last().unwrap().contains("--ahead-ms 3660000`"), "{told:?}");
    assert!(messages.pull(1, Duration::ZERO).unwrap().is_empty());

    assert_eq!(store.accept_clock(3_660_000), Ok(3_660_000));
    assert_eq!(store.clock().unwrap().held, None);
    let told = reported(&store, "dispatch_resumed");
    assert_eq!(
        told,
        ["an operator accepted the wall clock: the trusted clock goes on 3660000 ms later", "dispatch goes on"]
    );
    assert_eq!(store.status().unwrap().clock_accepts, 1);
    assert_eq!(messages.pull(1, Duration::from_secs(20)).unwrap().len(), 1);
    is_refused(&store, 3_660_000, "not held");

    step(&machine, HOUR_MS);
    assert!(store.status().unwrap().held, "a later step holds again");
}

#[test]
fn an_accepted_step_is_known_to_the_next_opening_and_a_refused_one_holds_it() {
    let (folder, machine) = (tempfile::tempdir().unwrap(), machine());
    let store = open(folder.path(), &machine);
    step(&machine, HOUR_MS);
    assert!(store.status().unwrap().held);
    store.close().unwrap();
    let store = open(folder.path(), &machine);
    let held = store.clock().unwrap().held.expect("a restart believes no step");
    assert_eq!(held.hold, Hold::SteppedAhead { by_ms: HOUR_MS, while_closed: true });
    assert_eq!(store.accept_clock(HOUR_MS), Ok(HOUR_MS));
    // As a killed process leaves it: nothing is written any more.
    let left = folder.path().join("left");
    std::fs::create_dir(&left).unwrap();
    std::fs::copy(folder.path().join("clock"), left.join("clock")).unwrap();
    let reading = machine.read();
    let storage = crate::files::storage::FileStorage::open(&left, false).unwrap();
    let known = remembered_clock::read(&storage, &machine.boot().unwrap()).unwrap();
    assert_eq!(known, Remembered { trusted: reading.wall(), boot_ns: reading.boot_ns });
    store.close().unwrap();
    let store = open(folder.path(), &machine);
    assert_eq!(store.clock().unwrap().held, None);
    step(&machine, HOUR_MS);
    assert!(store.status().unwrap().held, "one step was accepted, and no later one");
}

#[test]
fn a_time_that_is_in_the_log_is_never_taken_back() {
    let (folder, machine) = (tempfile::tempdir().unwrap(), machine());
    open(folder.path(), &machine).close().unwrap();
    machine.hands.step(-60_000).unwrap();
    let store = open_with(folder.path(), &machine, Some(1_000)).unwrap();
    pass(&machine, 30_000);
    let clock = store.clock().unwrap();
    assert_eq!(clock.ahead_ms(), -60_000);
    is_refused(&store, 0, "cannot be taken back");
    is_refused(&store, 60_000, "cannot be taken back");
    assert!(clock.held.unwrap().reason().contains("no command ends it earlier"));
    pass(&machine, 30_000);
    assert_eq!(store.clock().unwrap().held, None);
}

#[test]
fn a_setting_accepts_a_step_once_the_wall_clock_has_kept_its_pace() {
    let (folder, machine) = (tempfile::tempdir().unwrap(), machine());
    let store = open_with(folder.path(), &machine, Some(600_000)).unwrap();
    step(&machine, HOUR_MS);
    assert!(store.status().unwrap().held);
    pass(&machine, 599_999);
    assert_eq!(store.clock().unwrap().held.unwrap().accepted_in_ms, Some(1));
    step(&machine, 5_000);
    assert_eq!(store.clock().unwrap().held.unwrap().accepted_in_ms, Some(600_000), "a further step");
    pass(&machine, 600_000);
    assert_eq!(store.clock().unwrap().held, None);
    let told = reported(&store, "clock_accepted");
    assert_eq!(
        told.last().unwrap(),
        "the setting clock_accept_after accepted the wall clock: the trusted clock goes on 3605000 ms later"
    );
    assert_eq!(store.next_report(Duration::from_secs(20)).unwrap(), Some(Report::DispatchResumed));
}

#[test]
fn without_the_setting_no_pace_is_ever_long_enough() {
    let (folder, machine) = (tempfile::tempdir().unwrap(), machine());
    let store = open(folder.path(), &machine);
    step(&machine, HOUR_MS);
    assert!(store.status().unwrap().held);
    pass(&machine, 366 * 24 * HOUR_MS);
    let held = store.clock().unwrap().held.expect("it is never accepted by itself");
    assert_eq!((held.accepted_in_ms, held.held_ms), (None, 366 * 24 * HOUR_MS));
}

#[test]
fn a_pace_of_less_than_a_second_is_refused() {
    let (folder, machine) = (tempfile::tempdir().unwrap(), machine());
    let refused = open_with(folder.path(), &machine, Some(999)).err().unwrap();
    assert!(matches!(refused, Error::InvalidArgument { argument: "clock_accept_after", .. }), "{refused}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is there");
    open_with(folder.path(), &machine, Some(1_000)).unwrap();
}

#[test]
fn a_clock_that_other_nodes_call_far_ahead_holds_dispatch_and_one_that_they_call_right_does_not() {
    let (folder, machine) = (tempfile::tempdir().unwrap(), machine());
    let storage = crate::FileStorage::open(folder.path(), true).unwrap();
    let known = |ahead_ms| KnownTime { floor: Millis(0), ahead_ms };
    let begun = |ahead_ms| Time::new(Arc::<Machine>::clone(&machine), &storage, known(ahead_ms), None);
    for ahead_ms in [None, Some(-3_600_000), Some(0), Some(5_000)] {
        assert_eq!((begun(ahead_ms).hold(), begun(ahead_ms).read().now), (None, START), "{ahead_ms:?}");
    }
    let ahead = begun(Some(3_600_000));
    assert_eq!(ahead.hold(), Some(Hold::SteppedAhead { by_ms: HOUR_MS, while_closed: true }));
    assert_eq!(ahead.read().now, Millis(START.0 - HOUR_MS));
    assert_eq!(ahead.accept(HOUR_MS), Ok(HOUR_MS));
    assert_eq!(ahead.read(), Reading { now: START, held: false });
    let floor = KnownTime { floor: Millis(START.0 - HOUR_MS + 10), ahead_ms: Some(3_600_000) };
    let not_before = Time::new(Arc::<Machine>::clone(&machine), &storage, floor, None);
    assert_eq!(not_before.read(), Reading { now: Millis(START.0 - HOUR_MS + 10), held: true }, "never before the log");
}
