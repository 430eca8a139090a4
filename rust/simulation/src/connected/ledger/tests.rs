//! Which events are a reason for a message to come again, and which are not.

use super::*;

const LEASE_MS: u64 = 20_000;

/// A group, and what its consumers and their producer tell the ledger.
struct Scene {
    ledger: Ledger,
    of: GroupName,
}

impl Scene {
    fn new() -> Self {
        let of = ("qmq".to_owned(), "group".to_owned());
        let groups = [(of.clone(), Group::default())].into();
        Self { ledger: Ledger { lease_ms: LEASE_MS, time: 1_000, groups, ..Ledger::default() }, of }
    }

    fn place(&self, consumer: &str) -> Place {
        Place { subject: self.of.0.clone(), of: self.of.clone(), consumer: consumer.to_owned() }
    }

    fn store(&mut self, number: u64) {
        let mark = self.ledger.mark();
        self.ledger.send_asked(number, || Sent::new("qmq".to_owned(), Vec::new(), 0, None));
        self.ledger.send_told(number, mark);
    }

    /// A pull of who has received all below the offset brings this message.
    fn give(&mut self, consumer: &str, offset: u64, number: u64) {
        let mark = self.ledger.mark();
        self.answer(consumer, mark, offset, number);
    }

    fn answer(&mut self, consumer: &str, mark: Mark, offset: u64, number: u64) {
        let came = Came { number, subject: "qmq", body: b"", tag: None, has_tags: false };
        self.ledger.pulled(&self.place(consumer), mark, offset.checked_sub(1), offset, &[came]);
    }

    /// The client asks; the answer is [`Self::told`].
    fn acknowledge(&mut self, consumer: &str, offset: u64) -> Mark {
        self.ledger.acknowledge_asked(&self.place(consumer), offset, offset);
        self.ledger.mark()
    }

    fn told(&mut self, consumer: &str, offset: u64, mark: Mark) {
        self.ledger.heard(&self.place(consumer), mark);
        self.ledger.acknowledged(&self.place(consumer), offset, offset);
    }

    fn finish(&mut self, consumer: &str, offset: u64) {
        let mark = self.acknowledge(consumer, offset);
        self.told(consumer, offset, mark);
    }

    fn is_sound(&self) {
        assert_eq!(self.ledger.violations(), Vec::<String>::new());
    }

    fn is_broken(&self, words: &str) {
        let found = self.ledger.violations();
        assert!(found.len() == 1 && found[0].contains(words), "{found:?}");
    }
}

#[test]
fn what_was_given_before_something_was_finished_is_known_after_a_crash() {
    let mut scene = Scene::new();
    scene.store(1);
    scene.store(2);
    scene.give("a", 0, 1);
    scene.give("b", 0, 2);
    // Whatever finishes it comes behind what was given before.
    scene.finish("a", 0);
    scene.ledger.server_ended();
    scene.give("c", 0, 2);
    scene.is_broken("without a reason");
}

#[test]
fn an_acknowledgement_that_finds_nothing_to_finish_makes_nothing_durable() {
    let mut scene = Scene::new();
    scene.store(1);
    scene.store(2);
    scene.give("a", 0, 1);
    // The first answer is lost, and what it would have told is durable.
    scene.acknowledge("a", 0);
    scene.give("b", 0, 2);
    // Nothing is stored for this, so its answer waits for nothing that was given meanwhile.
    scene.finish("a", 0);
    scene.finish("a", 0);
    scene.ledger.server_ended();
    scene.give("c", 0, 2);
    scene.is_sound();
    scene.give("c", 1, 2);
    scene.is_broken("without a reason");
}

#[test]
fn an_acknowledgement_of_what_a_server_gave_that_ended_makes_nothing_durable() {
    let mut scene = Scene::new();
    scene.store(1);
    scene.store(2);
    scene.give("a", 0, 1);
    scene.ledger.server_ended();
    scene.give("b", 0, 2);
    // Its offset is void.
    scene.finish("a", 0);
    scene.ledger.server_ended();
    scene.give("c", 0, 2);
    scene.is_sound();
}

