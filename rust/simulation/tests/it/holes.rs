//! Holes in segments: finished batches around unfinished ones are given back, and nothing else is.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use crate::rig::saving::{bodies, flip, look, place_of, runs_of};
use crate::rig::{Place, Rig, lean, sees};
use delaymq_core::error::StorageFault;
use delaymq_core::message_log::{Hole, segment_path};
use delaymq_core::planted::Planted;
use delaymq_core::storage::Call;
use delaymq_core::store::StartAt;
use delaymq_core::store::{KeepFinished, OwnerOptions, inspect, visible_state};
use delaymq_core::units::{LocationFile, Sequence};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NodeOptions, Punched};

/// Nothing finished is kept, and every batch may be a hole.
fn options() -> NodeOptions {
    let owner = OwnerOptions { reclaim_bytes: 1, hole_bytes_min: 1, hole_block_bytes: 8, ..lean().owner };
    NodeOptions { owner, ..lean() }
}

/// Much that is taken, between messages of a subject that nobody takes; the consumer of the former.
fn with_stragglers(options: NodeOptions) -> (Rig, Place) {
    let mut rig = Rig::new(options);
    rig.publish("slow", 0, "slow 0");
    rig.group("slow", "g", StartAt::Unfinished);
    rig.publish("noise", 0, "first");
    let quick = rig.earliest("noise", "g");
    for straggler in 1..4 {
        for _ in 0..20 {
            rig.publish("noise", 0, &"x".repeat(700));
        }
        rig.publish("slow", 0, &format!("slow {straggler}"));
    }
    for _ in 0..12 {
        rig.publish("noise", 0, &"y".repeat(700));
    }
    rig.take_all(quick);
    (rig, quick)
}

fn holes(rig: &mut Rig) -> Vec<Hole> {
    rig.node().owner().state().holes.iter().copied().collect()
}

/// The bytes of a hole on the disk.
fn bytes_of(rig: &Rig, hole: &Hole) -> Vec<u8> {
    let bytes = rig.disk.storage().image()[&segment_path(hole.segment())].clone();
    bytes[hole.from.end.offset() as usize..hole.to.end.offset() as usize].to_vec()
}

fn is_punched(rig: &Rig, hole: &Hole) -> bool {
    bytes_of(rig, hole).iter().all(|byte| *byte == 0)
}

/// What is slow comes whole, in every way in which the machine may end; then everything is sound.
fn all_slow_comes(rig: &mut Rig) {
    for end in [End::Kill, End::PowerCut, End::PowerCutLosesAll] {
        rig.reopen(end);
        let found = look_through(rig);
        assert_eq!(found, ["slow 0", "slow 1", "slow 2", "slow 3"], "{end:?}");
    }
    let identity = *rig.node().identity();
    rig.close();
    rig.verify(&identity);
}

/// What a group that begins now is handed.
fn look_through(rig: &mut Rig) -> Vec<String> {
    let name = format!("looks at {}", rig.next_sequence().0);
    let place = rig.earliest("slow", &name);
    rig.take_all(place)
}

fn stragglers_keep_their_batches_and_no_more() {
    let (mut rig, _) = with_stragglers(options());
    rig.checkpoint();
    let named = holes(&mut rig);
    assert!(!named.is_empty(), "nothing was found");
    assert!(named.iter().all(|hole| !is_punched(&rig, hole)), "one checkpoint alone names them");
    rig.publish("noise", 0, "behind");
    rig.checkpoint();
    assert!(named.iter().all(|hole| is_punched(&rig, hole)), "both name them");
    let state = rig.node().owner().state();
    let sealed = state.segments.len() as u64 - 1;
    assert!(sealed > 4 && state.segments[0].segment.0 <= 2, "the first message holds the log");
    let given_back: u64 = named.iter().map(Hole::bytes).sum();
    assert!(given_back > sealed * 3_000, "{given_back} of {sealed} segments");
    assert_eq!(rig.node().punched(), Punched { segment_bytes: given_back, run_bytes: 0 });
    all_slow_comes(&mut rig);
}

#[test]
fn what_is_finished_around_stragglers_is_given_back() {
    stragglers_keep_their_batches_and_no_more();
    sees(Planted::HoleIgnoresUnfinished, stragglers_keep_their_batches_and_no_more);
}

