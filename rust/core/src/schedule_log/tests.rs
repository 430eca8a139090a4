use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::EntryState::{Dispatched, Nothing, Pending};
use super::*;
use crate::error::StorageFault;
use crate::record::message::{Message, encode_message};
use crate::record::{encode_record, seal_record};
use crate::run::tests_storage::TestStorage;
use crate::run::{
    RUN_FOLDER, RowScan, Run, RunHole, RunHoles, RunKind, ScanBuffer, ScheduleRow, read_payload, run_path,
};
use crate::storage::{Call, MemoryStorage, Storage};
use crate::units::{DueKey, Location, LocationFile, Millis, RunNumber, SegmentNumber, Sequence, SubjectNumber};

const STREAM: [u8; 16] = [5; 16];
const FAR: Millis = Millis(u64::MAX);

fn entry(due: u64, sequence: u64) -> Entry {
    let key = DueKey { due: Millis(due), sequence: Sequence(sequence) };
    Entry::new(key, 1, Sequence(sequence), Location::in_segment(SegmentNumber(1), 8), SubjectNumber(1))
}

fn sequences(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.sequence().0).collect()
}

fn write(storage: &dyn Storage, part: FrozenPart, number: u32, copy_after: Millis, budget: usize) -> Arc<Run> {
    let mut writer = part.into_writer(RunNumber(number), STREAM, copy_after);
    loop {
        if let Some(run) = writer.write_piece(storage, budget).unwrap() {
            return run;
        }
    }
}

/// Freezes, writes and installs all parts.
fn checkpoint(schedule: &mut Schedule, storage: &TestStorage, number: &mut u32) {
    for part in schedule.freeze(Millis(0)) {
        *number += 1;
        let first = part.first();
        let run = write(storage, part, *number, FAR, 1 << 20);
        schedule.install(first, run).unwrap();
    }
}

fn take_all(feed: &mut Feed, schedule: &mut Schedule, now: u64) -> Vec<u64> {
    let mut taken = Vec::new();
    loop {
        let loaded = feed.load(schedule, Millis(now), 0, 1_000).unwrap();
        feed.take_due(Millis(now), Room { all: usize::MAX, floods: usize::MAX }, &mut taken);
        if loaded == Loaded::UpToDate {
            return sequences(&taken);
        }
    }
}

#[test]
fn states_are_known_in_memory_frozen_and_in_a_run() {
    let storage = TestStorage::default();
    let mut schedule = Schedule::new(Sequence(10), Millis(0));
    schedule.insert(entry(100, 10));
    schedule.skip(Sequence(11));
    schedule.note_dispatched_at_once(Sequence(12));
    schedule.insert(entry(50, 15));
    assert_eq!(schedule.next_sequence(), Sequence(16));
    let check = |schedule: &mut Schedule| {
        let states: Vec<EntryState> = (9..17).map(|sequence| schedule.state(Sequence(sequence))).collect();
        assert_eq!(states, [Nothing, Pending, Nothing, Dispatched, Nothing, Nothing, Pending, Nothing]);
        assert_eq!(schedule.pending(), 2);
        assert_eq!(schedule.find(entry(100, 10).key()).unwrap(), Some(entry(100, 10)));
        assert_eq!(schedule.find(entry(101, 10).key()).unwrap(), None, "another due time is another entry");
        assert_eq!(schedule.find(entry(100, 12).key()).unwrap(), None);
    };
    check(&mut schedule);
    let mut parts = schedule.freeze(Millis(0));
    check(&mut schedule);
    let part = parts.pop().unwrap();
    assert_eq!((part.first(), part.end(), part.pending()), (Sequence(10), Sequence(16), 2));
    let run = write(&storage, part, 1, FAR, 1);
    schedule.install(Sequence(10), run).unwrap();
    check(&mut schedule);
    assert_eq!(schedule.set(Sequence(10), EntryState::Cancelled), EntryState::Pending);
    assert_eq!(schedule.set(Sequence(10), EntryState::Cancelled), EntryState::Cancelled);
    assert_eq!(schedule.set(Sequence(99), EntryState::Cancelled), EntryState::Nothing);
    assert_eq!(schedule.pending(), 1);
    assert_eq!(schedule.find(entry(100, 10).key()).unwrap(), None);
    assert!(schedule.release(RunNumber(1)).is_none(), "something is pending in it");
    schedule.set(Sequence(15), EntryState::Dispatched);
    assert!(schedule.release(RunNumber(1)).is_some());
    assert_eq!(schedule.state(Sequence(10)), EntryState::Cancelled);
    assert_eq!(schedule.retire(Sequence(15)).len(), 0);
    assert_eq!(schedule.retire(Sequence(16)).len(), 1);
    assert_eq!(schedule.state(Sequence(10)), EntryState::Nothing);
}

