//! Messages that are moved to another time stay one message, whatever else happens around them and wherever the machine
//! ends.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::rig::orders::orders;
use crate::rig::saving::{HOUR_MS, SCHEDULE, bodies, flip, look, publish_all, runs_of};
use crate::rig::{Rig, START, lean, sees, small};
use delaymq_core::planted::Planted;
use delaymq_core::store::{Outcome, OwnerOptions, Receipt};
use delaymq_core::units::{DueKey, Sequence};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NodeOptions};

const FIRST_MS: u64 = 5_000;
const FAR: Due = Due::At(START.plus(40_000));
const NEAR: Due = Due::After(3_000);
const PAST: Due = Due::At(START);

/// What happens around one entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// It is moved far away.
    Away,
    /// It is moved, under the newest receipt, to where the feed has been.
    Back,
    /// The newest receipt is cancelled.
    Cancel,
    /// Time passes to when it was due at first, and what is due becomes ready.
    Tick,
    /// A checkpoint begins.
    Freeze,
    /// It comes to its end.
    Install,
}

const STEPS: [Step; 6] = [Step::Away, Step::Back, Step::Cancel, Step::Tick, Step::Freeze, Step::Install];

/// What is known of the one message.
struct Told {
    /// The receipts that it had, the newest last.
    receipts: Vec<Receipt>,
    /// What each command found, with what was asked.
    moves: Vec<(Receipt, Due, Outcome)>,
    cancelled: bool,
    dispatched: bool,
}

impl Told {
    fn newest(&self) -> Receipt {
        *self.receipts.last().unwrap()
    }

    fn is_pending(&self) -> bool {
        !self.cancelled && !self.dispatched
    }

    /// Time has come to `now`, and a step was taken.
    fn pass(&mut self, now_ms: u64) {
        self.dispatched |= self.is_pending() && self.newest().key.due <= START.plus(now_ms);
    }

    fn move_to(&mut self, rig: &mut Rig, due: Due) {
        let receipt = self.newest();
        let found = rig.move_to(&receipt, due);
        match found {
            Outcome::Moved(key) => {
                assert!(self.is_pending(), "moved, and it is not pending");
                self.receipts.push(rig.node().receipt_of(key, receipt.subject, receipt.size).unwrap());
                // Where it is due already, its own fact makes it ready.
                self.pass(rig.clock.read().wall.since(START));
            }
            Outcome::AlreadyDispatched => assert!(self.dispatched),
            other => assert!(other == Outcome::NotFound && self.cancelled, "{other:?}"),
        }
        self.moves.push((receipt, due, found));
    }

    fn cancel(&mut self, rig: &mut Rig) {
        let found = rig.cancel(&self.newest());
        assert_eq!(found, if self.dispatched { Outcome::AlreadyDispatched } else { Outcome::Done });
        self.cancelled |= found == Outcome::Done;
    }

    /// Every answer is given again, and nothing changes by it.
    fn is_told_again(&self, rig: &mut Rig) {
        for (receipt, due, found) in &self.moves {
            if matches!(found, Outcome::Moved(_)) {
                assert_eq!(rig.move_to(receipt, *due), *found, "sent again");
            }
        }
        for (receipt, next) in self.receipts.iter().zip(self.receipts.iter().skip(1)) {
            assert_eq!(rig.cancel(receipt), Outcome::NotFound, "{receipt:?} is {next:?} now");
            let elsewhere = rig.move_to(receipt, Due::After(77_777));
            assert_eq!(elsewhere, Outcome::NotFound, "{receipt:?} is {next:?} now");
        }
    }
}

/// Where the entry lies as the steps begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lies {
    InMemory,
    InRun,
    /// In a run that the next checkpoint merges with its neighbour's.
    BesideAnother,
}

/// As `lean`, and whatever is beside another is merged.
fn eager() -> NodeOptions {
    let owner = OwnerOptions { merge_windows_min: 2, ..lean().owner };
    NodeOptions { owner, ..lean() }
}

/// How many windows of the schedule have a run.
fn windows_in_runs(rig: &mut Rig) -> usize {
    rig.node().owner().state().schedule.windows().iter().filter(|window| window.run().is_some()).count()
}

