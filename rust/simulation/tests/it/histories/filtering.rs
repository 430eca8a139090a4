//! Histories of consumers with filters: messages are judged before they are assigned, and belong to nobody meanwhile.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use delaymq_core::planted::Planted;
use delaymq_core::store::{Candidate, JudgedPull, Offer, PullRequest, StartAt};
use delaymq_core::units::PullOffset;
use delaymq_simulation::disk::End;

use crate::rig::{Place, Rig, sees, small};

fn request(rig: &Rig, (group, consumer): Place, count_max: usize) -> PullRequest {
    PullRequest { group, consumer, count_max, in_flight_max: rig.in_flight_max, beside: 0 }
}

/// The ready messages, each with whether it passes: those whose body begins with `yes` do.
fn judged(rig: &mut Rig, place: Place) -> Vec<(Candidate, bool)> {
    let request = request(rig, place, 1_000);
    let Offer::Candidates(candidates) = rig.node().decide_offer(request).unwrap() else { return Vec::new() };
    let passes = |candidate: Candidate| {
        let entry = candidate.entry;
        let body = rig.node().read_payload(entry.location(), entry.payload_sequence()).unwrap().1;
        (candidate, body.starts_with(b"yes"))
    };
    candidates.into_iter().map(passes).collect()
}

fn take(rig: &mut Rig, place: Place, judged: &[(Candidate, bool)], count_max: usize) -> JudgedPull {
    let request = request(rig, place, count_max);
    rig.node().decide_judged(request, judged).unwrap().unwrap()
}

/// Judges and takes until nothing is ready: the offsets and numbers of what passed.
fn pull(rig: &mut Rig, place: Place) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for _ in 0..100 {
        let all = judged(rig, place);
        if all.is_empty() {
            return found;
        }
        let pulled = take(rig, place, &all, 1_000);
        found.extend(pulled.deliveries.iter().map(|one| (one.offset.0, one.number.0)));
        rig.settle();
    }
    panic!("it does not end: {found:?}");
}

fn publish(rig: &mut Rig, bodies: &[&str]) {
    for body in bodies {
        rig.publish("s", 0, body);
    }
}

/// A consumer that a client named, with room for all.
fn attached(rig: &mut Rig, name: &str) -> Place {
    rig.attach("s", "g", StartAt::Unfinished, name, 64)
}

fn two_consumers_judge_the_same() {
    let mut rig = Rig::new(small());
    rig.in_flight_max = 64;
    publish(&mut rig, &["no 0", "yes 1", "no 2", "yes 3", "no 4"]);
    let (one, two) = (attached(&mut rig, "one"), attached(&mut rig, "two"));
    let (first, second) = (judged(&mut rig, one), judged(&mut rig, two));
    assert_eq!(first, second, "until one of them takes them they belong to nobody");
    // The first takes one of those that pass; the second the rest of what it judged.
    let pulled = take(&mut rig, one, &first, 1);
    assert_eq!(pulled.deliveries.iter().map(|one| one.number.0).collect::<Vec<_>>(), [1]);
    assert_eq!((pulled.passed_over, pulled.is_held_up), (2, false));
    let pulled = take(&mut rig, two, &second, 10);
    let deliveries: Vec<_> = pulled.deliveries.iter().map(|one| (one.offset.0, one.number.0)).collect();
    assert_eq!((deliveries, pulled.passed_over), (vec![(0, 3)], 1));
    // Nothing of it is judged a third time, however late it is taken.
    let pulled = take(&mut rig, one, &first, 10);
    assert_eq!(pulled, JudgedPull::default());
    rig.settle();
    rig.compare_with_log();
    for place in [one, two] {
        let held = rig.node().everything_held(place).unwrap().unwrap().1;
        assert_eq!(held.len(), 1, "each holds what it was given");
        rig.acknowledge(place, &[0]);
    }
    let subject = rig.node().subject_number("s").unwrap();
    assert_eq!(rig.node().owner().state().dispatch.finished_below(subject).0, 5, "all is finished for the group");
}

