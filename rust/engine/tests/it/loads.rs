//! Bulk loads on real files: all messages of a job or none, and once, however often it is tried, also after `kill -9`.

#![cfg(test)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{bodies, consume, eventually, open, options, publish, subscribe};
use delaymq_core::error::{Error, Result};
use delaymq_core::run::{LoadName, StagedMessage, StagedRun, StagingLimits};
use delaymq_core::units::{Millis, Sequence};
use delaymq_engine::{
    Clock, Due, Durability, LOAD_JOB_KEPT_MS, LOAD_RUNS_MAX, Loaded, ManualClock, Options, Store, SystemClock,
    stager_at,
};

const DAY_MS: u64 = 24 * 3_600_000;
const FOLDER: &str = "DELAYMQ_TEST_FOLDER";

fn small(durability: Durability) -> Options {
    let mut options = Options { segment_bytes: 256 << 10, ..options(durability) };
    options.owner.keep_finished_ms = 0;
    options
}

fn now() -> u64 {
    SystemClock.read().wall().0
}

/// Stages messages, in files of so many, each with its due time and body.
fn stage(folder: &Path, subject: &str, rows: &[(u64, String)], rows_max: u32) -> Vec<StagedRun> {
    let limits = StagingLimits { rows_max, ..StagingLimits::until(Millis(u64::MAX)) };
    let mut stager = stager_at(folder, limits).unwrap();
    for (due, body) in rows {
        let message = StagedMessage { due: Millis(*due), subject, meta: &[], body: body.as_bytes(), expiry: None };
        stager.push(&message).unwrap().unwrap();
    }
    stager.finish().unwrap()
}

fn rows(count: u64, due: impl Fn(u64) -> u64) -> Vec<(u64, String)> {
    (0..count).map(|row| (due(row), format!("row {row}"))).collect()
}

fn argument_of(result: Result<Loaded>) -> &'static str {
    match result {
        Err(Error::InvalidArgument { argument, .. } | Error::TooLarge { argument, .. }) => argument,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_loaded_is_delivered_by_its_due_times_once_and_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), small(Durability::Disk));
    publish(&store, "orders", Due::After(3_600_000), b"published");
    let far = now() + 7_200_000;
    let due = |row: u64| if row < 5_000 { now() - 1_000 + row / 10 } else { far + row };
    let runs = stage(folder.path(), "orders", &rows(9_000, due), 2_000);
    assert_eq!(runs.len(), 5);
    let loaded = store.load("nightly", &runs).unwrap();
    assert_eq!((loaded.count, loaded.again), (9_000, false));
    let messages = subscribe(&store, "orders", "billing");
    let mut seen: Vec<String> = bodies(&consume(&messages, 5_000));
    seen.sort();
    let mut expected: Vec<String> = (0..5_000).map(|row| format!("row {row}")).collect();
    expected.sort();
    assert_eq!(seen, expected);
    assert!(messages.flush(Duration::from_secs(5)).unwrap());
    for again in 0..3 {
        assert_eq!(store.status().unwrap().pending, 4_001, "{again}");
        store.checkpoint().unwrap();
        let other = stage(folder.path(), "orders", &rows(9_000, due), 9_000);
        assert_eq!(store.load("nightly", &other), Ok(Loaded { again: true, ..loaded }));
    }
    drop(messages);
    store.close().unwrap();
    assert_eq!(Store::verify(folder.path()).unwrap().findings, Vec::<String>::new());
    let store = open(folder.path(), small(Durability::Disk));
    assert_eq!(store.status().unwrap().pending, 4_001);
    assert_eq!(store.load("nightly", &runs), Ok(Loaded { again: true, ..loaded }));
    store.close().unwrap();
}

#[test]
fn a_load_in_a_new_subject_waits_for_its_time_and_wakes_whoever_waits() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), small(Durability::Os));
    let messages = subscribe(&store, "fresh", "billing");
    let due = now() + 400;
    let runs = stage(folder.path(), "fresh", &rows(20, |_| due), 7);
    store.load("soon", &runs).unwrap();
    let seen = consume(&messages, 20);
    assert!(seen.len() == 20 && now() >= due);
    store.close().unwrap();
}

