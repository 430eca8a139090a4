//! Recurring series: one message of a series is pending, whatever happens around it and wherever the machine ends, and
//! each is due at a time of its rule.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use delaymq_core::planted::Planted;
use delaymq_core::record::recurring::CatchUp;
use delaymq_core::record::terms::IfExists;
use delaymq_core::store::Outcome;
use delaymq_core::units::{DueKey, Millis, Sequence};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NewRecurring, Node, ProposedOccurrence};

use crate::rig::keyed::{asked, tried};
use crate::rig::orders::orders;
use crate::rig::{Rig, START, lean, sees, small};

const STEP_MS: u64 = 5_000;

fn series(if_exists: IfExists, catch_up: CatchUp) -> NewRecurring<'static> {
    let rule = "every 5000ms";
    NewRecurring { subject: "s", name: "n", if_exists, rule, catch_up, after: START, body: b"again" }
}

fn begin(rig: &mut Rig, new: &NewRecurring<'_>) -> Outcome {
    asked(rig, |node| node.begin_series(new).unwrap())
}

/// Proposes what is owed, until nothing is, as a driver does; how many were proposed.
fn go_on(rig: &mut Rig) -> usize {
    let mut count = 0;
    loop {
        let now = rig.clock.read();
        rig.node().look(now);
        let mut proposed = Vec::new();
        rig.node().propose_occurrences(10, false, &mut proposed).unwrap();
        rig.settle();
        rig.step();
        if proposed.is_empty() {
            return count;
        }
        count += proposed.len();
    }
}

/// What waits of the series, and when its last one was due.
fn told(rig: &mut Rig) -> Option<(u64, Option<DueKey>)> {
    let recurring = &rig.node().owner().state().recurring;
    let (_, one) = recurring.after(Sequence(0)).next()?;
    Some((one.last_due.since(START), one.pending))
}

fn due(rig: &mut Rig) -> u64 {
    told(rig).unwrap().1.unwrap().due.since(START)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Replace,
    Cancel,
    Move,
    /// Time passes, and what waits becomes ready.
    Tick,
    Freeze,
    Install,
}

const STEPS: [Step; 6] = [Step::Replace, Step::Cancel, Step::Move, Step::Tick, Step::Freeze, Step::Install];

/// What must be, by arithmetic: times behind the start, of which those of the rule are the multiples of its step.
#[derive(Default)]
struct Expected {
    last_due: u64,
    pending: Option<u64>,
    ready: usize,
}

impl Expected {
    /// What waits and is due is ready.
    fn dispatch(&mut self, now: u64) {
        if self.pending.is_some_and(|due| due <= now) {
            (self.pending, self.ready) = (None, self.ready + 1);
        }
    }

    /// What is owed is proposed until something waits: of what was missed the last one, at once.
    fn go_on(&mut self, now: u64) {
        while self.pending.is_none() {
            self.last_due = (self.last_due + STEP_MS).max(now - now % STEP_MS);
            self.pending = Some(self.last_due);
            self.dispatch(now);
        }
    }
}

/// Lives these steps around a series; the machine ends behind one of them, before what is owed then is proposed.
fn live(steps: &[Step], ends_behind: Option<usize>) {
    let mut rig = Rig::new(lean());
    let place = rig.earliest("s", "g");
    assert_eq!(begin(&mut rig, &series(IfExists::Refuse, CatchUp::One)), Outcome::SeriesBegun(None));
    let mut expected = Expected::default();
    let mut now = 0;
    for (number, step) in steps.iter().enumerate() {
        go_on(&mut rig);
        expected.go_on(now);
        let found = told(&mut rig).map(|(last, pending)| (last, pending.map(|key| key.due.since(START))));
        assert_eq!(found, Some((expected.last_due, expected.pending)), "{steps:?} {number} {ends_behind:?}");
        let pending = told(&mut rig).unwrap().1.unwrap();
        let subject = rig.node().subject_number("s").unwrap();
        let receipt = rig.node().receipt_of(pending, subject, 5).unwrap();
        match step {
            Step::Replace => {
                let replaced = begin(&mut rig, &series(IfExists::Replace, CatchUp::One));
                assert_eq!(replaced, Outcome::SeriesBegun(Some(pending)), "{steps:?} {number}");
                (expected.last_due, expected.pending) = (0, None);
            }
            Step::Cancel => {
                assert_eq!(rig.cancel(&receipt), Outcome::Done);
                expected.pending = None;
            }
            Step::Move => {
                let moved = rig.moved(&receipt, Due::At(Millis(pending.due.0.saturating_add(77))));
                assert_eq!(told(&mut rig).unwrap().1, Some(moved.key), "{steps:?} {number}");
                expected.pending = Some(moved.key.due.since(START));
            }
            Step::Tick => {
                rig.pass(3 * STEP_MS);
                now += 3 * STEP_MS;
                expected.dispatch(now);
            }
            Step::Freeze => assert!(rig.node().begin_checkpoint()),
            Step::Install => while !rig.node().checkpoint_piece(40).unwrap() {},
        }
        if ends_behind == Some(number) {
            rig.reopen(End::PowerCutLosesAll);
        }
        rig.step();
    }
    go_on(&mut rig);
    expected.go_on(now);
    let (last, pending) = told(&mut rig).unwrap();
    let found = (last, pending.map(|key| key.due.since(START)));
    assert_eq!(found, (expected.last_due, expected.pending), "{steps:?} {ends_behind:?}");
    assert_eq!(rig.node().owner().state().schedule.pending(), 1, "{steps:?} {ends_behind:?}");
    rig.compare_with_log();
    rig.checkpoint();
    let ended = asked(&mut rig, |node| node.end_series("s", "n").unwrap());
    assert_eq!(ended, Outcome::SeriesEnded(pending), "{steps:?}");
    rig.pass(1_000_000);
    assert_eq!((go_on(&mut rig), rig.node().owner().state().schedule.pending()), (0, 0));
    let consumer = rig.consumer(place.0, "again");
    let bodies = rig.take_all((place.0, consumer));
    assert_eq!(bodies, vec!["again"; expected.ready], "{steps:?} {ends_behind:?}");
}

