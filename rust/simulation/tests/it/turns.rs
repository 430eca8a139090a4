//! Subjects take turns: many messages of one subject that are due at once delay no other subject, wherever they are
//! stored.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may")]

use crate::rig::{Place, Rig, bodies_of, sees, small};
use delaymq_core::planted::Planted;
use delaymq_core::store::OwnerOptions;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NodeOptions};

const DUE_MS: u64 = 10_000;
const FLOOD: usize = 6_000;
const WINDOW: usize = 1_024;
/// What one step may dispatch.
const STEP: usize = 100;

fn windowed() -> NodeOptions {
    let owner = OwnerOptions { window_entries_max: WINDOW, ..small().owner };
    NodeOptions { owner, segment_bytes: 4 << 20, ..small() }
}

/// Where the flood lies when it is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lies {
    Memory,
    Runs,
    /// It comes when the feed has passed its time already.
    Wheel,
}

/// The names of so many subjects.
fn subjects(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("flood{number}")).collect()
}

/// Some subjects have `FLOOD` messages of one millisecond together, and another one has one message a little later.
fn flooded(lies: Lies, floods: &[String]) -> (Rig, Vec<Place>, Place) {
    let mut rig = Rig::new(windowed());
    rig.in_flight_max = 10_000;
    let quiet = rig.earliest("quiet", "g");
    let places = floods.iter().map(|flood| rig.earliest(flood, "g")).collect();
    if lies == Lies::Wheel {
        rig.pass(DUE_MS - 1_000);
    }
    let left_ms = if lies == Lies::Wheel { 1_000 } else { DUE_MS };
    for number in 0..FLOOD / floods.len() {
        for flood in floods {
            rig.submit(flood, left_ms, &format!("{number:05}"));
        }
        if number % 500 == 0 {
            rig.settle();
            one_step(&mut rig);
        }
    }
    rig.submit("quiet", left_ms + 1, "a");
    rig.settle();
    if lies == Lies::Runs {
        rig.checkpoint();
    }
    (rig, places, quiet)
}

/// How many were dispatched.
fn one_step(rig: &mut Rig) -> usize {
    let now = rig.clock.read();
    rig.node().look(now);
    let progress = rig.node().step(STEP).unwrap();
    rig.settle();
    assert!(rig.node().owner().window_entries() <= WINDOW + WINDOW / 2, "{}", rig.node().owner().window_entries());
    progress.proposed
}

/// Takes and acknowledges what is ready, and nothing becomes ready meanwhile.
fn take_ready(rig: &mut Rig, place: Place) -> Vec<String> {
    let mut bodies = Vec::new();
    loop {
        let handed = rig.pull(place);
        if handed.is_empty() {
            return bodies;
        }
        bodies.extend(bodies_of(&handed));
        let offsets: Vec<u64> = handed.iter().map(|one| one.delivery.offset.0).collect();
        rig.acknowledge(place, &offsets);
    }
}

/// How many messages of the flood were dispatched before the other one came.
fn dispatched_before(rig: &mut Rig, quiet: Place) -> usize {
    let mut dispatched = 0;
    for _ in 0..FLOOD {
        dispatched += one_step(rig);
        if !rig.pull(quiet).is_empty() {
            return dispatched;
        }
    }
    panic!("it never came")
}

fn others_are_not_made_to_wait(lies: Lies, floods: usize) {
    let (mut rig, places, quiet) = flooded(lies, &subjects(floods));
    rig.clock.advance(DUE_MS + 5);
    let waited = dispatched_before(&mut rig, quiet);
    assert!(waited <= 5 * STEP, "{lies:?}, {floods}: behind {waited} messages");
    // And it goes on so: one that comes while the flood is handed out, and is due at once or soon.
    for delay_ms in [0, 1, 3] {
        rig.submit("quiet", delay_ms, "b");
        rig.settle();
        rig.clock.advance(delay_ms);
        let waited = dispatched_before(&mut rig, quiet);
        assert!(waited <= 3 * STEP, "{lies:?}, {floods}: behind {waited} messages, published late");
    }
    // Of equal floods each has about as much as every other one: what is due together goes in the order it came.
    let so_far: Vec<Vec<String>> = places.iter().map(|place| take_ready(&mut rig, *place)).collect();
    let counts = || so_far.iter().map(Vec::len);
    assert!(counts().max() <= counts().min().map(|least| least + STEP), "{:?}", counts().collect::<Vec<_>>());
    rig.step();
    for (place, mut came) in places.into_iter().zip(so_far) {
        came.extend(rig.take_all(place));
        assert_eq!(came.len(), FLOOD / floods);
        assert!(came.is_sorted(), "{lies:?}: out of order");
    }
}

#[test]
fn a_flood_in_memory_makes_no_other_wait() {
    others_are_not_made_to_wait(Lies::Memory, 1);
}

#[test]
fn a_flood_in_runs_makes_no_other_wait() {
    others_are_not_made_to_wait(Lies::Runs, 1);
}

#[test]
fn a_flood_that_arrives_behind_the_feed_makes_no_other_wait() {
    others_are_not_made_to_wait(Lies::Wheel, 1);
}

/// None of them has an eighth: each alone would be no flood.
#[test]
fn ten_equal_floods_make_no_other_wait() {
    for lies in [Lies::Memory, Lies::Runs, Lies::Wheel] {
        others_are_not_made_to_wait(lies, 10);
    }
}

