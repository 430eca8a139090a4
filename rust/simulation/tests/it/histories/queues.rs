//! Histories of queues and of the feed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use crate::rig::{Rig, bodies_of, keeping, lean, os, sees, small};
use delaymq_core::planted::Planted;
use delaymq_core::store::StartAt;
use delaymq_core::units::{PullOffset, ReadyNumber};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Pulled, is_stopped};

/// A consumer holds messages whose assignment was appended and never synced; then the power fails.
fn with_a_lost_assignment(os_mode: bool) -> (Rig, Vec<u64>) {
    let mut options = keeping();
    options.durability = if os_mode { os().durability } else { options.durability };
    let mut rig = Rig::new(options);
    let place = rig.earliest("s", "g");
    for body in ["a", "b", "c"] {
        rig.publish("s", 0, body);
    }
    assert_eq!(rig.pull_once(place), Pulled::Wait, "nothing is reserved yet");
    rig.settle();
    let Pulled::Messages(handed, ..) = rig.pull_once(place) else { panic!("nothing came") };
    assert_eq!(bodies_of(&handed), ["a", "b", "c"]);
    let offsets = handed.iter().map(|one| one.delivery.offset.0).collect();
    rig.node().write_batch().unwrap();
    rig.reopen(End::PowerCutLosesAll);
    (rig, offsets)
}

#[test]
fn an_acknowledgement_for_offsets_whose_assignment_was_lost_completes_nothing() {
    for os_mode in [false, true] {
        let (mut rig, void) = with_a_lost_assignment(os_mode);
        let place = rig.earliest("s", "g");
        rig.acknowledge(place, &void);
        let handed = rig.pull(place);
        assert_eq!(bodies_of(&handed), ["a", "b", "c"], "os {os_mode}");
        assert!(handed.iter().all(|one| one.delivery.is_redelivered()), "and each is marked");
        let again: Vec<u64> = handed.iter().map(|one| one.delivery.offset.0).collect();
        assert!(again.iter().all(|offset| !void.contains(offset)), "{again:?} {void:?}");
        rig.acknowledge(place, &void);
        rig.acknowledge(place, &again[..1]);
        rig.reopen(End::PowerCutLosesAll);
        let place = rig.earliest("s", "g");
        let held: Vec<String> = bodies_of(&rig.node().hand_again(place.0, place.1).unwrap().0);
        assert_eq!(held, ["b", "c"]);
    }
}

#[test]
fn a_pull_hands_out_only_what_was_reserved_durably_also_under_os() {
    let mut rig = Rig::new(os());
    let place = rig.earliest("s", "g");
    rig.publish("s", 0, "a");
    assert_eq!(rig.pull_once(place), Pulled::Wait);
    // Written, and not synced: the reserve counts for nothing yet.
    rig.node().write_batch().unwrap();
    rig.node().apply(usize::MAX).unwrap();
    assert_eq!(rig.pull_once(place), Pulled::Wait);
    rig.node().sync().unwrap();
    rig.node().apply(usize::MAX).unwrap();
    assert!(matches!(rig.pull_once(place), Pulled::Messages(..)));
}

#[test]
fn a_groups_first_pull_is_held_and_then_the_machine_ends() {
    for calls in 0..40 {
        let mut rig = Rig::new(small());
        rig.publish("s", 0, "a");
        let place = rig.earliest("s", "g");
        rig.disk.storage().stop_after_calls(calls);
        let request = delaymq_core::store::PullRequest {
            group: place.0,
            consumer: place.1,
            count_max: 10,
            in_flight_max: 8,
            beside: 0,
        };
        for _ in 0..2 {
            let stopped = rig.node().pull(request, 0).is_err_and(|error| is_stopped(&error));
            if stopped || rig.try_settle().is_err() {
                break;
            }
        }
        rig.reopen(End::PowerCut);
        let place = (place.0, rig.consumer(place.0, "c"));
        assert_eq!(rig.take_all(place), ["a"], "{calls}");
        rig.compare_with_log();
    }
}

/// Ways in which a group's first pull comes to nothing.
fn hold_a_first_pull(subject_is_used: bool) -> (Rig, crate::rig::Place) {
    let mut rig = Rig::new(small());
    if subject_is_used {
        rig.publish("s", 0, "before it began");
    }
    let group = rig.group("s", "g", StartAt::Latest);
    let place = (group, rig.consumer(group, "c"));
    (rig, place)
}

