//! Adopting rebuilt runs: wherever the machine ends and whichever call fails, the store has all its earlier runs or all
//! rebuilt ones. Ready messages that point into a removed run find their payloads again.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use crate::rig::rebuilt::{adopt, everything, identity_of, merging, planned, rebuild_all, rebuilt, staged, sum, taken};
use crate::rig::saving::{DISPATCH, SCHEDULE, place_of, remove, runs_of};
use crate::rig::{Rig, lean, proves, small};
use delaymq_core::error::{Error, StorageFault};
use delaymq_core::planted::Planted;
use delaymq_core::storage::{Crash, MemoryStorage, Storage};
use delaymq_core::store::{Adopted, OwnerOptions, RebuildPlan, RebuiltPiece, adopt_rebuilt, verify};
use delaymq_simulation::disk::{Disk, End};
use delaymq_simulation::node::NodeOptions;

/// Calls that an adoption makes stay below this.
const CALLS_MAX: u64 = 3_000;
/// Power cuts of each moment.
const CUTS: u64 = 6;

/// A store of which everything is rebuilt and nothing adopted yet.
fn with_pieces(damage: &dyn Fn(&Rig)) -> (Rig, RebuildPlan, Vec<RebuiltPiece>) {
    let mut rig = everything(merging());
    rig.close();
    damage(&rig);
    let plan = planned(&rig, 32);
    let pieces = rebuilt(&rig, &plan);
    (rig, plan, pieces)
}

/// The same machine with another disk.
fn on(rig: &Rig, storage: MemoryStorage) -> Rig {
    let mut other = rig.fork(End::Kill, 1);
    other.disk = Disk::of(storage);
    other
}

/// What the store on this disk gives, when it is opened, everything is taken, and every byte is verified.
fn gives(rig: &Rig, storage: MemoryStorage) -> Result<Vec<String>, Error> {
    let mut found = on(rig, storage);
    found.try_open()?;
    let bodies = taken(&mut found);
    let identity = identity_of(&found);
    // What lacked a run is kept as the older checkpoint for two more.
    for _ in 0..2 {
        found.publish("late", 0, "one more");
        found.checkpoint();
    }
    found.close();
    assert_eq!(verify(&found.disk.copy(), &identity).unwrap().findings, Vec::<String>::new());
    Ok(bodies)
}

fn adopt_on(storage: &MemoryStorage, rig: &Rig, plan: &RebuildPlan, pieces: &[RebuiltPiece]) -> Result<Adopted, Error> {
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    adopt_rebuilt(&shared, &identity_of(rig), plan, &staged(pieces))
}

fn copy_of(rig: &Rig) -> MemoryStorage {
    rig.disk.storage().crash(Crash::Kill, 0)
}

fn calls_of(storage: &MemoryStorage, rig: &Rig, plan: &RebuildPlan, pieces: &[RebuiltPiece]) -> u64 {
    let before = storage.counts().all();
    adopt_on(storage, rig, plan, pieces).unwrap();
    let calls = storage.counts().all() - before;
    assert!((20..CALLS_MAX).contains(&calls), "{calls} calls");
    calls
}

#[test]
fn wherever_the_machine_ends_in_an_adoption_nothing_is_lost() {
    let (rig, plan, pieces) = with_pieces(&|_| {});
    let expected = gives(&rig, copy_of(&rig)).unwrap();
    let whole = copy_of(&rig);
    let calls = calls_of(&whole, &rig, &plan, &pieces);
    assert_eq!(gives(&rig, whole.crash(Crash::PowerCutLosesAll, 0)).unwrap(), expected, "it was answered");
    // What is read before anything is changed ends in nothing.
    for stopped_at in (0..calls).filter(|at| *at % 40 == 0 || *at + 40 > calls) {
        let storage = copy_of(&rig);
        storage.stop_after_calls(stopped_at);
        assert!(adopt_on(&storage, &rig, &plan, &pieces).is_err());
        let cuts = (0..CUTS).map(|seed| (Crash::PowerCut, seed));
        for (crash, seed) in cuts.chain([(Crash::Kill, 0), (Crash::PowerCutLosesAll, 0)]) {
            let left = storage.crash(crash, seed);
            assert_eq!(gives(&rig, left).unwrap(), expected, "{stopped_at} of {calls}, {crash:?} {seed}");
        }
    }
}

