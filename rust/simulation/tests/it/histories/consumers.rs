//! Histories of named consumers, such as those of QMQ's clients. R1 and R2 are faults of QMQ's real-time broker.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::rig::{Place, Rig, bodies_of, lean, os, small};
use delaymq_core::store::StartAt;
use delaymq_core::store::{Delivery, RetryRule};
use delaymq_core::units::PullOffset;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Pulled, Settled, is_stopped};

const ENDS: [End; 3] = [End::Kill, End::PowerCut, End::PowerCutLosesAll];

fn attached(rig: &mut Rig) -> Place {
    if rig.node().subject_number("s").is_none() {
        rig.group("s", "audit", StartAt::Unfinished);
    }
    rig.attach("s", "g", StartAt::Unfinished, "client", 8)
}

fn holds(rig: &mut Rig, place: Place) -> Vec<u64> {
    let groups = &rig.node().owner().state().groups;
    let consumer = groups.get(&place.0).and_then(|group| group.consumers.get(&place.1));
    consumer.unwrap().held.iter().map(|(offset, _)| offset.0).collect()
}

fn given(rig: &mut Rig, place: Place) -> Vec<(u64, String)> {
    let Pulled::Messages(handed, ..) = rig.pull_once(place) else { return Vec::new() };
    let offsets = handed.iter().map(|one| one.delivery.offset.0);
    offsets.zip(bodies_of(&handed)).collect()
}

/// Ends deliveries; whether the log's queue took it. What follows says whether it is durable.
fn settle(rig: &mut Rig, place: Place, done: &[(u64, u64)], again: &[Delivery], is_end: bool) -> bool {
    let now = rig.clock.read();
    let done: Vec<_> =
        done.iter().map(|(first, count)| PullOffset(*first)..PullOffset(first.saturating_add(*count))).collect();
    let node = rig.node();
    node.look(now);
    let rule = RetryRule { delay_ms: 0, attempts_max: u32::MAX, reason: None };
    let settled = Settled { names: ("s", "g"), place, done: &done, passed_over: again, rule, is_end };
    node.settle_by_rule(&settled).is_ok_and(|submitted| submitted.is_some())
}

/// R2: after a restart an acknowledgement counted for other messages, and offsets came twice.
#[test]
fn r2_a_client_gets_what_it_did_not_acknowledge_under_its_offsets_however_the_machine_ends() {
    for (options, end) in [small(), lean(), os()].into_iter().flat_map(|options| ENDS.map(|end| (options, end))) {
        for saves in [false, true] {
            let mut rig = Rig::new(options);
            let place = attached(&mut rig);
            for body in ["a", "b", "c", "d"] {
                rig.publish("s", 0, body);
            }
            assert_eq!(given(&mut rig, place).len(), 4, "its reserve came with it");
            rig.settle();
            rig.acknowledge(place, &[1]);
            rig.node().witness().unwrap();
            if saves {
                rig.checkpoint();
            }
            rig.node().sync().unwrap();
            rig.reopen(end);
            assert_eq!(holds(&mut rig, place), [0, 2, 3], "{end:?} {saves}");
            let again = rig.node().hand_again(place.0, place.1).unwrap().0;
            assert_eq!(bodies_of(&again), ["a", "c", "d"]);
            assert!(again.iter().all(|one| one.delivery.is_redelivered()));
            assert_eq!(attached(&mut rig), place, "it is the same consumer");
            // What was reserved and never given is void; what it holds is done, and nothing else.
            rig.acknowledge(place, &[4, 5, 6, 7]);
            assert_eq!(holds(&mut rig, place), [0, 2, 3]);
            rig.publish("s", 0, "e");
            let new = given(&mut rig, place);
            assert!(new.iter().all(|(offset, body)| *offset >= 8 && body == "e") && new.len() == 1, "{new:?}");
            rig.settle();
            rig.acknowledge(place, &[0, 2, 3, new[0].0]);
            assert_eq!(holds(&mut rig, place), [0_u64; 0]);
            rig.reopen(End::PowerCutLosesAll);
            assert!(given(&mut rig, place).is_empty() && holds(&mut rig, place).is_empty());
            rig.compare_with_log();
        }
    }
}

/// R2, where the log lost the assignment itself.
#[test]
fn r2_offsets_whose_assignment_was_lost_complete_nothing_and_never_come_again() {
    let mut rig = Rig::new(small());
    let place = attached(&mut rig);
    rig.publish("s", 0, "a");
    assert_eq!(given(&mut rig, place), [(0, "a".to_owned())]);
    rig.node().write_batch().unwrap();
    rig.reopen(End::PowerCutLosesAll);
    assert_eq!(holds(&mut rig, place), [0_u64; 0], "the disk never had it");
    rig.acknowledge(place, &[0]);
    rig.attach("s", "g", StartAt::Unfinished, "client", 8);
    let again = rig.pull(place);
    assert_eq!(bodies_of(&again), ["a"]);
    assert!(again[0].delivery.offset.0 >= 8 && again[0].delivery.is_redelivered());
    rig.compare_with_log();
}