#[test]
fn the_next_pending_entry_is_found_in_hand_in_memory_and_in_a_run() {
    let storage = TestStorage::default();
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    let mut feed = Feed::new(DueKey::START, Millis(0));
    assert_eq!(feed.next_pending(&mut schedule).unwrap(), None);
    schedule.insert(entry(DUE_MAX.0, 1));
    assert_eq!(feed.next_pending(&mut schedule).unwrap(), Some(DUE_MAX));
    for sequence in 2..3_000 {
        schedule.insert(entry(1_000_000_000 + sequence, sequence));
    }
    checkpoint(&mut schedule, &storage, &mut 0);
    assert_eq!(feed.next_pending(&mut schedule).unwrap(), Some(Millis(1_000_000_002)));
    schedule.set(Sequence(2), EntryState::Cancelled);
    assert_eq!(feed.next_pending(&mut schedule).unwrap(), Some(Millis(1_000_000_003)));
    schedule.insert(entry(90_000, 3_000));
    assert_eq!(feed.next_pending(&mut schedule).unwrap(), Some(Millis(90_000)));
    assert_eq!(take_all(&mut feed, &mut schedule, 89_999), [0_u64; 0]);
    assert_eq!(feed.load(&mut schedule, Millis(89_999), 4_000, 1_000), Ok(Loaded::UpToDate));
    assert_eq!(feed.len(), 1);
    assert_eq!(feed.next_pending(&mut schedule).unwrap(), Some(Millis(90_000)));
}

#[test]
fn what_is_decided_while_a_part_is_written_is_kept_beside_it() {
    let storage = TestStorage::default();
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    for sequence in 1..=4 {
        schedule.insert(entry(10 * sequence, sequence));
    }
    schedule.set(Sequence(1), EntryState::Cancelled);
    let part = schedule.freeze(Millis(0)).pop().unwrap();
    schedule.set(Sequence(2), EntryState::Cancelled);
    schedule.insert(entry(5, 5));
    let run = write(&storage, part, 1, FAR, 1);
    assert_eq!(run.row_count(), 3, "the run holds what was pending at the freeze");
    schedule.install(Sequence(1), Arc::clone(&run)).unwrap();
    assert!(schedule.install(Sequence(1), run).is_err());
    let mut feed = Feed::new(DueKey::START, Millis(0));
    assert_eq!(take_all(&mut feed, &mut schedule, 100), [5, 3, 4]);
}

#[test]
fn a_part_whose_writing_failed_comes_with_the_next_freeze() {
    let storage = TestStorage::default();
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    schedule.insert(entry(10, 1));
    schedule.insert(entry(20, 2));
    let mut writer = schedule.freeze(Millis(0)).pop().unwrap().into_writer(RunNumber(1), STREAM, FAR);
    assert!(writer.write_piece(&storage, 1).unwrap().is_none());
    writer.abandon(&storage).unwrap();
    assert_eq!(storage.list("runs").unwrap(), Vec::<String>::new());
    schedule.set(Sequence(1), EntryState::Dispatched);
    schedule.insert(entry(5, 3));
    let parts = schedule.freeze(Millis(0));
    let ranges: Vec<(u64, u64, u64)> =
        parts.iter().map(|part| (part.first().0, part.end().0, part.pending())).collect();
    assert_eq!(ranges, [(1, 3, 1), (3, 4, 1)]);
    schedule.set(Sequence(2), EntryState::Dispatched);
    assert_eq!(schedule.freeze(Millis(0)).len(), 1, "nothing is pending in the first any more");
}