/// Lives these steps; the machine ends behind so many of them. True where a merge was written among them.
fn live(steps: &[Step], lies: Lies, ends_behind: Option<(usize, End)>) -> bool {
    let mut rig = Rig::new(if lies == Lies::BesideAnother { eager() } else { lean() });
    let place = rig.earliest("s", "g");
    let receipt = rig.publish("s", FIRST_MS, "the one");
    if lies != Lies::InMemory {
        rig.checkpoint();
    }
    if lies == Lies::BesideAnother {
        rig.publish("other", 2_000_000, "its neighbour");
        rig.checkpoint();
        assert_eq!(windows_in_runs(&mut rig), 2);
    }
    let mut merged = false;
    let mut told = Told { receipts: vec![receipt], moves: Vec::new(), cancelled: false, dispatched: false };
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Away => told.move_to(&mut rig, FAR),
            Step::Back => told.move_to(&mut rig, NEAR),
            Step::Cancel => told.cancel(&mut rig),
            Step::Tick => {
                rig.pass(FIRST_MS);
                told.pass(FIRST_MS);
            }
            Step::Freeze => assert!(rig.node().begin_checkpoint()),
            Step::Install => {
                let before = windows_in_runs(&mut rig);
                while !rig.node().checkpoint_piece(40).unwrap() {}
                merged |= windows_in_runs(&mut rig) < before;
            }
        }
        if let Some((behind, end)) = ends_behind
            && behind == number
        {
            rig.reopen(end);
        }
        rig.step();
    }
    compare_with_log(&mut rig);
    told.is_told_again(&mut rig);
    rig.checkpoint();
    told.is_told_again(&mut rig);
    let consumer = rig.consumer(place.0, "again");
    let before = rig.try_take_all((place.0, consumer)).unwrap();
    assert_eq!(before.is_empty(), !told.dispatched, "early, or late");
    rig.pass(1_000_000);
    let after = rig.take_all((place.0, consumer));
    let expected: &[&str] = if told.cancelled { &[] } else { &["the one"] };
    assert_eq!([before, after].concat(), expected);
    compare_with_log(&mut rig);
    merged
}

/// Where the log is kept from its first fact on.
fn compare_with_log(rig: &mut Rig) {
    if rig.files().contains("log/0000000001.segment") && rig.files().contains("log/0000000002.segment") {
        rig.compare_with_log();
    }
}

/// All that comes in the end, with room for the facts of it.
fn drained(rig: &mut Rig) -> Vec<String> {
    for _ in 0..3 {
        rig.node().prepare().unwrap();
    }
    rig.clock.advance(3 * HOUR_MS);
    rig.drain("s", "g")
}

#[test]
fn every_order_of_moves_cancel_dispatch_checkpoint_and_merge_leaves_one_message() {
    let (mut count, mut merged) = (0, 0);
    orders(&STEPS, [Step::Freeze, Step::Install], &mut |steps| {
        count += 1;
        for lies in [Lies::InMemory, Lies::InRun] {
            live(steps, lies, None);
        }
        merged += u32::from(live(steps, Lies::BesideAnother, None));
    });
    // In the others the one window or the other is empty by then.
    assert_eq!((count, merged), (360, 290));
}

#[test]
fn every_order_leaves_one_message_wherever_the_machine_ends() {
    orders(&STEPS, [Step::Freeze, Step::Install], &mut |steps| {
        let begins = steps.iter().position(|step| *step == Step::Freeze).unwrap();
        let installs = steps.iter().position(|step| *step == Step::Install).unwrap();
        for behind in (0..steps.len()).filter(|behind| !(begins..installs).contains(behind)) {
            for lies in [Lies::InRun, Lies::BesideAnother] {
                live(steps, lies, Some((behind, End::PowerCutLosesAll)));
            }
        }
        // The checkpoint under way ends with the machine, and there is none to finish.
        let until: Vec<Step> = steps.iter().copied().filter(|step| *step != Step::Install).collect();
        for behind in begins..installs {
            for lies in [Lies::InRun, Lies::BesideAnother] {
                live(&until, lies, Some((behind, End::Kill)));
            }
        }
    });
}

