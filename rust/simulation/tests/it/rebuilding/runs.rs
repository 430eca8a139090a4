//! Runs that are rebuilt from the log equal the existing runs. Damage to the existing runs is reported, and the rebuilt
//! runs are adopted in their place.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use crate::rig::rebuilt::{
    adopt, everything, identity_of, listed, merging, planned, rebuild_all, rebuilt, staged, sum, taken,
};
use crate::rig::saving::{SCHEDULE, flip, remove, retired, runs_of};
use crate::rig::{Rig, small};
use delaymq_core::error::Error;
use delaymq_core::planted::Planted;
use delaymq_core::store::{Adopted, RebuildCounts, RebuildFinding, RebuildPlan, adopt_rebuilt, plan_rebuild};
use delaymq_simulation::disk::End;
use delaymq_simulation::planted::Plant;
use delaymq_simulation::world::{Plan, World};

/// Histories of this test, and what they must have come to.
const SEEDS: u64 = 150;

#[test]
fn whatever_a_store_has_lived_its_runs_are_those_that_are_rebuilt() {
    let (mut messages, mut kept) = (0, 0);
    for seed in 1..=SEEDS {
        let plan = Plan { rebuild_percent: 70, ..World::plan_of(seed) };
        let ending = World::of(seed, plan, false).run();
        assert_eq!(ending.violations, Vec::<String>::new(), "seed {seed}: {plan:?}");
        messages += ending.rebuilt.0;
        kept += ending.rebuilt.1;
    }
    println!("{messages} messages were rebuilt, {kept} of them from the runs alone");
    assert!(messages > 1_000 && kept > 20 && kept < messages / 2, "{messages}, {kept}");
}

#[test]
fn a_run_says_what_the_log_says_of_every_kind_of_message() {
    for options in [small(), merging()] {
        let rig = everything(options);
        let plan = planned(&rig, 32);
        let found = sum(&rebuilt(&rig, &plan));
        // Two retries, sixty and thirty and thirty late ones, one moved, two with keys, the moved one of those loaded.
        let pending = found.pending;
        assert!((120..=150).contains(&pending), "{pending}");
        assert_eq!(found, RebuildCounts { pending, same: pending, ..RebuildCounts::default() });
    }
}

#[test]
fn what_was_loaded_stays_and_is_rebuilt_once_it_was_merged() {
    let rig = everything(small());
    let (plan, kept) = plan_rebuild(&rig.disk.shared(), &identity_of(&rig), 32).unwrap();
    assert_eq!(kept.iter().map(|window| window.sequences).collect::<Vec<_>>(), [10, 10]);
    assert!(kept.iter().all(|window| window.why.contains("was loaded")), "{kept:?}");
    assert!(plan.pieces().iter().all(|piece| kept.iter().all(|window| {
        piece.first.0 + piece.sequences <= window.first.0 || window.first.0 + window.sequences <= piece.first.0
    })));
    let mut rig = everything(merging());
    for _ in 0..6 {
        rig.publish("late", crate::rig::saving::HOUR_MS, "one more");
        rig.checkpoint();
    }
    let (plan, kept) = plan_rebuild(&rig.disk.shared(), &identity_of(&rig), 32).unwrap();
    assert!(kept.is_empty(), "{kept:?}");
    let counts = sum(&rebuilt(&rig, &plan));
    assert_eq!(counts.pending, counts.same);
}

/// The same machine twice: in one of them, all runs are rebuilt and adopted, whatever is done to them before.
fn is_the_same_with(rig: &mut Rig, damage: &dyn Fn(&Rig)) -> (RebuildCounts, Adopted) {
    let mut twin = rig.fork(End::Kill, 1);
    twin.try_open().unwrap();
    rig.end(End::Kill);
    damage(rig);
    let (counts, adopted) = rebuild_all(rig);
    let adopted = adopted.unwrap();
    rig.try_open().unwrap();
    assert_eq!(listed(rig), listed(&mut twin));
    assert_eq!(taken(rig), taken(&mut twin));
    let identity = identity_of(rig);
    rig.checkpoint();
    rig.checkpoint();
    rig.checkpoint();
    rig.close();
    rig.verify(&identity);
    (counts, adopted)
}

