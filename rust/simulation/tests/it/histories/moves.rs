//! Histories of messages that leave their queue without an acknowledgement: given back, dead, redriven, expired.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use crate::rig::{Rig, bodies_of, lean, sees, small};
use delaymq_core::planted::Planted;
use delaymq_core::store::Outcome;
use delaymq_core::store::StartAt;
use delaymq_core::units::{GroupNumber, Millis};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Handed, SeenDeadLetter};
use delaymq_simulation::planted::Plant;

const NAMES: (&str, &str) = ("s", "g");

fn put_away(rig: &mut Rig, place: crate::rig::Place, handed: &Handed, reason: &str) {
    rig.node().dead_letter(NAMES, place, &handed.delivery, reason, 0).unwrap();
    rig.settle();
}

fn dead_letters(rig: &mut Rig) -> Vec<SeenDeadLetter> {
    let Some(queue) = rig.node().dead_letter_queue("s", "g") else { return Vec::new() };
    rig.node().dead_letters(queue).unwrap()
}

fn reasons_of(rig: &mut Rig) -> Vec<String> {
    dead_letters(rig).into_iter().map(|letter| letter.reason.unwrap_or_default()).collect()
}

fn bring_back(rig: &mut Rig, letters: &[SeenDeadLetter]) -> Vec<Option<Outcome>> {
    let queue = rig.node().dead_letter_queue("s", "g").unwrap();
    let first = rig.node().redrive(NAMES, queue.group, letters).unwrap().unwrap();
    rig.settle();
    (0..letters.len() as u64).map(|place| rig.node().take_outcome(first.plus(place))).collect()
}

fn segments(rig: &Rig) -> usize {
    rig.files().iter().filter(|path| path.starts_with("log/")).count()
}

/// A store with three messages, of which the consumer of `g` holds all.
fn with_three(options: delaymq_simulation::node::NodeOptions) -> (Rig, crate::rig::Place, Vec<Handed>) {
    let mut rig = Rig::new(options);
    let place = rig.earliest("s", "g");
    for body in ["a", "b", "c"] {
        rig.publish("s", 0, body);
    }
    let handed = rig.pull(place);
    assert_eq!(bodies_of(&handed), ["a", "b", "c"]);
    (rig, place, handed)
}

#[test]
fn a_dead_letter_is_told_with_its_reason_and_not_handed_over_again() {
    let (mut rig, place, handed) = with_three(small());
    put_away(&mut rig, place, &handed[1], "no such order");
    rig.acknowledge(place, &[handed[0].delivery.offset.0, handed[2].delivery.offset.0]);
    assert_eq!(rig.drain("s", "g"), Vec::<String>::new());
    for end in [End::Kill, End::PowerCutLosesAll] {
        rig.checkpoint();
        rig.reopen(end);
        let dead = dead_letters(&mut rig);
        assert_eq!((dead.len(), dead[0].reason.as_deref()), (1, Some("no such order")));
        assert_eq!((dead[0].body.as_slice(), dead[0].entry.attempt()), (b"b".as_slice(), 1));
    }
    // The message is finished for its group: nothing but the dead letter holds it.
    let subject = rig.node().subject_number("s").unwrap();
    assert_eq!(rig.node().owner().state().dispatch.finished_below(subject).0, 3);
    rig.compare_with_log();
}

#[test]
fn a_dead_letter_is_ready_at_once_also_while_dispatch_is_held() {
    let (mut rig, place, handed) = with_three(small());
    rig.clock.step_ahead(60_000);
    rig.step();
    assert!(rig.node().reading().held);
    put_away(&mut rig, place, &handed[0], "held");
    assert_eq!(reasons_of(&mut rig), ["held"]);
}

#[test]
fn a_reason_outlives_everything_else_of_its_segment() {
    let (mut rig, place, handed) = with_three(lean());
    put_away(&mut rig, place, &handed[0], "early");
    rig.acknowledge(place, &[handed[1].delivery.offset.0, handed[2].delivery.offset.0]);
    let fill = |rig: &mut Rig| {
        for number in 0..40 {
            rig.publish("s", 0, &format!("{number:->200}"));
            rig.take_all(place);
            if number % 10 == 9 {
                rig.clock.advance(1);
                rig.checkpoint();
            }
        }
    };
    fill(&mut rig);
    let held = segments(&rig);
    assert_eq!(reasons_of(&mut rig), ["early"]);
    rig.reopen(End::PowerCutLosesAll);
    assert_eq!(reasons_of(&mut rig), ["early"]);
    // Once it is brought back and done with, the log goes.
    let dead = dead_letters(&mut rig);
    assert_eq!(bring_back(&mut rig, &dead), [Some(Outcome::Done)]);
    let retries = rig.earliest("%RETRY%s%g", "g");
    assert_eq!(rig.take_all(retries), ["a"]);
    for _ in 0..4 {
        rig.clock.advance(1);
        rig.publish("t", 0, "more");
        rig.drain("t", "g");
        rig.checkpoint();
    }
    assert!(segments(&rig) < held / 2, "{} of {held}", segments(&rig));
}