#[test]
fn a_group_that_begins_at_latest_gets_what_comes_after_its_first_held_pull_and_a_crash() {
    for (subject_is_used, saves) in [(false, false), (false, true), (true, false), (true, true)] {
        for end in [End::Kill, End::PowerCut, End::PowerCutLosesAll] {
            let (mut rig, place) = hold_a_first_pull(subject_is_used);
            for _ in 0..3 {
                assert_eq!(rig.pull_once(place), Pulled::Wait, "there is nothing for it");
                rig.settle();
            }
            if saves {
                rig.checkpoint();
            }
            rig.reopen(end);
            // Before anybody says again that the group is wanted, and from where.
            rig.publish("s", 0, "after");
            assert_eq!(rig.group("s", "g", StartAt::Latest), place.0, "it is the same life of the group");
            let place = (place.0, rig.consumer(place.0, "c"));
            assert_eq!(rig.take_all(place), ["after"], "{subject_is_used} {saves} {end:?}");
            rig.compare_with_log();
        }
    }
}

#[test]
fn a_group_that_begins_at_latest_gets_what_comes_after_a_stop_anywhere_in_its_first_pull() {
    let request = |place: crate::rig::Place| delaymq_core::store::PullRequest {
        group: place.0,
        consumer: place.1,
        count_max: 10,
        in_flight_max: 8,
        beside: 0,
    };
    for calls in 0..12 {
        let (mut rig, place) = hold_a_first_pull(true);
        rig.disk.storage().stop_after_calls(calls);
        for _ in 0..3 {
            match rig.node().pull(request(place), 0) {
                Ok(pulled) => assert_eq!(pulled, Pulled::Wait),
                Err(error) => assert!(is_stopped(&error), "{error}"),
            }
            if rig.try_settle().is_err() || rig.node().witness().is_err() {
                break;
            }
        }
        rig.reopen(End::PowerCut);
        rig.publish("s", 0, "after");
        let place = (place.0, rig.consumer(place.0, "c"));
        assert_eq!(rig.take_all(place), ["after"], "{calls}");
    }
}

#[test]
fn offsets_do_not_start_again_with_a_group_that_is_made_again() {
    for restart in [false, true] {
        let mut rig = Rig::new(small());
        let first = rig.earliest("s", "g");
        rig.publish("s", 0, "a");
        let old = rig.pull(first);
        rig.node().end_group(first.0, 0).unwrap();
        rig.settle();
        if restart {
            rig.checkpoint();
            rig.reopen(End::PowerCutLosesAll);
        }
        let second = rig.earliest("s", "g");
        assert_ne!(first.0, second.0);
        let new = rig.pull(second);
        assert_eq!(bodies_of(&new), ["a"]);
        assert!(new[0].delivery.offset > old[0].delivery.offset);
        // The old consumer, and the new one by the old offset.
        rig.acknowledge(first, &[old[0].delivery.offset.0]);
        rig.acknowledge(second, &[old[0].delivery.offset.0]);
        assert_eq!(rig.node().owner().state().groups[&second.0].done.below(), 0);
    }
}

#[test]
fn what_was_in_flight_comes_again_marked_and_what_was_not_comes_unmarked() {
    let mut rig = Rig::new(small());
    rig.in_flight_max = 2;
    let place = rig.earliest("s", "g");
    for body in ["a", "b", "c", "d", "e", "f"] {
        rig.publish("s", 0, body);
    }
    assert_eq!(rig.pull(place).len(), 2);
    rig.reopen(End::Kill);
    let place = (place.0, rig.consumer(place.0, "c"));
    let mut attempts = Vec::new();
    loop {
        let handed = rig.pull(place);
        if handed.is_empty() {
            break;
        }
        attempts.extend(handed.iter().map(|one| one.delivery.attempt));
        let offsets: Vec<u64> = handed.iter().map(|one| one.delivery.offset.0).collect();
        rig.acknowledge(place, &offsets);
    }
    assert_eq!(attempts.len(), 6);
    assert!(attempts[..2].iter().all(|attempt| *attempt == 2), "{attempts:?}");
    assert!(attempts[4..].iter().all(|attempt| *attempt == 1), "beyond what was reserved: {attempts:?}");
}

#[test]
fn the_first_retry_makes_the_group_one_of_its_retry_subject_from_the_start() {
    let mut rig = Rig::new(small());
    let group = rig.group("s", "g", StartAt::Latest);
    let place = (group, rig.consumer(group, "c"));
    rig.publish("s", 0, "m");
    let handed = rig.pull(place);
    rig.give_back(("s", "g"), place, &handed[0], 0);
    rig.reopen(End::Kill);
    let subject = rig.node().subject_number("%RETRY%s%g").unwrap();
    let retries = rig.node().owner().state().group_named(subject, "g").unwrap();
    let retries = (retries, rig.consumer(retries, "c"));
    assert_eq!(rig.take_all(retries), ["m"]);
}