#[test]
fn an_adoption_that_ended_anywhere_is_done_again_by_the_same_arguments() {
    let (rig, plan, pieces) = with_pieces(&|rig| {
        for run in runs_of(rig, SCHEDULE) {
            remove(rig, &run);
        }
    });
    assert!(gives(&rig, copy_of(&rig)).is_err());
    let whole = copy_of(&rig);
    let calls = calls_of(&whole, &rig, &plan, &pieces);
    let expected = gives(&rig, whole.clone()).unwrap();
    let answered = adopt_on(&whole.crash(Crash::PowerCutLosesAll, 0), &rig, &plan, &pieces);
    // It was opened since, and what is newest by now is of another moment.
    assert!(answered.is_err() || answered.is_ok_and(|adopted| adopted.runs > 0));
    for stopped_at in (0..calls).filter(|at| *at % 50 == 0 || *at + 30 > calls) {
        let storage = copy_of(&rig);
        storage.stop_after_calls(stopped_at);
        assert!(adopt_on(&storage, &rig, &plan, &pieces).is_err());
        for (crash, seed) in [(Crash::Kill, 0), (Crash::PowerCutLosesAll, 0), (Crash::PowerCut, stopped_at)] {
            let left = storage.crash(crash, seed);
            adopt_on(&left, &rig, &plan, &pieces).unwrap();
            assert_eq!(adopt_on(&left, &rig, &plan, &pieces).unwrap().messages, sum(&pieces).pending);
            assert_eq!(gives(&rig, left).unwrap(), expected, "{stopped_at} of {calls}, {crash:?}");
        }
    }
}

#[test]
fn whichever_call_fails_once_the_adoption_is_done_when_it_is_tried_again() {
    let (rig, plan, pieces) = with_pieces(&|_| {});
    let expected = gives(&rig, copy_of(&rig)).unwrap();
    let calls = calls_of(&copy_of(&rig), &rig, &plan, &pieces);
    for failed in (0..calls).filter(|at| *at % 40 == 0 || *at + 40 > calls) {
        let storage = copy_of(&rig);
        storage.fail_call(failed, StorageFault::Io);
        let adopted = adopt_on(&storage, &rig, &plan, &pieces);
        storage.heal();
        if adopted.is_err() {
            assert_eq!(gives(&rig, storage.crash(Crash::Kill, 0)).unwrap(), expected, "{failed} of {calls}");
        }
        adopt_on(&storage, &rig, &plan, &pieces).unwrap();
        assert_eq!(gives(&rig, storage).unwrap(), expected, "{failed} of {calls}");
    }
}

#[test]
fn runs_are_durable_before_they_are_named() {
    let (rig, plan, pieces) = with_pieces(&|_| {});
    proves(Planted::RebuiltNamedUnsynced, || {
        let storage = copy_of(&rig);
        adopt_on(&storage, &rig, &plan, &pieces).unwrap();
        (0..20).all(|seed| on(&rig, storage.crash(Crash::PowerCut, seed)).try_open().is_ok())
            && on(&rig, storage.crash(Crash::PowerCutLosesAll, 0)).try_open().is_ok()
    });
}

/// Messages that were copied into a run and are ready since, so that a run of ready ones points into it; with one that
/// waits there yet, or without.
fn with_ready_in_a_run(options: NodeOptions, waits: bool) -> Rig {
    let mut rig = Rig::new(options);
    rig.earliest("soon", "g");
    for number in 0..6 {
        rig.publish("soon", 10_000 + number, &format!("soon {number}"));
    }
    if waits {
        rig.publish("soon", 90_000_000, "late");
    }
    rig.checkpoint();
    rig.pass(20_000);
    rig.checkpoint();
    assert_eq!(runs_of(&rig, DISPATCH).len(), 1);
    rig
}

