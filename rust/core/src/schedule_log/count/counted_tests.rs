//! Ended entries scattered over a run: they are kept while they are few, and the run is written again if they
//! were too many.

use std::collections::BTreeSet;

use crate::run::tests_storage::TestStorage;
use crate::run::{RUN_FOLDER, RunHoles};
use crate::schedule_log::*;
use crate::storage::Storage;
use crate::units::{DueKey, Location, Millis, RunNumber, SegmentNumber, Sequence, SubjectNumber, Tally};

const STREAM: [u8; 16] = [5; 16];
const FAR: Millis = Millis(u64::MAX);
const LIMITS: MergeLimits = MergeLimits { windows_min: 8, rows_max: 1_000, wasted_bytes_min: 1 << 20 };
/// In tests a window may have 16 cells, and one more for each eight rows.
const ROWS: u64 = 400;
const KNOWN_MAX: u64 = 16 + ROWS / 8;

fn entry(sequence: u64) -> Entry {
    let key = DueKey { due: Millis(60_000 * sequence), sequence: Sequence(sequence) };
    let place = Location::in_segment(SegmentNumber(1), 8);
    Entry::new(key, 1, Sequence(sequence), place, SubjectNumber(1 + (sequence % 3) as u32)).with_size(Some(9))
}

/// One run with one row in each minute. The first `ended` rows are cancelled.
fn with_ended(storage: &TestStorage, ended: u64) -> Schedule {
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    (1..=ROWS).for_each(|sequence| schedule.insert(entry(sequence)));
    let part = schedule.freeze(Millis(0)).pop().unwrap();
    let first = part.first();
    let mut writer = part.into_writer(RunNumber(1), STREAM, FAR);
    let run = loop {
        if let Some(run) = writer.write_piece(storage, 1 << 20).unwrap() {
            break run;
        }
    };
    schedule.install(first, run).unwrap();
    end(&mut schedule, 1..=ended);
    schedule
}

fn end(schedule: &mut Schedule, sequences: impl Iterator<Item = u64>) {
    for entry in sequences.map(entry) {
        schedule.set(entry.sequence(), EntryState::Cancelled);
        schedule.note_ended(entry.key(), entry.subject(), 9);
    }
}

fn check(schedule: &Schedule, ended: u64) {
    for subject in [None, Some(SubjectNumber(1)), Some(SubjectNumber(2))] {
        let entries = (ended + 1..=ROWS).map(entry).filter(|entry| subject.is_none_or(|of| of == entry.subject()));
        let cells = entries.map(|entry| ((entry.subject(), entry.due().minute()), Tally::one(9))).collect();
        let told = schedule.horizon(subject).read(&|entry| panic!("{entry:?}")).unwrap();
        assert_eq!(told, Horizon { cells, hidden_rows: 0 }, "{ended} of {subject:?}");
    }
}

#[test]
fn what_ended_is_known_up_to_a_share_of_the_rows() {
    let storage = TestStorage::default();
    storage.create_folder(RUN_FOLDER).unwrap();
    for (ended, is_known) in [(0, true), (3, true), (KNOWN_MAX, true), (KNOWN_MAX + 5, false)] {
        let mut schedule = with_ended(&storage, ended);
        check(&schedule, ended);
        schedule.freeze(Millis(0));
        assert_eq!(schedule.windows()[0].ended().cells.is_some(), is_known, "{ended}");
        assert_eq!(schedule.has_uncounted(LIMITS, &RunHoles::default()), !is_known, "{ended}");
        check(&schedule, ended);
        storage.remove(&crate::run::run_path(RunNumber(1))).unwrap();
    }
}

#[test]
fn a_run_of_which_too_much_ended_here_and_there_is_written_again_and_known_again() {
    let storage = TestStorage::default();
    storage.create_folder(RUN_FOLDER).unwrap();
    let ended = KNOWN_MAX + 5;
    let mut schedule = with_ended(&storage, ended);
    assert!(!schedule.has_uncounted(LIMITS, &RunHoles::default()), "it is forgotten by the freeze");
    schedule.freeze(Millis(0));
    let plan = schedule.plan_merge(LIMITS, &RunHoles::default(), BTreeSet::new).unwrap();
    let bits = plan.bits();
    let mut writer = plan.into_writer(RunNumber(2), STREAM, FAR);
    let run = loop {
        match writer.write_piece(&storage, 1 << 20).unwrap() {
            MergeProgress::More => {}
            MergeProgress::Written(run) => break run,
            MergeProgress::GivenUp { error, .. } => panic!("{error}"),
        }
    };
    assert_eq!(run.row_count(), ROWS - ended);
    // The merged run's cells still count entries that end while the run is written.
    end(&mut schedule, ended + 1..=ended + 2);
    schedule.install_merged(&bits, Some(run));
    assert!(!schedule.has_uncounted(LIMITS, &RunHoles::default()));
    assert!(schedule.plan_merge(LIMITS, &RunHoles::default(), BTreeSet::new).is_none());
    check(&schedule, ended + 2);
    schedule.freeze(Millis(0));
    let known = schedule.windows()[0].ended().cells.unwrap();
    assert_eq!(known.iter().map(|layer| layer.count()).sum::<usize>(), 2);
    check(&schedule, ended + 2);
}