/// R1: what an acknowledgement passed over counted as acknowledged and was lost.
#[test]
fn r1_what_is_passed_over_is_in_the_retry_subject_or_held_wherever_the_machine_stops() {
    let mut stopped_inside = false;
    for calls in 0..16 {
        let mut rig = Rig::new(small());
        let place = attached(&mut rig);
        for body in ["a", "b", "c"] {
            rig.publish("s", 0, body);
        }
        let handed = rig.pull(place);
        rig.disk.storage().stop_after_calls(calls);
        let passed_over = [handed[0].delivery, handed[1].delivery];
        assert!(settle(&mut rig, place, &[(2, 1)], &passed_over, false));
        let done = rig.try_settle();
        if let Err(error) = &done {
            assert!(is_stopped(error), "{error}");
            stopped_inside = true;
        }
        rig.reopen(End::PowerCut);
        let held = holds(&mut rig, place);
        rig.step();
        if held.is_empty() {
            let retries = rig.earliest("%RETRY%s%g", "g");
            let retried = rig.pull(retries);
            assert_eq!((bodies_of(&retried), retried[0].delivery.attempt), (vec!["a".to_owned(), "b".to_owned()], 2));
        } else {
            assert!(done.is_err(), "what is durable is done");
            assert_eq!(held, [0, 1, 2], "all of it or nothing");
        }
        rig.compare_with_log();
    }
    assert!(stopped_inside);
}

/// R1, by the lease of a consumer that is silent for too long.
#[test]
fn r1_the_end_of_a_client_gives_all_that_it_holds_to_the_retry_subject_or_nothing_changes() {
    for calls in 0..16 {
        let mut rig = Rig::new(small());
        let place = attached(&mut rig);
        for body in ["a", "b"] {
            rig.publish("s", 0, body);
        }
        let handed = rig.pull(place);
        let held: Vec<_> = handed.iter().map(|one| one.delivery).collect();
        rig.disk.storage().stop_after_calls(calls);
        assert!(settle(&mut rig, place, &[], &held, true));
        drop(rig.try_settle());
        rig.reopen(End::PowerCut);
        let is_there = rig.node().owner().state().groups[&place.0].consumers.contains_key(&place.1);
        if is_there {
            assert_eq!(holds(&mut rig, place), [0, 1]);
            continue;
        }
        rig.step();
        let again = attached(&mut rig);
        assert_ne!(again.1, place.1);
        assert!(rig.pull(again).is_empty(), "its group has nothing of it");
        let retries = rig.earliest("%RETRY%s%g", "g");
        assert_eq!(rig.take_all(retries), ["a", "b"]);
        rig.publish("s", 0, "c");
        assert!(rig.pull(again)[0].delivery.offset >= PullOffset(8), "no offset comes twice");
    }
}

#[test]
fn a_client_that_attaches_again_gets_no_other_reserve_than_it_may_have() {
    let mut rig = Rig::new(small());
    let place = attached(&mut rig);
    for _ in 0..3 {
        assert_eq!(attached(&mut rig), place);
    }
    let group = rig.node().owner().state().groups[&place.0].clone();
    assert_eq!((group.consumers[&place.1].reserved_offset, group.reserved_number.0), (PullOffset(8), 8));
    // A consumer of this epoch may have the same name, and is another.
    let other = rig.consumer(place.0, "client");
    assert_ne!(other, place.1);
    rig.reopen(End::Kill);
    let consumers = &rig.node().owner().state().groups[&place.0].consumers;
    assert_eq!(consumers.keys().copied().collect::<Vec<_>>(), [place.1], "that one died with its process");
    rig.attach("s", "g", StartAt::Unfinished, "client", 1 << 30);
    let group = rig.node().owner().state().groups[&place.0].clone();
    assert_eq!(group.consumers[&place.1].reserved_offset, PullOffset(8), "more than anybody may have is nothing");
    rig.compare_with_log();
}

#[test]
fn a_group_that_begins_with_a_client_at_latest_gets_what_comes_after_a_crash() {
    for end in ENDS {
        let mut rig = Rig::new(lean());
        rig.publish("s", 0, "before");
        let place = rig.attach("s", "g", StartAt::Latest, "client", 8);
        assert_eq!(rig.pull_once(place), Pulled::Wait);
        rig.reopen(end);
        rig.publish("s", 0, "after");
        assert_eq!(rig.take_all(place), ["after"], "{end:?}");
        rig.compare_with_log();
    }
}