#[test]
fn ready_messages_whose_run_is_gone_find_their_payloads_in_the_log() {
    let mut rig = with_ready_in_a_run(small(), true);
    rig.end(End::Kill);
    let run = runs_of(&rig, SCHEDULE).remove(0);
    remove(&rig, &run);
    assert!(matches!(rig.fork(End::Kill, 1).try_open(), Err(Error::MissingFile { .. })));
    let (counts, adopted) = rebuild_all(&rig);
    assert_eq!((counts.unreadable, adopted.unwrap().messages), (1, 1));
    rig.try_open().unwrap();
    let place = rig.earliest("soon", "g");
    assert_eq!(rig.take_all(place), (0..6).map(|number| format!("soon {number}")).collect::<Vec<_>>());
    rig.checkpoint();
    rig.pass(90_000_000);
    assert_eq!(rig.take_all(place), ["late"]);
    let identity = identity_of(&rig);
    rig.checkpoint();
    rig.checkpoint();
    rig.close();
    rig.verify(&identity);
}

#[test]
fn a_store_in_which_nothing_waits_is_opened_again_without_the_run_that_is_gone() {
    let mut rig = with_ready_in_a_run(small(), false);
    rig.end(End::Kill);
    let run = runs_of(&rig, SCHEDULE).remove(0);
    remove(&rig, &run);
    let (_, adopted) = rebuild_all(&rig);
    assert_eq!(adopted.unwrap(), Adopted::default());
    rig.try_open().unwrap();
    let place = rig.earliest("soon", "g");
    assert_eq!(rig.take_all(place).len(), 6);
}

#[test]
fn an_adoption_without_pieces_is_answered_as_the_first_time_until_another_checkpoint_is_taken() {
    let mut rig = with_ready_in_a_run(small(), false);
    rig.end(End::Kill);
    let plan = planned(&rig, 32);
    assert!(plan.pieces().is_empty());
    for _ in 0..3 {
        assert_eq!(adopt(&rig, &plan, &[]).unwrap(), Adopted::default());
    }
    rig.try_open().unwrap();
    rig.checkpoint();
    rig.end(End::Kill);
    let error = adopt(&rig, &plan, &[]).unwrap_err();
    assert!(error.to_string().contains("plan again"), "{error}");
}

#[test]
fn ready_messages_whose_payloads_are_nowhere_else_are_named_and_nothing_is_adopted() {
    let owner = OwnerOptions { merge_windows_min: 0, ..lean().owner };
    let mut rig = with_ready_in_a_run(NodeOptions { owner, ..lean() }, false);
    let noise = rig.earliest("noise", "g");
    for _ in 0..4 {
        for number in 0..40 {
            rig.publish("noise", 0, &format!("{number:->200}"));
        }
        rig.take_all(noise);
        rig.checkpoint();
    }
    rig.end(End::Kill);
    let run = runs_of(&rig, SCHEDULE).remove(0);
    assert_eq!(place_of(&rig, "soon 3").0, run, "the log has it yet");
    remove(&rig, &run);
    let plan = planned(&rig, 32);
    let pieces = rebuilt(&rig, &plan);
    let before = rig.disk.storage().image();
    let refused = adopt(&rig, &plan, &pieces).unwrap_err();
    assert_eq!(rig.disk.storage().image(), before, "something was changed");
    assert!(matches!(&refused, Error::MissingFile { path, .. } if *path == run), "{refused}");
    assert!(refused.to_string().contains("6 ready messages"), "{refused}");
}

/// One that reads again later would be the older of two with a later position, and what only the other needs would go.
#[test]
fn nothing_is_adopted_behind_a_newer_checkpoint_that_cannot_be_read() {
    let spoiled = |rig: &Rig| rig.newest("checkpoints/");
    let (rig, plan, pieces) = with_pieces(&|rig| {
        let newest = spoiled(rig);
        assert!(rig.disk.storage().damage(&newest, 70, 1));
    });
    let newest = spoiled(&rig);
    let before = rig.disk.storage().image();
    let refused = adopt(&rig, &plan, &pieces);
    assert!(matches!(&refused, Err(Error::Corrupt { path, .. }) if *path == newest), "{refused:?}");
    assert!(rig.disk.storage().image() == before, "something was changed");
    // A comparison is of the older one all the same.
    assert!(sum(&pieces).pending > 0);
}