#[test]
fn what_two_consumers_judge_is_given_to_one_of_them() {
    two_consumers_judge_the_same();
    sees(Planted::JudgedTwice, two_consumers_judge_the_same);
    sees(Planted::PassingPassedOver, two_consumers_judge_the_same);
    sees(Planted::FilteredAssigned, two_consumers_judge_the_same);
}

#[test]
fn offsets_are_dense_and_an_end_of_the_machine_loses_nothing() {
    for (end, survives) in [(End::PowerCutLosesAll, false), (End::Kill, true)] {
        let mut rig = Rig::new(small());
        rig.in_flight_max = 64;
        publish(&mut rig, &["no 0", "yes 1", "no 2"]);
        let place = attached(&mut rig, "one");
        let all = judged(&mut rig, place);
        let pulled = take(&mut rig, place, &all, 10);
        assert_eq!((pulled.deliveries[0].offset, pulled.passed_over), (PullOffset(0), 2));
        rig.node().write_batch().unwrap();
        rig.reopen(end);
        rig.compare_with_log();
        let place = attached(&mut rig, "one");
        let held = rig.node().everything_held(place).unwrap().unwrap().1;
        assert_eq!(held.len(), usize::from(survives), "{end:?}");
        publish(&mut rig, &["no 3", "yes 4"]);
        let found = pull(&mut rig, place);
        let numbers: Vec<u64> = found.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, if survives { vec![4] } else { vec![1, 4] }, "{end:?}");
        assert!(found.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1), "{found:?}");
        rig.compare_with_log();
    }
}

#[test]
fn a_message_that_was_given_back_and_does_not_pass_is_finished_without_a_retry() {
    let mut rig = Rig::new(small());
    rig.in_flight_max = 64;
    publish(&mut rig, &["no 0", "yes 1", "no 2"]);
    let without = attached(&mut rig, "without");
    assert_eq!(rig.pull(without).len(), 3);
    let group = without.0;
    rig.node().end_consumer(group, without.1, 0).unwrap();
    rig.settle();
    let place = attached(&mut rig, "with");
    let (first, late) = (judged(&mut rig, place), judged(&mut rig, place));
    let pulled = take(&mut rig, place, &first, 10);
    assert_eq!(pulled.passed_over, 2);
    assert!(pulled.deliveries[0].is_redelivered() && pulled.deliveries.len() == 1);
    assert_eq!(take(&mut rig, place, &late, 10), JudgedPull::default(), "before the fact is applied");
    rig.settle();
    assert_eq!(take(&mut rig, place, &late, 10), JudgedPull::default(), "and after it");
    rig.compare_with_log();
    rig.acknowledge(place, &[pulled.deliveries[0].offset.0]);
    let subject = rig.node().subject_number("s").unwrap();
    assert_eq!(rig.node().owner().state().dispatch.finished_below(subject).0, 3);
    assert_eq!(rig.node().subject_number("%RETRY%s%g"), None);
}

fn reserves_are_waited_for() {
    let mut rig = Rig::new(small());
    rig.in_flight_max = 2;
    let group = rig.group("s", "g", StartAt::Unfinished);
    let place = (group, rig.consumer(group, "c"));
    publish(&mut rig, &["no 0", "no 1", "no 2", "yes 3", "no 4", "yes 5", "yes 6"]);
    let all = judged(&mut rig, place);
    let pulled = take(&mut rig, place, &all, 10);
    assert_eq!((pulled.deliveries.len(), pulled.passed_over, pulled.is_held_up), (0, 3, true));
    rig.settle();
    rig.compare_with_log();
    let all = judged(&mut rig, place);
    let pulled = take(&mut rig, place, &all, 10);
    let offsets: Vec<_> = pulled.deliveries.iter().map(|one| (one.offset.0, one.number.0)).collect();
    assert_eq!((offsets, pulled.passed_over, pulled.is_held_up), (vec![(0, 3), (1, 5)], 1, true), "it may hold two");
    rig.settle();
    rig.acknowledge(place, &[0, 1]);
    assert_eq!(pull(&mut rig, place), [(2, 6)]);
    rig.compare_with_log();
}

#[test]
fn what_passes_waits_for_a_reserve_and_what_does_not_waits_for_none() {
    reserves_are_waited_for();
    sees(Planted::PassOverUncounted, reserves_are_waited_for);
}
