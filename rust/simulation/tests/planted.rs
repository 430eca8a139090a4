//! Every planted fault is found within its number of seeds, and the seeds that find it are in
//! order without it.
#![expect(clippy::panic, clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use delaymq_core::planted::Planted;
use delaymq_simulation::planted::{FAULTS, Plant, fault_named};
use delaymq_simulation::world::World;

fn first_that_finds(fault: Planted, seeds: u64) -> Option<(u64, String)> {
    let _plant = Plant::new(Some(fault));
    (1..=seeds).find_map(|seed| {
        let violations = World::new(seed, false).run().violations;
        violations.first().map(|first| (seed, first.clone()))
    })
}

fn is_found(name: &str) {
    let (fault, seeds) = fault_named(name).unwrap();
    let Some((seed, what)) = first_that_finds(fault, seeds) else {
        panic!("{name} was not found in {seeds} seeds");
    };
    println!("{name}: seed {seed}: {what}");
    let sound = World::new(seed, false).run();
    assert_eq!(sound.violations, Vec::<String>::new(), "seed {seed} without {name}");
}

#[test]
fn ack_before_sync_is_found() {
    is_found("AckBeforeSync");
}

#[test]
fn torn_tail_accepted_is_found() {
    is_found("TornTailAccepted");
}

#[test]
fn one_tick_early_is_found() {
    is_found("OneTickEarly");
}

#[test]
fn feed_skips_arrival_is_found() {
    is_found("FeedSkipsArrival");
}

#[test]
fn feed_passes_unhanded_is_found() {
    is_found("FeedPassesUnhanded");
}

#[test]
fn ready_visible_before_durable_is_found() {
    is_found("ReadyVisibleBeforeDurable");
}

#[test]
fn checkpoint_before_runs_is_found() {
    is_found("CheckpointBeforeRuns");
}

#[test]
fn cancelled_bit_not_saved_is_found() {
    is_found("CancelledBitNotSaved");
}

#[test]
fn redrive_unjudged_is_found() {
    is_found("RedriveUnjudged");
}

#[test]
fn each_fault_has_a_name_and_a_bound() {
    for (fault, name, seeds) in FAULTS {
        assert_eq!(fault_named(name), Some((fault, seeds)));
    }
}

#[test]
fn a_hundred_seeds_are_in_order_and_one_seed_is_one_history() {
    for seed in 1..=100 {
        let once = World::new(seed, false).run();
        assert_eq!(once.violations, Vec::<String>::new(), "seed {seed} {:?}", once.plan);
        if seed % 5 == 0 {
            assert_eq!(World::new(seed, true).run().hash, once.hash, "seed {seed}");
        }
    }
}