/// The payload of what died was copied into a run, so that only its reason is in the log.
#[test]
fn a_reason_is_held_also_where_the_payload_lies_in_a_run() {
    let mut rig = Rig::new(lean());
    let place = rig.earliest("s", "g");
    rig.publish("s", 50_000, "far");
    for _ in 0..3 {
        rig.clock.advance(1);
        rig.publish("t", 0, "other");
        rig.checkpoint();
    }
    rig.pass(60_000);
    let handed = rig.pull(place);
    assert!(handed[0].delivery.entry.location().segment().is_none(), "{:?}", handed[0].delivery.entry);
    put_away(&mut rig, place, &handed[0], "far gone");
    let others = rig.earliest("t", "g");
    for number in 0..60 {
        rig.publish("t", 0, &format!("{number:->200}"));
        rig.take_all(others);
        if number % 10 == 9 {
            rig.clock.advance(1);
            rig.checkpoint();
        }
    }
    rig.reopen(End::PowerCut);
    let dead = dead_letters(&mut rig);
    assert_eq!((dead[0].reason.as_deref(), dead[0].body.as_slice()), (Some("far gone"), b"far".as_slice()));
}

#[test]
fn what_is_brought_back_counts_its_deliveries_from_one_and_comes_once() {
    let (mut rig, place, handed) = with_three(small());
    put_away(&mut rig, place, &handed[0], "first");
    put_away(&mut rig, place, &handed[2], "third");
    rig.acknowledge(place, &[handed[1].delivery.offset.0]);
    let dead = dead_letters(&mut rig);
    assert_eq!(bring_back(&mut rig, &dead), [Some(Outcome::Done); 2]);
    // Who has seen the same dead letters asks as well: they are moved already.
    assert_eq!(bring_back(&mut rig, &dead), [Some(Outcome::NotFound); 2]);
    assert_eq!(dead_letters(&mut rig), Vec::new());
    rig.reopen(End::PowerCutLosesAll);
    let retries = rig.earliest("%RETRY%s%g", "g");
    let again = rig.pull(retries);
    assert_eq!(bodies_of(&again), ["a", "c"]);
    assert!(again.iter().all(|one| one.delivery.entry.attempt() == 1));
    // It may die again, and is told with its new reason.
    put_away(&mut rig, retries, &again[1], "again");
    rig.checkpoint();
    rig.reopen(End::Kill);
    assert_eq!(reasons_of(&mut rig), ["again"]);
    rig.compare_with_log();
}

#[test]
fn a_machine_that_ends_while_dead_letters_are_brought_back_loses_and_doubles_none() {
    for calls in 0..30 {
        let (mut rig, place, handed) = with_three(small());
        for one in &handed {
            put_away(&mut rig, place, one, "dead");
        }
        let dead = dead_letters(&mut rig);
        let queue = rig.node().dead_letter_queue("s", "g").unwrap();
        rig.disk.storage().stop_after_calls(calls);
        let stopped = rig.node().redrive(NAMES, queue.group, &dead).is_err();
        let _ended = stopped || rig.try_settle().is_err();
        rig.reopen(End::PowerCut);
        let left = dead_letters(&mut rig);
        if !left.is_empty() {
            bring_back(&mut rig, &left);
        }
        let retries = rig.earliest("%RETRY%s%g", "g");
        let mut taken = rig.take_all(retries);
        taken.sort();
        assert_eq!(taken, ["a", "b", "c"], "{calls}");
    }
}

