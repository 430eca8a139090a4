use super::*;
use crate::message_log::append::free_room::FreeMarks;
use crate::message_log::segment::{SEGMENT_BYTES_MIN, fresh_room};
use crate::record::header::{encode_record, seal_record};
use crate::units::SegmentNumber;

const SEGMENT: u32 = 1 << 20;

fn at(offset: u32, sequence: u64) -> Mark {
    Mark { location: Location::in_segment(SegmentNumber(1), offset), sequence: Sequence(sequence) }
}

fn commit_of(durability: Durability) -> GroupCommit {
    let mut group = GroupCommit::new(GroupCommitOptions::new(durability, at(4096, 1), SEGMENT));
    group.room(1 << 20, [1 << 20, 1 << 20]);
    group
}

fn records(count: u32, payload: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..count {
        encode_record(&mut bytes, 1, 0, &[number as u8; 24], &[&vec![7; payload]]);
    }
    bytes
}

fn growing(records: &[u8], record_count: u32) -> Submission<'_> {
    Submission { records, record_count, adopts: 0, class: Class::Growing, must_sync: false }
}

fn finishing(records: &[u8], record_count: u32) -> Submission<'_> {
    Submission { class: Class::Finishing, ..growing(records, record_count) }
}

fn accepted(base: u64, end: u64) -> Submitted {
    Submitted::Accepted(Sequence(base)..Sequence(end))
}

#[test]
fn submissions_share_a_batch_in_the_order_of_their_sequences() {
    let mut group = commit_of(Durability::Disk);
    let (two, three) = (records(2, 8), records(3, 16));
    assert_eq!(group.submit(growing(&two, 2)), Ok(accepted(1, 3)));
    assert_eq!(group.submit(finishing(&three, 3)), Ok(accepted(3, 6)));
    assert_eq!(group.queued_bytes(), two.len() + three.len());
    let commit = group.take().unwrap();
    assert_eq!((commit.base, commit.record_count), (Sequence(1), 5));
    assert_eq!(commit.bytes[BATCH_HEADER_BYTES..], [two, three].concat());
    assert!(commit.must_sync);
    assert!(group.take().is_none());
    assert_eq!(group.queued_bytes(), 0);
    assert!(!group.is_idle());
}

#[test]
fn what_arrives_while_a_batch_is_written_goes_into_the_next() {
    let mut group = commit_of(Durability::Disk);
    let one = records(1, 8);
    group.submit(growing(&one, 1)).unwrap();
    let first = group.take().unwrap();
    group.submit(growing(&one, 1)).unwrap();
    let second = group.take().unwrap();
    assert_eq!((first.base, second.base), (Sequence(1), Sequence(2)));
}

#[test]
fn on_disk_only_what_is_synced_is_visible() {
    let mut group = commit_of(Durability::Disk);
    let one = records(1, 8);
    group.submit(growing(&one, 1)).unwrap();
    group.take().unwrap();
    group.written(at(5000, 2));
    assert_eq!(group.visible(), at(4096, 1));
    assert_eq!(group.written_mark(), at(5000, 2));
    group.synced(at(5000, 2));
    assert_eq!(group.visible(), at(5000, 2));
    assert!(group.is_idle());
}

fn of_copies() -> GroupCommit {
    let options = GroupCommitOptions::new(Durability::Disk, at(4096, 1), SEGMENT);
    let mut group = GroupCommit::new(GroupCommitOptions { visible_once: VisibleOnce::Committed, ..options });
    group.room(1 << 20, [1 << 20, 1 << 20]);
    group
}

#[test]
fn with_copies_only_what_is_committed_is_visible_and_only_whole_batches() {
    let mut group = of_copies();
    for (base, end, offset) in [(1, 3, 5000), (3, 5, 6000)] {
        assert_eq!(group.submit(growing(&records(2, 8), 2)), Ok(accepted(base, end)));
        group.take().unwrap();
        group.written(at(offset, end));
        group.synced(at(offset, end));
    }
    assert_eq!((group.visible(), group.synced_mark()), (at(4096, 1), at(6000, 5)));
    for (end, visible) in [(1, at(4096, 1)), (4, at(5000, 3)), (3, at(5000, 3)), (5, at(6000, 5)), (9, at(6000, 5))] {
        group.committed(Sequence(end));
        assert_eq!(group.visible(), visible, "committed to {end}");
    }
    group.submit(growing(&records(1, 8), 1)).unwrap();
    assert_eq!(group.take().unwrap().committed, at(6000, 5).location);
}

