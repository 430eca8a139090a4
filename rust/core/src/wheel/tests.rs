use std::collections::BTreeMap;
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::units::{Location, Sequence, SubjectNumber};

fn entry(due: u64, sequence: u64) -> Entry {
    let key = DueKey { due: Millis(due), sequence: Sequence(sequence) };
    Entry::new(key, 1, Sequence(sequence), Location(0), SubjectNumber(1))
}

fn keys(entries: &[Entry]) -> Vec<(u64, u64)> {
    entries.iter().map(|entry| (entry.due().0, entry.sequence().0)).collect()
}

#[test]
fn looking_again_when_the_wheel_says_so_comes_to_an_end() {
    for due in [300, 70_000, 5_000_000, 1 << 33] {
        let mut wheel = Wheel::new(Millis(7));
        wheel.insert(entry(due, 1));
        let (mut taken, mut looks) = (Vec::new(), 0);
        while let Some(next) = wheel.next_due() {
            assert!(next <= Millis(due), "{next:?} for {due}");
            wheel.take_until(next, 1, &mut taken);
            looks += 1;
            assert!(looks < 10, "{due}");
        }
        assert_eq!(taken.len(), 1);
    }
}

#[test]
fn entries_come_in_the_order_of_due_time_and_sequence() {
    let mut wheel = Wheel::new(Millis(1_000));
    for (due, sequence) in [(1_300, 1), (1_002, 2), (70_000, 3), (1_002, 0), (900, 4), (1_300, 0)] {
        wheel.insert(entry(due, sequence));
    }
    let mut taken = Vec::new();
    wheel.take_until(Millis(80_000), 100, &mut taken);
    assert_eq!(keys(&taken), [(900, 4), (1_002, 0), (1_002, 2), (1_300, 0), (1_300, 1), (70_000, 3)]);
    assert!(wheel.is_empty());
}

#[test]
fn nothing_comes_before_its_millisecond() {
    let mut wheel = Wheel::new(Millis(0));
    for due in [255, 256, 257, 65_535, 65_536, 1 << 24, (1 << 32) - 1, 1 << 32, (3 << 32) + 5] {
        wheel.insert(entry(due, due));
        let mut taken = Vec::new();
        wheel.take_until(Millis(due - 1), 10, &mut taken);
        assert_eq!(keys(&taken), [], "{due}");
        assert!(wheel.next_due().unwrap() <= Millis(due));
        wheel.take_until(Millis(due), 10, &mut taken);
        assert_eq!(keys(&taken), [(due, due)]);
    }
}

#[test]
fn a_limit_splits_one_millisecond_and_a_late_arrival_finds_its_place() {
    let mut wheel = Wheel::new(Millis(0));
    for sequence in 0..10 {
        wheel.insert(entry(7, sequence * 2));
    }
    let mut taken = Vec::new();
    wheel.take_until(Millis(7), 4, &mut taken);
    wheel.insert(entry(7, 11));
    wheel.insert(entry(7, 3));
    wheel.insert(entry(2, 99));
    wheel.take_until(Millis(7), 3, &mut taken);
    wheel.take_until(Millis(7), 100, &mut taken);
    let sequences: Vec<u64> = taken.iter().map(|entry| entry.sequence().0).collect();
    assert_eq!(sequences, [0, 2, 4, 6, 99, 3, 8, 10, 11, 12, 14, 16, 18]);
}

#[test]
fn shedding_gives_back_the_latest() {
    let mut wheel = Wheel::new(Millis(0));
    for sequence in 0..1_000 {
        wheel.insert(entry((sequence * 7_919) % 100_000, sequence));
    }
    wheel.insert(entry(1 << 40, 1_000));
    assert_eq!(wheel.shed(2_000), None);
    let mut taken = Vec::new();
    wheel.take_until(Millis(10_000), 50, &mut taken);
    let kept = wheel.shed(300).unwrap();
    assert_eq!(wheel.len(), 300);
    wheel.take_until(Millis(u64::MAX >> 1), 1_000, &mut taken);
    assert_eq!(taken.last().unwrap().key(), kept);
    let mut all: Vec<(u64, u64)> = (0..1_000).map(|sequence| ((sequence * 7_919) % 100_000, sequence)).collect();
    all.sort_unstable();
    assert_eq!(keys(&taken), all[..350]);
    wheel.insert(entry(5, 5));
    assert_eq!(wheel.shed(0), Some(DueKey::START));
    assert!(wheel.is_empty());
    assert_eq!(wheel.next_due(), None);
}

#[test]
fn what_was_put_in_order_is_found_again_after_shedding() {
    for shed in [true, false] {
        let mut wheel = Wheel::new(Millis(0));
        for sequence in 0..10 {
            wheel.insert(entry(300 + sequence, sequence));
        }
        let mut taken = Vec::new();
        wheel.take_until(Millis(302), 2, &mut taken);
        assert_eq!(keys(&taken), [(300, 0), (301, 1)]);
        if shed {
            assert_eq!(wheel.shed(3).unwrap().due, Millis(304));
        } else {
            wheel.remove_above(DueKey { due: Millis(304), sequence: Sequence(4) });
        }
        wheel.insert(entry(303, 1));
        wheel.take_until(Millis(400), 10, &mut taken);
        assert_eq!(keys(&taken[2..]), [(302, 2), (303, 1), (303, 3), (304, 4)]);
    }
}

#[test]
fn an_emptied_wheel_gives_its_memory_back() {
    let mut wheel = Wheel::new(Millis(0));
    for sequence in 0..1_000_000 {
        wheel.insert(entry(sequence % 3_000 + 500, sequence));
    }
    assert!(wheel.memory_bytes() < 40_000_000, "{}", wheel.memory_bytes());
    let mut taken = Vec::new();
    wheel.take_until(Millis(5_000), usize::MAX, &mut taken);
    assert_eq!(taken.len(), 1_000_000);
    assert!(wheel.memory_bytes() < 5_000_000, "{}", wheel.memory_bytes());
}

