//! Every target over its corpus and over mutations of it, within memory; and faults that are planted are found so.
#![expect(clippy::panic, reason = "a test may")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use delaymq_core::planted::{Planted, plant};
use delaymq_fuzz::corpus::{folder, text_of};
use delaymq_fuzz::running::{Found, mutate, replay};
use delaymq_fuzz::targets::{TARGETS, named};

/// The most memory that all of it may have taken at any time.
const MEMORY_KIB_MAX: u64 = 256 << 10;
const SEED: u64 = 1;

/// Stops at the first promise that is broken, and shows the input as a file of the corpus.
fn expect_none(found: Result<u64, Found>) -> u64 {
    found.unwrap_or_else(|found| {
        panic!("{}: {}: {}\n{}", found.target, found.origin, found.what, text_of(&found.what, &found.input))
    })
}

#[test]
fn every_target_has_a_corpus_and_every_folder_is_one_of_a_target() {
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(names.len(), TARGETS.len(), "a name of its own each");
    let found = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(found.collect::<BTreeSet<_>>(), names);
    for target in TARGETS.iter() {
        assert!(expect_none(replay(target).map(|tally| tally.taken)) > 0);
    }
}

#[test]
fn no_mutation_of_the_corpus_breaks_a_promise() {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        let work = || {
            while let Some(target) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
                let started = Instant::now();
                let taken = expect_none(mutate(target, SEED, target.mutations, None).map(|tally| tally.taken));
                assert!(taken >= target.mutations / 1_000, "{}: only {taken} were taken", target.name);
                assert!(started.elapsed().as_secs() < 300, "{}", target.name);
            }
        };
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in started {
            if let Err(panicked) = thread.join() {
                std::panic::resume_unwind(panicked);
            }
        }
    });
    if let Some(peak) = peak_kib() {
        assert!(peak < MEMORY_KIB_MAX, "{peak} KiB");
    }
}

/// The most memory that this process had, where the system says it.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[test]
fn planted_faults_are_found_within_the_mutations_of_a_run() {
    for (name, fault) in [
        ("batch_scanner", Planted::TornTailAccepted),
        ("run_reader", Planted::DamageHandedOver),
        ("qmq_send", Planted::SentUnverified),
        ("qmq_send", Planted::RefusedForNow),
        ("qmq_failures", Planted::RefusedCalledStored),
        ("qmq_ack", Planted::HeartbeatAcknowledges),
    ] {
        let target = named(name).unwrap();
        plant(Some(fault));
        let found = replay(target).and_then(|_| mutate(target, SEED, target.mutations, None));
        plant(None);
        assert!(found.is_err(), "{name} does not see {fault:?}");
    }
}
