//! Everything at once, on many threads and tiny files: publishers, cancels, groups, retries, checkpoints, a restart.
//! Every message reaches each group or is cancelled, and none is early.

#![cfg(test)]

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::{eventually, open, options};
use delaymq_engine::{CancelOutcome, Due, Durability, Options, StartAt, Store, SubscribeOptions, Subscription};

const PATIENCE: Duration = Duration::from_secs(20);

fn tiny(durability: Durability) -> Options {
    let mut options = Options { segment_bytes: 64 << 10, ..options(durability) };
    options.owner.checkpoint_bytes = 200 << 10;
    options.owner.keep_finished_ms = 0;
    options.owner.copy_after_ms = 100;
    options.owner.ready_entries_max = 500;
    options.owner.window_ms = 50;
    options
}

fn wall_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// A tiny generator, the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[derive(Default)]
struct Ledger {
    published: Mutex<HashSet<u64>>,
    cancelled: Mutex<HashSet<u64>>,
    seen: Mutex<HashMap<&'static str, HashSet<u64>>>,
    early: Mutex<Vec<u64>>,
    done: AtomicBool,
}

fn publish_much(store: &Store, ledger: &Ledger, seed: u64, rounds: u64) {
    let mut dice = Dice(seed);
    let mut batch = store.batch();
    for round in 0..rounds {
        let mut numbers = Vec::new();
        for ordinal in 0..=dice.below(12) {
            let number = seed << 32 | round << 8 | ordinal;
            let mut body = vec![0; 8 + usize::try_from(dice.below(600)).unwrap()];
            body[..8].copy_from_slice(&number.to_le_bytes());
            let delay = if dice.below(4) == 0 { 0 } else { dice.below(900) };
            batch.push("orders", Due::After(delay), &[0; 5], &body).unwrap();
            numbers.push(number);
        }
        let receipts = store.publish(&mut batch).unwrap();
        ledger.published.lock().unwrap().extend(&numbers);
        if dice.below(3) == 0 {
            let receipt = receipts.get(numbers.len() - 1).unwrap();
            if store.cancel(&receipt).unwrap() == CancelOutcome::Done {
                ledger.cancelled.lock().unwrap().insert(numbers[numbers.len() - 1]);
            }
        }
    }
}

fn is_finished(store: &Store) -> bool {
    let status = store.status().unwrap();
    status.pending == 0 && status.ready == 0
}

fn consume_all(store: &Store, messages: &Subscription, ledger: &Ledger, group: &'static str, seed: u64) {
    let mut dice = Dice(seed);
    let mut idle = Instant::now();
    while !ledger.done.load(Ordering::SeqCst) || (!is_finished(store) && idle.elapsed() < PATIENCE) {
        let pulled = messages.pull(64, Duration::from_millis(100)).unwrap();
        let now = wall_ms();
        if !pulled.is_empty() {
            idle = Instant::now();
        }
        for message in pulled {
            let number = u64::from_le_bytes(message.body()[..8].try_into().unwrap());
            if message.due.0 > now {
                ledger.early.lock().unwrap().push(number);
            }
            if dice.below(10) == 0 {
                messages.give_back(message.key, dice.below(50)).unwrap();
            } else {
                ledger.seen.lock().unwrap().entry(group).or_default().insert(number);
                messages.acknowledge(&[message.key]).unwrap();
            }
        }
    }
    assert!(messages.flush(Duration::from_secs(10)).unwrap());
}

fn run(path: &Path, durability: Durability, ledger: &Arc<Ledger>, seed: u64, rounds: u64) {
    let store = open(path, tiny(durability));
    let subscribing = SubscribeOptions { start: StartAt::Unfinished, in_flight_max: 50, ..SubscribeOptions::default() };
    ledger.done.store(false, Ordering::SeqCst);
    std::thread::scope(|scope| {
        for (group, seed) in [("billing", seed + 1), ("billing", seed + 2), ("audit", seed + 3)] {
            // Before anything is published: what the other group has finished by then may be gone.
            let messages = store.subscribe("orders", group, subscribing.clone()).unwrap();
            let store = &store;
            scope.spawn(move || {
                consume_all(store, &messages, ledger, group, seed);
                messages.close().unwrap();
            });
        }
        scope.spawn(|| {
            while !ledger.done.load(Ordering::SeqCst) {
                store.checkpoint().unwrap();
                std::thread::sleep(Duration::from_millis(40));
            }
        });
        let publishers: Vec<_> = [seed + 11, seed + 12]
            .map(|seed| {
                scope.spawn({
                    let store = &store;
                    move || publish_much(store, ledger, seed, rounds)
                })
            })
            .into();
        for publisher in publishers {
            publisher.join().unwrap();
        }
        ledger.done.store(true, Ordering::SeqCst);
    });
    eventually("all is finished", || is_finished(&store));
    store.close().unwrap();
}

fn together(durability: Durability) {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Arc::new(Ledger::default());
    for round in 0..2 {
        run(folder.path(), durability, &ledger, 100 * (round + 1), 150);
    }
    let published = ledger.published.lock().unwrap();
    let cancelled = ledger.cancelled.lock().unwrap();
    assert_eq!(*ledger.early.lock().unwrap(), Vec::<u64>::new());
    for (group, seen) in ledger.seen.lock().unwrap().iter() {
        let wrong: Vec<_> = seen.intersection(&cancelled).collect();
        assert!(wrong.is_empty(), "{group}: cancelled and delivered {wrong:?}");
        let lost: Vec<_> =
            published.iter().filter(|number| !seen.contains(number) && !cancelled.contains(number)).collect();
        assert!(lost.is_empty(), "{group}: lost {lost:?}");
    }
    assert!(!cancelled.is_empty());
    let found = Store::verify(folder.path()).unwrap();
    assert_eq!(found.findings, Vec::<String>::new());
}

#[test]
fn everything_at_once_on_disk() {
    together(Durability::Disk);
}

#[test]
fn everything_at_once_in_os_mode() {
    together(Durability::Os);
}