#[test]
fn each_retry_counts_one_attempt_more() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("s", "g");
    rig.publish("s", 0, "m");
    let mut handed = rig.pull(place);
    rig.give_back(("s", "g"), place, &handed[0], 1);
    for attempt in 2..6 {
        rig.pass(1);
        if attempt == 4 {
            rig.checkpoint();
            rig.reopen(End::PowerCutLosesAll);
        }
        let retries = rig.earliest("%RETRY%s%g", "g");
        handed = rig.pull(retries);
        let counted = handed[0].delivery.attempt;
        // Numbers reserved before the restart carry the mark, although they were not handed over.
        assert!(counted == attempt || (attempt >= 4 && counted > attempt), "{counted} {attempt}");
        rig.give_back(("s", "g"), retries, &handed[0], 1);
    }
}

#[test]
fn numbers_below_a_start_count_as_acknowledged_so_retention_ends() {
    let mut rig = Rig::new(lean());
    for number in 0..60 {
        rig.publish("s", 0, &format!("{number:->200}"));
    }
    let segments = |rig: &Rig| rig.files().iter().filter(|path| path.starts_with("log/")).count();
    for _ in 0..3 {
        rig.checkpoint();
    }
    let before = segments(&rig);
    let group = rig.group("s", "g", StartAt::Latest);
    let place = (group, rig.consumer(group, "c"));
    for _ in 0..4 {
        rig.clock.advance(1);
        rig.publish("s", 0, "new");
        rig.checkpoint();
    }
    assert!(segments(&rig) < before, "{} of {before}", segments(&rig));
    assert_eq!(rig.take_all(place).len(), 4);
    rig.reopen(End::PowerCut);
}

#[test]
fn a_sleeping_group_holds_space_until_it_is_removed() {
    let mut rig = Rig::new(lean());
    let sleeping = rig.group("s", "sleeping", StartAt::Unfinished);
    let place = rig.earliest("s", "awake");
    let segments = |rig: &Rig| rig.files().iter().filter(|path| path.starts_with("log/")).count();
    for number in 0..60 {
        rig.publish("s", 0, &format!("{number:->200}"));
        rig.take_all(place);
    }
    for _ in 0..4 {
        rig.clock.advance(1);
        rig.publish("s", 0, "more");
        rig.take_all(place);
        rig.checkpoint();
    }
    let held = segments(&rig);
    assert!(held > 8, "{held}");
    rig.node().end_group(sleeping, 0).unwrap();
    rig.settle();
    for _ in 0..4 {
        rig.clock.advance(1);
        rig.publish("s", 0, "more");
        rig.take_all(place);
        rig.checkpoint();
    }
    assert!(segments(&rig) < held / 2, "{} of {held}", segments(&rig));
    rig.reopen(End::PowerCut);
}

#[test]
fn what_is_finished_stays_finished_when_the_last_group_goes() {
    let mut rig = Rig::new(lean());
    let place = rig.earliest("s", "g");
    for body in ["a", "b", "c"] {
        rig.publish("s", 0, body);
    }
    let handed = rig.pull(place);
    rig.acknowledge(place, &[handed[0].delivery.offset.0, handed[1].delivery.offset.0]);
    rig.node().end_group(place.0, 0).unwrap();
    rig.settle();
    for _ in 0..3 {
        rig.checkpoint();
    }
    rig.reopen(End::PowerCut);
    let place = rig.earliest("s", "g");
    assert_eq!(rig.take_all(place), ["c"]);
}

#[test]
fn a_new_group_starts_at_the_earliest_message_kept_and_never_below_the_floor() {
    let mut rig = Rig::new(lean());
    let place = rig.earliest("s", "first");
    for number in 0..40 {
        rig.publish("s", 0, &format!("{number:->200}"));
    }
    rig.take_all(place);
    rig.publish("s", 0, "unfinished");
    // Its fact is on its way while the floor rises.
    let fact = rig.node().subscribe("s", "second", StartAt::Unfinished).unwrap().unwrap();
    for _ in 0..3 {
        rig.checkpoint();
    }
    rig.settle();
    for _ in 0..3 {
        rig.clock.advance(1);
        rig.checkpoint();
    }
    assert!(rig.node().take_outcome(fact).is_some());
    rig.reopen(End::PowerCutLosesAll);
    let second = rig.earliest("s", "second");
    // Messages whose files are gone would be passed over, so the start itself is judged.
    assert_eq!(rig.node().owner().state().groups.get(&second.0).unwrap().start, ReadyNumber(40));
    assert_eq!(rig.take_all(second), ["unfinished"]);
}

