//! A store that was left alone for ten years, with however much to deliver, needs no more memory for it
//! than one with little: what is due comes from the disk as it is handed out.

#![cfg(test)]

#[path = "it/support/mod.rs"]
mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use delaymq_engine::{
    Clock, ClockReading, DeliveryKey, Due, Durability, Options, OwnerOptions, Store, SubscribeOptions, SystemClock,
};
use peak_alloc::PeakAlloc;
use support::open;

/// Counts what this program has allocated, and the most that it ever had.
#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const TEN_YEARS_MS: u64 = 315_360_000_000;
const DAY_MS: u64 = 86_400_000;
/// In which something is due: what is known by heart of so many takes 20 MB.
const MINUTES: u64 = 20_000;
const SUBJECTS: usize = 3;
const BODY_BYTES: usize = 100;
/// What may be in memory of what waits and of what is ready.
const ENTRIES_MAX: usize = 2_000;
const CHECKPOINT_FACTS: u64 = 8_000;
/// A backlog beyond every bound of what is in memory, of which the largest is 262,144 entries on their way to
/// become ready, and a larger one. Each entry takes 36 bytes where it is in memory, and its body 100.
const SMALL: u64 = 280_000;
const LARGE: u64 = 1_000_000;
/// A message costs its share of what finds it in runs, which are small here: 10 bytes were measured. With a
/// window without a bound it is 32 and more.
const BYTES_A_MESSAGE_MAX: u64 = 16;
/// Room of 33 MiB that is reserved and hardly used may now and then be reserved twice at the same moment, and
/// either peak is 5 MB more or less from one attempt to the next: the least of several is what is needed.
const ATTEMPTS: usize = 5;

/// The machine's clocks, when so much later.
struct Later {
    by_ms: u64,
}

impl Clock for Later {
    fn read(&self) -> ClockReading {
        let ClockReading { wall_ns, boot_ns } = SystemClock.read();
        ClockReading { wall_ns: wall_ns + self.by_ms * 1_000_000, boot_ns }
    }
}

fn options(by_ms: u64) -> Options {
    let owner = OwnerOptions {
        window_entries_max: ENTRIES_MAX,
        ready_entries_max: ENTRIES_MAX,
        checkpoint_facts: CHECKPOINT_FACTS,
        ..OwnerOptions::default()
    };
    let clock = Arc::new(Later { by_ms });
    Options { durability: Durability::Os, segment_bytes: 1 << 20, owner, clock, ..Options::default() }
}

fn subject(number: u64) -> String {
    format!("subject-{}", number % SUBJECTS as u64)
}

/// Messages due all over ten years, in no order: as many minutes have some, however many there are, since how much is due
/// in each minute is known by heart.
fn publish(store: &Store, count: u64) {
    let (mut batch, now) = (store.batch(), SystemClock.read().wall());
    for number in 0..count {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let delay_ms = 60_000 + mixed % MINUTES * (TEN_YEARS_MS / MINUTES - 1) + (mixed >> 40) % 60_000;
        let body = format!("{delay_ms:0BODY_BYTES$}");
        batch.push(&subject(number), Due::At(now.plus(delay_ms)), &[0; 5], body.as_bytes()).unwrap();
        if batch.len() == 1_000 {
            store.publish(&mut batch).unwrap();
        }
    }
    store.publish(&mut batch).unwrap();
}

/// Takes all there is, each subject in the order of due times.
fn drain(store: &Store, count: u64) {
    let subscribed = |number| store.subscribe(&subject(number), "archive", SubscribeOptions::default()).unwrap();
    let mut places: Vec<_> = (0..SUBJECTS as u64).map(|number| (subscribed(number), String::new())).collect();
    let (mut taken, mut empty) = (0, 0);
    while taken < count {
        let before = taken;
        for (messages, last) in &mut places {
            let pulled = messages.pull(256, Duration::from_millis(20)).unwrap();
            for message in &pulled {
                let body = String::from_utf8(message.body().to_vec()).unwrap();
                assert!(*last <= body, "{body} came after {last}");
                *last = body;
            }
            let keys: Vec<DeliveryKey> = pulled.iter().map(|message| message.key).collect();
            messages.acknowledge(&keys).unwrap();
            taken += pulled.len() as u64;
        }
        empty = if taken == before { empty + 1 } else { 0 };
        assert!(empty < 200, "only {taken} of {count} came");
    }
    for (messages, _) in &places {
        assert!(messages.pull(1, Duration::ZERO).unwrap().is_empty());
        messages.close().unwrap();
    }
}

/// The most that was allocated beyond what there was before, from the first start after ten years until
/// all is delivered.
fn peak_of(path: &Path, count: u64) -> u64 {
    let store = open(path, options(0));
    for number in 0..SUBJECTS as u64 {
        store.subscribe(&subject(number), "archive", SubscribeOptions::default()).unwrap().close().unwrap();
    }
    publish(&store, count);
    store.close().unwrap();
    drop(store);
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage();
    let store = open(path, options(TEN_YEARS_MS + DAY_MS));
    drain(&store, count);
    store.close().unwrap();
    (ALLOCATED.peak_usage() - before) as u64
}

#[test]
fn ten_years_alone_need_the_same_memory_for_much_as_for_little() {
    let (mut peaks, mut words) = ([u64::MAX; 2], String::new());
    for _ in 0..ATTEMPTS {
        let found = [SMALL, LARGE].map(|count| peak_of(tempfile::tempdir().unwrap().path(), count));
        peaks = [peaks[0].min(found[0]), peaks[1].min(found[1])];
        words = format!("at most {} bytes for {SMALL} messages, {} for {LARGE}", peaks[0], peaks[1]);
        std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("downtime.txt"), format!("{words}\n")).unwrap();
        if peaks[1] <= peaks[0] + (LARGE - SMALL) * BYTES_A_MESSAGE_MAX {
            return;
        }
    }
    panic!("{words}");
}
