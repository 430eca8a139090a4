//! Histories of groups that read again what all groups have finished.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::rig::{Place, Rig, START, bodies_of, lean, sees, small};
use delaymq_core::planted::Planted;
use delaymq_core::store::{LoadRequest, Outcome, OwnerOptions, PullRequest, StartAt};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NodeOptions};

/// Finished messages are kept for two seconds.
fn two_seconds() -> NodeOptions {
    let owner = OwnerOptions { keep_finished_ms: 2_000, ..lean().owner };
    NodeOptions { owner, ..lean() }
}

fn begin_again(rig: &mut Rig, group: &str) -> Place {
    // What it took before may have filled the segment.
    rig.node().commit().unwrap();
    rig.node().prepare().unwrap();
    let group = rig.group("s", group, StartAt::Earliest);
    (group, rig.consumer(group, "again"))
}

fn after_restart(rig: &mut Rig, place: Place) -> Place {
    (place.0, rig.consumer(place.0, "after the restart"))
}

fn pass(rig: &mut Rig, ms: u64) {
    for _ in 0..4 {
        rig.pass(ms / 4);
        // A checkpoint without new facts frees nothing.
        rig.publish("ticks", 0, "tick");
        rig.checkpoint();
    }
}

#[test]
fn a_group_that_begins_at_the_earliest_gets_what_another_group_finishes_meanwhile() {
    let mut rig = Rig::new(small());
    let first = rig.earliest("s", "first");
    rig.publish("s", 0, "finished meanwhile");
    rig.step();
    let handed = rig.pull(first);
    assert_eq!(bodies_of(&handed), ["finished meanwhile"]);
    // The acknowledgement comes first in the log, and the start is decided before it is applied.
    rig.node().acknowledge(first.0, first.1, &[handed[0].delivery.offset.0], 0).unwrap();
    let group = rig.group("s", "second", StartAt::Earliest);
    let second = (group, rig.consumer(group, "c"));
    assert_eq!(rig.take_all(second), ["finished meanwhile"]);
}

#[test]
fn a_new_group_reads_again_what_all_groups_have_finished() {
    let mut rig = Rig::new(small());
    let first = rig.earliest("s", "first");
    let mut bodies = Vec::new();
    for number in 0..40 {
        let receipt = rig.publish("s", if number % 3 == 0 { 5 } else { 0 }, &number.to_string());
        match number % 12 {
            0 => drop(rig.cancel(&receipt)),
            3 => drop(rig.moved(&receipt, Due::After(9))),
            _ => {}
        }
        if number % 12 > 0 {
            bodies.push(number.to_string());
        }
        if number % 7 == 0 {
            rig.clock.advance(4);
            rig.checkpoint();
        }
        rig.take_all(first);
    }
    rig.clock.advance(100);
    rig.take_all(first);
    bodies.sort_unstable();
    for end in [End::Kill, End::PowerCutLosesAll] {
        rig.checkpoint();
        rig.reopen(end);
        let second = begin_again(&mut rig, &format!("{end:?}"));
        let mut found = rig.take_all(second);
        found.sort_unstable();
        assert_eq!(found, bodies);
    }
    rig.compare_with_log();
}

#[test]
fn a_group_that_reads_again_holds_what_it_has_not_read() {
    let mut rig = Rig::new(two_seconds());
    let first = rig.earliest("s", "first");
    for number in 0..40 {
        rig.publish("s", 0, &format!("{number:->200}"));
    }
    assert_eq!(rig.take_all(first).len(), 40);
    let second = begin_again(&mut rig, "second");
    // A new segment begins: the log's last one never goes, whatever its age.
    rig.reopen(End::Kill);
    pass(&mut rig, 20_000);
    rig.publish("s", 0, "later");
    rig.reopen(End::PowerCutLosesAll);
    let second = after_restart(&mut rig, second);
    assert_eq!(rig.take_all(second).len(), 41);
    // What it has read is not held any more.
    let first = after_restart(&mut rig, first);
    assert_eq!(rig.take_all(first), ["later"]);
    pass(&mut rig, 20_000);
    let third = begin_again(&mut rig, "third");
    assert!(rig.take_all(third).is_empty());
}

