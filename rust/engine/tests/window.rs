//! The window needs no more memory than `window_bytes` says, however what is in it came, and in the moments in which it
//! is put in order or shared out as well.

#![cfg(test)]

use delaymq_core::schedule_log::{Entry, Feed, Loaded, Room, Schedule};
use delaymq_core::store::WINDOW_ENTRY_BYTES;
use delaymq_core::units::{DueKey, Location, Millis, Sequence, SubjectNumber};
use peak_alloc::PeakAlloc;

/// Counts what this program has allocated, and the most that it ever had.
#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// What the window may have.
const ENTRIES_MAX: usize = 1 << 18;
/// Before some is given back.
const ARRIVED: u64 = (ENTRIES_MAX + ENTRIES_MAX / 4) as u64;
const NOW: u64 = 1_000_000;
const AHEAD_MS: u64 = 4_000;
/// One in so many is of another subject than the flood.
const OTHERS: u64 = 3;

fn entry(sequence: u64, due: u64) -> Entry {
    let key = DueKey { due: Millis(due), sequence: Sequence(sequence) };
    let subject = SubjectNumber(if sequence.is_multiple_of(OTHERS) { 2 + (sequence % 100) as u32 } else { 1 });
    Entry::new(key, 1, Sequence(sequence), Location(0), subject)
}

/// Loads, takes a little, and gives some back, as a step does.
fn step(schedule: &mut Schedule, feed: &mut Feed, now: u64) {
    if feed.len() as u64 > ARRIVED {
        feed.shed(ENTRIES_MAX);
    }
    while feed.load(schedule, Millis(now), AHEAD_MS, ENTRIES_MAX).unwrap() == Loaded::More {}
    let mut taken = Vec::new();
    feed.take_due(Millis(now), Room { all: 4_096, floods: 4_096 }, &mut taken);
}

fn most_while(work: impl FnOnce()) -> u64 {
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage();
    work();
    (ALLOCATED.peak_usage() - before) as u64
}

fn check(how: &str, most: u64, held: usize) {
    let bound = ENTRIES_MAX as u64 * WINDOW_ENTRY_BYTES;
    let words = format!("{how}: at most {most} bytes for {held} entries, {} each", most / held as u64);
    assert!(most <= bound, "{words}; {bound} are meant to be enough");
    assert!(held >= ENTRIES_MAX / 2, "{words}: it was not full");
}

/// What is loaded from the schedule: all of one millisecond, or of some seconds.
fn loaded(how: &str, span_ms: u64) {
    let mut schedule = Schedule::new(Sequence(1), Millis(NOW));
    for sequence in 1..=2 * ENTRIES_MAX as u64 {
        schedule.insert(entry(sequence, NOW + 1 + sequence % span_ms));
    }
    // Its index is made where it is read for the first time.
    Feed::new(DueKey::START, Millis(NOW)).load(&mut schedule, Millis(NOW), AHEAD_MS, ENTRIES_MAX).unwrap();
    let mut held = 0;
    let most = most_while(|| {
        let mut feed = Feed::new(DueKey::START, Millis(NOW));
        step(&mut schedule, &mut feed, NOW);
        held = feed.len();
        assert!(feed.lane_count() > 1, "{how}: the flood has no lane");
        step(&mut schedule, &mut feed, NOW + AHEAD_MS);
    });
    check(how, most, held);
}

/// What arrives when the feed has passed its time.
fn arrived(how: &str, due_of: impl Fn(u64) -> u64) {
    let mut schedule = Schedule::new(Sequence(1), Millis(NOW));
    let mut feed = Feed::new(DueKey::START, Millis(NOW));
    step(&mut schedule, &mut feed, NOW);
    let mut held = 0;
    let most = most_while(|| {
        for sequence in 1..=ARRIVED {
            feed.arrive(entry(sequence, due_of(sequence)));
        }
        held = feed.len();
        for now in [NOW, NOW + 2_000, NOW + AHEAD_MS] {
            step(&mut schedule, &mut feed, now);
        }
        feed.shed(ENTRIES_MAX / 2);
    });
    check(how, most, held);
}

#[test]
fn the_window_needs_no_more_than_it_is_said_to_need() {
    loaded("loaded, of one millisecond", 1);
    loaded("loaded, of two seconds", 2_000);
    arrived("arrived, of one millisecond", |_| NOW + 1_000);
    arrived("arrived, of two seconds", |sequence| NOW + 1 + sequence % 2_000);
    arrived("arrived when it was due", |sequence| NOW - sequence % 500);
    arrived("arrived half of it when it was due", |sequence| NOW + sequence % 2 * 1_500);
}