#[test]
fn what_is_no_load_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = small(Durability::Disk);
    options.delay_ms_max = 3_600_000;
    let store = open(folder.path(), options);
    let due = now() + 60_000;
    let runs = stage(folder.path(), "orders", &rows(30, |_| due), 10);
    let [first, second, third] = runs[..] else { panic!("{runs:?}") };
    assert_eq!(argument_of(store.load("a b", &runs)), "job");
    assert_eq!(argument_of(store.load("job", &[])), "runs");
    assert_eq!(argument_of(store.load("job", &[first, first])), "runs");
    assert_eq!(argument_of(store.load("job", &[StagedRun { rows: 0, ..first }])), "runs");
    assert_eq!(argument_of(store.load("job", &vec![first; LOAD_RUNS_MAX + 1])), "runs");
    assert_eq!(argument_of(store.load("job", &[first, StagedRun { rows: 1 << 28, ..second }])), "messages");
    let old = LoadName { staged: Millis(now() - 21 * 3_600_000), ..first.name };
    assert_eq!(argument_of(store.load("job", &[StagedRun { name: old, ..first }])), "runs");
    let missing = StagedRun { name: LoadName { nonce: [9; 16], ..first.name }, ..first };
    assert!(matches!(store.load("job", &[first, missing]), Err(Error::MissingFile { .. })));
    let other = StagedRun { digest: first.digest ^ 1, ..first };
    assert!(matches!(store.load("job", &[other]), Err(Error::Corrupt { .. })));
    let late = stage(folder.path(), "orders", &rows(1, |_| now() + 3_700_000), 10);
    assert_eq!(argument_of(store.load("job", &late)), "due");
    let path = folder.path().join(third.name.path());
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(store.load("job", &runs), Err(Error::Corrupt { .. })));
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!((store.status().unwrap().pending, store.subjects().unwrap().len()), (0, 0));
    assert_eq!(store.load("job", &[first, second]).unwrap().count, 20);
    // Its name says that it was done, and its runs that they were adopted.
    assert_eq!(argument_of(store.load("job", &runs)), "job");
    assert_eq!(argument_of(store.load("other", &[third, first])), "runs");
    assert_eq!(store.status().unwrap().pending, 20);
    store.close().unwrap();
}

#[test]
fn two_that_come_at_once_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), small(Durability::Disk));
    let due = now() + 60_000;
    let attempts: Vec<Vec<StagedRun>> =
        (0..4).map(|_| stage(folder.path(), "orders", &rows(500, |_| due), 200)).collect();
    let loaded: Vec<Loaded> = std::thread::scope(|scope| {
        let store = &store;
        let asked: Vec<_> =
            attempts.iter().map(|runs| scope.spawn(move || store.load("speculative", runs).unwrap())).collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(loaded.iter().filter(|one| !one.again).count(), 1);
    let places: Vec<(Sequence, u64)> = loaded.iter().map(|one| (one.base, one.count)).collect();
    assert!(places.iter().all(|place| *place == places[0]));
    assert_eq!(store.status().unwrap().pending, 500);
    store.close().unwrap();
}

/// How many files of a load this process holds open.
fn held_open(folder: &Path) -> usize {
    let loads = folder.canonicalize().unwrap().join("loads");
    let links =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|path| path.starts_with(&loads)).count()
}

/// There may be thousands of runs, and a process has a thousand descriptors.
#[test]
fn loaded_runs_are_opened_where_they_are_read_and_held_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Millis(now())).unwrap());
    let options = || Options { clock: Arc::clone(&clock) as _, ..small(Durability::Os) };
    let store = open(folder.path(), options());
    // What is due is read by whoever dispatches it: until then nobody does.
    let due = clock.read().wall().0 + DAY_MS;
    let runs = stage(folder.path(), "orders", &rows(300, |row| due + row), 1);
    let loaded = store.load("many", &runs).unwrap();
    assert_eq!((loaded.count, held_open(folder.path())), (300, 0));
    store.checkpoint().unwrap();
    store.close().unwrap();
    let store = open(folder.path(), options());
    assert_eq!(held_open(folder.path()), 0);
    let messages = subscribe(&store, "orders", "billing");
    clock.advance(DAY_MS + 1_000, Duration::from_secs(20), &mut || true).unwrap();
    assert_eq!(consume(&messages, 300).len(), 300);
    assert!(held_open(folder.path()) < 100, "a few are kept for who reads payloads");
}

