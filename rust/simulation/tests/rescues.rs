//! Blocks of runs that rot under a running store: what is found again in the log flows, what is nowhere is
//! given up by name, and a disk that fails for a moment meanwhile costs nothing.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod rig;

use delaymq_core::error::{Error, Result, StorageFault};
use delaymq_core::record::name::GroupStart;
use delaymq_core::storage::Call;
use delaymq_core::store::PullRequest;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::Pulled;
use rig::saving::{DISPATCH, HOUR_MS, SCHEDULE, flip, publish_all, runs_of};
use rig::{Place, Rig, lean};

/// Everything that the group gets of these subjects, without acknowledging anything.
fn taken(rig: &mut Rig, subjects: &[&str]) -> Result<Vec<String>> {
    rig.try_open()?;
    if rig.node().needs_segment(1) {
        // The opening could not.
        rig.node().prepare()?;
    }
    let mut places: Vec<Place> = Vec::new();
    for subject in subjects {
        let group = rig.group(subject, "g", GroupStart::Earliest);
        places.push((group, rig.consumer(group, "c")));
    }
    let now = rig.clock.read();
    loop {
        rig.node().look(now);
        let progress = rig.node().step(1_000)?;
        rig.try_settle()?;
        if !progress.more && progress.proposed == 0 {
            break;
        }
    }
    let mut bodies = Vec::new();
    for (group, consumer) in places {
        let request = PullRequest { group, consumer, count_max: 1_000, in_flight_max: 1_000 };
        let mut quiet = 0;
        while quiet < 3 {
            let pulled = rig.node().pull(request, 0)?;
            rig.try_settle()?;
            match pulled {
                Pulled::Messages(handed, _) => bodies.extend(rig::bodies_of(&handed)),
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