fn expire(rig: &mut Rig, due_before: Millis) -> u64 {
    let subject = rig.node().subject_number("s").unwrap();
    let Some(asked) = rig.node().expire(subject, due_before).unwrap() else { return 0 };
    rig.settle();
    match rig.node().take_outcome(asked.fact) {
        Some(Outcome::Expired(count)) => count,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_expiry_takes_what_is_ready_and_old_and_nothing_that_waits_or_is_held() {
    let mut rig = Rig::new(small());
    rig.in_flight_max = 1;
    let (fast, slow) = (rig.earliest("s", "fast"), rig.earliest("s", "slow"));
    for body in ["a", "b", "c"] {
        rig.publish("s", 0, body);
    }
    rig.publish("s", 5_000, "waits");
    assert_eq!(rig.take_all(fast), ["a", "b", "c"]);
    let held = rig.pull(slow);
    assert_eq!(bodies_of(&held), ["a"]);
    rig.pass(1_000);
    rig.publish("s", 0, "new");
    rig.checkpoint();
    let before = crate::rig::START.plus(500);
    assert_eq!(expire(&mut rig, before), 2, "b and c, which the slow group did not take");
    assert_eq!(expire(&mut rig, before), 0);
    // What it holds stays its own.
    rig.node().end_consumer(slow.0, slow.1, 0).unwrap();
    rig.settle();
    rig.reopen(End::PowerCutLosesAll);
    let late = rig.earliest("s", "late");
    rig.pass(10_000);
    assert_eq!(rig.take_all(late), ["new", "waits"], "a group that comes later gets nothing that expired");
    let slow = rig.earliest("s", "slow");
    assert_eq!(rig.take_all(slow), ["a", "new", "waits"]);
    rig.compare_with_log();
}

#[test]
fn an_expiry_frees_what_a_subject_without_a_group_keeps() {
    let mut rig = Rig::new(lean());
    for number in 0..60 {
        rig.publish("s", 0, &format!("{number:->200}"));
    }
    for _ in 0..3 {
        rig.checkpoint();
    }
    let before = segments(&rig);
    rig.pass(1_000);
    assert_eq!(expire(&mut rig, crate::rig::START.plus(1)), 60);
    for _ in 0..4 {
        rig.clock.advance(1);
        rig.publish("t", 0, "more");
        rig.drain("t", "g");
        rig.checkpoint();
    }
    assert!(segments(&rig) < before / 2, "{} of {before}", segments(&rig));
    assert_eq!(rig.drain("s", "g"), Vec::<String>::new());
}

fn change(rig: &mut Rig, fact: Option<delaymq_core::units::Sequence>) -> Outcome {
    rig.settle();
    rig.node().take_outcome(fact.unwrap()).unwrap()
}

fn reset(rig: &mut Rig, group: GroupNumber, start: StartAt) -> Outcome {
    let fact = rig.node().reset_group(group, start).unwrap();
    change(rig, fact)
}

fn remove(rig: &mut Rig, group: GroupNumber) -> Outcome {
    let fact = rig.node().remove_group(group).unwrap();
    change(rig, fact)
}

#[test]
fn a_group_that_somebody_consumes_for_is_neither_reset_nor_removed() {
    let (mut rig, place, handed) = with_three(small());
    let before = rig.node().owner().state().groups.clone();
    assert_eq!(reset(&mut rig, place.0, StartAt::Unfinished), Outcome::HasConsumers(1));
    assert_eq!(remove(&mut rig, place.0), Outcome::HasConsumers(1));
    assert_eq!(rig.node().owner().state().groups, before);
    // Nor while somebody consumes only what it gave back.
    rig.give_back(NAMES, place, &handed[0], 0);
    let retries = rig.earliest("%RETRY%s%g", "g");
    rig.node().end_consumer(place.0, place.1, 0).unwrap();
    rig.settle();
    assert_eq!(remove(&mut rig, place.0), Outcome::HasConsumers(1));
    rig.node().end_consumer(retries.0, retries.1, 0).unwrap();
    rig.settle();
    assert_eq!(remove(&mut rig, place.0), Outcome::Done);
    assert_eq!(remove(&mut rig, place.0), Outcome::NotFound);
    assert_eq!(reset(&mut rig, place.0, StartAt::Latest), Outcome::NotFound);
}

#[test]
fn a_group_that_is_reset_to_the_earliest_gets_what_is_kept_again_marked_under_new_offsets() {
    let mut rig = Rig::new(small());
    let other = rig.group("s", "other", StartAt::Unfinished);
    let place = rig.earliest("s", "g");
    for body in ["a", "b", "c"] {
        rig.publish("s", 0, body);
    }
    let first = rig.pull(place);
    let old: Vec<u64> = first.iter().map(|one| one.delivery.offset.0).collect();
    rig.acknowledge(place, &old);
    rig.node().end_consumer(place.0, place.1, 0).unwrap();
    rig.settle();
    let Outcome::Group(again) = reset(&mut rig, place.0, StartAt::Unfinished) else { panic!("not reset") };
    rig.reopen(End::PowerCutLosesAll);
    let consumer = rig.consumer(again, "c");
    let second = rig.pull((again, consumer));
    assert_eq!(bodies_of(&second), ["a", "b", "c"]);
    assert!(second.iter().all(|one| one.delivery.is_redelivered() && !old.contains(&one.delivery.offset.0)));
    // What the old consumer says completes nothing.
    rig.acknowledge(place, &old);
    assert_eq!(rig.node().owner().state().groups[&again].in_flight(), 3);
    assert!(rig.node().owner().state().groups.contains_key(&other));
    rig.compare_with_log();
}

#[test]
fn a_group_that_is_reset_starts_at_its_own_earliest_and_never_below_the_floor() {
    let mut rig = Rig::new(lean());
    let place = rig.earliest("s", "g");
    for number in 0..60 {
        rig.publish("s", 0, &format!("{number:->200}"));
        rig.take_all(place);
    }
    rig.publish("s", 0, "unfinished");
    rig.node().end_consumer(place.0, place.1, 0).unwrap();
    rig.settle();
    // Its fact is on its way while the floor rises.
    let fact = rig.node().reset_group(place.0, StartAt::Unfinished).unwrap();
    for _ in 0..4 {
        rig.clock.advance(1);
        rig.checkpoint();
    }
    let Outcome::Group(again) = change(&mut rig, fact) else { panic!("not reset") };
    rig.reopen(End::PowerCutLosesAll);
    let consumer = rig.consumer(again, "c");
    assert_eq!(rig.take_all((again, consumer)), ["unfinished"]);
    rig.node().end_consumer(again, consumer, 0).unwrap();
    rig.publish("s", 0, "passed over");
    let Outcome::Group(latest) = reset(&mut rig, again, StartAt::Latest) else { panic!("not reset") };
    let consumer = rig.consumer(latest, "c");
    rig.publish("s", 0, "next");
    assert_eq!(rig.take_all((latest, consumer)), ["next"]);
}

#[test]
fn a_removed_group_leaves_nothing_behind_and_a_re_made_one_gets_nothing_of_it() {
    let (mut rig, place, handed) = with_three(lean());
    rig.give_back(NAMES, place, &handed[0], 0);
    rig.give_back(NAMES, place, &handed[1], 5_000);
    put_away(&mut rig, place, &handed[2], "dead");
    rig.node().end_consumer(place.0, place.1, 0).unwrap();
    rig.checkpoint();
    assert_eq!(remove(&mut rig, place.0), Outcome::Done);
    assert!(rig.node().owner().state().groups.is_empty());
    assert_eq!(rig.node().owner().state().dispatch.unfinished(), 0);
    rig.reopen(End::PowerCutLosesAll);
    // The group is made again, and gives something back, before the old one's time has come.
    let place = rig.earliest("s", "g");
    rig.publish("s", 0, "new");
    let new = rig.pull(place);
    assert_eq!(bodies_of(&new), ["new"]);
    rig.give_back(NAMES, place, &new[0], 0);
    let retries = rig.earliest("%RETRY%s%g", "g");
    rig.pass(10_000);
    assert_eq!(rig.take_all(retries), ["new"], "what the removed group gave back is nobody's");
    assert_eq!(rig.node().owner().state().dispatch.unfinished(), 0);
    assert_eq!(dead_letters(&mut rig), Vec::new());
    let held = segments(&rig);
    for _ in 0..4 {
        rig.clock.advance(1);
        rig.publish("t", 0, "more");
        rig.drain("t", "g");
        rig.checkpoint();
    }
    assert!(segments(&rig) <= held.min(4), "{} of {held}", segments(&rig));
}

/// Found once: it was a group of its retry subject whose start was above what it gave back.
#[test]
fn a_re_made_group_finishes_what_it_gives_back() {
    for how in [Outcome::Done, Outcome::NotFound] {
        let (mut rig, place, handed) = with_three(small());
        rig.give_back(NAMES, place, &handed[0], 0);
        rig.node().end_consumer(place.0, place.1, 0).unwrap();
        rig.settle();
        if how == Outcome::Done {
            remove(&mut rig, place.0);
        } else {
            rig.node().end_group(place.0, 0).unwrap();
            rig.settle();
        }
        let place = rig.earliest("s", "g");
        let again = rig.pull(place);
        assert_eq!(bodies_of(&again), ["b", "c"]);
        rig.give_back(NAMES, place, &again[0], 0);
        let retries = rig.earliest("%RETRY%s%g", "g");
        let expected = if how == Outcome::Done { vec!["b"] } else { vec!["a", "b"] };
        assert_eq!(rig.take_all(retries), expected, "{how:?}");
        let subject = rig.node().subject_number("%RETRY%s%g").unwrap();
        let dispatch = &rig.node().owner().state().dispatch;
        assert_eq!(dispatch.finished_below(subject), dispatch.next_number(subject));
    }
}

/// Found once: the group whose message is given up may be waiting for the next one.
#[test]
fn a_void_wakes_the_groups_of_the_subject() {
    let mut rig = Rig::new(small());
    let (first, second) = (rig.earliest("s", "g"), rig.earliest("s", "other"));
    rig.publish("s", 0, "damaged");
    rig.node().take_woken();
    let subject = rig.node().subject_number("s").unwrap();
    rig.node().void_ready(subject, delaymq_core::units::ReadyNumber(0)).unwrap();
    rig.settle();
    let woken = rig.node().take_woken();
    assert!(woken.contains(&first.0) && woken.contains(&second.0), "{woken:?}");
    assert_eq!(rig.pull(first), Vec::new());
}

/// An earlier design gave such a message up although the log was kept.
#[test]
fn a_pending_retry_whose_run_block_is_damaged_is_rebuilt_from_the_log() {
    let (mut rig, place, handed) = with_three(small());
    for (one, delay) in handed.iter().zip([3_000, 4_000, 9_000]) {
        rig.give_back(NAMES, place, one, delay);
    }
    put_back_from_the_dead(&mut rig, place);
    rig.checkpoint();
    // The schedule run has the higher number of the two.
    let run = rig.newest("runs/");
    rig.end(End::Kill);
    rig.disk.storage().damage(&run, 4_096 + 40, 1);
    rig.try_open().unwrap();
    rig.pass(20_000);
    let rescues = rig.node().take_rescues();
    assert_eq!(rescues.iter().map(|rescue| (rescue.found, rescue.lost.len())).collect::<Vec<_>>(), [(4, 0)]);
    let retries = rig.earliest("%RETRY%s%g", "g");
    let again = rig.pull(retries);
    assert_eq!(bodies_of(&again), ["d", "a", "b", "c"]);
    let attempts: Vec<u16> = again.iter().map(|one| one.delivery.entry.attempt()).collect();
    assert_eq!(attempts, [1, 2, 2, 2]);
    rig.compare_with_log();
}

/// A message `d` dies and is brought back while dispatch is held, so that it waits.
fn put_back_from_the_dead(rig: &mut Rig, place: crate::rig::Place) {
    rig.publish("s", 0, "d");
    let handed = rig.pull(place);
    put_away(rig, place, handed.first().unwrap(), "for now");
    let dead = dead_letters(rig);
    rig.clock.step_ahead(60_000);
    rig.step();
    assert!(rig.node().reading().held);
    assert_eq!(bring_back(rig, &dead), [Some(Outcome::Done)]);
}

/// Store and replica judge by the same `apply`, so a mistake there is no difference between them.
#[test]
fn a_wrong_judgement_that_store_and_replica_share_is_seen_by_the_ledger() {
    for fault in [None, Some(Planted::RedriveUnjudged)] {
        let _plant = Plant::new(fault);
        let (mut rig, place, handed) = with_three(small());
        put_away(&mut rig, place, &handed[0], "again and again");
        let dead = dead_letters(&mut rig);
        bring_back(&mut rig, &dead);
        bring_back(&mut rig, &dead);
        let found = rig.differences_from_log();
        assert_eq!(found.is_empty(), fault.is_none(), "{found:?}");
        assert!(found.iter().all(|what| what.contains("ledger")), "{found:?}");
    }
}

// With the fault planted that each of them is told for, these do not hold.

#[test]
fn a_dead_letter_that_is_dropped_is_seen() {
    sees(Planted::DeadLetterDropped, a_dead_letter_is_told_with_its_reason_and_not_handed_over_again);
}