#[test]
fn payloads_of_what_is_far_are_copied_in_due_order() {
    let storage = TestStorage::default();
    let log = storage.create("log/0000000001.segment").unwrap();
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    let mut offset = 4_096_u64;
    let mut records = BTreeMap::new();
    for sequence in 1..=40_u64 {
        let mut bytes = Vec::new();
        encode_record(&mut bytes, 1, 8, &[3; 24], &[&vec![7; (sequence * 331) as usize]]);
        seal_record(&mut bytes, Sequence(sequence)).unwrap();
        if sequence == 30 {
            bytes[50] ^= 1;
        }
        log.write_at(offset, &bytes).unwrap();
        let key = DueKey { due: Millis(1_000 - sequence * 10), sequence: Sequence(sequence) };
        let segment = if sequence == 31 { 2 } else { 1 };
        let location = Location::in_segment(SegmentNumber(segment), offset as u32);
        schedule.insert(Entry::new(key, 1, key.sequence, location, SubjectNumber(1)));
        offset += bytes.len() as u64;
        records.insert(sequence, bytes);
    }
    let part = schedule.freeze(Millis(0)).pop().unwrap();
    let run = write(&storage, part, 4, Millis(650), 2_000);
    let mut errors = Vec::new();
    assert_eq!(run.verify::<crate::run::ScheduleRow>(&mut |error| errors.push(error)), 40);
    assert_eq!(errors, []);
    schedule.install(Sequence(1), Arc::clone(&run)).unwrap();
    let mut last_offset = 0;
    let mut record = Vec::new();
    for sequence in (1..=40_u64).rev() {
        let key = DueKey { due: Millis(1_000 - sequence * 10), sequence: Sequence(sequence) };
        let location = schedule.find(key).unwrap().unwrap().location();
        let stays = sequence >= 35 || sequence == 30 || sequence == 31;
        assert_eq!(matches!(location.file(), LocationFile::Segment(_)), stays, "{sequence}");
        if !stays {
            assert!(location.offset() > last_offset);
            last_offset = location.offset();
            read_payload(run.file().as_ref(), last_offset.into(), Sequence(sequence), None, &mut record).unwrap();
            assert_eq!(Some(&record), records.get(&sequence));
        }
    }
    let rows: Vec<u64> = run.references().iter().map(|reference| reference.rows).collect();
    assert_eq!(rows, [7, 1, 32], "first segment, second segment, the run itself");
}

#[test]
fn a_damaged_block_holds_the_feed_until_it_is_patched() {
    let storage = TestStorage::default();
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    for sequence in 1..=400 {
        schedule.insert(entry(sequence, sequence));
    }
    schedule.set(Sequence(90), EntryState::Cancelled);
    let mut number = 0;
    checkpoint(&mut schedule, &storage, &mut number);
    storage.edit(&run_path(RunNumber(1)), |bytes| bytes[4_096 * 2 + 77] ^= 4);
    let mut feed = Feed::new(DueKey::START, Millis(0));
    let damaged = feed.load(&mut schedule, Millis(500), 0, 1_000).unwrap_err();
    assert_eq!((damaged.run, damaged.block), (RunNumber(1), 1));
    assert_eq!((feed.position(), feed.len()), (DueKey::START, 0), "nothing was passed");
    assert!(schedule.find(entry(100, 100).key()).is_err());
    let lost: Vec<u64> = schedule.unreadable(RunNumber(1)).unwrap().into_iter().map(|sequence| sequence.0).collect();
    assert_eq!(lost, (86..=171).filter(|sequence| *sequence != 90).collect::<Vec<_>>());
    let found: Vec<Entry> = (86..=171).rev().filter(|at| at % 2 == 0 && *at != 90).map(|at| entry(at, at)).collect();
    assert!(schedule.patch(RunNumber(1), 1, &found));
    assert!(!schedule.patch(RunNumber(9), 1, &[]));
    for sequence in schedule.unreadable(RunNumber(1)).unwrap() {
        assert_eq!(sequence.0 % 2, 1);
        schedule.set(sequence, EntryState::Nothing);
    }
    assert_eq!(schedule.find(entry(100, 100).key()).unwrap(), Some(entry(100, 100)));
    let expected: Vec<u64> = (1..=400).filter(|at| !(86..=171).contains(at) || (at % 2 == 0 && *at != 90)).collect();
    assert_eq!(take_all(&mut feed, &mut schedule, 500), expected);
}