#[test]
fn a_copy_that_becomes_primary_goes_on_behind_what_it_has() {
    let mut group = of_copies();
    group.written(at(5000, 3));
    group.written(at(6000, 6));
    group.synced(at(6000, 6));
    assert_eq!(group.submit(finishing(&records(1, 8), 1)), Ok(accepted(6, 7)));
    group.take().unwrap();
    group.written(at(7000, 7));
    group.failed("the disk is gone");
    group.committed(Sequence(7));
    assert_eq!(group.visible(), at(4096, 1), "a poisoned log makes nothing visible");
}

#[test]
fn with_os_what_is_written_is_visible() {
    let mut group = commit_of(Durability::Os);
    let one = records(1, 8);
    group.submit(growing(&one, 1)).unwrap();
    assert!(!group.take().unwrap().must_sync);
    group.written(at(5000, 2));
    assert_eq!(group.visible(), at(5000, 2));
    assert_eq!(group.synced_mark(), at(4096, 1));
}

#[test]
fn with_os_a_batch_that_must_be_synced_holds_back_all_behind_it() {
    let mut group = commit_of(Durability::Os);
    let one = records(1, 8);
    group.submit(Submission { must_sync: true, ..finishing(&one, 1) }).unwrap();
    assert!(group.take().unwrap().must_sync);
    group.submit(growing(&one, 1)).unwrap();
    assert!(!group.take().unwrap().must_sync);
    group.written(at(5000, 2));
    group.written(at(6000, 3));
    assert_eq!(group.visible(), at(4096, 1));
    group.synced(at(5000, 2));
    assert_eq!(group.visible(), at(6000, 3), "the sync covered the one that had to be");
}

#[test]
fn a_batch_says_what_was_visible_when_it_was_taken() {
    let mut group = commit_of(Durability::Disk);
    let one = records(1, 8);
    group.submit(growing(&one, 1)).unwrap();
    assert_eq!(group.take().unwrap().committed, at(4096, 1).location);
    group.written(at(5000, 2));
    group.synced(at(5000, 2));
    group.submit(growing(&one, 1)).unwrap();
    assert_eq!(group.take().unwrap().committed, at(5000, 2).location);
}

#[test]
fn a_failure_ends_everything_but_what_was_visible() {
    let mut group = commit_of(Durability::Disk);
    let one = records(1, 8);
    group.submit(growing(&one, 1)).unwrap();
    group.take().unwrap();
    group.submit(growing(&one, 1)).unwrap();
    group.failed("sync of log/1 failed");
    group.failed("another");
    assert_eq!(group.submit(growing(&one, 1)), Err(Error::Poisoned { reason: "sync of log/1 failed".to_owned() }));
    assert!(group.take().is_none());
    group.written(at(5000, 2));
    group.synced(at(5000, 2));
    assert_eq!(group.visible(), at(4096, 1));
    assert_eq!(group.poison(), Some("sync of log/1 failed"));
}

#[test]
fn a_closed_queue_is_written_to_its_end() {
    let mut group = commit_of(Durability::Disk);
    let one = records(1, 8);
    group.submit(growing(&one, 1)).unwrap();
    group.close();
    assert_eq!(group.submit(growing(&one, 1)), Err(Error::Closed));
    assert!(group.take().is_some());
}

#[test]
fn malformed_and_too_large_submissions_are_refused() {
    let mut group = commit_of(Durability::Disk);
    let one = records(1, 8);
    for (bytes, count) in [(&one[..], 0), (&one[..one.len() - 1], 1), (&[][..], 1)] {
        assert!(matches!(group.submit(growing(bytes, count)), Err(Error::InvalidArgument { .. })));
    }
    let large = vec![0; SEGMENT as usize / 2 + 8];
    assert!(matches!(group.submit(finishing(&large, 1)), Err(Error::TooLarge { limit, .. }) if limit == 1 << 19));
    assert_eq!(group.next_sequence(), Sequence(1));
}

