//! Histories of copies that are stores: they break no promise, do what they are for, and find every fault that is planted for
//! them.

use crate::copies::{counts_of, is_decided_by_its_seed, is_found_in};
use delaymq_core::planted::Planted;
use delaymq_simulation::copies::{Copies, Ending, Plan, StoreMachine};

/// The most seeds that any fault needs. `make ci` runs more than three times as many.
const SEEDS_MAX: u64 = 1_500;

fn live(seed: u64, tells: bool) -> Ending {
    Copies::<StoreMachine>::of(seed, Plan::of_stores(seed), tells).run()
}

fn is_found_by(fault: Planted, words: &[&str]) {
    is_found_in(SEEDS_MAX, |seed| live(seed, false), fault, words);
}

const LOST: &[&str] = &["lacks something committed"];

#[test]
fn histories_of_stores_are_in_order_and_put_everything_to_the_test() {
    let sum = counts_of(SEEDS_MAX, |seed| live(seed, false));
    let (each, answered) = (SEEDS_MAX, sum.answered);
    assert!(sum.rested > each * 7 / 10 && sum.claims > 4 * each && sum.changes > each, "{sum:?}");
    assert!(sum.crashes > 10 * each && sum.committed > 35 * each, "{sum:?}");
    assert!(sum.snapshots > each / 4 && sum.files > each && answered.loaded > each, "{sum:?}");
    assert!(sum.torn_promises > each / 20 && sum.confirmed > each / 10, "{sum:?}");
    assert!(answered.acknowledged > 2 * each && answered.checkpoints > each, "{sum:?}");
    assert!(answered.removed > 2 * each, "{sum:?}");
    assert!(answered.stored > 50 * each && answered.delivered > 15 * each && answered.cancelled > 5 * each, "{sum:?}");
}

#[test]
fn publishes_with_too_few_copies_are_refused_or_end_as_unknown() {
    let answered = counts_of(SEEDS_MAX / 10, |seed| live(seed, false)).answered;
    assert!(answered.refused > SEEDS_MAX / 10 && answered.unknown > SEEDS_MAX / 100, "{answered:?}");
}

#[test]
fn the_same_seed_is_the_same_history() {
    is_decided_by_its_seed(live);
}

#[test]
fn an_answer_before_the_copies_have_the_fact_is_found() {
    is_found_by(
        Planted::UncommittedVisible,
        &[
            "answered as stored, and is lost",
            "is not in the log",
            "was never ready",
            "ledger",
            "is another",
            "cannot be cut",
        ],
    );
}

#[test]
fn a_copy_that_applies_what_is_not_committed_is_found() {
    is_found_by(Planted::UncommittedApplied, &["is another", "cannot be cut", "ledger"]);
}

#[test]
fn a_checkpoint_of_what_is_not_committed_is_found() {
    is_found_by(Planted::CheckpointPastCommitted, &["is another", "cannot be cut", "ledger"]);
}

#[test]
fn a_promise_whose_name_is_not_durable_is_found() {
    is_found_by(Planted::RenameNotSynced, &["cannot begin", "other facts", "another", "cannot be opened"]);
}

#[test]
fn a_copy_that_counts_before_its_sync_is_found() {
    is_found_by(Planted::CopyCountedUnsynced, LOST);
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
fn a_promise_that_is_not_durable_is_found() {
    is_found_by(Planted::EndReadBeforePromise, &["cannot begin", "other facts", "another"]);
}

#[test]
fn logs_that_are_matched_by_the_sequence_alone_are_found() {
    is_found_by(Planted::MatchedBySequence, &["cannot be sent", "other facts", "another", "cannot be cut"]);
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
fn a_load_that_is_acknowledged_without_its_files_is_found() {
    is_found_by(Planted::LoadAcknowledgedWithoutFiles, &["cannot be applied", "cannot be opened"]);
}

#[test]
fn a_pin_that_retention_ignores_is_found() {
    is_found_by(Planted::PinIgnored, &["a part of a snapshot cannot be read"]);
}

#[test]
fn a_snapshot_that_is_adopted_before_it_is_durable_is_found() {
    is_found_by(Planted::SnapshotNotSynced, &["cannot be opened", "another log", "lacks something committed"]);
}

#[test]
fn a_snapshot_that_replaces_a_longer_log_is_found() {
    is_found_by(
        Planted::SnapshotIsLess,
        &["lacks something committed", "is lost", "is not in the log", "knows less", "is another"],
    );
}
