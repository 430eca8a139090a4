//! Histories of a wall clock that steps ahead, and of the operator and the setting that accept a step.

use delaymq_core::clock::{AcceptRefused, Hold};
use delaymq_core::planted::Planted;
use delaymq_simulation::node::NodeOptions;

use crate::rig::{Place, Rig, sees, small};

const STEP_MS: u64 = 60_000;

/// A store with a message that is due in a minute, held by a step of a minute since this moment.
fn stepped(options: NodeOptions) -> (Rig, Place) {
    let mut rig = Rig::new(options);
    let place = rig.earliest("s", "g");
    rig.publish("s", STEP_MS, "in a minute");
    rig.clock.step_ahead(STEP_MS);
    rig.step();
    assert!(rig.node().reading().held);
    (rig, place)
}

fn taken(rig: &mut Rig, place: Place) -> Vec<String> {
    rig.take_all(place)
}

#[test]
fn an_operator_accepts_the_step_that_was_seen_and_a_later_one_holds_again() {
    let (mut rig, place) = stepped(small());
    let seen = rig.node().clock().held.unwrap();
    assert_eq!(seen.hold, Hold::SteppedAhead { by_ms: STEP_MS, while_closed: false });
    rig.pass(500);
    assert!(taken(&mut rig, place).is_empty());
    assert_eq!(rig.node().accept_clock(STEP_MS), Ok(STEP_MS));
    rig.step();
    assert_eq!(taken(&mut rig, place), ["in a minute"]);
    rig.publish("s", STEP_MS, "a minute later");
    rig.clock.step_ahead(STEP_MS);
    rig.step();
    assert!(rig.node().reading().held);
    assert!(taken(&mut rig, place).is_empty(), "early");
}

#[test]
fn a_step_that_the_operator_did_not_see_is_not_accepted() {
    let (mut rig, place) = stepped(small());
    rig.publish("s", 2 * STEP_MS, "in two minutes");
    rig.clock.step_ahead(STEP_MS);
    rig.step();
    assert_eq!(rig.node().accept_clock(STEP_MS), Err(AcceptRefused::OtherStep { ahead_ms: 2 * STEP_MS }));
    rig.step();
    assert!(rig.node().reading().held);
    assert!(taken(&mut rig, place).is_empty(), "early");
    rig.clock.step_back(STEP_MS);
    rig.step();
    assert_eq!(rig.node().accept_clock(STEP_MS), Ok(STEP_MS));
    rig.step();
    assert_eq!(taken(&mut rig, place), ["in a minute"]);
}

#[test]
fn a_pace_that_is_kept_ends_a_hold_where_the_setting_is_on_and_a_further_step_begins_it_anew() {
    let (mut rig, place) = stepped(NodeOptions { clock_accept_after_ms: 10_000, ..small() });
    for _ in 0..9 {
        rig.pass(1_000);
    }
    rig.clock.step_ahead(STEP_MS);
    for _ in 0..10 {
        rig.pass(1_000);
        assert!(rig.node().reading().held);
        assert!(taken(&mut rig, place).is_empty(), "early");
    }
    rig.pass(1_000);
    assert!(!rig.node().reading().held);
    assert_eq!(rig.node().take_clock_violations(), Vec::<String>::new());
    assert_eq!(taken(&mut rig, place), ["in a minute"]);
}

#[test]
fn no_pace_ends_a_hold_where_the_setting_is_off() {
    let (mut rig, place) = stepped(small());
    for _ in 0..50 {
        rig.pass(1_000);
        assert!(rig.node().reading().held);
    }
    assert!(taken(&mut rig, place).is_empty(), "early");
    rig.pass(10_000);
    assert!(rig.node().reading().held);
    rig.clock.step_back(STEP_MS);
    rig.step();
    assert_eq!(taken(&mut rig, place), ["in a minute"]);
}

#[test]
fn an_acceptance_of_another_step_is_seen() {
    sees(Planted::OtherStepAccepted, a_step_that_the_operator_did_not_see_is_not_accepted);
}

#[test]
fn a_pace_that_is_counted_over_a_step_is_seen() {
    sees(
        Planted::PaceOverSteps,
        a_pace_that_is_kept_ends_a_hold_where_the_setting_is_on_and_a_further_step_begins_it_anew,
    );
}
