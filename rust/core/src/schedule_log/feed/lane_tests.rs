//! How many subjects a flood may have without delaying others, and what happens if there are more.

use crate::schedule_log::*;
use crate::units::{DueKey, Location, Millis, SegmentNumber, Sequence, SubjectNumber};

/// Entries that the feed may have in hand: enough for all samples.
const IN_HAND: usize = 1 << 14;
const DUE: u64 = 1_000;

/// Makes a schedule in which `subjects` subjects have `each` messages in turn, due in one millisecond, and a
/// quiet subject has one message after them.
fn flooded(subjects: u32, each: u64) -> (Schedule, Feed, SubjectNumber) {
    let (mut schedule, quiet) = (Schedule::new(Sequence(1), Millis(0)), SubjectNumber(subjects + 1));
    let mut insert = |due: u64, subject: SubjectNumber| {
        let sequence = schedule.next_sequence();
        let key = DueKey { due: Millis(due), sequence };
        schedule.insert(Entry::new(key, 1, sequence, Location::in_segment(SegmentNumber(1), 8), subject));
    };
    for number in 0..u64::from(subjects) * each {
        insert(DUE, SubjectNumber((number % u64::from(subjects)) as u32 + 1));
    }
    insert(DUE + 1, quiet);
    (schedule, Feed::new(DueKey::START, Millis(0)), quiet)
}

/// Takes all due entries, at most `step` at a time. Also returns the greatest number of lanes.
fn dispatched(schedule: &mut Schedule, feed: &mut Feed, step: usize) -> (Vec<Entry>, usize) {
    let (mut all, mut lanes) = (Vec::new(), 1);
    while schedule.pending() > 0 {
        while feed.load(schedule, Millis(DUE + 1), 0, IN_HAND).unwrap() == Loaded::More {}
        lanes = lanes.max(feed.lane_count());
        let mut taken = Vec::new();
        feed.take_due(Millis(DUE + 1), Room { all: step, floods: step }, &mut taken);
        assert!(!taken.is_empty(), "{} are due, and none comes", schedule.pending());
        for entry in &taken {
            assert_eq!(schedule.set(entry.sequence(), EntryState::Dispatched), EntryState::Pending, "twice");
        }
        all.extend(taken);
    }
    (all, lanes)
}

#[test]
fn a_flood_of_five_hundred_subjects_makes_no_other_wait() {
    let (mut schedule, mut feed, quiet) = flooded(500, 100);
    let (all, lanes) = dispatched(&mut schedule, &mut feed, 100);
    // Sampling may miss some subjects at first. They get a lane of their own later.
    assert!(all.len() == 50_001 && lanes > 1, "{lanes}");
    let place = all.iter().position(|entry| entry.subject() == quiet).unwrap();
    assert!(place <= 2_000, "behind {place}");
}

/// Beyond the limit, no entry is lost or out of order, but entries due later wait.
#[test]
fn a_flood_of_more_subjects_than_are_told_apart_goes_out_by_due_time_with_all_others() {
    for subjects in [1_300, 5_000] {
        let (mut schedule, mut feed, quiet) = flooded(subjects, 50_000 / u64::from(subjects));
        let count = schedule.pending() as usize;
        let (all, lanes) = dispatched(&mut schedule, &mut feed, 100);
        assert_eq!((all.len(), lanes), (count, 1), "{subjects}");
        assert!(all.windows(2).all(|pair| pair[0].key() < pair[1].key()), "{subjects}: out of order");
        assert_eq!(all.last().map(Entry::subject), Some(quiet));
    }
}
