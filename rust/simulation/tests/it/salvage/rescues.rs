//! Damaged blocks of runs under a running store: messages that the log still has are delivered, the others are voided
//! by name, and a disk that fails for a moment meanwhile costs no message.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use crate::rig::saving::{DISPATCH, HOUR_MS, SCHEDULE, flip, publish_all, runs_of};
use crate::rig::{Place, Rig, lean, small};
use delaymq_core::error::{Error, Result, StorageFault};
use delaymq_core::storage::Call;
use delaymq_core::store::PullRequest;
use delaymq_core::store::StartAt;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::Pulled;

/// Has a segment ready, as the helper of an engine does.
fn keep_room(rig: &mut Rig) -> Result<()> {
    if rig.node().needs_segment(1) { rig.node().prepare() } else { Ok(()) }
}

/// Everything that the group gets of these subjects, without acknowledging anything.
fn taken(rig: &mut Rig, subjects: &[&str]) -> Result<Vec<String>> {
    rig.try_open()?;
    keep_room(rig)?;
    let mut places: Vec<Place> = Vec::new();
    for subject in subjects {
        let group = rig.group(subject, "g", StartAt::Unfinished);
        places.push((group, rig.consumer(group, "c")));
    }
    let now = rig.clock.read();
    loop {
        keep_room(rig)?;
        rig.node().look(now);
        let progress = rig.node().step(1_000)?;
        rig.try_settle()?;
        if !progress.more && progress.proposed == 0 {
            break;
        }
    }
    let mut bodies = Vec::new();
    for (group, consumer) in places {
        let request = PullRequest { group, consumer, count_max: 1_000, in_flight_max: 1_000, beside: 0 };
        let mut quiet = 0;
        while quiet < 3 {
            keep_room(rig)?;
            let pulled = rig.node().pull(request, 0)?;
            rig.try_settle()?;
            match pulled {
                Pulled::Messages(handed, ..) => bodies.extend(crate::rig::bodies_of(&handed)),
                _ => quiet += 1,
            }
        }
    }
    bodies.sort();
    Ok(bodies)
}

/// What is taken in the end, and how many were given up, of a machine whose disk fails in the one call
/// of its kind behind `number` others; `None` where there are not so many.
fn with_failure(rig: &Rig, subjects: &[&str], call: Call, number: u64) -> Option<(Vec<String>, u64)> {
    let mut rig = rig.fork(End::Kill, 1);
    let calls = |rig: &Rig| rig.disk.storage().counts().of(call);
    let before = calls(&rig);
    rig.disk.storage().fail_call_of(call, number, StorageFault::Io);
    let bodies = match taken(&mut rig, subjects) {
        Ok(bodies) => bodies,
        Err(Error::Storage { fault: StorageFault::Io, .. }) => {
            // The one that comes after it finds the disk well.
            taken(&mut rig, subjects).unwrap()
        }
        Err(error) => panic!("{call:?} {number}: {error}"),
    };
    let voided = rig.node().owner().state().voided;
    (calls(&rig) - before > number).then_some((bodies, voided))
}

/// The same comes of it whichever read or open fails.
fn is_not_changed_by_a_failure(rig: &Rig, subjects: &[&str], expected: &(Vec<String>, u64)) {
    for call in [Call::Read, Call::Open] {
        for number in 0.. {
            let Some(found) = with_failure(rig, subjects, call, number) else {
                assert!(number > 3, "{call:?}");
                break;
            };
            assert_eq!(&found, expected, "{call:?} {number}");
        }
    }
}

/// Pending messages that only a run of two blocks has, the log of their time being gone.
fn only_in_a_run() -> Rig {
    let mut rig = Rig::new(lean());
    publish_all(&mut rig, "late", 0..120);
    for round in 0..4 {
        rig.checkpoint();
        rig.publish("later", 100 * HOUR_MS, &format!("{round} {}", "x".repeat(3_000)));
        rig.publish("later", 100 * HOUR_MS, &format!("{round} {}", "y".repeat(3_000)));
    }
    assert!(!rig.files().contains("log/0000000002.segment"), "{:?}", rig.files());
    rig.clock.advance(2 * HOUR_MS);
    rig
}

