//! Histories of forecasts: totals that are kept, and the cells of runs without their ended entries.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::BTreeMap;

use crate::rig::{Rig, lean, proves, small};
use delaymq_core::planted::Planted;
use delaymq_core::schedule_log::Cells;
use delaymq_core::store::{Receipt, Sizes, verify};
use delaymq_core::units::{Minute, SubjectNumber, Tally};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::Due;
use delaymq_simulation::planted::Lowered;

const MINUTE_MS: u64 = 60_000;

/// Messages and bytes of a subject, by minutes from the first that has something.
fn told(rig: &mut Rig, subject: &str) -> Vec<(u64, u64)> {
    let storage = rig.node().storage().clone();
    let state = rig.node().owner().state();
    let number = state.subjects.number(subject).unwrap();
    let sizes = Sizes::new(&storage);
    let horizon = state.horizon(Some(number)).read(&|entry| sizes.of(entry).unwrap()).unwrap();
    assert_eq!(horizon.hidden_rows, 0);
    horizon.cells.values().map(|tally| (tally.messages, tally.bytes)).collect()
}

/// True where all that is told is what a look at every entry finds.
fn is_exact(rig: &mut Rig) -> bool {
    let storage = rig.node().storage().clone();
    let state = rig.node().owner().state();
    let (cells, damaged) = state.count_cells(&storage).unwrap();
    assert!(damaged.is_empty());
    let sizes = Sizes::new(&storage);
    let horizon = |subject| state.horizon(subject).read(&|entry| sizes.of(entry).unwrap()).unwrap().cells;
    let of = |subject: SubjectNumber| -> Cells {
        cells.iter().filter(|((of, _), _)| *of == subject).map(|(key, tally)| (*key, *tally)).collect()
    };
    let mut totals: BTreeMap<Minute, Tally> = BTreeMap::new();
    for ((_, minute), tally) in &cells {
        totals.entry(*minute).or_default().add(*tally);
    }
    state.totals_are(&cells)
        && totals.into_iter().eq(state.due_by_minute(Minute(0), Minute(u32::MAX)))
        && horizon(None) == cells
        && state.subjects.iter().all(|(number, _)| horizon(Some(number)) == of(number))
}

fn totals_are_kept() -> bool {
    let mut rig = Rig::new(small());
    let publish = |rig: &mut Rig, at: u64| {
        rig.publish(["a", "b"][at as usize % 2], at * 25_000 + 1_000, &"x".repeat(at as usize))
    };
    let receipts: Vec<Receipt> = (0..12).map(|at| publish(&mut rig, at)).collect();
    let mut exact = is_exact(&mut rig);
    exact &= !rig.cancel(&receipts[10]).eq(&delaymq_core::store::Outcome::NotFound) && is_exact(&mut rig);
    rig.checkpoint();
    rig.cancel(&receipts[9]);
    rig.moved(&receipts[8], Due::After(3 * MINUTE_MS));
    exact &= is_exact(&mut rig);
    rig.reopen(End::PowerCutLosesAll);
    exact &= is_exact(&mut rig);
    rig.pass(60_000);
    exact &= is_exact(&mut rig);
    rig.checkpoint();
    rig.cancel(&receipts[11]);
    rig.checkpoint();
    rig.reopen(End::Kill);
    exact &= is_exact(&mut rig);
    rig.pass(1_000_000);
    exact &= is_exact(&mut rig) && rig.node().owner().state().due_by_minute(Minute(0), Minute(u32::MAX)).is_empty();
    rig.checkpoint();
    let identity = *rig.node().identity();
    rig.close();
    exact && verify(&rig.disk.copy(), &identity).unwrap().findings.is_empty()
}

#[test]
fn totals_are_what_is_pending_through_cancels_checkpoints_and_restarts() {
    proves(Planted::ForecastNotLowered, totals_are_kept);
}

/// Cancelled, moved and handed over between the freeze of a checkpoint and its end, also where that merges.
fn what_ends_meanwhile_is_gone() -> bool {
    let mut rig = Rig::new(lean());
    let mut exact = true;
    for round in 0..6 {
        let receipts: Vec<Receipt> = (1..=6).map(|at| rig.publish("s", at * 30_000, "four")).collect();
        assert!(rig.node().begin_checkpoint());
        rig.cancel(&receipts[5]);
        rig.moved(&receipts[4], Due::After(MINUTE_MS * 9));
        rig.pass(30_000);
        exact &= is_exact(&mut rig);
        while !rig.node().checkpoint_piece(40).unwrap() {}
        exact &= is_exact(&mut rig);
        if round % 2 == 1 {
            rig.reopen(End::Kill);
            exact &= is_exact(&mut rig);
        }
    }
    exact
}