#[test]
fn adopted_runs_give_the_same_messages() {
    for options in [small(), merging()] {
        let mut rig = everything(options);
        let before = rig.files();
        let (counts, adopted) = is_the_same_with(&mut rig, &|_| {});
        assert_eq!((counts.same, adopted.messages), (counts.pending, counts.pending));
        assert!(adopted.runs > 1 && before.len() > 5);
    }
}

#[test]
fn a_whole_store_verifies_right_after_its_runs_were_adopted() {
    let mut rig = everything(merging());
    rig.close();
    let identity = identity_of(&rig);
    rig.verify(&identity);
    rebuild_all(&rig).1.unwrap();
    rig.verify(&identity);
}

#[test]
fn a_run_that_is_gone_is_told_and_made_again() {
    for options in [small(), merging()] {
        let mut rig = everything(options);
        let runs = runs_of(&rig, SCHEDULE);
        assert!(!runs.is_empty());
        let (counts, _) = is_the_same_with(&mut rig, &|rig| {
            for run in &runs {
                remove(rig, run);
            }
            assert!(matches!(rig.fork(End::Kill, 1).try_open(), Err(Error::MissingFile { .. })));
        });
        assert_eq!((counts.unreadable, counts.same), (counts.pending, 0));
    }
}

#[test]
fn every_byte_of_rows_and_payloads_is_compared() {
    let rig = everything(merging());
    let plan = planned(&rig, 1 << 20);
    let whole = sum(&rebuilt(&rig, &plan));
    let mut told = 0;
    for run in runs_of(&rig, SCHEDULE) {
        let bytes = rig.disk.storage().image()[&run].clone();
        let footer = u64::from_le_bytes(bytes[bytes.len() - 40..bytes.len() - 32].try_into().unwrap());
        // Cells are of forecasts, and the header of nothing: an opening reads neither, and `verify` both.
        let cells = u64::from_le_bytes(bytes[footer as usize + 40..footer as usize + 48].try_into().unwrap());
        let payloads = u64::from_le_bytes(bytes[footer as usize + 32..footer as usize + 40].try_into().unwrap());
        let read = (4_096..payloads + cells).chain(footer..bytes.len() as u64 - 40);
        for offset in read.step_by(61) {
            flip(&rig, &run, offset);
            let pieces = rebuilt(&rig, &plan);
            let found = sum(&pieces);
            assert_eq!((found.vanishing, found.missing, found.kept), (0, 0, 0), "{run} {offset}");
            if found.unreadable + found.different > 0 {
                told += 1;
                let words = &pieces.iter().find_map(|piece| piece.examples.first()).unwrap().words;
                assert!(words.contains(&run) && words.contains("at offset"), "{words}");
            } else {
                // Of an entry that has ended since.
                assert_eq!(found, whole, "{run} {offset}");
            }
            flip(&rig, &run, offset);
        }
    }
    assert!(told > 200, "{told}");
}

#[test]
fn a_row_that_is_not_there_is_told_and_made_again() {
    let mut rig = Rig::new(small());
    crate::rig::saving::publish_all(&mut rig, "late", 0..20);
    {
        let _plant = Plant::new(Some(Planted::CheckpointAfterFlush));
        rig.checkpoint();
    }
    let (counts, _) = is_the_same_but(&mut rig);
    assert_eq!((counts.missing, counts.same, counts.pending), (1, 19, 20));
}

/// Rebuilds, adopts, and takes all of twenty.
fn is_the_same_but(rig: &mut Rig) -> (RebuildCounts, Adopted) {
    rig.end(End::Kill);
    let (counts, adopted) = rebuild_all(rig);
    rig.try_open().unwrap();
    let place = rig.earliest("late", "g");
    rig.pass(10 * crate::rig::saving::HOUR_MS);
    assert_eq!(rig.take_all(place), (0..20).map(|number| format!("late {number:03}")).collect::<Vec<_>>());
    (counts, adopted.unwrap())
}