#[test]
fn every_order_of_what_happens_around_a_series_leaves_one_message() {
    let mut count = 0;
    orders(&STEPS, [Step::Freeze, Step::Install], &mut |steps| {
        count += 1;
        live(steps, None);
        let begins = steps.iter().position(|step| *step == Step::Freeze).unwrap();
        let installs = steps.iter().position(|step| *step == Step::Install).unwrap();
        let behind = count % steps.len();
        if !(begins..installs).contains(&behind) {
            live(steps, Some(behind));
        }
    });
    assert_eq!(count, 360);
}

fn a_series_outlives_checkpoints_and_the_machine() {
    let mut rig = Rig::new(small());
    begin(&mut rig, &series(IfExists::Refuse, CatchUp::One));
    go_on(&mut rig);
    for (round, end) in [(1, End::Kill), (2, End::PowerCutLosesAll), (3, End::Kill)] {
        assert_eq!(due(&mut rig), round * STEP_MS);
        rig.checkpoint();
        // Ready, and the machine ends before the next one is proposed.
        rig.pass(STEP_MS);
        assert_eq!(told(&mut rig), Some((round * STEP_MS, None)));
        rig.reopen(end);
        go_on(&mut rig);
    }
    rig.compare_with_log();
}

#[test]
fn series_that_a_checkpoint_forgets_are_seen() {
    a_series_outlives_checkpoints_and_the_machine();
    sees(Planted::RecurringNotSaved, a_series_outlives_checkpoints_and_the_machine);
}

fn proposed_again(node: &mut Node) -> Option<ProposedOccurrence> {
    let mut proposed = Vec::new();
    node.propose_occurrences(1, true, &mut proposed).unwrap();
    proposed.pop()
}

fn what_is_proposed_twice_is_stored_once() {
    let mut rig = Rig::new(small());
    begin(&mut rig, &series(IfExists::Refuse, CatchUp::All));
    for pass_ms in [0, 3 * STEP_MS] {
        rig.pass(pass_ms);
        let now = rig.clock.read();
        rig.node().look(now);
        let (first, second) = (tried(&mut rig, proposed_again), told(&mut rig).unwrap().0);
        // The same once more, as of a node that did not see the first one applied.
        let mut records = Vec::new();
        let count = first.owed.encode(first.receipt.map(|receipt| receipt.key.due), first.now, &mut records);
        let class = delaymq_core::message_log::Class::Growing;
        tried(&mut rig, |node| node.submit(&records, count, class, false).unwrap());
        assert_eq!(told(&mut rig).unwrap().0, second);
    }
    let state = rig.node().owner().state();
    assert_eq!(state.schedule.pending() + state.dispatch.unfinished(), 2);
    rig.compare_with_log();
}

#[test]
fn an_occurrence_that_is_stored_twice_is_seen() {
    what_is_proposed_twice_is_stored_once();
    sees(Planted::OccurrenceUnjudged, what_is_proposed_twice_is_stored_once);
}

#[test]
fn a_rule_that_is_over_ends_by_itself() {
    let mut rig = Rig::new(small());
    begin(&mut rig, &NewRecurring { rule: "0 0 30 2 *", ..series(IfExists::Refuse, CatchUp::One) });
    assert_eq!(go_on(&mut rig), 1);
    assert_eq!(told(&mut rig), None);
    rig.reopen(End::PowerCutLosesAll);
    assert_eq!((told(&mut rig), go_on(&mut rig)), (None, 0));
    // One that waits for a message is not over.
    begin(&mut rig, &series(IfExists::Refuse, CatchUp::One));
    go_on(&mut rig);
    let number = rig.node().owner().state().recurring.after(Sequence(0)).next().unwrap().0;
    let mut records = Vec::new();
    let over = delaymq_core::record::recurring::Recur::Over { series: number };
    delaymq_core::record::recurring::encode_recur(&mut records, &over);
    let class = delaymq_core::message_log::Class::Finishing;
    let range = tried(&mut rig, |node| node.submit(&records, 1, class, false).unwrap());
    assert_eq!(rig.node().take_outcome(range.start), Some(Outcome::NotFound));
    assert_eq!(due(&mut rig), STEP_MS);
    rig.compare_with_log();
}