/// Moved once more in each of many checkpoints while that is written: the run that its payload was found by
/// holds nothing pending since the first of them.
fn moved_behind_every_freeze() -> Vec<String> {
    let mut rig = Rig::new(lean());
    let receipt = rig.publish("s", FIRST_MS, "first");
    rig.checkpoint();
    let mut newest = rig.moved(&receipt, Due::After(60_000));
    for round in 1..=6 {
        rig.publish("other", HOUR_MS, &format!("round {round}"));
        assert!(rig.node().begin_checkpoint());
        newest = rig.moved(&newest, Due::After(60_000 + round));
        while !rig.node().checkpoint_piece(40).unwrap() {}
    }
    rig.compare_with_log();
    rig.checkpoint();
    rig.reopen(End::Kill);
    assert_eq!(rig.node().owner().state().voided, 0);
    drained(&mut rig)
}

fn what_is_moved_behind_every_freeze_keeps_its_payload() {
    assert_eq!(moved_behind_every_freeze(), ["first"]);
}

#[test]
fn what_is_moved_while_checkpoint_after_checkpoint_is_written_keeps_its_payload() {
    what_is_moved_behind_every_freeze_keeps_its_payload();
    sees(Planted::MoveLosesPayload, what_is_moved_behind_every_freeze_keeps_its_payload);
}

fn a_moved_message_comes_once_and_when_it_was_moved_to() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("s", "g");
    let receipt = rig.publish("s", FIRST_MS, "one");
    rig.moved(&receipt, FAR);
    rig.pass(39_999);
    assert_eq!(rig.take_all(place), Vec::<String>::new(), "early");
    rig.pass(1);
    assert_eq!(rig.take_all(place), ["one"]);
}

#[test]
fn what_stays_where_it_was_when_it_is_moved_is_seen() {
    a_moved_message_comes_once_and_when_it_was_moved_to();
    sees(Planted::MovedStaysToo, a_moved_message_comes_once_and_when_it_was_moved_to);
}

fn a_move_that_comes_again_is_answered_as_the_first_time() {
    let mut rig = Rig::new(small());
    let [one, two] = ["one", "two"].map(|body| rig.publish("s", FIRST_MS, body));
    let (to_a_time, by_delay) = (rig.move_to(&one, FAR), rig.move_to(&two, NEAR));
    rig.clock.advance(1_000);
    for end in [End::Kill, End::PowerCutLosesAll] {
        rig.checkpoint();
        rig.reopen(end);
        assert_eq!((rig.move_to(&one, FAR), rig.move_to(&two, NEAR)), (to_a_time, by_delay));
    }
    for other in [Due::After(40_000), Due::At(START.plus(40_001)), PAST] {
        assert_eq!(rig.move_to(&one, other), Outcome::NotFound, "{other:?} is another command");
    }
    assert_eq!(rig.move_to(&two, Due::After(2_999)), Outcome::NotFound, "another delay");
    rig.compare_with_log();
}

#[test]
fn a_move_that_is_forgotten_is_seen() {
    a_move_that_comes_again_is_answered_as_the_first_time();
    sees(Planted::MoveForgotten, a_move_that_comes_again_is_answered_as_the_first_time);
}

/// Many messages of a run, each moved, before the run's first block rots.
fn moved_out_of_a_rotten_block(due: Due) -> (Rig, usize) {
    let mut rig = Rig::new(small());
    let receipts: Vec<Receipt> =
        (0..120).map(|number| rig.publish("s", HOUR_MS + number, &format!("{number:03}"))).collect();
    rig.checkpoint();
    let run = runs_of(&rig, SCHEDULE).remove(0);
    for receipt in receipts.iter().step_by(2) {
        rig.moved(receipt, due);
    }
    flip(&rig, &run, 5_000);
    (rig, 120)
}

#[test]
fn what_was_moved_out_of_a_block_that_rots_is_found_again_in_the_log() {
    for due in [Due::After(2 * HOUR_MS), Due::After(1), FAR] {
        let (mut rig, count) = moved_out_of_a_rotten_block(due);
        let mut found = drained(&mut rig);
        found.sort();
        found.dedup();
        assert_eq!((found.len(), rig.node().owner().state().voided), (count, 0), "{due:?}");
    }
    let (mut rig, count) = moved_out_of_a_rotten_block(Due::After(2 * HOUR_MS));
    let half: Vec<Receipt> = (0..60).map(|number| receipt_behind(&mut rig, number)).collect();
    for receipt in &half {
        // Ready by its own fact, so that its payload is looked for at once.
        rig.moved(receipt, PAST);
    }
    assert_eq!(rig.node().take_rescues().len(), 1);
    assert_eq!((drained(&mut rig).len(), rig.node().owner().state().voided), (count, 0));
}