#[test]
fn a_failing_read_while_a_block_is_looked_for_gives_up_no_message_of_another() {
    let rig = only_in_a_run();
    let run = &runs_of(&rig, SCHEDULE)[0];
    flip(&rig, run, 5_000);
    let mut whole = rig.fork(End::Kill, 1);
    let bodies = taken(&mut whole, &["late"]).unwrap();
    // A block has 85 rows.
    assert_eq!((bodies.len(), bodies[0].as_str()), (35, "late 085"));
    let rescues = whole.node().take_rescues();
    assert_eq!((rescues.len(), rescues[0].block, rescues[0].found, rescues[0].lost.len()), (1, 0, 0, 85));
    assert_eq!(whole.node().owner().state().voided, 85);
    is_not_changed_by_a_failure(&rig, &["late"], &(bodies, 85));
}

#[test]
fn ready_messages_of_a_damaged_block_are_found_again_whichever_read_fails_meanwhile() {
    let mut rig = Rig::new(lean());
    publish_all(&mut rig, "late", 0..60);
    rig.checkpoint();
    rig.clock.advance(2 * HOUR_MS);
    rig.step();
    for number in 0..60 {
        rig.publish("late", 0, &format!("now {number:02}"));
    }
    rig.checkpoint();
    rig.publish("other", 0, "behind");
    rig.checkpoint();
    let run = &runs_of(&rig, DISPATCH)[0];
    flip(&rig, run, 5_000);
    let mut whole = rig.fork(End::Kill, 1);
    let bodies = taken(&mut whole, &["late"]).unwrap();
    let voided = whole.node().owner().state().voided;
    assert_eq!((bodies.len(), voided), (120, 0));
    is_not_changed_by_a_failure(&rig, &["late"], &(bodies, 0));
}

/// A run of three blocks, of which the middle one is damaged, and its neighbours too where they are named.
fn damaged_in_the_middle(rig: &Rig, blocks: &[u64]) -> String {
    let run = runs_of(rig, SCHEDULE).remove(0);
    for block in blocks {
        flip(rig, &run, 4_096 + block * 4_096 + 900);
    }
    run
}

#[test]
fn blocks_of_a_run_are_found_again_in_the_log_each_with_its_own_rows() {
    for blocks in [&[1_u64][..], &[0, 1], &[1, 2], &[0, 2], &[0, 1, 2]] {
        let mut rig = Rig::new(small());
        publish_all(&mut rig, "late", 0..240);
        rig.checkpoint();
        damaged_in_the_middle(&rig, blocks);
        rig.clock.advance(2 * HOUR_MS);
        let bodies = taken(&mut rig, &["late"]).unwrap();
        assert_eq!(bodies.len(), 240, "{blocks:?}");
        assert!(bodies.windows(2).all(|pair| pair[0] < pair[1]), "{blocks:?}: none comes twice");
        let rescues = rig.node().take_rescues();
        assert_eq!(rescues.iter().map(|one| u64::from(one.block)).collect::<Vec<_>>(), blocks);
        assert!(rescues.iter().all(|one| one.lost.is_empty() && matches!(one.error, Error::Corrupt { .. })));
        assert_eq!(rig.node().owner().state().voided, 0);
    }
}

#[test]
fn what_was_given_back_is_found_again_with_the_payload_that_a_run_has() {
    let mut rig = Rig::new(lean());
    rig.publish("now", HOUR_MS, "given back");
    rig.checkpoint();
    let place = rig.earliest("now", "quick");
    // The segment of the message goes, and the run with its copy stays: an unfinished entry points to it.
    for round in 0..4 {
        rig.publish("later", 100 * HOUR_MS, &format!("{round} {}", "x".repeat(3_000)));
        rig.publish("later", 100 * HOUR_MS, &format!("{round} {}", "y".repeat(3_000)));
        rig.checkpoint();
    }
    rig.pass(HOUR_MS);
    let handed = rig.pull(place);
    assert_eq!(crate::rig::bodies_of(&handed), ["given back"]);
    // So soon that its payload is not copied once more.
    rig.give_back(("now", "quick"), place, &handed[0], 60);
    rig.checkpoint();
    assert!(!rig.files().contains("log/0000000002.segment"), "{:?}", rig.files());
    let runs = runs_of(&rig, SCHEDULE);
    let run = runs.last().unwrap();
    flip(&rig, run, 5_000);
    rig.clock.advance(100);
    rig.end(End::Kill);
    rig.try_open().unwrap();
    rig.step();
    let rescues = rig.node().take_rescues();
    assert_eq!((rescues.len(), rescues[0].found, rescues[0].lost.len()), (1, 1, 0), "{rescues:?}");
    let again = rig.earliest("%RETRY%now%quick", "quick");
    assert_eq!(crate::rig::bodies_of(&rig.pull(again)), ["given back"]);
    assert_eq!(rig.node().owner().state().voided, 0);
}
