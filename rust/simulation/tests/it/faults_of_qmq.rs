//! Known faults of QMQ, by QMQ's numbers: each test shows that this core does not have the fault, and fails if the
//! fault is planted. Tests that need a connection are in `rust/server/tests/it/faults_of_qmq.rs`.
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::collections::BTreeMap;

use crate::rig::{Rig, bodies_of, keeping, lean, proves, small};
use delaymq_core::error::Error;
use delaymq_core::message_log::Class;
use delaymq_core::planted::Planted;
use delaymq_core::queues::pull_log::PullLog;
use delaymq_core::record::ready::encode_ready;
use delaymq_core::storage::Storage;
use delaymq_core::store::CHECKPOINT_FOLDER;
use delaymq_core::units::PullOffset;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NewMessage, NodeOptions};
use delaymq_simulation::planted::Plant;

/// Flips a bit of this body wherever it lies.
fn damage(rig: &Rig, body: &str) {
    let image = rig.disk.storage().image();
    for (path, bytes) in &image {
        if let Some(offset) = bytes.windows(body.len()).position(|window| window == body.as_bytes()) {
            rig.disk.storage().damage(path, offset as u64, 1);
        }
    }
}

/// D8: one damaged record made the running server pass over those behind it, and a restart cut the
/// log there; a damaged payload went out.
#[test]
fn d8_one_damaged_record_is_kept_back_alone_whether_running_or_after_a_restart() {
    proves(Planted::DamageHandedOver, || {
        [false, true].into_iter().all(|restarts| {
            let mut rig = Rig::new(small());
            for number in 1..=6 {
                rig.publish("s", 10, &format!("message {number}"));
            }
            rig.node().witness().unwrap();
            damage(&rig, "message 3");
            if restarts {
                rig.reopen(End::Kill);
            }
            let place = rig.earliest("s", "g");
            rig.pass(10);
            let mut found = rig.take_all(place);
            found.extend(rig.take_all(place));
            found == ["message 1", "message 2", "message 4", "message 5", "message 6"]
        })
    });
}

/// D9: an answer came up to half a second before what it promised was synced.
#[test]
fn d9_nothing_is_answered_before_it_is_durable() {
    proves(Planted::AckBeforeSync, || {
        let mut rig = Rig::new(small());
        rig.publish("s", 90_000, "synced");
        rig.submit("s", 90_000, "written");
        rig.node().write_batch().unwrap();
        rig.node().apply(usize::MAX).unwrap();
        // What is applied is what is answered.
        let answered = rig.node().owner().state().schedule.pending();
        rig.reopen(End::PowerCutLosesAll);
        answered > 0 && rig.node().owner().state().schedule.pending() >= answered
    });
}

/// D24: a batch that was sent on and stored, but not answered in time, was sent on again.
#[test]
fn d24_what_is_said_to_be_ready_twice_comes_once() {
    proves(Planted::ReadyUnjudged, || {
        let mut rig = Rig::new(small());
        let place = rig.earliest("s", "g");
        let receipt = rig.publish("s", 10, "m");
        rig.pass(10);
        let mut again = Vec::new();
        encode_ready(&mut again, [(receipt.key, receipt.subject)].into_iter());
        rig.node().submit(&again, 1, Class::Finishing, false).unwrap().unwrap();
        rig.settle();
        let mut found = rig.take_all(place);
        rig.reopen(End::PowerCutLosesAll);
        let place = (place.0, rig.consumer(place.0, "d"));
        found.extend(rig.take_all(place));
        let next = rig.node().owner().state().dispatch.next_number(receipt.subject);
        found == ["m"] && next.0 == 1
    });
}

fn roomy() -> NodeOptions {
    NodeOptions { segment_bytes: 4 << 20, ..small() }
}