#[test]
fn an_arrival_at_or_below_the_position_comes_at_once() {
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    let mut feed = Feed::new(DueKey::START, Millis(0));
    assert_eq!(feed.load(&mut schedule, Millis(10), 100, 10), Ok(Loaded::UpToDate));
    assert_eq!(feed.position(), DueKey::end_of(Millis(110)));
    assert_eq!((feed.next_load(100, 10), feed.next_due(Room { all: 1, floods: 1 })), (Some(Millis(61)), None));
    for (due, sequence) in [(110, 1), (111, 2), (3, 3)] {
        schedule.insert(entry(due, sequence));
        feed.arrive(entry(due, sequence));
    }
    assert_eq!(feed.len(), 2);
    let mut taken = Vec::new();
    feed.take_due(Millis(109), Room { all: 10, floods: 10 }, &mut taken);
    assert_eq!(sequences(&taken), [3], "never early");
    assert_eq!(feed.load(&mut schedule, Millis(110), 100, 10), Ok(Loaded::UpToDate));
    feed.take_due(Millis(111), Room { all: 10, floods: 10 }, &mut taken);
    assert_eq!(sequences(&taken), [3, 1, 2]);
}

#[test]
fn ten_thousand_in_one_millisecond_pass_through_a_window_of_hundred() {
    let storage = TestStorage::default();
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    let mut number = 0;
    for sequence in 1..=10_000 {
        schedule.insert(entry(77, sequence));
        if sequence % 3_000 == 0 {
            checkpoint(&mut schedule, &storage, &mut number);
        }
    }
    let mut feed = Feed::new(DueKey::START, Millis(0));
    let mut taken = Vec::new();
    let mut loads = 0;
    while taken.len() < 10_000 {
        feed.load(&mut schedule, Millis(77), 1_000, 100).unwrap();
        assert!(feed.len() <= 100);
        feed.take_due(Millis(77), Room { all: 60, floods: 60 }, &mut taken);
        loads += 1;
        assert!(loads < 400);
    }
    assert_eq!(sequences(&taken), (1..=10_000).collect::<Vec<_>>());
    assert!(feed.memory_bytes() < 200_000, "{}", feed.memory_bytes());
}

#[test]
fn a_flood_below_the_position_is_given_back_and_comes_again() {
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    let mut feed = Feed::new(DueKey::START, Millis(0));
    feed.load(&mut schedule, Millis(0), 100_000, 100).unwrap();
    for sequence in 1..=5_000 {
        let arrived = entry(sequence * 7_919 % 50_000, sequence);
        schedule.insert(arrived);
        feed.arrive(arrived);
        if feed.len() > 200 {
            assert!(feed.shed(100));
            assert!(feed.len() <= 100 && !feed.is_empty());
        }
    }
    assert!(!feed.shed(200));
    let mut expected: Vec<DueKey> = (1..=5_000).map(|at| entry(at * 7_919 % 50_000, at).key()).collect();
    expected.sort_unstable();
    let expected: Vec<u64> = expected.iter().map(|key| key.sequence.0).collect();
    assert_eq!(take_all(&mut feed, &mut schedule, 50_000), expected);
}

#[test]
fn a_restored_schedule_goes_on_where_the_feed_was() {
    let storage = TestStorage::default();
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    let mut number = 0;
    for sequence in 1..=300 {
        schedule.insert(entry(1_000 + sequence % 50, sequence));
    }
    checkpoint(&mut schedule, &storage, &mut number);
    let mut feed = Feed::new(DueKey::START, Millis(0));
    let mut taken = Vec::new();
    feed.load(&mut schedule, Millis(1_020), 10, 1_000).unwrap();
    feed.take_due(Millis(1_020), Room { all: 30, floods: 30 }, &mut taken);
    for entry in &taken[..20] {
        schedule.set(entry.sequence(), EntryState::Dispatched);
    }
    let resume = feed.resume_from(Some(taken[20].key()));
    assert!(resume < taken[20].key() && resume >= taken[19].key());
    let windows: Vec<Window> = schedule
        .windows()
        .iter()
        .map(|window| {
            let words: Vec<u64> = window.bits().words().collect();
            let bits = TwoBits::from_words(window.first(), window.bits().len(), &words).unwrap();
            let number = window.run().unwrap().number();
            let run = Run::open(&storage, number, RunKind::Schedule, &STREAM).unwrap();
            Window::restored(bits, Some(Arc::new(run)), SavedEnded::default())
        })
        .collect();
    let mut restored = Schedule::restored(windows, schedule.next_sequence(), Millis(1_020));
    assert_eq!(restored.pending(), 280);
    let mut again = Feed::new(resume, Millis(1_020));
    let found = take_all(&mut again, &mut restored, 2_000);
    assert_eq!(found.len(), 280);
    assert_eq!(found[..10], sequences(&taken)[20..]);
}

