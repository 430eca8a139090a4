//! Payloads that a checkpoint copies. If a message gets a new entry while the checkpoint is written, the entry names
//! the earlier place of the payload. No checkpoint may release that place too early.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::rig::{Place, Rig, bodies_of, lean, sees};
use delaymq_core::planted::Planted;
use delaymq_core::run::LoadName;
use delaymq_core::store::{OwnerOptions, Receipt, name_hash};
use delaymq_simulation::node::{Due, NewRow, NodeOptions, stage};

const NAMES: (&str, &str) = ("s", "g");
const RETRIES: &str = "%RETRY%s%g";
/// So late that a checkpoint copies the payload, however far the feed has come.
const LATER_MS: u64 = 60_000;

/// Whatever is merged or finished is given back at once.
fn hollow() -> NodeOptions {
    let owner = OwnerOptions {
        reclaim_bytes: 1,
        hole_bytes_min: 1,
        hole_block_bytes: 8,
        merge_windows_min: 1,
        merge_payload_bytes: 0,
        ..lean().owner
    };
    NodeOptions { owner, ..lean() }
}

/// What happens to the one message while a checkpoint is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meanwhile {
    Nothing,
    /// It is moved further away.
    Further,
    /// It is moved to where the feed has been, and taken in hand.
    Nearer,
    /// So much time passes that it becomes ready: as on a disk that is full for a while.
    Ready,
}

const MEANWHILE: [Meanwhile; 4] = [Meanwhile::Nothing, Meanwhile::Further, Meanwhile::Nearer, Meanwhile::Ready];

struct World {
    rig: Rig,
    quick: Place,
    first: Place,
}

impl World {
    fn new(options: NodeOptions, lies_in_run: bool) -> Self {
        let mut rig = Rig::new(options);
        let (quick, first) = (rig.earliest("quick", "g"), rig.earliest("s", "g"));
        rig.publish("s", LATER_MS, "the one");
        if lies_in_run {
            rig.checkpoint();
        }
        Self { rig, quick, first }
    }

    /// The log goes on by some segments, of which nothing is needed any more.
    fn fill(&mut self) {
        for number in 0..24 {
            self.rig.publish("quick", 0, &format!("{number:->700}"));
            self.rig.take_all(self.quick);
        }
    }

    /// Those who are given what was given back, too, once there is such.
    fn places(&mut self) -> Vec<Place> {
        let has_retries = self.rig.node().subject_number(RETRIES).is_some();
        let retries = has_retries.then(|| self.rig.earliest(RETRIES, "g"));
        [self.first].into_iter().chain(retries).collect()
    }

    /// The receipt of what waits.
    fn waiting(&mut self) -> Option<Receipt> {
        let mut found = None;
        let each = &mut |entry: &delaymq_core::schedule_log::Entry| found = Some((entry.key(), entry.subject()));
        self.rig.node().owner().state().schedule.each_pending(each, &mut |_| {});
        found.and_then(|(key, subject)| self.rig.node().receipt_of(key, subject, 7))
    }

    /// What is ready is given back, and what waits is moved, so that it is due much later than now.
    fn waits_for_long(&mut self) {
        for place in self.places() {
            let handed = self.rig.pull(place);
            if let Some(one) = handed.first() {
                return self.rig.give_back(NAMES, place, one, LATER_MS);
            }
        }
        let receipt = self.waiting().unwrap();
        self.rig.moved(&receipt, Due::After(LATER_MS));
    }

    fn checkpoint(&mut self, meanwhile: Meanwhile) {
        assert!(self.rig.node().begin_checkpoint());
        match meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::Ready => self.rig.pass(LATER_MS),
            Meanwhile::Further | Meanwhile::Nearer => {
                let delay_ms = if meanwhile == Meanwhile::Further { 2 * LATER_MS } else { 1_000 };
                let receipt = self.waiting().unwrap();
                self.rig.moved(&receipt, Due::After(delay_ms));
                self.rig.step();
            }
        }
        while !self.rig.node().checkpoint_piece(40).unwrap() {}
    }

    /// All that comes in the end.
    fn comes(&mut self) -> Vec<String> {
        self.rig.pass(10 * LATER_MS);
        let mut bodies = Vec::new();
        for place in self.places() {
            bodies.extend(bodies_of(&self.rig.pull(place)));
        }
        bodies
    }
}

fn live(meanwhile: [Meanwhile; 3], options: NodeOptions, lies_in_run: bool) {
    let mut world = World::new(options, lies_in_run);
    for one in meanwhile {
        world.waits_for_long();
        world.fill();
        world.checkpoint(one);
    }
    assert_eq!(world.comes(), ["the one"], "{meanwhile:?}, in a run: {lies_in_run}");
    assert_eq!(world.rig.node().owner().state().voided, 0);
}

/// Whatever happens to it while three checkpoints are written, one after the other.
#[test]
fn what_leaves_checkpoints_while_they_copy_it_keeps_its_payload() {
    for first in MEANWHILE {
        for second in MEANWHILE {
            for third in MEANWHILE {
                for lies_in_run in [false, true] {
                    live([first, second, third], lean(), lies_in_run);
                    live([first, second, third], hollow(), lies_in_run);
                }
            }
        }
    }
}

/// Found once: neither of the two kept checkpoints named the segment any more.
fn what_becomes_ready_while_it_is_copied_and_again_keeps_its_payload() {
    live([Meanwhile::Ready; 3], lean(), false);
}

#[test]
fn a_payload_that_is_copied_stays_for_what_becomes_ready_meanwhile() {
    what_becomes_ready_while_it_is_copied_and_again_keeps_its_payload();
    sees(Planted::ReadyForgetsCopied, what_becomes_ready_while_it_is_copied_and_again_keeps_its_payload);
}

/// Its ready fact is proposed, and a load that is due earlier is adopted before the fact is applied.
fn what_is_in_flight_while_its_payload_is_copied_keeps_it() {
    let mut world = World::new(lean(), false);
    world.fill();
    let rig = &mut world.rig;
    let row = NewRow { subject: "loaded".to_owned(), due: rig.clock.read().wall, body: b"a load".to_vec() };
    let name = LoadName { staged: row.due, nonce: [7; 16] };
    let runs = stage(rig.disk.shared().as_ref(), &[row], name, 1).unwrap();
    assert!(rig.node().begin_checkpoint());
    rig.node().load(name_hash("", "job"), &runs).unwrap().unwrap();
    rig.node().commit().unwrap();
    rig.clock.advance(LATER_MS);
    let now = rig.clock.read();
    rig.node().look(now);
    assert_eq!(rig.node().step(10).unwrap().proposed, 1);
    rig.node().commit().unwrap();
    assert_eq!(rig.node().apply(1).unwrap(), 1, "the feed goes back to the load");
    while !rig.node().checkpoint_piece(40).unwrap() {}
    assert!(rig.node().begin_checkpoint());
    rig.settle();
    while !rig.node().checkpoint_piece(40).unwrap() {}
    world.fill();
    world.rig.checkpoint();
    world.rig.checkpoint();
    assert_eq!(world.comes(), ["the one"]);
    assert_eq!(world.rig.node().owner().state().voided, 0);
}

#[test]
fn a_payload_that_is_copied_stays_for_what_is_in_flight_while_the_feed_goes_back() {
    what_is_in_flight_while_its_payload_is_copied_keeps_it();
    sees(Planted::FeedSaysWhatIsKnown, what_is_in_flight_while_its_payload_is_copied_keeps_it);
}