fn publish_many(rig: &mut Rig, subject: &str, count: usize) {
    for _ in 0..count / 100 {
        let now = rig.clock.read();
        rig.node().look(now);
        let message = NewMessage { subject, due: Due::After(10), body: b"x", expires: None, meta: b"" };
        rig.node().publish(&[message; 100]).unwrap().unwrap();
        rig.settle();
    }
}

/// D30: with more than ten thousand messages due that could not be sent on, the wheel waited for the
/// sender and the sender for the wheel; nothing went out any more.
#[test]
fn d30_however_much_is_ready_and_not_taken_the_rest_becomes_ready_and_all_is_taken_in_the_end() {
    proves(Planted::FullQueueHoldsDispatch, || {
        let mut rig = Rig::new(roomy());
        rig.in_flight_max = 2_000;
        let (full, other) = (rig.earliest("full", "g"), rig.earliest("other", "g"));
        publish_many(&mut rig, "full", 11_000);
        rig.pass(10);
        publish_many(&mut rig, "other", 200);
        publish_many(&mut rig, "full", 200);
        rig.pass(10);
        rig.take_all(other).len() == 200 && rig.take_all(full).len() == 11_200
    });
}

/// D31: one destination that is slow or gone held back every subject.
#[test]
fn d31_a_subject_that_nobody_takes_from_holds_back_no_other() {
    proves(Planted::SlowSubjectHoldsDispatch, || {
        let mut rig = Rig::new(small());
        let (slow, fast) = (rig.earliest("slow", "g"), rig.earliest("fast", "g"));
        rig.publish("slow", 10, "waits");
        rig.pass(10);
        // It is in a consumer's hands, who never says what became of it.
        let held = rig.pull(slow).len();
        rig.publish("fast", 10, "on time");
        rig.pass(10);
        held == 1 && rig.take_all(fast) == ["on time"]
    });
}

/// D32: a subject without a route was waited for without end; four of them stopped the server.
#[test]
fn d32_subjects_that_nobody_consumes_hold_back_no_other() {
    proves(Planted::UnroutedSubjectHoldsDispatch, || {
        let mut rig = Rig::new(small());
        for number in 0..8 {
            rig.publish(&format!("nowhere {number}"), 10, "m");
        }
        rig.pass(10);
        let place = rig.earliest("s", "g");
        rig.publish("s", 10, "on time");
        rig.pass(10);
        rig.take_all(place) == ["on time"] && rig.drain("nowhere 7", "late") == ["m"]
    });
}

/// D37: a checkpoint that could not be read stopped the start.
#[test]
fn d37_a_damaged_checkpoint_costs_time_and_nothing_else() {
    proves(Planted::CheckpointStopsStart, || {
        let mut rig = Rig::new(small());
        for number in 0..4 {
            rig.publish("s", 90_000, &number.to_string());
        }
        rig.checkpoint();
        rig.end(End::Kill);
        let storage = rig.disk.storage().clone();
        for name in storage.list(CHECKPOINT_FOLDER).unwrap() {
            storage.damage(&format!("{CHECKPOINT_FOLDER}/{name}"), 40, 1);
        }
        rig.try_open().is_ok()
            && rig.node().recovered().checkpoints_refused.len() == 1
            && rig.drain("s", "g") == ["0", "1", "2", "3"]
    });
}

/// R1: what an acknowledgement passed over was done with, and never came again.
#[test]
fn r1_what_an_acknowledgement_passes_over_comes_again_as_a_retry() {
    proves(Planted::PassedOverIsDone, || {
        let mut log = PullLog::new(PullOffset(0), BTreeMap::new());
        log.given(PullOffset(0), 0..10);
        let settled = log.acknowledge(PullOffset(5), PullOffset(9));
        let passed: Vec<i32> = settled.passed_over.into_iter().map(|(_, number)| number).collect();
        passed == [0, 1, 2, 3, 4] && log.is_empty()
    });
}

