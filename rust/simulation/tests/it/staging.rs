//! Staged runs are whole and durable, or absent, wherever the machine ends. Staging can be tried again after any failed
//! call.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::rig::proves;
use delaymq_core::error::{Error, StorageFault};
use delaymq_core::planted::Planted;
use delaymq_core::run::{LOAD_FOLDER, LoadName, StagedMessage, StagedRun, Stager, StagingLimits, check_staged};
use delaymq_core::storage::{Crash, MemoryStorage, Storage};
use delaymq_core::units::Millis;

const ROWS: u64 = 23;
/// Calls that staging makes stay below this.
const CALLS_MAX: u64 = 200;

fn disk() -> MemoryStorage {
    let disk = MemoryStorage::new(7);
    disk.create_folder(LOAD_FOLDER).unwrap();
    disk.sync_folder("").unwrap();
    disk
}

fn stager(disk: &MemoryStorage) -> Stager<'_> {
    let mut next = 0;
    let limits = StagingLimits { rows_max: 10, ..StagingLimits::until(Millis(u64::MAX)) };
    Stager::new(disk, limits, move || {
        next += 1;
        LoadName { staged: Millis(1_000), nonce: [next; 16] }
    })
}

fn body(row: u64) -> String {
    format!("{row:03} {}", "x".repeat(row as usize * 40))
}

/// Stages everything; each call that fails is made once more.
fn stage(stager: &mut Stager<'_>) -> Result<Vec<StagedRun>, Error> {
    for row in 0..ROWS {
        let body = body(row);
        let message = StagedMessage {
            due: Millis(5_000 - row * 7 % 50),
            subject: "s",
            meta: b"",
            body: body.as_bytes(),
            expiry: None,
        };
        let pushed = stager.push(&message).or_else(|_| stager.push(&message))?;
        assert_eq!(pushed, Ok(()));
    }
    stager.finish().or_else(|_| stager.finish())
}

fn rows_of(disk: &MemoryStorage, runs: &[StagedRun]) -> u64 {
    runs.iter().map(|run| check_staged(disk, run).unwrap().run.row_count()).sum()
}

fn is_unfinished(path: &str) -> bool {
    path.strip_suffix(".tmp").is_some()
}

/// Every file that has its final name is one that was staged without a crash.
fn is_whole_or_nothing(found: &MemoryStorage, whole: &MemoryStorage) -> bool {
    let (found, whole) = (found.image(), whole.image());
    found.iter().filter(|(path, _)| !is_unfinished(path)).all(|(path, bytes)| whole.get(path) == Some(bytes))
}

#[test]
fn a_staged_run_is_there_whole_or_not_at_all_wherever_the_machine_ends() {
    proves(Planted::StagedUnsynced, || {
        let whole = disk();
        let before = whole.counts().all();
        let runs = stage(&mut stager(&whole)).unwrap();
        let calls = whole.counts().all() - before;
        assert!(runs.len() == 3 && rows_of(&whole, &runs) == ROWS && calls < CALLS_MAX);
        let survives = |crash, seed| {
            let found = whole.crash(crash, seed);
            runs.iter().all(|run| check_staged(&found, run).is_ok())
        };
        let answered = survives(Crash::Kill, 0)
            && survives(Crash::PowerCutLosesAll, 0)
            && (0..40).all(|seed| survives(Crash::PowerCut, seed));
        answered
            && (0..calls).all(|calls| {
                let stopped = disk();
                stopped.stop_after_calls(calls);
                assert!(stage(&mut stager(&stopped)).is_err());
                (0..20).all(|seed| is_whole_or_nothing(&stopped.crash(Crash::PowerCut, seed), &whole))
                    && is_whole_or_nothing(&stopped.crash(Crash::Kill, 0), &whole)
                    && is_whole_or_nothing(&stopped.crash(Crash::PowerCutLosesAll, 0), &whole)
            })
    });
}

#[test]
fn whichever_call_fails_once_what_was_given_is_staged_once() {
    let (mut failed, mut calls) = (0, 0);
    loop {
        let disk = disk();
        let before = disk.counts().all();
        disk.fail_call(calls, StorageFault::Io);
        let runs = stage(&mut stager(&disk)).unwrap();
        let has_failed = disk.counts().all() - before > calls;
        disk.heal();
        assert_eq!(rows_of(&disk, &runs), ROWS, "call {calls}");
        if !has_failed {
            break;
        }
        failed += 1;
        calls += 1;
    }
    assert!((20..CALLS_MAX).contains(&failed), "{failed} calls");
}

#[test]
fn a_full_disk_is_told_and_leaves_no_name_behind() {
    let disk = disk();
    disk.set_capacity(20_000);
    let mut stager = stager(&disk);
    let error = stage(&mut stager).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    let left: Vec<String> = disk.list(LOAD_FOLDER).unwrap();
    assert!(!left.iter().any(|name| is_unfinished(name)), "{left:?}");
    disk.heal();
    // Ten were written before the disk was full, and ten are held.
    let runs = stager.finish().unwrap();
    assert_eq!(rows_of(&disk, &runs), 20);
}