#[test]
fn forty_equal_floods_make_no_other_wait() {
    for lies in [Lies::Memory, Lies::Runs, Lies::Wheel] {
        others_are_not_made_to_wait(lies, 40);
    }
}

#[test]
fn two_floods_take_turns_and_a_third_subject_does_not_wait_for_either() {
    others_are_not_made_to_wait(Lies::Runs, 2);
}

/// Ten have much, and share a lane. What one of them has behind it is many times as much.
fn who_shared_a_lane_does_not_wait() {
    let mut rig = Rig::new(windowed());
    rig.in_flight_max = 10_000;
    let names = subjects(10);
    let places: Vec<Place> = names.iter().map(|name| rig.earliest(name, "g")).collect();
    for name in names.iter().cycle().take(1_000) {
        rig.submit(name, DUE_MS, "a");
    }
    for number in 0..FLOOD {
        rig.submit(&names[0], DUE_MS + 1, &format!("b{number:05}"));
    }
    for name in &names {
        rig.submit(name, DUE_MS + 2, "c");
    }
    rig.settle();
    rig.checkpoint();
    rig.clock.advance(DUE_MS + 5);
    let (mut dispatched, mut came) = (0, Vec::new());
    while came.last().is_none_or(|body| body != "c") {
        dispatched += one_step(&mut rig);
        came.extend(take_ready(&mut rig, places[9]));
    }
    assert!(dispatched <= 1_000 + 12 * STEP, "behind {dispatched} messages");
    rig.step();
    assert_eq!(rig.take_all(places[0]).len(), 100 + FLOOD + 1);
}

#[test]
fn who_shared_a_lane_does_not_wait_when_another_of_it_floods() {
    who_shared_a_lane_does_not_wait();
    sees(Planted::LaneNeverParts, who_shared_a_lane_does_not_wait);
}

/// One flood after the other, each while those before are under way: more than there are lanes.
#[test]
fn many_floods_that_come_one_after_the_other_make_no_other_wait() {
    let mut rig = Rig::new(windowed());
    rig.in_flight_max = 100_000;
    let quiet = rig.earliest("quiet", "g");
    let names = subjects(7);
    let places: Vec<Place> = names.iter().map(|name| rig.earliest(name, "g")).collect();
    for name in &names {
        for number in 0..FLOOD / 2 {
            rig.submit(name, 50, &format!("{number:05}"));
            if number % 300 == 0 {
                rig.settle();
                one_step(&mut rig);
            }
        }
        rig.settle();
        rig.clock.advance(100);
        for _ in 0..6 {
            one_step(&mut rig);
        }
        rig.submit("quiet", 0, "a");
        rig.settle();
        let waited = dispatched_before(&mut rig, quiet);
        assert!(waited <= 3 * STEP, "{name}: behind {waited} messages");
        // What is not due at once.
        rig.submit("quiet", 2, "b");
        rig.settle();
        rig.clock.advance(2);
        let waited = dispatched_before(&mut rig, quiet);
        assert!(waited <= 5 * STEP, "{name}: behind {waited} messages that were due before");
    }
    rig.step();
    for place in places {
        let came = rig.take_all(place);
        assert_eq!(came.len(), FLOOD / 2);
        assert!(came.is_sorted());
    }
}

/// What is moved while its subject floods comes in its turn, wherever its payload lies.
#[test]
fn what_is_moved_within_a_flood_comes_once_and_in_order() {
    let mut rig = Rig::new(windowed());
    rig.in_flight_max = 10_000;
    let place = rig.earliest("flood", "g");
    let mut receipts = Vec::new();
    for number in 0..2_000 {
        receipts.push(rig.submit("flood", DUE_MS + number, &format!("{number:05}")));
    }
    rig.settle();
    rig.checkpoint();
    rig.clock.advance(DUE_MS - 1_000);
    one_step(&mut rig);
    one_step(&mut rig);
    for receipt in receipts.iter().step_by(50) {
        rig.moved(receipt, Due::At(receipt.key.due.plus(500)));
        one_step(&mut rig);
    }
    rig.clock.advance(DUE_MS);
    rig.step();
    let came = rig.take_all(place);
    assert_eq!(came.len(), 2_000);
    let mut expected: Vec<(u64, bool, String)> = (0..2_000_u64)
        .map(|number| {
            let is_moved = number % 50 == 0;
            (number + if is_moved { 500 } else { 0 }, is_moved, format!("{number:05}"))
        })
        .collect();
    expected.sort();
    assert!(came.iter().eq(expected.iter().map(|(_, _, body)| body)), "out of order");
}

/// A flood is only in memory: whoever dies while it is handed out goes on with it, and loses nothing.
#[test]
fn a_flood_goes_on_behind_a_kill() {
    for lies in [Lies::Memory, Lies::Runs] {
        let (mut rig, _, _) = flooded(lies, &subjects(1));
        rig.clock.advance(DUE_MS + 5);
        for _ in 0..9 {
            one_step(&mut rig);
        }
        rig.checkpoint();
        one_step(&mut rig);
        rig.reopen(End::Kill);
        rig.step();
        for (subject, count) in [("quiet", 1), ("flood0", FLOOD)] {
            let place = rig.earliest(subject, "g");
            assert_eq!(rig.take_all(place).len(), count);
        }
    }
}

#[test]
fn a_flood_that_goes_first_is_seen() {
    sees(Planted::FloodGoesFirst, a_flood_in_runs_makes_no_other_wait);
}
