//! Small worlds keep every promise, and find planted faults.
#![expect(clippy::panic, clippy::print_stdout, reason = "a test may")]

use delaymq_core::planted::Planted;
use delaymq_simulation::planted::Plant;
use delaymq_simulation::small_worlds::scenes::SCENES;
use delaymq_simulation::small_worlds::{Found, try_scene};

/// States of one scene that a test tries.
const STATES: u64 = 400;

/// Every scene once, up to the first that breaks a promise.
fn try_each(states: u64) -> Vec<Found> {
    let mut found = Vec::new();
    for scene in &SCENES {
        let one = try_scene(scene, 1, states);
        let broken = one.broken > 0;
        found.push(one);
        if broken {
            break;
        }
    }
    found
}

fn is_found(fault: Planted) {
    let found = {
        let _plant = Plant::new(Some(fault));
        try_each(4 * STATES)
    };
    let Some(last) = found.last().filter(|last| last.broken > 0) else { panic!("{fault:?} was not found") };
    println!("{fault:?}: {:?}", last.violations);
}

#[test]
fn every_scene_keeps_its_promises_whatever_is_left() {
    for one in try_each(STATES) {
        assert_eq!(one.violations, Vec::<String>::new(), "{}", one.scene);
        assert!(one.states > 20 && one.drained > 0, "{one:?}");
    }
}

#[test]
fn holes_of_runs_that_are_punched_too_early_are_found() {
    let scene = SCENES.iter().find(|scene| scene.name == "holes of runs");
    let _plant = Plant::new(Some(Planted::RunHolePunchedBeforeBothCheckpoints));
    let found = scene.map(|scene| try_scene(scene, 1, STATES));
    assert!(found.is_some_and(|found| found.broken > 0));
}

#[test]
fn one_life_is_tried_in_one_way() {
    for scene in SCENES.iter().take(3) {
        let (once, again) = (try_scene(scene, 2, 200), try_scene(scene, 2, 200));
        assert_eq!(format!("{once:?}"), format!("{again:?}"));
    }
}

#[test]
fn a_partial_sector_that_is_not_synced_is_found() {
    is_found(Planted::PartialSectorNotSynced);
}

#[test]
fn a_folder_that_is_not_synced_is_found() {
    is_found(Planted::FolderNotSynced);
}

#[test]
fn a_checkpoint_before_its_runs_is_found() {
    is_found(Planted::CheckpointBeforeRuns);
}

#[test]
fn a_torn_tail_that_is_accepted_is_found() {
    is_found(Planted::TornTailAccepted);
}

#[test]
fn an_old_tail_that_is_appended_over_is_found() {
    is_found(Planted::OldTailAppendedOver);
}

#[test]
fn sequences_that_are_used_again_are_found() {
    is_found(Planted::SequenceReused);
}

#[test]
fn an_answer_before_the_sync_is_found() {
    is_found(Planted::AckBeforeSync);
}

#[test]
fn a_file_that_is_named_before_its_bytes_are_synced_is_found() {
    is_found(Planted::NamedBeforeSynced);
}

#[test]
fn a_rename_that_is_not_synced_is_found() {
    is_found(Planted::RenameNotSynced);
}