#[test]
fn the_last_prepared_segment_is_kept_for_finishing() {
    let mut group = commit_of(Durability::Disk);
    let room = u64::from(fresh_room(SEGMENT));
    let half = records(1, 500_000);
    group.room(room, [room]);
    assert_eq!(group.submit(growing(&half, 1)), Ok(accepted(1, 2)));
    assert_eq!(group.submit(growing(&half, 1)), Ok(accepted(2, 3)));
    assert_eq!(group.submit(growing(&half, 1)), Ok(Submitted::NeedRoom));
    group.set_disk_full(true);
    assert_eq!(group.submit(growing(&half, 1)), Err(Error::DiskFull));
    let small = records(1, 8);
    assert_eq!(group.submit(growing(&small, 1)), Ok(accepted(3, 4)), "there is room ahead of the reserve");
    assert_eq!(group.submit(finishing(&half, 1)), Ok(accepted(4, 5)));
    assert_eq!(group.submit(growing(&small, 1)), Err(Error::DiskFull), "the reserve is begun");
    assert_eq!(group.submit(finishing(&half, 1)), Ok(accepted(5, 6)));
    assert_eq!(group.submit(finishing(&half, 1)), Err(Error::DiskFull));
    group.set_disk_full(false);
    assert_eq!(group.submit(finishing(&half, 1)), Ok(Submitted::NeedRoom));
    let bases: Vec<_> = std::iter::from_fn(|| group.take()).map(|commit| commit.base.0).collect();
    assert_eq!(bases, [1, 4], "a batch ends where the segment is foreseen to end");
}

#[test]
fn below_the_mark_what_grows_is_refused_and_what_finishes_goes_on() {
    let mark_bytes = 1 << 30;
    let marks = FreeMarks { warn_bytes: 0, refuse_bytes: mark_bytes };
    let options = GroupCommitOptions { marks, ..GroupCommitOptions::new(Durability::Disk, at(4096, 1), SEGMENT) };
    let mut group = GroupCommit::new(options);
    group.room(u64::from(fresh_room(SEGMENT)), [u64::from(fresh_room(SEGMENT))]);
    let small = records(1, 8);
    assert_eq!(group.submit(growing(&small, 1)), Ok(accepted(1, 2)), "nobody has looked yet");
    assert!(group.needs_segment(0, 2), "one lies ahead");
    let spare_bytes = group.spare_bytes(0);
    let room = u64::from(fresh_room(SEGMENT));
    assert!(spare_bytes > room - 1_000 && spare_bytes < room, "{spare_bytes}: one segment is for finishing");
    assert_eq!(group.spare_bytes(2 * room), spare_bytes + room, "the largest");
    let free_bytes = mark_bytes - spare_bytes - 1;
    group.note_free(Some(free_bytes), 0);
    let refused = Err(Error::BelowMark { free_bytes, mark_bytes });
    assert!(!group.needs_segment(0, 2), "one is enough");
    assert_eq!([group.submit(growing(&small, 1)), group.submit(finishing(&small, 1))], [refused, Ok(accepted(2, 3))]);
    group.note_free(Some(mark_bytes - spare_bytes + 1_000), 0);
    assert_eq!(group.submit(growing(&small, 1)), Ok(accepted(3, 4)));
}

#[test]
fn room_that_was_told_anew_counts_what_is_queued_and_what_is_being_written() {
    let mut group = commit_of(Durability::Disk);
    let room = u64::from(fresh_room(SEGMENT));
    let half = records(1, 500_000);
    group.room(room, [room]);
    group.submit(growing(&half, 1)).unwrap();
    group.take().unwrap();
    group.submit(growing(&half, 1)).unwrap();
    group.room(room, [room]);
    assert_eq!(group.submit(growing(&half, 1)), Ok(Submitted::NeedRoom));
    assert!(group.needs_segment(500_000, 1));
    group.room(room, [room, room]);
    assert_eq!(group.submit(growing(&half, 1)), Ok(accepted(3, 4)));
    assert!(group.needs_segment(8, 2) && !group.needs_segment(8, 1));
}