#[test]
fn what_the_log_has_no_more_is_kept_and_never_lost() {
    let mut rig = retired();
    rig.end(End::Kill);
    let run = runs_of(&rig, SCHEDULE).remove(0);
    let late = crate::rig::saving::place_of(&rig, "late 001");
    assert_eq!(late.0, run, "the log has it yet");
    let plan = planned(&rig, 32);
    let counts = sum(&rebuilt(&rig, &plan));
    assert_eq!((counts.pending, counts.kept), (3, 3));
    flip(&rig, &run, late.1);
    let pieces = rebuilt(&rig, &plan);
    let found = sum(&pieces);
    assert_eq!((found.kept, found.vanishing), (2, 1));
    assert_eq!(pieces[0].examples[0].finding, RebuildFinding::Vanishing);
    let before = rig.disk.storage().image();
    let refused = adopt(&rig, &plan, &pieces).unwrap_err();
    let sequence = pieces[0].examples[0].sequence;
    assert!(refused.to_string().contains(&format!("of sequences {sequence}")), "{refused}");
    assert!(matches!(refused, Error::InvalidArgument { argument: "staged", .. }));
    assert_eq!(rig.disk.storage().image(), before, "something was changed");
    remove(&rig, &run);
    let pieces = rebuilt(&rig, &plan);
    assert_eq!(sum(&pieces).vanishing, 3);
    assert!(matches!(adopt(&rig, &plan, &pieces), Err(Error::InvalidArgument { argument: "staged", .. })));
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut rig = everything(merging());
    rig.end(End::Kill);
    let plan = planned(&rig, 32);
    let pieces = rebuilt(&rig, &plan);
    let told = staged(&pieces);
    assert!(told.len() > 2);
    let before = rig.disk.storage().image();
    let refused = |plan: &RebuildPlan, told: &[_]| {
        let refused = adopt_rebuilt(&rig.disk.shared(), &identity_of(&rig), plan, told).unwrap_err();
        assert_eq!(rig.disk.storage().image(), before, "something was changed");
        refused
    };
    assert!(matches!(refused(&plan, &told[1..]), Error::InvalidArgument { argument: "index", .. }));
    let twice: Vec<_> = told.iter().chain(&told[..1]).copied().collect();
    assert!(matches!(refused(&plan, &twice), Error::InvalidArgument { argument: "index", .. }));
    let mut other = told.clone();
    other[0].1.as_mut().unwrap().digest ^= 1;
    assert!(matches!(refused(&plan, &other), Error::Corrupt { .. }));
    let mut swapped = told.clone();
    (swapped[0].1, swapped[1].1) = (told[1].1, told[0].1);
    assert!(matches!(refused(&plan, &swapped), Error::Corrupt { .. }));
    let mut without = told.clone();
    without[1].1 = None;
    assert!(matches!(refused(&plan, &without), Error::InvalidArgument { argument: "staged", .. }));
    assert!(RebuildPlan::from_bytes(&plan.to_bytes()[1..]).is_err());
    // The store goes on: what was planned is of the past.
    rig.try_open().unwrap();
    rig.checkpoint();
    rig.end(End::Kill);
    let error = adopt(&rig, &plan, &pieces).unwrap_err();
    assert!(error.to_string().contains("plan again"), "{error}");
}

#[test]
fn a_byte_that_rots_beside_the_store_is_found_before_anything_changes() {
    let mut rig = everything(small());
    rig.end(End::Kill);
    let plan = planned(&rig, 1 << 20);
    let pieces = rebuilt(&rig, &plan);
    let run = pieces[0].staged.unwrap();
    let before = rig.disk.storage().image();
    for offset in (0..run.length).step_by(131) {
        flip(&rig, &run.name.path(), offset);
        let refused = adopt(&rig, &plan, &pieces);
        flip(&rig, &run.name.path(), offset);
        assert!(refused.is_err(), "{offset}");
        assert_eq!(rig.disk.storage().image(), before, "{offset}");
    }
    adopt(&rig, &plan, &pieces).unwrap();
}

#[test]
fn a_row_that_is_left_out_is_missed_by_the_adoption() {
    let mut rig = everything(small());
    rig.end(End::Kill);
    let plan = planned(&rig, 32);
    let pieces = {
        let _plant = Plant::new(Some(Planted::RebuiltRowDropped));
        rebuilt(&rig, &plan)
    };
    let refused = adopt(&rig, &plan, &pieces).unwrap_err();
    assert!(refused.to_string().contains("that would vanish"), "{refused}");
}
