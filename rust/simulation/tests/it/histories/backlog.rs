//! Histories of many subjects, of many groups, and of ready messages that no consumer pulls.

use crate::rig::{Rig, lean};
use delaymq_core::store::OwnerOptions;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::NodeOptions;

const RECENT_MAX: usize = 40;

/// A machine that keeps few ready messages in memory, and all of the log in one segment.
fn lean_in_memory() -> NodeOptions {
    let owner = OwnerOptions { ready_entries_max: RECENT_MAX, ..lean().owner };
    NodeOptions { owner, segment_bytes: 4 << 20, ..lean() }
}

fn entries_in_memory(rig: &mut Rig) -> usize {
    rig.node().owner().state().dispatch.entries_in_memory()
}

fn body(subject: usize, number: usize) -> String {
    format!("{subject}-{number}")
}

#[test]
fn a_backlog_that_nobody_pulls_costs_no_memory_and_a_group_reads_it_from_its_start() {
    const SUBJECTS: usize = 4;
    const ROUNDS: usize = 8;
    const PER_ROUND: usize = 50;
    let mut rig = Rig::new(lean_in_memory());
    rig.in_flight_max = 64;
    for round in 0..ROUNDS {
        for number in 0..PER_ROUND {
            for subject in 0..SUBJECTS {
                rig.publish(&format!("s{subject}"), 0, &body(subject, round * PER_ROUND + number));
            }
        }
        assert!(entries_in_memory(&mut rig) >= SUBJECTS * PER_ROUND, "what is recent is in memory");
        rig.checkpoint();
        assert!(entries_in_memory(&mut rig) <= RECENT_MAX, "round {round}: {}", entries_in_memory(&mut rig));
    }
    rig.reopen(End::Kill);
    assert_eq!(entries_in_memory(&mut rig), 0);
    for subject in 0..SUBJECTS {
        let place = rig.earliest(&format!("s{subject}"), "g");
        let bodies = rig.take_all(place);
        let all: Vec<String> = (0..ROUNDS * PER_ROUND).map(|number| body(subject, number)).collect();
        assert_eq!(bodies, all);
        assert_eq!(rig.node().owner().loaded_postings(), 0, "what was handed out is let go");
    }
    rig.compare_with_log();
}

#[test]
fn consumers_of_one_group_share_what_was_loaded_and_load_nothing_twice() {
    const MESSAGES: usize = 300;
    let mut rig = Rig::new(lean_in_memory());
    for number in 0..MESSAGES {
        rig.publish("s", 0, &body(0, number));
    }
    rig.checkpoint();
    let first = rig.earliest("s", "g");
    let places = [first, (first.0, rig.consumer(first.0, "d"))];
    let mut found = Vec::new();
    for _ in 0..MESSAGES / rig.in_flight_max as usize {
        for place in places {
            let handed = rig.pull(place);
            let offsets: Vec<u64> = handed.iter().map(|one| one.delivery.offset.0).collect();
            found.extend(crate::rig::bodies_of(&handed));
            rig.acknowledge(place, &offsets);
        }
    }
    assert_eq!(found, (0..MESSAGES).map(|number| body(0, number)).collect::<Vec<_>>());
    assert_eq!(rig.node().loads(), 1);
}

#[test]
fn what_a_consumer_left_behind_is_loaded_again_and_no_more_than_that() {
    const MESSAGES: usize = 100;
    let mut rig = Rig::new(lean_in_memory());
    for number in 0..MESSAGES {
        rig.publish("s", 0, &body(0, number));
    }
    rig.checkpoint();
    let place = rig.earliest("s", "g");
    let held = rig.pull(place);
    let other = (place.0, rig.consumer(place.0, "d"));
    rig.take_all(other);
    assert_eq!(rig.node().owner().loaded_postings(), 0);
    rig.node().end_consumer(place.0, place.1, 0).unwrap();
    rig.settle();
    let place = (place.0, rig.consumer(place.0, "e"));
    let again = rig.pull(place);
    assert_eq!(crate::rig::bodies_of(&again), crate::rig::bodies_of(&held));
    assert_eq!(rig.node().owner().loaded_postings(), held.len());
}

#[test]
fn many_groups_of_one_subject_finish_together_what_the_last_of_them_finishes() {
    const GROUPS: usize = 60;
    let mut rig = Rig::new(lean_in_memory());
    let places: Vec<_> = (0..GROUPS).map(|group| rig.earliest("s", &format!("g{group}"))).collect();
    let subject = rig.node().subject_number("s").unwrap();
    rig.publish("s", 0, "a");
    rig.publish("s", 0, "b");
    for (turn, place) in places.iter().rev().enumerate() {
        assert_eq!(rig.node().owner().state().dispatch.finished_below(subject).0, 0, "turn {turn}");
        let handed = rig.pull(*place);
        assert_eq!(crate::rig::bodies_of(&handed), ["a", "b"]);
        rig.acknowledge(*place, &[0]);
    }
    assert_eq!(rig.node().owner().state().dispatch.finished_below(subject).0, 1);
    rig.compare_with_log();
}