#[test]
fn what_is_held_while_a_group_is_to_begin_again_is_given_back_as_often_as_others_come() {
    let mut scene = Scene::new();
    scene.store(1);
    scene.give("a", 0, 1);
    let reset = scene.ledger.reset_asked(&scene.of, false);
    // The consumers ended, another one had begun, and so the group did not begin; it is tried again.
    scene.give("b", 0, 1);
    scene.give("c", 0, 1);
    scene.ledger.reset_told(&scene.of, reset);
    // It began, with what is stored.
    scene.give("d", 0, 1);
    scene.is_sound();
    scene.give("e", 0, 1);
    scene.is_broken("without a reason");
}

#[test]
fn what_was_given_back_and_then_acknowledged_may_have_come_again_all_the_same() {
    let mut scene = Scene::new();
    scene.store(1);
    let a = scene.ledger.mark();
    let reset = scene.ledger.reset_asked(&scene.of, false);
    scene.answer("a", a, 0, 1);
    // The consumers ended, another one had begun, and it is tried again.
    scene.give("b", 0, 1);
    scene.ledger.reset_told(&scene.of, reset);
    // Both have nothing to finish by now, and hear that it is done.
    scene.finish("a", 0);
    scene.finish("b", 0);
    scene.give("c", 0, 1);
    scene.is_sound();
    scene.finish("c", 0);
    scene.give("d", 0, 1);
    scene.give("e", 0, 1);
    scene.is_broken("without a reason");
}

#[test]
fn what_was_finished_before_a_group_was_asked_to_begin_again_comes_once_with_it() {
    let mut scene = Scene::new();
    scene.store(1);
    scene.give("a", 0, 1);
    scene.finish("a", 0);
    let reset = scene.ledger.reset_asked(&scene.of, false);
    scene.ledger.reset_told(&scene.of, reset);
    scene.give("b", 0, 1);
    scene.is_sound();
    scene.finish("b", 0);
    scene.give("c", 0, 1);
    scene.is_broken("without a reason");
}

#[test]
fn what_was_held_before_a_group_begins_again_comes_once_more() {
    let mut scene = Scene::new();
    scene.store(1);
    scene.give("a", 0, 1);
    let reset = scene.ledger.reset_asked(&scene.of, false);
    scene.ledger.reset_told(&scene.of, reset);
    scene.give("b", 0, 1);
    scene.is_sound();
    scene.give("c", 0, 1);
    scene.is_broken("without a reason");
}

#[test]
fn a_pull_that_is_lost_may_be_given_something_later_by_who_does_not_know_it() {
    let mut scene = Scene::new();
    scene.store(1);
    scene.store(2);
    let (a, lost) = (scene.place("a"), scene.ledger.mark());
    scene.ledger.pull_lost(&a, lost);
    let again = scene.ledger.mark();
    assert!(!scene.ledger.nothing_came(&a, again), "the lost one still waits there");
    // Now it is given the first message, and that is durable when the server ends.
    scene.store(3);
    scene.ledger.server_ended();
    scene.give("a", 0, 1);
    // What was reserved in the first life is void.
    scene.give("a", 8, 2);
    scene.is_sound();
    scene.give("a", 16, 3);
    scene.is_broken("offset 16");
}

#[test]
fn what_was_acknowledged_never_comes_again_under_its_offset_whether_a_lease_was_over_or_not() {
    for silent_ms in [0, LEASE_MS] {
        let mut scene = Scene::new();
        scene.store(1);
        scene.give("a", 0, 1);
        let asked = scene.acknowledge("a", 0);
        scene.ledger.time += silent_ms;
        scene.told("a", 0, asked);
        scene.ledger.server_ended();
        scene.give("a", 0, 1);
        scene.is_broken("0 was message 1");
    }
}

#[test]
fn what_is_acknowledged_ahead_passes_over_what_is_held_where_the_server_ended_since_and_nowhere_else() {
    for has_ended in [true, false] {
        let mut scene = Scene::new();
        scene.store(1);
        scene.give("a", 0, 1);
        if has_ended {
            scene.ledger.durable_below = 1;
            scene.ledger.server_ended();
        }
        let a = scene.place("a");
        scene.ledger.acknowledge_ahead_asked(&a, 1, 51);
        scene.give("b", 0, 1);
        if has_ended { scene.is_sound() } else { scene.is_broken("without a reason") }
    }
}