#[test]
fn a_message_that_became_ready_lately_is_read_again_although_its_file_is_old() {
    let mut rig = Rig::new(two_seconds());
    let first = rig.earliest("s", "first");
    for number in 0..40 {
        rig.publish("s", 10_000, &format!("{number:->200}"));
    }
    rig.reopen(End::Kill);
    let first = after_restart(&mut rig, first);
    pass(&mut rig, 9_000);
    rig.pass(2_000);
    assert_eq!(rig.take_all(first).len(), 40);
    pass(&mut rig, 1_000);
    let second = begin_again(&mut rig, "second");
    assert_eq!(rig.take_all(second).len(), 40);
}

#[test]
fn an_index_of_the_log_is_not_made_again_for_each_piece_that_a_group_reads() {
    let segment_bytes = 64 << 20;
    let mut rig = Rig::new(NodeOptions { segment_bytes, opening_bytes: segment_bytes, ..small() });
    rig.in_flight_max = 300;
    let first = rig.earliest("s", "first");
    // They become ready some time after they were published: their payloads are found by an index.
    for number in 0..24_000_u32 {
        rig.publish("s", 100, &format!("{number:->1000}"));
        if number % 100 == 99 {
            rig.pass(10);
        }
    }
    rig.pass(1_000);
    let bytes_read = |rig: &Rig| rig.disk.storage().counts().bytes_read();
    let before = bytes_read(&rig);
    assert_eq!(rig.take_all(first).len(), 24_000);
    let at_first = bytes_read(&rig) - before;
    let log_bytes = 24_000 * 1_000;
    let second = begin_again(&mut rig, "second");
    let before = bytes_read(&rig);
    assert_eq!(rig.take_all(second).len(), 24_000);
    // The payloads are read in both cases. Five times the log would be read if each of six pieces made an index.
    let more = (bytes_read(&rig) - before).saturating_sub(at_first);
    assert!(more < 4 * log_bytes, "{more} bytes more were read of a log of {log_bytes}");
}

#[test]
fn what_was_expired_is_not_read_again() {
    let mut rig = Rig::new(small());
    let first = rig.earliest("s", "first");
    // One that was finished before: a start behind all that is gone would not show what a group reads again.
    rig.publish("s", 0, "finished");
    assert_eq!(rig.take_all(first), ["finished"]);
    for body in ["old", "older"] {
        rig.publish("s", 0, body);
    }
    rig.clock.advance(1_000);
    let subject = rig.node().subject_number("s").unwrap();
    rig.node().expire(subject, START.plus(500)).unwrap().unwrap();
    rig.settle();
    rig.publish("s", 0, "new");
    assert_eq!(rig.take_all(first), ["new"]);
    for _ in 0..2 {
        rig.checkpoint();
    }
    rig.reopen(End::PowerCut);
    let second = begin_again(&mut rig, "second");
    assert_eq!(rig.take_all(second), ["finished", "new"]);
}

#[test]
fn delayed_messages_are_read_again_from_the_segments_they_were_published_in() {
    let mut rig = Rig::new(small());
    let first = rig.earliest("s", "first");
    let mut bodies = Vec::new();
    // No checkpoint: each entry is in the log alone, some segments before it became ready.
    for number in 0..120 {
        let body = format!("{number:->200}");
        let receipt = rig.publish("s", 40 + number * 7 % 60, &body);
        match number % 9 {
            2 => drop(rig.cancel(&receipt)),
            4 => {
                let moved = rig.moved(&receipt, Due::After(90));
                if number % 2 == 0 {
                    rig.moved(&moved, Due::After(70));
                }
            }
            5 => drop(rig.moved(&receipt, Due::After(0))),
            _ => {}
        }
        if number % 9 != 2 {
            bodies.push(body);
        }
        rig.pass(1);
        rig.take_all(first);
    }
    rig.pass(200);
    rig.take_all(first);
    bodies.sort_unstable();
    assert!(rig.node().owner().state().segments.len() > 3);
    for end in [End::Kill, End::PowerCutLosesAll] {
        rig.reopen(end);
        let second = begin_again(&mut rig, &format!("{end:?}"));
        let mut found = rig.take_all(second);
        found.sort_unstable();
        assert_eq!(found, bodies);
        rig.checkpoint();
    }
    rig.compare_with_log();
}