#[test]
fn a_full_queue_makes_growing_submissions_wait_and_no_others() {
    let options =
        GroupCommitOptions { queue_bytes_max: 100, ..GroupCommitOptions::new(Durability::Os, at(4096, 1), SEGMENT) };
    let mut group = GroupCommit::new(options);
    group.room(1 << 20, [1 << 20]);
    let some = records(2, 32);
    group.submit(growing(&some, 2)).unwrap();
    assert_eq!(group.submit(growing(&some, 2)), Ok(Submitted::QueueFull));
    assert_eq!(group.submit(finishing(&some, 2)), Ok(accepted(3, 5)));
    group.take().unwrap();
    assert_eq!(group.submit(growing(&some, 2)), Ok(accepted(5, 7)));
}

#[test]
fn batches_are_bounded_and_their_buffers_used_again() {
    let options =
        GroupCommitOptions { batch_bytes_max: 1000, ..GroupCommitOptions::new(Durability::Os, at(4096, 1), SEGMENT) };
    let mut group = GroupCommit::new(options);
    group.room(1 << 20, [1 << 20]);
    let some = records(4, 60);
    for _ in 0..5 {
        group.submit(growing(&some, 4)).unwrap();
    }
    let commits: Vec<_> = std::iter::from_fn(|| group.take()).collect();
    assert_eq!(commits.iter().map(|commit| commit.record_count).collect::<Vec<_>>(), [8, 8, 4]);
    let first = commits.into_iter().next().unwrap().bytes;
    let pointer = first.as_ptr();
    group.recycle(first);
    group.recycle(Vec::with_capacity(1 << 20));
    group.submit(growing(&some, 4)).unwrap();
    let again = group.take().unwrap();
    assert_eq!(again.bytes.as_ptr(), pointer);
    assert!(again.bytes[..BATCH_HEADER_BYTES].iter().all(|byte| *byte == 0));
}

#[test]
fn the_smallest_segment_takes_the_largest_submission() {
    let options = GroupCommitOptions::new(Durability::Disk, at(4096, 1), SEGMENT_BYTES_MIN);
    let mut group = GroupCommit::new(options);
    let room = u64::from(fresh_room(SEGMENT_BYTES_MIN));
    group.room(0, [room, room]);
    let limit = records_max(SEGMENT_BYTES_MIN) as usize & !7;
    assert_eq!(group.submit(growing(&vec![0; limit], 1)), Ok(accepted(1, 2)));
}

#[test]
fn records_are_sealed_under_the_sequences_they_were_promised() {
    let mut group = commit_of(Durability::Disk);
    let one = records(1, 8);
    group.submit(growing(&one, 1)).unwrap();
    let Submitted::Accepted(range) = group.submit(growing(&one, 1)).unwrap() else { panic!("refused") };
    let mut commit = group.take().unwrap();
    let second = &mut commit.bytes[BATCH_HEADER_BYTES + one.len()..];
    seal_record(second, range.start).unwrap();
    assert!(crate::record::header::read_record(second, Sequence(2)).is_ok());
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_early_answer_is_an_early_answer() {
    planted::plant(Some(Planted::AckBeforeSync));
    let mut group = commit_of(Durability::Disk);
    let one = records(1, 8);
    group.submit(growing(&one, 1)).unwrap();
    group.take().unwrap();
    group.written(at(5000, 2));
    planted::plant(None);
    assert_eq!(group.visible(), at(5000, 2));
}

#[test]
fn an_adoption_takes_a_sequence_for_each_message_and_ends_its_batch() {
    let mut group = commit_of(Durability::Os);
    let one = records(1, 8);
    group.submit(growing(&one, 1)).unwrap();
    assert_eq!(group.submit(Submission { adopts: 100, ..growing(&one, 1) }), Ok(accepted(2, 102)));
    assert_eq!(group.submit(Submission { must_sync: true, ..growing(&one, 1) }), Ok(accepted(102, 103)));
    let (first, second) = (group.take().unwrap(), group.take().unwrap());
    assert_eq!((first.base, first.end, first.record_count), (Sequence(1), Sequence(102), 2));
    assert_eq!((second.base, second.end, second.record_count), (Sequence(102), Sequence(103), 1));
    // Neither batch is visible before the second one is synced. `synced` compares sequences, not batches.
    group.written(at(8192, 102));
    group.written(at(9000, 103));
    assert_eq!(group.visible().sequence, Sequence(1));
    group.synced(at(9000, 103));
    assert_eq!(group.visible().sequence, Sequence(103));
}