/// Whoever reads the log later finds its messages there, as those of every batch.
#[test]
fn files_go_with_the_log_that_has_their_fact_when_all_of_a_load_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), small(Durability::Os));
    let runs = stage(folder.path(), "orders", &rows(600, |_| now() - 1), 200);
    store.load("done", &runs).unwrap();
    let messages = subscribe(&store, "orders", "billing");
    let files = || std::fs::read_dir(folder.path().join("loads")).unwrap().count();
    assert_eq!((consume(&messages, 600).len(), files()), (600, 3));
    assert!(messages.flush(Duration::from_secs(5)).unwrap());
    let go_on = |body: &[u8]| {
        publish(&store, "orders", Due::After(0), body);
        assert_eq!(consume(&messages, 1).len(), 1);
        assert!(messages.flush(Duration::from_secs(5)).unwrap());
        store.checkpoint().unwrap();
    };
    for _ in 0..5 {
        go_on(b"x");
    }
    let segment = |number: u32| folder.path().join(format!("log/{number:010}.segment")).exists();
    assert_eq!((files(), segment(2)), (3, true));
    eventually("the files of the load go", || {
        go_on(&vec![7; 100 << 10]);
        files() == 0
    });
    eventually("the fact goes with them", || !segment(2));
    drop(messages);
    store.close().unwrap();
}

/// A job that is over may be done anew, whether another load came between or not.
#[test]
fn the_name_of_a_job_is_free_again_after_seven_days() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Millis(now())).unwrap());
    let store = open(folder.path(), Options { clock: Arc::clone(&clock) as _, ..small(Durability::Os) });
    let far = now() + 100 * DAY_MS;
    let runs = || stage(folder.path(), "orders", &rows(10, |_| far), 10);
    let first = store.load("weekly", &runs()).unwrap();
    clock.advance(LOAD_JOB_KEPT_MS - DAY_MS, Duration::from_secs(20), &mut || true).unwrap();
    assert_eq!(store.load("weekly", &runs()), Ok(Loaded { again: true, ..first }));
    clock.advance(DAY_MS, Duration::from_secs(20), &mut || true).unwrap();
    let days = LOAD_JOB_KEPT_MS / DAY_MS;
    let old = argument_of(store.load("weekly", &runs()));
    assert_eq!(old, "runs", "it is no answer of before: what was staged is {days} days old by the store's clock");
}

/// The victim: loads one job after the other until it is killed.
#[test]
#[ignore = "run by another test as a child process"]
fn victim() {
    let folder = std::env::var(FOLDER).unwrap();
    let folder = Path::new(&folder);
    let mut options = small(Durability::Disk);
    options.owner.checkpoint_facts = 400;
    let store = open(folder, options);
    for number in 0_u64.. {
        let job = format!("{}-{number}", std::process::id());
        writeln!(std::io::stdout(), "asking {job}").unwrap();
        let loaded = store.load(&job, &stage(folder, "kept", &job_rows(&job), 4)).unwrap();
        writeln!(std::io::stdout(), "loaded {job} {}", loaded.base).unwrap();
    }
}

fn job_rows(job: &str) -> Vec<(u64, String)> {
    let due = now() + 3_600_000;
    (0..10).map(|row| (due, format!("{job} {row}"))).collect()
}

#[test]
fn a_load_is_there_once_and_whole_whenever_the_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (mut asked, mut answered) = (Vec::new(), BTreeMap::new());
    for round in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "loads::victim", "--ignored", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for (count, line) in lines.map_while(std::result::Result::ok).enumerate() {
            // The test harness prints in front of the first line.
            if let Some((_, job)) = line.split_once("asking ") {
                asked.push(job.to_owned());
            } else if let Some((_, told)) = line.split_once("loaded ") {
                let (job, base) = told.split_once(' ').unwrap();
                answered.insert(job.to_owned(), base.to_owned());
            }
            if count == 60 + round * 23 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
    }
    assert!(answered.len() > 100, "{}", answered.len());
    let store = open(folder.path(), small(Durability::Disk));
    let pending = store.status().unwrap().pending;
    assert!(pending.is_multiple_of(10) && pending >= answered.len() as u64 * 10, "{pending}");
    for job in &asked {
        let loaded = store.load(job, &stage(folder.path(), "kept", &job_rows(job), 10)).unwrap();
        if let Some(base) = answered.get(job) {
            assert!(loaded.again && loaded.base.to_string() == *base, "{job}: {loaded:?}, answered {base}");
        }
    }
    assert_eq!(store.status().unwrap().pending, asked.len() as u64 * 10);
    store.close().unwrap();
    assert_eq!(Store::verify(folder.path()).unwrap().findings, Vec::<String>::new());
}