/// R2: a restart forgot the pulls and acknowledgements of up to ten minutes: messages came again to
/// every group, under pull offsets that others had.
#[test]
fn r2_a_restart_forgets_no_acknowledgement_and_uses_no_pull_offset_again() {
    let holds = |fault: Option<Planted>| {
        [End::Kill, End::PowerCutLosesAll].into_iter().all(|end| {
            let mut rig = Rig::new(keeping());
            rig.in_flight_max = 20;
            let place = rig.earliest("s", "g");
            rig.checkpoint();
            for number in 0..20 {
                rig.publish("s", 0, &number.to_string());
            }
            let handed = rig.pull(place);
            rig.acknowledge(place, &(0..10).collect::<Vec<u64>>());
            {
                let _plant = Plant::new(fault);
                rig.reopen(end);
            }
            let again = rig.node().hand_again(place.0, place.1).unwrap().0;
            let offsets: Vec<u64> = again.iter().map(|one| one.delivery.offset.0).collect();
            rig.publish("s", 0, "new");
            let new = rig.pull(place);
            handed.len() == 20
                && offsets == (10..20).collect::<Vec<u64>>()
                && bodies_of(&again) == bodies_of(&handed).split_off(10)
                && new.iter().all(|one| one.delivery.offset.0 >= 20)
                && bodies_of(&new) == ["new"]
        })
    };
    assert!(holds(None));
    assert!(!holds(Some(Planted::AcknowledgementsForgotten)), "it holds with the fault planted, too");
}

/// R4: what could not be read was passed over, and nobody was told.
#[test]
fn r4_what_cannot_be_read_is_counted_and_named() {
    proves(Planted::DamageUncounted, || {
        let mut rig = Rig::new(small());
        let place = rig.earliest("s", "g");
        for body in ["first", "unreadable", "third"] {
            rig.publish("s", 0, body);
        }
        rig.node().witness().unwrap();
        damage(&rig, "unreadable");
        let mut found = rig.take_all(place);
        found.extend(rig.take_all(place));
        found == ["first", "third"] && rig.node().owner().state().voided == 1
    });
}

/// R4: a consumer that was behind retention jumped to what was left.
#[test]
fn r4_nothing_is_removed_that_a_slow_group_has_not_finished() {
    proves(Planted::FinishedByOneIsByAll, || {
        let mut rig = Rig::new(lean());
        let (fast, slow) = (rig.earliest("s", "fast"), rig.earliest("s", "slow"));
        let mut published = Vec::new();
        for number in 0..60 {
            let body = format!("{number:0>300}");
            rig.publish("s", 0, &body);
            published.push(body);
            if number % 20 == 19 {
                let taken = rig.take_all(fast);
                assert_eq!(taken.len(), 20);
                rig.checkpoint();
                rig.node().prepare().unwrap();
            }
        }
        for _ in 0..3 {
            rig.checkpoint();
            rig.reopen(End::Kill);
        }
        let slow = (slow.0, rig.consumer(slow.0, "d"));
        match rig.try_take_all(slow) {
            Ok(found) => found == published,
            // What the slow group wants next is in no run any more.
            Err(Error::Corrupt { path, .. }) if path == "runs" => false,
            Err(error) => panic!("{error}"),
        }
    });
}

/// R6: a check was looked at when the server started, and never when a message was read.
#[test]
fn r6_what_is_read_is_compared_with_its_check_each_time() {
    proves(Planted::DamageHandedOver, || {
        let mut rig = Rig::new(small());
        let (early, late) = (rig.earliest("s", "early"), rig.earliest("s", "late"));
        for body in ["first", "rotting", "third"] {
            rig.publish("s", 0, body);
        }
        rig.node().witness().unwrap();
        // The first group reads it while it is whole.
        let before = rig.take_all(early);
        damage(&rig, "rotting");
        let mut after = rig.take_all(late);
        after.extend(rig.take_all(late));
        before.len() == 3 && after == ["first", "third"]
    });
}