/// Except for the first slice, every block that a slice reads was prefetched with the previous slice, so that
/// the owner does not wait for the disk.
#[test]
fn what_the_next_slice_reads_was_asked_for_before() {
    const BLOCK: u64 = 4_096;
    let storage = TestStorage::default();
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    let mut number = 0;
    // The third run begins in the middle of the time, and the fourth is not due for days.
    for (first, every) in [(1_000, 12), (1_003, 40), (30_000, 15), (1 << 28, 10)] {
        for at in 0..3_000 {
            let sequence = schedule.next_sequence().0;
            schedule.insert(entry(first + at * every, sequence));
        }
        checkpoint(&mut schedule, &storage, &mut number);
    }
    let blocks = |ranges: Vec<std::ops::Range<u64>>| -> Vec<u64> {
        ranges.into_iter().flat_map(|range| range.start / BLOCK..range.end.div_ceil(BLOCK)).collect()
    };
    for run in 1..=number {
        storage.take_reads(&run_path(RunNumber(run)));
    }
    let mut feed = Feed::new(DueKey { due: Millis(999), sequence: Sequence(0) }, Millis(1_000));
    let mut fetched: Vec<std::collections::BTreeSet<u64>> = vec![std::collections::BTreeSet::new(); 5];
    let (mut read_blocks, mut asked_blocks) = (0, 0);
    for now in (1_000..70_000).step_by(1_500) {
        assert_eq!(feed.load(&mut schedule, Millis(now), 3_000, 1_000_000), Ok(Loaded::UpToDate));
        feed.take_due(Millis(now), Room { all: usize::MAX, floods: usize::MAX }, &mut Vec::new());
        for run in 1..=number {
            let (read, asked) = storage.take_reads(&run_path(RunNumber(run)));
            let (read, asked) = (blocks(read), blocks(asked));
            let known = &mut fetched[run as usize];
            assert!(now == 1_000 || read.iter().all(|block| known.contains(block)), "{run} at {now}: {read:?}");
            read_blocks += read.len();
            asked_blocks += asked.len();
            assert!(asked.iter().all(|block| !known.contains(block)), "asked for again: {asked:?}");
            known.extend(read.into_iter().chain(asked));
        }
    }
    assert!(fetched[1].len() >= 36 && fetched[3].len() > 20, "whole runs were read");
    assert_eq!(fetched[4].len(), 0, "what is due in days is not asked for");
    assert!(asked_blocks > 50 && read_blocks > asked_blocks, "{read_blocks} {asked_blocks}");
}

/// Each planted fault of the feed must make a named test fail. A test that cannot fail checks nothing.
#[cfg(feature = "planted")]
#[test]
fn planted_faults_are_found() {
    use crate::planted::{Planted, plant};
    let found = |fault, test: fn()| {
        test();
        plant(Some(fault));
        let outcome = std::panic::catch_unwind(test);
        plant(None);
        assert!(outcome.is_err(), "{fault:?} is not found");
    };
    found(Planted::OneTickEarly, an_arrival_at_or_below_the_position_comes_at_once);
    found(Planted::FeedSkipsArrival, an_arrival_at_or_below_the_position_comes_at_once);
    found(Planted::FeedPassesUnhanded, ten_thousand_in_one_millisecond_pass_through_a_window_of_hundred);
}

#[test]
fn what_a_damaged_block_hides_is_named_by_a_list_and_the_rest_is_shown() {
    let storage = TestStorage::default();
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    for sequence in 1..=400 {
        schedule.insert(entry(sequence, sequence));
    }
    let mut number = 0;
    checkpoint(&mut schedule, &storage, &mut number);
    schedule.insert(entry(100, 401));
    storage.edit(&run_path(RunNumber(1)), |bytes| bytes[4_096 * 2 + 77] ^= 4);
    let mut shown = Vec::new();
    let mut blocks = std::collections::BTreeSet::new();
    let mut from = DueKey::START;
    loop {
        let view = schedule.view(from, DueKey::end_of(DUE_MAX), 64);
        let piece = view.read(&|_| true, 10, &mut crate::run::ScanBuffer::default()).unwrap();
        shown.extend(sequences(&piece.entries));
        blocks.extend(piece.hidden.iter().map(|one| (one.block.run, one.block.block, one.rows)));
        from = piece.to;
        if !piece.cut {
            break;
        }
    }
    let expected: Vec<u64> = (1..=85).chain([401]).chain(171..=400).collect();
    assert_eq!(shown, expected);
    assert_eq!(blocks.into_iter().collect::<Vec<_>>(), [(RunNumber(1), 1, 85)]);
    // The range after the block does not list it.
    let view = schedule.view(DueKey::end_of(Millis(200)), DueKey::end_of(Millis(300)), 1_000);
    let piece = view.read(&|_| true, 1_000, &mut crate::run::ScanBuffer::default()).unwrap();
    assert_eq!((piece.entries.len(), piece.hidden.len()), (100, 0));
}