#[test]
fn a_group_that_is_reset_reads_again_marked_and_its_attempts_begin_anew() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("s", "g");
    for body in ["a", "b", "c"] {
        rig.publish("s", 0, body);
    }
    assert_eq!(rig.take_all(place), ["a", "b", "c"]);
    rig.node().end_consumer(place.0, place.1, 0).unwrap();
    rig.settle();
    let fact = rig.node().reset_group(place.0, StartAt::Earliest).unwrap().unwrap();
    rig.settle();
    let Some(Outcome::Group(again)) = rig.node().take_outcome(fact) else { panic!("not reset") };
    rig.checkpoint();
    rig.reopen(End::PowerCutLosesAll);
    let consumer = rig.consumer(again, "c");
    let handed = rig.pull((again, consumer));
    assert_eq!(bodies_of(&handed), ["a", "b", "c"]);
    assert!(handed.iter().all(|one| one.delivery.is_redelivered() && one.delivery.attempt == 1));
    // A message that is given back comes again, for the second time.
    rig.give_back(("s", "g"), (again, consumer), &handed[1], 0);
    rig.acknowledge((again, consumer), &[handed[0].delivery.offset.0, handed[2].delivery.offset.0]);
    let retries = rig.earliest("%RETRY%s%g", "g");
    let retried = rig.pull(retries);
    assert_eq!(bodies_of(&retried), ["b"]);
    assert_eq!(retried[0].delivery.attempt, 2);
    rig.compare_with_log();
}

fn asked_load(rig: &mut Rig, (group, consumer): Place) -> LoadRequest {
    let request = PullRequest { group, consumer, count_max: 10, in_flight_max: 10, beside: 0 };
    // Nothing is reserved at first.
    (0..2)
        .find_map(|_| {
            let load = rig.node().asked_load(request).unwrap();
            rig.settle();
            load
        })
        .unwrap()
}

#[test]
fn a_load_that_comes_too_late_is_not_kept() {
    let mut rig = Rig::new(small());
    let first = rig.earliest("s", "first");
    for number in 0..40 {
        rig.publish("s", 0, &number.to_string());
    }
    rig.take_all(first);
    let (second, third) = (begin_again(&mut rig, "second"), begin_again(&mut rig, "third"));
    let loads = [second, third].map(|place| asked_load(&mut rig, place));
    // One has read the messages since, and one is gone.
    assert_eq!(rig.take_all(second).len(), 40);
    rig.node().end_consumer(third.0, third.1, 0).unwrap();
    rig.settle();
    rig.node().remove_group(third.0).unwrap().unwrap();
    rig.settle();
    let before = rig.node().owner().loaded_postings();
    for load in loads {
        assert_eq!(rig.node().loaded(load.read().unwrap()).unwrap(), []);
        assert_eq!(rig.node().owner().loaded_postings(), before);
    }
}

#[test]
fn a_message_that_is_not_found_again_is_seen() {
    sees(Planted::ReadAgainSkips, a_new_group_reads_again_what_all_groups_have_finished);
}

#[test]
fn a_floor_that_passes_a_group_that_reads_again_is_seen() {
    sees(Planted::ReadAgainHoldsNothing, a_group_that_reads_again_holds_what_it_has_not_read);
}

#[test]
fn a_file_that_goes_before_its_messages_are_old_is_seen() {
    sees(Planted::ReadyHoldsNothing, a_message_that_became_ready_lately_is_read_again_although_its_file_is_old);
}

#[test]
fn an_expired_message_that_is_read_again_is_seen() {
    sees(Planted::GoneReadAgain, what_was_expired_is_not_read_again);
}
