//! Measurements: `cargo test --release -p delaymq-core measured -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::Instant;

use super::*;
use crate::run::tests_storage::TestStorage;
use crate::units::{DueKey, Location, Millis, RunNumber, Sequence, SubjectNumber};

const COUNT: u64 = 1_000_000;

fn entry(due: u64, sequence: u64) -> Entry {
    let key = DueKey { due: Millis(due), sequence: Sequence(sequence) };
    Entry::new(key, 1, Sequence(sequence), Location(0), SubjectNumber(1))
}

fn spread(sequence: u64, over: u64) -> u64 {
    1_000_000 + (sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % over
}

#[test]
#[ignore = "a measurement, not a check"]
#[expect(clippy::print_stderr, reason = "a measurement speaks")]
fn measured_insert_load_and_find() {
    for (runs, over) in [(0_u64, 60_000_u64), (16, 60_000), (250, 60_000), (16, 1), (0, 1), (0, 315_360_000_000)] {
        let storage = TestStorage::default();
        let mut schedule = Schedule::new(Sequence(1), Millis(1_000_000));
        let start = Instant::now();
        let mut number = 0;
        let mut writing = std::time::Duration::ZERO;
        for sequence in 1..=COUNT {
            schedule.insert(entry(spread(sequence, over), sequence));
            if runs > 0 && sequence % (COUNT / runs) == 0 {
                let began = Instant::now();
                for part in schedule.freeze(Millis(1_000_000)) {
                    number += 1;
                    let first = part.first();
                    let mut writer = part.into_writer(RunNumber(number), [1; 16], Millis(u64::MAX));
                    let run = loop {
                        if let Some(run) = writer.write_piece(&storage, 1 << 20).unwrap() {
                            break run;
                        }
                    };
                    schedule.install(first, Arc::clone(&run)).unwrap();
                }
                writing += began.elapsed();
            }
        }
        let inserting = start.elapsed().saturating_sub(writing);
        let bytes = schedule.memory_bytes() as u64;
        let mut feed = Feed::new(DueKey::START, Millis(1_000_000));
        let start = Instant::now();
        let mut taken = Vec::with_capacity(COUNT as usize);
        let mut worst = std::time::Duration::ZERO;
        let mut loads = 0;
        let now = Millis(1_000_000 + over);
        while (taken.len() as u64) < COUNT {
            let began = Instant::now();
            feed.load(&mut schedule, now, 0, 100_000).unwrap();
            worst = worst.max(began.elapsed());
            loads += 1;
            feed.take_due(now, Room { all: usize::MAX, floods: usize::MAX }, &mut taken);
        }
        let loading = start.elapsed();
        let start = Instant::now();
        for entry in &taken {
            assert_eq!(schedule.find(entry.key()).unwrap().map(|found| found.key()), Some(entry.key()));
        }
        let finding = start.elapsed();
        let each = |time: std::time::Duration| time.as_nanos() as u64 / COUNT;
        eprintln!(
            "{runs} runs over {over} ms: insert {} ns, {} bytes, write {} ns, feed {} ns ({loads} loads, worst {worst:?}), find {} ns",
            each(inserting),
            bytes / COUNT,
            each(writing),
            each(loading),
            each(finding)
        );
    }
}