/// The newest checkpoint rots before the next one: the older one is used, and it knows no hole.
fn the_older_checkpoint_alone_is_enough() {
    let (mut rig, quick) = with_stragglers(options());
    rig.checkpoint();
    let before = holes(&mut rig);
    for _ in 0..30 {
        rig.publish("noise", 0, &"z".repeat(700));
    }
    rig.take_all(quick);
    rig.checkpoint();
    assert_ne!(holes(&mut rig), before, "the second one has more");
    // What is punched is there, though nobody has synced it.
    rig.end(End::Kill);
    let newest = rig.newest("checkpoints/");
    flip(&rig, &newest, 100);
    rig.try_open().unwrap();
    assert_eq!(holes(&mut rig), before);
    all_slow_comes(&mut rig);
}

#[test]
fn a_hole_is_punched_when_whichever_checkpoint_is_used_knows_it() {
    the_older_checkpoint_alone_is_enough();
    sees(Planted::HolePunchedBeforeBothCheckpoints, the_older_checkpoint_alone_is_enough);
}

#[test]
fn holes_grow_and_are_punched_again_by_who_opens() {
    let (mut rig, _) = with_stragglers(options());
    rig.checkpoint();
    let first = holes(&mut rig);
    // The disk refuses to punch, once: the checkpoint is there all the same.
    rig.disk.storage().fail_call_of(Call::Punch, 0, StorageFault::Io);
    rig.publish("noise", 0, "more");
    assert!(rig.node().checkpoint().is_err());
    rig.reopen(End::PowerCutLosesAll);
    assert!(first.iter().all(|hole| !is_punched(&rig, hole)));
    let slow = rig.earliest("slow", "g");
    assert_eq!(rig.pull(slow).len(), 4);
    rig.acknowledge(slow, &[0, 1, 2]);
    for _ in 0..3 {
        rig.publish("noise", 0, &"more".repeat(200));
        let quick = rig.earliest("noise", "g");
        rig.take_all(quick);
        rig.checkpoint();
    }
    let grown = holes(&mut rig);
    let floor = rig.node().owner().state().segments[0].segment;
    let kept: Vec<&Hole> = first.iter().filter(|hole| hole.segment() >= floor).collect();
    assert!(kept.iter().all(|hole| grown.iter().any(|other| other.holds(hole))), "a hole is one for ever");
    assert!(first.iter().filter(|hole| hole.segment() >= floor).all(|hole| is_punched(&rig, hole)));
    rig.reopen(End::PowerCut);
    assert_eq!(look_through(&mut rig), ["slow 3"]);
}

#[test]
fn a_search_is_due_by_what_was_finished_and_not_by_what_came() {
    let owner = OwnerOptions { reclaim_bytes: 20_000, ..options().owner };
    let mut rig = Rig::new(NodeOptions { owner, ..options() });
    rig.publish("slow", 0, "holds the log");
    rig.group("slow", "g", StartAt::Unfinished);
    rig.publish("noise", 0, "first");
    let quick = rig.earliest("noise", "g");
    for _ in 0..60 {
        rig.publish("noise", 0, &"x".repeat(700));
    }
    for _ in 0..2 {
        rig.checkpoint();
        rig.publish("noise", 0, "behind");
    }
    assert!(holes(&mut rig).is_empty(), "nothing is finished");
    rig.take_all(quick);
    rig.checkpoint();
    assert!(!holes(&mut rig).is_empty());
    assert!(rig.node().owner().checkpoint_due(), "the next one gives them back");
}

#[test]
fn what_is_moved_given_back_or_far_keeps_its_facts() {
    let mut rig = Rig::new(options());
    rig.publish("slow", 0, "holds the log");
    rig.group("slow", "g", StartAt::Unfinished);
    let moved = rig.publish("later", 50, "moved");
    let far = rig.publish("later", 500_000, "far");
    rig.publish("noise", 0, "first");
    let quick = rig.earliest("noise", "g");
    let again = rig.earliest("again", "g");
    rig.publish("again", 0, "again");
    let handed = rig.pull(again);
    rig.give_back(("again", "g"), again, &handed[0], 90_000);
    for _ in 0..40 {
        rig.publish("noise", 0, &"x".repeat(700));
    }
    rig.take_all(quick);
    for receipt in [moved, far] {
        rig.moved(&receipt, Due::After(600_000));
        for _ in 0..2 {
            rig.publish("noise", 0, "behind");
            rig.checkpoint();
        }
    }
    assert!(rig.node().punched().segment_bytes > 0);
    // A block of every schedule run rots: what it held is found in the log.
    for run in runs_of(&rig, 1) {
        flip(&rig, &run, 4_200);
    }
    rig.reopen(End::PowerCutLosesAll);
    let place = rig.earliest("later", "looks");
    rig.pass(2_000_000);
    let mut found = rig.take_all(place);
    found.sort();
    assert_eq!(found, ["far", "moved"]);
    let retries = rig.earliest("%RETRY%again%g", "g");
    assert_eq!(rig.take_all(retries), ["again"]);
}

