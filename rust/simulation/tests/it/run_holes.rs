//! Holes in the payloads of runs: finished payloads in a run that stays are given back, and nothing else is.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use crate::rig::saving::{bodies, flip, look};
use crate::rig::{Rig, lean, sees};
use delaymq_core::error::Error;
use delaymq_core::planted::Planted;
use delaymq_core::run::{RunHole, run_path};
use delaymq_core::store::{KeepFinished, OwnerOptions, inspect, verify};
use delaymq_core::units::LocationFile;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NodeOptions};

/// Nothing finished is kept, every payload may be a hole, and those of small runs stay where they are.
fn options() -> NodeOptions {
    let holes = OwnerOptions { reclaim_bytes: 1, hole_bytes_min: 1, hole_block_bytes: 8, ..lean().owner };
    NodeOptions { owner: OwnerOptions { merge_payload_bytes: 0, ..holes }, ..lean() }
}

/// A run of messages of which the first are taken, and its bytes as they are on the disk.
fn with_a_run_half_taken() -> Rig {
    let mut rig = Rig::new(options());
    let place = rig.earliest("later", "g");
    for number in 0..20 {
        rig.publish("later", 10_000 + 1_000 * number, &late(number));
    }
    rig.checkpoint();
    rig.pass(17_500);
    assert_eq!(rig.take_all(place), (0..8).map(late).collect::<Vec<_>>());
    rig
}

fn late(number: u64) -> String {
    format!("late {number:02} {}", "z".repeat(700))
}

fn run_holes(rig: &mut Rig) -> Vec<RunHole> {
    rig.node().owner().state().run_holes.iter().copied().collect()
}

fn is_run_punched(rig: &Rig, hole: &RunHole) -> bool {
    let bytes = &rig.disk.storage().image()[&run_path(hole.run)];
    bytes[hole.from as usize..hole.to as usize].iter().all(|byte| *byte == 0)
}

fn what_waits_in_a_run_keeps_its_payload_and_no_more() {
    let mut rig = with_a_run_half_taken();
    rig.checkpoint();
    let named = run_holes(&mut rig);
    assert_eq!(named.len(), 1, "those that were due first lie together: {named:?}");
    assert!(named[0].bytes() > 8 * 700 && named[0].bytes() < 9 * 800);
    assert!(!is_run_punched(&rig, &named[0]), "one checkpoint alone names it");
    rig.publish("noise", 0, "behind");
    rig.checkpoint();
    assert!(is_run_punched(&rig, &named[0]), "both name it");
    let identity = *rig.node().identity();
    let found = inspect(&rig.disk.shared(), &identity, &[], &KeepFinished { rest_ms: 0, ..KeepFinished::default() });
    let run = LocationFile::Run(named[0].run);
    let told = found.unwrap().files.into_iter().find(|file| file.place == Some(run)).unwrap();
    assert_eq!((told.hole_bytes, told.pending), (named[0].bytes(), 12));
    for end in [End::Kill, End::PowerCut, End::PowerCutLosesAll] {
        rig.reopen(end);
        assert_eq!(run_holes(&mut rig), named);
    }
    let saved = look(&rig).unwrap();
    assert!(saved.damage.is_empty(), "{:?}", saved.damage);
    let place = rig.earliest("later", "g");
    rig.pass(20_000);
    assert_eq!(rig.take_all(place), (8..20).map(late).collect::<Vec<_>>());
    rig.close();
    rig.verify(&identity);
}

#[test]
fn what_is_finished_of_a_run_that_is_mostly_pending_is_given_back() {
    what_waits_in_a_run_keeps_its_payload_and_no_more();
    sees(Planted::HoleIgnoresUnfinished, what_waits_in_a_run_keeps_its_payload_and_no_more);
}

/// The newest checkpoint rots before the next one: the older one knows no hole of the run, and all its payloads are there.
fn the_older_checkpoint_has_all_payloads_of_its_runs() {
    let mut rig = with_a_run_half_taken();
    rig.checkpoint();
    assert!(!run_holes(&mut rig).is_empty());
    let identity = *rig.node().identity();
    rig.end(End::Kill);
    let newest = rig.newest("checkpoints/");
    flip(&rig, &newest, 100);
    rig.try_open().unwrap();
    assert!(run_holes(&mut rig).is_empty());
    rig.close();
    rig.verify(&identity);
}

#[test]
fn a_hole_of_a_run_is_punched_when_whichever_checkpoint_is_used_knows_it() {
    the_older_checkpoint_has_all_payloads_of_its_runs();
    sees(Planted::RunHolePunchedBeforeBothCheckpoints, the_older_checkpoint_has_all_payloads_of_its_runs);
}