/// The receipt of the move of this number, of those that the log has behind 120 messages and a subject.
fn receipt_behind(rig: &mut Rig, number: u64) -> Receipt {
    let first = rig.next_sequence().0 - 60;
    let sequence = Sequence(first + number);
    let mut found = None;
    rig.node().owner().state().schedule.each_pending(
        &mut |entry| {
            if entry.sequence() == sequence {
                found = Some((entry.key(), entry.subject()));
            }
        },
        &mut |_| {},
    );
    let (key, subject): (DueKey, _) = found.unwrap();
    rig.node().receipt_of(key, subject, 3).unwrap()
}

#[test]
fn what_a_checkpoint_cannot_look_up_is_given_up_by_name_and_the_rest_flows() {
    let (mut rig, count) = moved_out_of_a_rotten_block(Due::After(2 * HOUR_MS));
    rig.checkpoint();
    let mut found = drained(&mut rig);
    let place = rig.earliest("s", "g");
    for _ in 0..20 {
        // A pull that finds nothing but what is damaged hands nothing over.
        found.extend(rig.take_all(place));
    }
    let voided = rig.node().owner().state().voided;
    // The block had 85 rows, and every other of them was moved.
    assert_eq!((found.len() as u64 + voided, voided), (count as u64, 43));
}

#[test]
fn salvage_knows_where_a_message_was_moved_to() {
    let mut rig = Rig::new(small());
    publish_all(&mut rig, "late", 0..4);
    let far = rig.publish("late", HOUR_MS, "far");
    let gone = rig.publish("late", HOUR_MS, "gone");
    rig.checkpoint();
    rig.checkpoint();
    let torn = rig.publish("late", HOUR_MS, "torn out");
    let again = rig.moved(&far, Due::After(3 * HOUR_MS));
    let away = rig.moved(&gone, Due::After(2 * HOUR_MS));
    assert_eq!(rig.cancel(&away), Outcome::Done);
    rig.publish("late", HOUR_MS, "behind");
    rig.node().witness().unwrap();
    rig.end(End::Kill);
    let (path, at) = crate::rig::saving::place_of(&rig, "torn out");
    flip(&rig, &path, at - 20);
    let found = look(&rig).unwrap();
    let dues = |found: &delaymq_core::store::Salvage| {
        let mut dues = Vec::new();
        found
            .each(&mut |message| {
                dues.push((String::from_utf8(message.message.body.to_vec()).unwrap(), message.due));
                Ok(())
            })
            .unwrap();
        dues
    };
    assert!(!bodies(&found).contains(&"gone".to_owned()), "{:?}", bodies(&found));
    assert!(dues(&found).contains(&("far".to_owned(), again.key.due)), "{:?} {torn:?}", dues(&found));
    assert_eq!(bodies(&found).iter().filter(|body| *body == "far").count(), 1);
}

/// While a checkpoint copies the payload of a message into a run, the message is moved, and the entry that is made
/// still says where the payload was: twice in a row, so that no kept checkpoint needs that place any more.
#[test]
fn a_payload_stays_for_what_is_moved_while_each_checkpoint_copies_it() {
    let mut rig = Rig::new(lean());
    let mut receipt = rig.publish("s", HOUR_MS, "moved again and again");
    let mut number = 0;
    let first = rig.files().into_iter().find(|path| path.ends_with(".segment")).unwrap();
    for due in [Due::After(2 * HOUR_MS), Due::After(3 * HOUR_MS), FAR] {
        // The log goes on to other segments.
        publish_all(&mut rig, "other", number..number + 200);
        number += 200;
        assert!(rig.node().begin_checkpoint());
        receipt = rig.moved(&receipt, due);
        while !rig.node().checkpoint_piece(40).unwrap() {}
    }
    for end in [End::Kill, End::PowerCutLosesAll] {
        let mut rig = rig.fork(end, 1);
        rig.try_open().unwrap();
        rig.pass(40_000);
        assert_eq!(rig.drain("s", "g"), ["moved again and again"]);
    }
    rig.checkpoint();
    rig.reopen(End::Kill);
    rig.pass(40_000);
    assert_eq!(rig.drain("s", "g"), ["moved again and again"]);
    rig.checkpoint();
    rig.checkpoint();
    assert!(!rig.files().contains(&first), "what nobody needs any more goes");
}