#[test]
fn who_reads_without_the_lock_passes_holes() {
    let (mut rig, _) = with_stragglers(options());
    rig.checkpoint();
    rig.publish("noise", 0, "behind");
    rig.checkpoint();
    let (named, identity) = (holes(&mut rig), *rig.node().identity());
    rig.node().witness().unwrap();
    let visible = visible_state(&rig.disk.shared(), &identity).unwrap();
    let pieces = visible.pieces();
    let is_in_hole = |sequence: Sequence| {
        named.iter().any(|hole| (hole.from.next_sequence..hole.to.next_sequence).contains(&sequence))
    };
    let gaps = pieces.windows(2).filter(|pair| pair[0].end < pair[1].first).count();
    assert!(gaps > 3 && pieces.iter().all(|piece| !is_in_hole(piece.first)));
    assert!(pieces.iter().all(|piece| piece.chain != 0 || piece.first <= Sequence(2)));
    let found = inspect(&rig.disk.shared(), &identity, &[], &KeepFinished { rest_ms: 0, ..KeepFinished::default() });
    let files = found.unwrap().files;
    let of_holes: u64 = files.iter().map(|file| file.hole_bytes).sum();
    assert_eq!(of_holes, named.iter().map(Hole::bytes).sum::<u64>());
    let with_holes = |file: &&delaymq_core::store::InspectedFile| file.hole_bytes > 0;
    assert!(files.iter().filter(with_holes).all(|file| matches!(file.place, Some(LocationFile::Segment(_)))));
    // What is saved of it is all that is unfinished, and nothing is told as damaged.
    let saved = look(&rig).unwrap();
    assert!(saved.damage.is_empty(), "{:?}", saved.damage);
    let slow = bodies(&saved).into_iter().filter(|body| body.starts_with("slow")).collect::<Vec<_>>();
    assert_eq!(slow, ["slow 0", "slow 1", "slow 2", "slow 3"]);
}

#[test]
fn damage_beside_a_hole_is_told() {
    let (mut rig, _) = with_stragglers(options());
    rig.checkpoint();
    rig.publish("noise", 0, "behind");
    rig.checkpoint();
    let identity = *rig.node().identity();
    rig.close();
    let (path, at) = place_of(&rig, "slow 2");
    flip(&rig, &path, at);
    let found = delaymq_core::store::verify(&rig.disk.copy(), &identity).unwrap();
    assert_eq!(found.findings.len(), 1, "{:?}", found.findings);
}

#[test]
fn nothing_is_looked_for_in_what_is_young_or_where_a_row_cannot_be_read() {
    let owner = OwnerOptions { keep_finished_ms: 1_000_000, ..options().owner };
    let (mut rig, _) = with_stragglers(NodeOptions { owner, ..options() });
    rig.checkpoint();
    assert!(holes(&mut rig).is_empty(), "all is young");
    rig.pass(1_000_001);
    rig.publish("noise", 0, "now it is old");
    rig.checkpoint();
    assert!(!holes(&mut rig).is_empty());
    let (mut rig, _) = with_stragglers(NodeOptions {
        owner: OwnerOptions { hole_bytes_min: u64::MAX, ..options().owner },
        ..options()
    });
    rig.checkpoint();
    rig.end(End::Kill);
    for run in runs_of(&rig, 2) {
        flip(&rig, &run, 4_200);
    }
    rig.options = options();
    rig.try_open().unwrap();
    rig.publish("noise", 0, "more");
    rig.checkpoint();
    assert!(holes(&mut rig).is_empty(), "what the block needs is not known");
}