fn what_is_ready_of_a_run_whose_rows_are_gone_keeps_its_payload_and_no_more() {
    let mut rig = with_a_run_half_taken();
    let owner = OwnerOptions { merge_windows_min: 1, ..rig.options.owner };
    (rig.options.owner, rig.in_flight_max) = (owner, 1);
    rig.reopen(End::Kill);
    // One more becomes ready, and nobody takes it; of the others one waits and the rest is cancelled.
    let place = rig.earliest("later", "g");
    rig.pass(1_000);
    assert_eq!(rig.pull(place).len(), 1);
    let receipts: Vec<_> = (0..4).map(|number| rig.publish("later", 60_000 + number, "further")).collect();
    for _ in 0..4 {
        rig.publish("noise", 0, "behind");
        rig.checkpoint();
    }
    for receipt in &receipts {
        rig.cancel(receipt);
    }
    for _ in 0..3 {
        rig.publish("noise", 0, "behind");
        rig.checkpoint();
    }
    let named = run_holes(&mut rig);
    assert!(!named.is_empty() && named.iter().all(|hole| is_run_punched(&rig, hole)), "{named:?}");
    rig.reopen(End::PowerCut);
    let looks = rig.earliest("later", "looks");
    rig.pass(60_000);
    let all = rig.take_all(looks);
    assert_eq!(all, (8..20).map(late).collect::<Vec<_>>());
    let identity = *rig.node().identity();
    rig.close();
    rig.verify(&identity);
}

#[test]
fn a_run_whose_rows_were_merged_away_keeps_what_is_ready_and_no_more() {
    what_is_ready_of_a_run_whose_rows_are_gone_keeps_its_payload_and_no_more();
    sees(Planted::HoleAsksOwnRowsAlone, what_is_ready_of_a_run_whose_rows_are_gone_keeps_its_payload_and_no_more);
}

#[test]
fn a_punched_payload_that_no_checkpoint_calls_a_hole_is_told() {
    let mut rig = with_a_run_half_taken();
    for _ in 0..2 {
        rig.publish("noise", 0, "behind");
        rig.checkpoint();
    }
    let identity = *rig.node().identity();
    let named = run_holes(&mut rig);
    rig.close();
    let path = run_path(named[0].run);
    let findings = |rig: &Rig| verify(&rig.disk.copy(), &identity).unwrap().findings;
    assert_eq!(findings(&rig), Vec::<String>::new());
    // A byte of a hole is nobody's, the next one behind it is.
    flip(&rig, &path, named[0].to - 1);
    assert_eq!(findings(&rig), Vec::<String>::new());
    flip(&rig, &path, named[0].to + 100);
    assert_eq!(findings(&rig).len(), 1);
}

#[test]
fn without_any_checkpoint_all_that_waits_is_saved_and_what_was_given_back_is_told_as_lost() {
    let mut rig = with_a_run_half_taken();
    for _ in 0..4 {
        rig.publish("noise", 0, &"behind ".repeat(300));
        rig.checkpoint();
    }
    let hole = run_holes(&mut rig)[0];
    assert!(is_run_punched(&rig, &hole));
    rig.end(End::Kill);
    for checkpoint in rig.files().into_iter().filter(|path| path.starts_with("checkpoints/")) {
        flip(&rig, &checkpoint, 100);
    }
    let saved = look(&rig).unwrap();
    let late: Vec<String> = bodies(&saved).into_iter().filter(|body| body.starts_with("late")).collect();
    assert_eq!(late, (8..20).map(self::late).collect::<Vec<_>>());
    assert_eq!(saved.lost.len(), 8, "{:?}", saved.lost);
    for lost in &saved.lost {
        let Error::DamagedPayload { path, offset, .. } = &lost.error else { panic!("{:?}", lost.error) };
        assert!(*path == run_path(hole.run) && (hole.from..hole.to).contains(offset), "{lost:?}");
    }
}

/// A message of a run is moved, and again while the checkpoint is written that copies its payload: the second entry finds
/// the payload where it was first.
fn what_is_moved_while_its_payload_is_copied_has_it_where_it_was() {
    let mut rig = Rig::new(options());
    let place = rig.earliest("later", "g");
    let receipts: Vec<_> = (0..6).map(|number| rig.publish("later", 60_000 + number, &late(number))).collect();
    rig.checkpoint();
    let moved = rig.moved(&receipts[2], Due::After(90_000));
    rig.node().begin_checkpoint();
    // So soon that it is not copied itself.
    rig.moved(&moved, Due::After(50));
    while !rig.node().checkpoint_piece(u64::MAX).unwrap() {}
    for _ in 0..3 {
        rig.publish("noise", 0, "behind");
        rig.checkpoint();
    }
    rig.pass(200_000);
    assert_eq!(rig.take_all(place), [2, 0, 1, 3, 4, 5].map(late));
}

#[test]
fn a_payload_that_is_copied_stays_for_what_is_moved_meanwhile() {
    what_is_moved_while_its_payload_is_copied_has_it_where_it_was();
    sees(Planted::HoleForgetsCopied, what_is_moved_while_its_payload_is_copied_has_it_where_it_was);
}
