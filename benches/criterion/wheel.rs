//! The wheel alone: entries in and out, with so many pending.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use delaymq_core::schedule_log::Entry;
use delaymq_core::units::{DueKey, Location, Millis, Sequence, SubjectNumber};
use delaymq_core::wheel::Wheel;

/// As the wheel is used: the next ten seconds.
const HORIZON_MS: u64 = 10_000;
const TAKEN_AT_ONCE: usize = 1_024;
const PENDING: [u64; 2] = [10_000, 100_000];

pub(crate) fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wheel");
    for pending in PENDING {
        group.throughput(Throughput::Elements(pending));
        let entries = entries(pending);
        group.bench_function(BenchmarkId::new("insert", pending), |bencher| {
            bencher.iter_batched_ref(|| Wheel::new(Millis(0)), |wheel| insert(wheel, &entries), BatchSize::LargeInput);
        });
        group.bench_function(BenchmarkId::new("expire", pending), |bencher| {
            bencher.iter_batched_ref(
                || {
                    let mut wheel = Wheel::new(Millis(0));
                    insert(&mut wheel, &entries);
                    (wheel, Vec::with_capacity(TAKEN_AT_ONCE))
                },
                |(wheel, taken)| expire(wheel, taken),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// Due in no order.
fn entries(pending: u64) -> Vec<Entry> {
    let entry = |number: u64| {
        let due = Millis(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % HORIZON_MS);
        let key = DueKey { due, sequence: Sequence(number) };
        Entry::new(key, 1, key.sequence, Location(number), SubjectNumber(1))
    };
    (0..pending).map(entry).collect()
}

fn insert(wheel: &mut Wheel, entries: &[Entry]) {
    for entry in entries {
        wheel.insert(*entry);
    }
}

/// Millisecond by millisecond, as the owner does.
fn expire(wheel: &mut Wheel, taken: &mut Vec<Entry>) {
    for now in 0..HORIZON_MS {
        loop {
            taken.clear();
            wheel.take_until(Millis(now), TAKEN_AT_ONCE, taken);
            if taken.len() < TAKEN_AT_ONCE {
                break;
            }
        }
    }
}