#[derive(Clone, Debug)]
enum Operation {
    Insert { ahead: i64 },
    Take { passed: u64, limit: usize },
    TakeFirst { passed: u64 },
    Shed { keep: usize },
    RemoveAbove { ahead: i64 },
}

fn operations() -> impl Strategy<Value = Operation> {
    let ahead = prop_oneof![
        6 => -20_i64..20,
        4 => -300_i64..1_000,
        2 => 0_i64..200_000,
        1 => 0_i64..(1 << 26),
        1 => 0_i64..(1 << 36),
    ];
    let passed = prop_oneof![8 => 0_u64..5, 4 => 0_u64..400, 1 => 0_u64..100_000, 1 => 0_u64..(1 << 34)];
    prop_oneof![
        20 => ahead.clone().prop_map(|ahead| Operation::Insert { ahead }),
        5 => (passed.clone(), 0_usize..12).prop_map(|(passed, limit)| Operation::Take { passed, limit }),
        3 => passed.prop_map(|passed| Operation::TakeFirst { passed }),
        1 => (0_usize..40).prop_map(|keep| Operation::Shed { keep }),
        1 => ahead.prop_map(|ahead| Operation::RemoveAbove { ahead }),
    ]
}

proptest! {
    #[test]
    fn it_agrees_with_a_sorted_map(
        start in prop::sample::select(vec![0_u64, 250, 65_530, (1 << 32) - 3, 1_790_000_000_000]),
        operations in prop::collection::vec(operations(), 1..250),
    ) {
        let mut wheel = Wheel::new(Millis(start));
        let mut model: BTreeMap<DueKey, Entry> = BTreeMap::new();
        let mut now = start;
        let around = |now: u64, ahead: i64| now.saturating_add_signed(ahead);
        for (operation, sequence) in operations.into_iter().zip(1_u64..) {
            match operation {
                Operation::Insert { ahead } => {
                    let new = entry(around(now, ahead), sequence);
                    wheel.insert(new);
                    model.insert(new.key(), new);
                }
                Operation::Take { passed, limit } => {
                    now += passed;
                    let mut taken = Vec::new();
                    wheel.take_until(Millis(now), limit, &mut taken);
                    let expected: Vec<Entry> =
                        model.range(..=DueKey::end_of(Millis(now))).take(limit).map(|(_, entry)| *entry).collect();
                    prop_assert_eq!(&taken, &expected);
                    for entry in expected {
                        model.remove(&entry.key());
                    }
                }
                Operation::TakeFirst { passed } => {
                    now += passed;
                    let first = model.range(..=DueKey::end_of(Millis(now))).next().map(|(_, entry)| *entry);
                    prop_assert_eq!(wheel.first_until(Millis(now)), first.map(|entry| entry.key()));
                    prop_assert_eq!(wheel.take_first_until(Millis(now)), first);
                    if let Some(first) = first {
                        model.remove(&first.key());
                    }
                }
                Operation::Shed { keep } => {
                    let shed = wheel.shed(keep);
                    prop_assert_eq!(shed.is_some(), model.len() > keep);
                    while model.len() > keep {
                        model.pop_last();
                    }
                    if let Some(kept) = shed {
                        prop_assert_eq!(kept, model.last_key_value().map(|(key, _)| *key).unwrap_or_default());
                    }
                }
                Operation::RemoveAbove { ahead } => {
                    let key = DueKey { due: Millis(around(now, ahead)), sequence: Sequence(sequence / 2) };
                    wheel.remove_above(key);
                    model.retain(|other, _| *other <= key);
                }
            }
            prop_assert_eq!(wheel.len(), model.len());
            prop_assert_eq!(wheel.lowest(), model.first_key_value().map(|(key, _)| *key));
            let next = wheel.next_due();
            prop_assert_eq!(next.is_some(), !model.is_empty());
            if let (Some(next), Some((first, _))) = (next, model.first_key_value()) {
                prop_assert!(next <= first.due);
            }
        }
    }
}

/// Run with `cargo test --release -- --ignored --nocapture measured`.
#[test]
#[ignore = "a measurement, not a check"]
#[expect(clippy::print_stderr, reason = "a measurement speaks")]
fn measured_with_a_million_pending() {
    let count = 1_000_000_u64;
    for span in [4_000_u64, 60_000, 3_600_000] {
        let dues: Vec<u64> = (0..count).map(|at| 1_000_000 + at.wrapping_mul(0x9E37_79B9_7F4A_7C15) % span).collect();
        for _ in 0..3 {
            let mut wheel = Wheel::new(Millis(1_000_000));
            let start = Instant::now();
            for (due, sequence) in dues.iter().zip(1_u64..) {
                wheel.insert(entry(*due, sequence));
            }
            let inserted = start.elapsed();
            let bytes = wheel.memory_bytes() as u64;
            let mut taken = Vec::with_capacity(8_192);
            let start = Instant::now();
            let mut total = 0;
            for now in 1_000_000..=1_000_000 + span {
                while wheel.next_due().is_some_and(|due| due.0 <= now) {
                    wheel.take_until(Millis(now), 4_096, &mut taken);
                    total += taken.len() as u64;
                    taken.clear();
                }
            }
            let expired = start.elapsed();
            assert_eq!(total, count);
            let each = |time: std::time::Duration| time.as_nanos() as u64 / count;
            eprintln!(
                "span {span} ms: insert {} ns, expire {} ns, {} bytes",
                each(inserted),
                each(expired),
                bytes / count
            );
        }
    }
}