#[test]
fn consumers_of_one_group_share_what_there_is() {
    let mut rig = Rig::new(small());
    rig.in_flight_max = 3;
    let group = rig.group("s", "g", StartAt::Unfinished);
    let first = (group, rig.consumer(group, "1"));
    let second = (group, rig.consumer(group, "2"));
    for number in 0..6 {
        rig.publish("s", 0, &number.to_string());
    }
    let (one, two) = (rig.pull(first), rig.pull(second));
    assert_eq!((bodies_of(&one).len(), bodies_of(&two).len()), (3, 3));
    assert_eq!(one[0].delivery.offset, PullOffset(0));
    assert_eq!(two[0].delivery.offset, PullOffset(0));
    assert!(rig.pull(first).is_empty(), "it holds all it may");
    rig.node().end_consumer(first.0, first.1, 0).unwrap();
    rig.settle();
    let offsets: Vec<u64> = two.iter().map(|one| one.delivery.offset.0).collect();
    rig.acknowledge(second, &offsets);
    let again = rig.pull(second);
    assert_eq!(bodies_of(&again), ["0", "1", "2"]);
    assert!(again.iter().all(|one| one.delivery.attempt == 2));
}

#[test]
fn an_arrival_below_the_feeds_position_is_handed_over_without_a_restart() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("s", "g");
    rig.publish("s", 100, "loaded");
    rig.step();
    for delay in [0, 1, 50, 99, 100, 101, 3_999, 4_000, 4_001] {
        rig.publish("s", delay, &format!("{delay}"));
    }
    rig.pass(4_001);
    let mut taken = rig.take_all(place);
    taken.sort();
    let mut all = vec!["0", "1", "100", "101", "3999", "4000", "4001", "50", "99", "loaded"];
    all.sort_unstable();
    assert_eq!(taken, all);
}

#[test]
fn the_feed_never_passes_what_it_has_not_handed_over() {
    let mut options = small();
    (options.owner.window_entries_max, options.owner.window_ms) = (2, 50);
    let mut rig = Rig::new(options);
    rig.in_flight_max = 100;
    let place = rig.earliest("s", "g");
    for number in 0..30 {
        rig.publish("s", 40 + number / 20, &format!("{number:02}"));
        if number % 7 == 0 {
            rig.checkpoint();
            rig.step();
        }
    }
    rig.pass(100);
    let expected: Vec<String> = (0..30).map(|number| format!("{number:02}")).collect();
    assert_eq!(rig.take_all(place), expected);
}

#[test]
fn nothing_is_handed_over_one_tick_early() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("s", "g");
    rig.publish("s", 10, "m");
    rig.pass(9);
    assert!(rig.pull(place).is_empty());
    // Not yet the whole millisecond.
    rig.clock.advance_ns(999_999);
    rig.step();
    assert!(rig.pull(place).is_empty());
    rig.clock.advance_ns(1);
    rig.step();
    assert_eq!(bodies_of(&rig.pull(place)), ["m"]);
}

#[test]
fn a_flood_below_the_feeds_position_does_not_grow_the_wheel_without_bound() {
    let mut options = small();
    options.owner.window_entries_max = 16;
    options.segment_bytes = 64 << 10;
    let mut rig = Rig::new(options);
    rig.in_flight_max = 1_000;
    rig.publish("s", 3_000, "loaded");
    rig.step();
    let place = rig.earliest("s", "g");
    for number in 0..300 {
        rig.publish("s", 1 + number % 2_000, &format!("{number}"));
        rig.step();
        assert!(rig.node().owner().window_entries() <= 32, "{}", rig.node().owner().window_entries());
    }
    rig.pass(5_000);
    assert_eq!(rig.take_all(place).len(), 301);
}

#[test]
fn a_long_hold_does_not_grow_the_wheel_without_bound() {
    let mut options = small();
    options.owner.window_entries_max = 16;
    options.segment_bytes = 64 << 10;
    let mut rig = Rig::new(options);
    rig.in_flight_max = 1_000;
    let place = rig.earliest("s", "g");
    rig.publish("s", 0, "floor");
    rig.publish("s", 3_000, "loaded");
    rig.step();
    rig.clock.step_ahead(60_000);
    rig.step();
    assert!(rig.node().reading().held);
    for number in 0..300 {
        rig.publish("s", number, &format!("{number}"));
        rig.step();
    }
    assert!(rig.node().owner().window_entries() <= 40, "{}", rig.node().owner().window_entries());
    rig.node().release_clock();
    rig.pass(5_000);
    assert_eq!(rig.take_all(place).len(), 302);
}