#[test]
fn what_ends_while_a_run_is_written_is_not_told() {
    proves(Planted::EndedMeanwhileLost, what_ends_meanwhile_is_gone);
}

/// True where rows of a run are read for a forecast.
fn reads_rows(rig: &mut Rig) -> bool {
    rig.node().owner().state().horizon(None).reads_rows()
}

/// More ended of two runs than is kept: whoever asks reads rows, and has them written again, one by each checkpoint.
fn what_was_too_much_to_keep_is_counted_again() -> bool {
    let _lowered = Lowered::to(1);
    let mut rig = Rig::new(lean());
    let mut receipts = Vec::new();
    for at in 0..40 {
        receipts.push(rig.publish(["a", "b"][at as usize % 2], (at + 5) * MINUTE_MS, "four"));
        if at % 20 == 19 {
            rig.checkpoint();
        }
    }
    let mut exact = is_exact(&mut rig) && !reads_rows(&mut rig);
    for receipt in receipts.iter().step_by(3) {
        rig.cancel(receipt);
        exact &= is_exact(&mut rig);
    }
    rig.checkpoint();
    exact &= is_exact(&mut rig) && reads_rows(&mut rig) && !rig.node().owner().checkpoint_due();
    rig.reopen(End::PowerCutLosesAll);
    exact &= is_exact(&mut rig) && reads_rows(&mut rig);
    rig.node().ask_for_forecast();
    exact &= rig.node().owner().checkpoint_due();
    rig.checkpoint();
    exact &= is_exact(&mut rig) && !reads_rows(&mut rig) && !rig.node().owner().checkpoint_due();
    rig.pass(100 * MINUTE_MS);
    exact && is_exact(&mut rig)
}

#[test]
fn what_ended_and_was_too_much_to_keep_is_not_told() {
    proves(Planted::ForgottenEndedCounted, what_was_too_much_to_keep_is_counted_again);
}

#[test]
fn what_a_group_gave_back_has_the_bytes_that_it_came_with() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("mail", "g");
    rig.publish("mail", 0, "seven b");
    let handed = rig.pull(place);
    rig.checkpoint();
    rig.give_back(("mail", "g"), place, &handed[0], 5 * MINUTE_MS);
    assert_eq!(told(&mut rig, "%RETRY%mail%g"), [(1, 7)]);
    rig.checkpoint();
    rig.reopen(End::Kill);
    assert_eq!(told(&mut rig, "%RETRY%mail%g"), [(1, 7)]);
    assert!(is_exact(&mut rig));
}

#[test]
fn a_minute_that_becomes_hot_is_told_once() {
    let mut options = small();
    options.owner.hot_minute_messages = 3;
    let mut rig = Rig::new(options);
    let receipts: Vec<Receipt> = (0..5).map(|at| rig.publish("s", 10 * MINUTE_MS, &at.to_string())).collect();
    assert_eq!((rig.node().owner().state().hot_minutes(), hot(&mut rig)), (1, vec![4]));
    rig.cancel(&receipts[0]);
    rig.cancel(&receipts[1]);
    assert_eq!(rig.node().owner().state().hot_minutes(), 0);
    rig.publish("s", 10 * MINUTE_MS, "again");
    assert_eq!((rig.node().owner().state().hot_minutes(), hot(&mut rig)), (1, vec![]));
    rig.checkpoint();
    rig.reopen(End::Kill);
    assert_eq!((rig.node().owner().state().hot_minutes(), hot(&mut rig)), (1, vec![]));
}

/// How many messages each of the minutes had that became hot since the last call.
fn hot(rig: &mut Rig) -> Vec<u64> {
    rig.node().take_hot_minutes().iter().map(|hot| hot.tally.messages).collect()
}

#[test]
fn every_minute_that_becomes_hot_in_one_step_is_told() {
    let mut options = small();
    options.owner.hot_minute_messages = 1;
    let mut rig = Rig::new(options);
    for minute in 0..40 {
        rig.submit("s", minute * MINUTE_MS + 30_000, "one");
        rig.submit("s", minute * MINUTE_MS + 30_000, "two");
    }
    rig.settle();
    assert_eq!(hot(&mut rig), vec![2; 40]);
}