/// A row may have no size. The merge reads the size from the payload, and does not record a failed read as an
/// unknown size.
#[test]
fn a_merge_is_given_up_where_a_size_cannot_be_read_now() {
    let storage = MemoryStorage::default();
    for folder in ["log", RUN_FOLDER] {
        storage.create_folder(folder).unwrap();
    }
    let log = storage.create("log/0000000001.segment").unwrap();
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    let mut offset = 4_096_u64;
    for sequence in 1..=2_u64 {
        let (due, body) = (Millis(1_000 + sequence), [7; 9]);
        let mut bytes = Vec::new();
        let (published, subject, opaque) = (Millis(1), SubjectNumber(1), true);
        encode_message(&mut bytes, &Message { due, published, subject, opaque, expiry: None, meta: b"", body: &body });
        seal_record(&mut bytes, Sequence(sequence)).unwrap();
        log.write_at(offset, &bytes).unwrap();
        let key = DueKey { due, sequence: Sequence(sequence) };
        let location = Location::in_segment(SegmentNumber(1), offset as u32);
        schedule.insert(Entry::new(key, 1, key.sequence, location, subject));
        offset += bytes.len() as u64;
        let part = schedule.freeze(Millis(0)).pop().unwrap();
        let first = part.first();
        let run = write(&storage, part, sequence as u32, FAR, 1 << 20);
        schedule.install(first, run).unwrap();
    }
    let limits = MergeLimits { windows_min: 2, rows_max: 40, wasted_bytes_min: 1 };
    let mut calls = 0;
    loop {
        let plan = schedule.plan_merge(limits, &RunHoles::default(), BTreeSet::new).unwrap();
        let mut writer = plan.into_writer(RunNumber(10 + calls), STREAM, FAR);
        storage.fail_call_of(Call::Read, u64::from(calls), StorageFault::Io);
        let run = loop {
            match writer.write_piece(&storage, 1 << 20).unwrap() {
                MergeProgress::More => {}
                MergeProgress::Written(run) => break Some(run),
                MergeProgress::GivenUp { error, .. } => {
                    assert!(matches!(error, crate::error::Error::Storage { .. }), "{error}");
                    break None;
                }
            }
        };
        calls += 1;
        let Some(run) = run else { continue };
        storage.heal();
        let mut buffer = ScanBuffer::<ScheduleRow>::default();
        let mut scan = RowScan::from_block(&run, 0, None, &mut buffer);
        let sizes = std::iter::from_fn(|| scan.next_row().unwrap()).map(|row| row.size);
        assert_eq!(sizes.collect::<Vec<_>>(), [Some(9); 2], "behind {calls} failures");
        break;
    }
    assert!(calls > 2, "{calls}");
}

#[test]
fn one_load_takes_a_bounded_part_of_a_flood_and_the_next_ones_the_rest() {
    let storage = TestStorage::default();
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    // One half is in a run, the other in memory.
    (1..=100_000).for_each(|sequence| schedule.insert(entry(100, sequence)));
    checkpoint(&mut schedule, &storage, &mut 0);
    (100_001..=200_000).for_each(|sequence| schedule.insert(entry(100, sequence)));
    let mut feed = Feed::new(DueKey::START, Millis(0));
    let mut in_hand = 0;
    while feed.load(&mut schedule, Millis(100), 0, 1 << 22).unwrap() == Loaded::More {
        assert!(feed.len() - in_hand <= 1 << 15, "{in_hand} and then {}", feed.len());
        in_hand = feed.len();
    }
    let mut taken = Vec::new();
    feed.take_due(Millis(100), Room { all: usize::MAX, floods: usize::MAX }, &mut taken);
    assert_eq!(sequences(&taken), (1..=200_000).collect::<Vec<_>>());
}

