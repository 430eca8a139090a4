//! Messages that were moved by key, in damaged blocks of runs: they are found again in the log like those that were
//! moved by receipt.

use crate::rig::keyed::{asked, move_keyed, publish_keyed};
use crate::rig::saving::{DISPATCH, HOUR_MS, SCHEDULE, bodies, counts, flip, look, retired, runs_of};
use crate::rig::{Rig, lean, small};
use delaymq_core::store::Outcome;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::Due;

const COUNT: u64 = 200;

/// As many ready messages as fill three blocks of a run, of which one came by a move by its key.
fn ready_by_key(moved: u64) -> Rig {
    let mut rig = Rig::new(lean());
    publish_keyed(&mut rig, "orders", "k", HOUR_MS, &format!("{moved:03}"));
    for number in 0..COUNT {
        if number == moved {
            move_keyed(&mut rig, "orders", "k", 0);
        } else {
            rig.publish("orders", 0, &format!("{number:03}"));
        }
    }
    rig.checkpoint();
    rig.publish("other", 0, "behind");
    rig.checkpoint();
    rig.end(End::Kill);
    rig
}

#[test]
fn ready_messages_of_a_damaged_block_are_found_again_where_one_was_moved_by_its_key() {
    for (moved, blocks) in [(50, &[0_u64][..]), (50, &[1]), (120, &[0]), (120, &[0, 1, 2]), (0, &[2]), (199, &[0])] {
        let mut rig = ready_by_key(moved);
        let run = runs_of(&rig, DISPATCH).remove(0);
        for block in blocks {
            flip(&rig, &run, 4_096 + block * 4_096 + 900);
        }
        rig.try_open().unwrap();
        let expected: Vec<String> = (0..COUNT).map(|number| format!("{number:03}")).collect();
        let place = rig.earliest("orders", "g");
        rig.in_flight_max = 1_000;
        let mut found = Vec::new();
        for _ in 0..4 {
            // As the helper of an engine does.
            if rig.node().needs_segment(1) {
                rig.node().prepare().unwrap();
            }
            found.extend(crate::rig::bodies_of(&rig.pull(place)));
        }
        assert_eq!(found, expected, "{moved} {blocks:?}");
        assert_eq!(rig.node().owner().state().voided, 0, "{moved} {blocks:?}");
    }
}

#[test]
fn a_pending_message_that_was_moved_by_its_key_is_found_again() {
    let mut rig = Rig::new(small());
    publish_keyed(&mut rig, "orders", "k", HOUR_MS, "moved");
    rig.publish("orders", HOUR_MS, "stays");
    move_keyed(&mut rig, "orders", "k", 2 * HOUR_MS);
    rig.checkpoint();
    let run = runs_of(&rig, SCHEDULE).remove(0);
    flip(&rig, &run, 5_000);
    rig.end(End::Kill);
    rig.try_open().unwrap();
    rig.pass(3 * HOUR_MS);
    let rescues = rig.node().take_rescues();
    assert!(!rescues.is_empty() && rescues.iter().all(|one| one.lost.is_empty()), "{rescues:?}");
    assert_eq!(rig.drain("orders", "g"), ["stays", "moved"]);
    assert_eq!(rig.node().owner().state().voided, 0);
}

#[test]
fn a_row_of_moves_by_key_and_by_receipt_is_followed_to_its_message() {
    let mut rig = Rig::new(small());
    publish_keyed(&mut rig, "orders", "k", HOUR_MS, "moved");
    rig.checkpoint();
    let by_key = move_keyed(&mut rig, "orders", "k", 2 * HOUR_MS);
    rig.checkpoint();
    rig.moved(&by_key, Due::After(3 * HOUR_MS));
    rig.checkpoint();
    move_keyed(&mut rig, "orders", "k", 4 * HOUR_MS);
    rig.checkpoint();
    for run in runs_of(&rig, SCHEDULE) {
        flip(&rig, &run, 5_000);
    }
    rig.end(End::Kill);
    rig.try_open().unwrap();
    assert_eq!(rig.drain("orders", "early"), Vec::<String>::new());
    rig.pass(4 * HOUR_MS);
    assert_eq!(rig.drain("orders", "g"), ["moved"]);
    assert_eq!(rig.node().owner().state().voided, 0);
}

#[test]
fn a_pending_message_that_was_moved_by_its_key_is_saved_where_its_run_is_damaged() {
    // The log does not begin with its first fact, so that what a run says is needed.
    let mut rig = retired();
    let before = runs_of(&rig, SCHEDULE);
    publish_keyed(&mut rig, "orders", "k", HOUR_MS, "moved");
    move_keyed(&mut rig, "orders", "k", 2 * HOUR_MS);
    rig.checkpoint();
    for run in runs_of(&rig, SCHEDULE).iter().filter(|run| !before.contains(run)) {
        flip(&rig, run, 5_000);
    }
    let found = look(&rig).unwrap();
    assert_eq!(counts(&found)["orders"], (1, 0, 0, 0));
    assert!(found.lost.is_empty() && bodies(&found).contains(&"moved".to_owned()), "{:?}", found.lost);
}

#[test]
fn what_was_asked_by_a_key_behind_what_is_lost_is_believed() {
    let mut rig = Rig::new(small());
    publish_keyed(&mut rig, "orders", "cancelled", HOUR_MS, "cancelled");
    publish_keyed(&mut rig, "orders", "moved", HOUR_MS, "moved");
    publish_keyed(&mut rig, "orders", "both", HOUR_MS, "both");
    rig.checkpoint();
    rig.publish("orders", HOUR_MS, "a fact that is lost");
    let cancel = asked(&mut rig, |node| node.cancel_key("orders", "cancelled", None).unwrap());
    assert_eq!(cancel, Outcome::Done);
    let moved = move_keyed(&mut rig, "orders", "moved", 3 * HOUR_MS);
    move_keyed(&mut rig, "orders", "both", 3 * HOUR_MS);
    assert_eq!(asked(&mut rig, |node| node.cancel_key("orders", "both", None).unwrap()), Outcome::Done);
    let (path, at) = crate::rig::saving::place_of(&rig, "a fact that is lost");
    // The header of its record, before the body.
    flip(&rig, &path, at - 60);
    let found = look(&rig).unwrap();
    let mut told = Vec::new();
    found
        .each(&mut |one| {
            told.push((one.message.body.to_vec(), one.due));
            Ok(())
        })
        .unwrap();
    assert!(told.contains(&(b"moved".to_vec(), moved.key.due)), "{told:?}");
    assert!(told.iter().all(|(body, _)| body != b"cancelled" && body != b"both"), "{told:?}");
}
