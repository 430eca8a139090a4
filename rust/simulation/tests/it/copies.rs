//! Histories of copies break no promise, do what they are for, and find every fault that is planted for them.
#![expect(clippy::panic, clippy::print_stdout, reason = "a test may")]

use delaymq_core::planted::Planted;
use delaymq_simulation::copies::{Copies, Counts, Ending, Numbers, Plan};
use delaymq_simulation::planted::Plant;

/// The most seeds that any fault needs. `make ci` runs more than three times as many.
const SEEDS_MAX: u64 = 40_000;

fn live(seed: u64, tells: bool) -> Ending {
    Copies::<Numbers>::of(seed, Plan::of_seed(seed), tells).run()
}

/// The fault is found within so many seeds by a history that is lived, by a finding with one of these words.
pub(crate) fn is_found_in(seeds_max: u64, live: impl Fn(u64) -> Ending, fault: Planted, words: &[&str]) {
    let plant = Plant::new(Some(fault));
    let found = (1..=seeds_max).find_map(|seed| Some((seed, live(seed).violations.into_iter().next()?)));
    drop(plant);
    let Some((seed, what)) = found else { panic!("{fault:?} was not found in {seeds_max} seeds") };
    println!("{fault:?}: seed {seed}: {what}");
    assert!(words.iter().any(|words| what.contains(words)), "{fault:?}: {what}");
    assert_eq!(live(seed).violations, Vec::<String>::new(), "seed {seed} without {fault:?}");
}

/// The sum of histories that break no promise.
pub(crate) fn counts_of(seeds_max: u64, live: impl Fn(u64) -> Ending) -> Counts {
    let mut sum = Counts::default();
    for seed in 1..=seeds_max {
        let ending = live(seed);
        assert_eq!(ending.violations, Vec::<String>::new(), "seed {seed}");
        sum.add(ending.counts);
    }
    println!("{sum:?}");
    sum
}

/// The same seed is the same history, also where it is told.
pub(crate) fn is_decided_by_its_seed(live: impl Fn(u64, bool) -> Ending) {
    for seed in [1, 2, 3] {
        assert_eq!(live(seed, false).hash, live(seed, true).hash);
    }
    assert_ne!(live(1, false).hash, live(2, false).hash);
}

fn is_found_by(fault: Planted, words: &[&str]) {
    is_found_in(SEEDS_MAX, |seed| live(seed, false), fault, words);
}

const LOST: &[&str] = &["lacks something committed"];
const FORKED: &[&str] = &["commits other facts", "is another", "lacks something committed"];

/// Two logs have other facts under the same epoch and sequence, so that one copy can never follow the other.
const EPOCH_TWICE: &[&str] = &["does not come to rest", "is another", "commits other facts"];

#[test]
fn histories_of_copies_are_in_order_and_put_everything_to_the_test() {
    let sum = counts_of(SEEDS_MAX, |seed| live(seed, false));
    let each = SEEDS_MAX;
    assert!(sum.rested > each * 7 / 10 && sum.claims > each && sum.changes > each && sum.crashes > each, "{sum:?}");
    assert!(sum.committed > 3 * each, "{sum:?}");
    assert!(sum.removed > each / 400 && sum.lost > each / 400 && sum.promoted * 10 > sum.lost * 9, "{sum:?}");
    assert!(sum.confirmed > each / 10, "{sum:?}");
}

#[test]
fn the_same_seed_is_the_same_history() {
    is_decided_by_its_seed(live);
}

#[test]
fn a_copy_that_counts_before_its_sync_is_found() {
    is_found_by(Planted::CopyCountedUnsynced, LOST);
}

#[test]
fn a_copy_that_takes_the_word_of_the_primary_for_its_disk_is_found() {
    is_found_by(Planted::SyncedCopied, LOST);
}

#[test]
fn a_growing_set_of_which_only_the_old_one_counts_is_found() {
    is_found_by(Planted::UnionForgotten, LOST);
}

#[test]
fn a_set_that_shrinks_before_its_swap_is_won_is_found() {
    is_found_by(Planted::SetShrunkEarly, LOST);
}

#[test]
fn an_unknown_swap_that_counts_as_lost_is_found() {
    is_found_by(Planted::UnknownSwapIsLost, LOST);
}

#[test]
fn a_primary_from_outside_the_set_is_found() {
    is_found_by(Planted::PromotedFromOutside, &["what nobody committed", "lacks something committed", "other facts"]);
}

/// A read settled the swap first, and its own answer came when the next one was under way.
#[test]
fn an_answer_that_settles_a_later_swap_is_found() {
    is_found_by(Planted::EarlierAnswerTaken, FORKED);
}

#[test]
fn a_promise_that_is_not_durable_is_found() {
    is_found_by(Planted::EndReadBeforePromise, EPOCH_TWICE);
}

#[test]
fn an_epoch_that_a_restart_keeps_is_found() {
    is_found_by(Planted::EpochNotRaised, EPOCH_TWICE);
}

#[test]
fn logs_that_are_matched_by_the_sequence_alone_are_found() {
    is_found_by(Planted::MatchedBySequence, FORKED);
}

#[test]
fn a_copy_that_joins_while_it_is_behind_is_found() {
    is_found_by(Planted::JoinCountedBehind, LOST);
}

#[test]
fn an_emptied_folder_that_keeps_its_identity_is_found() {
    is_found_by(Planted::WipedNodeKeepsId, LOST);
}

#[test]
fn a_publish_that_is_answered_on_too_few_copies_is_found() {
    is_found_by(Planted::CopiesOverstated, LOST);
}

#[test]
fn a_node_that_stays_complete_without_what_is_stored_is_found() {
    is_found_by(Planted::CompleteKept, LOST);
}

#[test]
fn a_set_of_a_backup_that_is_kept_is_found() {
    is_found_by(Planted::RestoredSetKept, LOST);
}

#[test]
fn a_restored_register_that_is_trusted_is_found() {
    let words = [FORKED, EPOCH_TWICE].concat();
    is_found_by(Planted::RestoredRegisterTrusted, &words);
}