#[test]
fn what_holes_have_given_back_of_a_run_makes_it_worth_no_merge() {
    let storage = TestStorage::default();
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    (1..=400).for_each(|sequence| schedule.insert(entry(1_000 + sequence, sequence)));
    checkpoint(&mut schedule, &storage, &mut 0);
    let length = schedule.windows()[0].run().unwrap().length();
    for sequence in 1..=300 {
        schedule.set(Sequence(sequence), EntryState::Cancelled);
    }
    let limits = MergeLimits { windows_min: 8, rows_max: 1_000, wasted_bytes_min: length / 4 };
    let judged = |holes: &RunHoles| {
        let is_planned = schedule.plan_merge(limits, holes, BTreeSet::new).is_some();
        (schedule.wasted_bytes(limits, holes), is_planned)
    };
    let hole = |run: u32, bytes: u64| {
        let bytes = bytes / 8 * 8;
        RunHoles::of(vec![RunHole { run: RunNumber(run), from: 8_192, to: 8_192 + bytes }]).unwrap()
    };
    let finished = length * 3 / 4;
    assert_eq!(judged(&RunHoles::default()), (finished, true));
    assert_eq!(judged(&hole(2, finished)), (finished, true), "those of another run");
    let some = length / 4 / 8 * 8;
    assert_eq!(judged(&hole(1, some)), (finished - some, true));
    assert_eq!(judged(&hole(1, length * 11 / 16)), (0, false), "a sixteenth is left");
}

#[test]
fn what_is_below_the_floor_is_forgotten_however_often_its_window_was_merged_with_newer_ones() {
    const EACH: u64 = 10_000;
    const KEPT: u64 = 25_000;
    let limits = MergeLimits { windows_min: 2, rows_max: 1 << 20, wasted_bytes_min: 1 << 20 };
    let mut schedule = Schedule::new(Sequence(1), Millis(0));
    for turn in 1..=20 {
        for sequence in 1 + (turn - 1) * EACH..=turn * EACH {
            schedule.insert(entry(1_000_000, sequence));
            schedule.set(Sequence(sequence), EntryState::Cancelled);
        }
        checkpoint(&mut schedule, &TestStorage::default(), &mut 0);
        if let Some(plan) = schedule.plan_merge(limits, &RunHoles::default(), BTreeSet::new) {
            assert!(!schedule.install_merged(&plan.bits(), None));
        }
        assert_eq!(schedule.windows().len(), 1);
        let floor = Sequence((turn * EACH).saturating_sub(KEPT));
        schedule.retire(floor);
        let known: u64 = schedule.windows().iter().map(|window| window.bits().len()).sum();
        assert!((KEPT.min(turn * EACH)..KEPT + 8_192).contains(&known), "{known}");
        assert_eq!(schedule.state(floor.next()), EntryState::Cancelled);
        assert_eq!(schedule.state(Sequence(turn * EACH)), EntryState::Cancelled);
        assert_eq!(schedule.state(Sequence(floor.0.saturating_sub(8_192))), Nothing);
    }
}

#[test]
fn a_part_of_the_bits_is_whole_words_of_them() {
    let mut bits = TwoBits::new(Sequence(7));
    for number in 0..8_250_u64 {
        bits.push(if number % 7 == 0 { EntryState::Pending } else { EntryState::Dispatched });
    }
    let part = |from: u64, length: u64| bits.part(Sequence(from), length);
    for (from, length) in [(7, 8_250), (7, 32), (39, 8_192), (7 + 8_192, 32), (7 + 8_224, 26), (7, 0)] {
        let part = part(from, length).unwrap();
        assert_eq!((part.first(), part.len()), (Sequence(from), length));
        let pending = bits.pending().filter(|sequence| (from..from + length).contains(&sequence.0));
        assert_eq!(part.pending().collect::<Vec<_>>(), pending.collect::<Vec<_>>(), "{from} {length}");
    }
    for (from, length) in [(8, 32), (7, 33), (7 + 8_224, 32), (6, 32), (7, 9_000), (u64::MAX, 32)] {
        assert!(part(from, length).is_none(), "{from} {length}");
    }
}