// With the fault planted that each of them is told for, these do not hold.

#[test]
fn a_reserve_that_is_not_void_after_a_crash_is_seen() {
    sees(Planted::ReserveNotVoid, an_acknowledgement_for_offsets_whose_assignment_was_lost_completes_nothing);
}

#[test]
fn a_reserve_that_is_not_synced_is_seen() {
    sees(Planted::ReserveUnsynced, a_pull_hands_out_only_what_was_reserved_durably_also_under_os);
}

#[test]
fn offsets_that_start_again_are_seen() {
    sees(Planted::OffsetsBeginAnew, offsets_do_not_start_again_with_a_group_that_is_made_again);
}

#[test]
fn a_redelivery_without_its_mark_is_seen() {
    sees(Planted::MarkForgotten, an_acknowledgement_for_offsets_whose_assignment_was_lost_completes_nothing);
}

#[test]
fn a_group_that_its_first_retry_does_not_make_is_seen() {
    sees(Planted::RetryGroupNotMade, the_first_retry_makes_the_group_one_of_its_retry_subject_from_the_start);
}

#[test]
fn a_start_that_holds_back_what_lies_below_it_is_seen() {
    sees(Planted::StartHoldsBack, numbers_below_a_start_count_as_acknowledged_so_retention_ends);
}

#[test]
fn a_start_below_the_floor_is_seen() {
    sees(Planted::StartBelowFloor, a_new_group_starts_at_the_earliest_message_kept_and_never_below_the_floor);
}

#[test]
fn an_arrival_that_is_left_to_the_feed_is_seen() {
    sees(Planted::FeedSkipsArrival, an_arrival_below_the_feeds_position_is_handed_over_without_a_restart);
}

#[test]
fn a_feed_that_passes_what_it_has_not_handed_over_is_seen() {
    sees(Planted::FeedPassesUnhanded, the_feed_never_passes_what_it_has_not_handed_over);
}

#[test]
fn one_tick_early_is_seen() {
    sees(Planted::OneTickEarly, nothing_is_handed_over_one_tick_early);
}

#[test]
fn a_wheel_that_grows_without_bound_is_seen() {
    sees(Planted::WheelUnbounded, a_flood_below_the_feeds_position_does_not_grow_the_wheel_without_bound);
}

#[test]
fn a_step_that_is_believed_is_seen() {
    sees(Planted::StepBelieved, a_long_hold_does_not_grow_the_wheel_without_bound);
}

/// Acknowledged and not durable yet, what came from the subject still counts: a crash may bring all of it
/// again, beside what was given from the retry subject meanwhile.
#[test]
fn the_two_queues_of_a_consumer_hold_no_more_than_it_may_together() {
    let mut rig = Rig::new(small());
    let main = rig.earliest("s", "g");
    let retries = rig.earliest("%RETRY%s%g", "g");
    for body in ["a", "b"] {
        rig.publish("s", 0, body);
        rig.publish("%RETRY%s%g", 0, body);
    }
    rig.settle();
    let request = |place: crate::rig::Place, beside: u64| delaymq_core::store::PullRequest {
        group: place.0,
        consumer: place.1,
        count_max: 10,
        in_flight_max: 2,
        beside,
    };
    let pull = |rig: &mut Rig, place, other: crate::rig::Place| {
        let beside = rig.node().owner().in_flight(other.0, other.1);
        match rig.node().pull(request(place, beside), 0).unwrap() {
            Pulled::Messages(handed, ..) => handed,
            _ => Vec::new(),
        }
    };
    let mut held = Vec::new();
    for _ in 0..3 {
        held.extend(pull(&mut rig, main, retries));
        rig.settle();
    }
    assert_eq!(bodies_of(&held), ["a", "b"]);
    let offsets: Vec<u64> = held.iter().map(|one| one.delivery.offset.0).collect();
    rig.node().acknowledge(main.0, main.1, &offsets[..1], 0).unwrap();
    for _ in 0..3 {
        assert!(pull(&mut rig, retries, main).is_empty(), "the acknowledgement is on its way");
    }
    rig.settle();
    let mut came = Vec::new();
    for _ in 0..3 {
        came.extend(pull(&mut rig, retries, main));
        rig.settle();
    }
    assert_eq!(bodies_of(&came), ["a"], "there is room for one");
}
