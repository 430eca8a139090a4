//! Stores with pending messages of every kind, and rebuilds of their runs.

use delaymq_core::error::Result;
use delaymq_core::message_log::Identity;
use delaymq_core::run::{LoadName, StagedRun};
use delaymq_core::storage::Storage;
use delaymq_core::store::{
    Adopted, Outcome, OwnerOptions, RebuildCounts, RebuildPlan, RebuiltPiece, adopt_rebuilt, name_hash, open_identity,
    plan_rebuild, rebuild_piece, retry_subject,
};
use delaymq_core::units::{DueKey, Millis, Sequence};
use delaymq_simulation::node::{Due, NewRow, NodeOptions, stage};

use super::keyed::{move_keyed, publish_keyed, tried};
use super::saving::{HOUR_MS, publish_all};
use super::{Rig, START, bodies_of, small};

pub const NAMES: (&str, &str) = ("now", "quick");
/// Groups by which everything that waits is taken at last.
const TAKEN_BY: [(&str, &str); 4] = [("now", "quick"), ("late", "g"), ("keyed", "g"), ("loaded", "g")];

/// Payloads are copied soon, and neighbouring windows are merged.
pub fn merging() -> NodeOptions {
    NodeOptions { owner: OwnerOptions { merge_windows_min: 2, ..small().owner }, ..small() }
}

/// Messages that wait, were cancelled, were moved once and again, by key too, were given back, died, came back, and
/// were loaded; in runs that are merged, and behind the newest checkpoint.
pub fn everything(options: NodeOptions) -> Rig {
    let mut rig = Rig::new(options);
    let quick = rig.earliest("now", "quick");
    for number in 0..8 {
        rig.publish("now", 0, &format!("now {number}"));
    }
    let handed = rig.pull(quick);
    assert_eq!(bodies_of(&handed).len(), 8);
    rig.acknowledge(quick, &[handed[0].delivery.offset.0]);
    rig.give_back(NAMES, quick, &handed[1], HOUR_MS);
    rig.give_back(NAMES, quick, &handed[2], 2 * HOUR_MS);
    rig.node().dead_letter(NAMES, quick, &handed[3].delivery, "no such order", 0).unwrap();
    rig.settle();
    publish_all(&mut rig, "late", 0..60);
    let moved = rig.publish("late", HOUR_MS, "moved");
    let moved = rig.moved(&moved, Due::After(2 * HOUR_MS));
    let cancelled = rig.publish("late", HOUR_MS, "cancelled");
    assert_eq!(rig.cancel(&cancelled), Outcome::Done);
    publish_keyed(&mut rig, "keyed", "a", HOUR_MS, "keyed a");
    publish_keyed(&mut rig, "keyed", "b", HOUR_MS, "keyed b");
    move_keyed(&mut rig, "keyed", "b", 3 * HOUR_MS);
    rig.checkpoint();
    let moved = rig.moved(&moved, Due::After(3 * HOUR_MS));
    let moved = rig.moved(&moved, Due::After(4 * HOUR_MS));
    move_keyed(&mut rig, "keyed", "a", 5 * HOUR_MS);
    rig.checkpoint();
    rig.moved(&moved, Due::After(6 * HOUR_MS));
    load(&mut rig);
    publish_all(&mut rig, "late", 60..90);
    rig.checkpoint();
    publish_all(&mut rig, "late", 90..120);
    rig.checkpoint();
    publish_all(&mut rig, "late", 120..130);
    rig
}

/// Loads twenty messages in two runs, of which one is moved.
fn load(rig: &mut Rig) {
    let row = |number: u64| NewRow {
        subject: "loaded".to_owned(),
        due: Millis(START.0 + 2 * HOUR_MS + number),
        body: format!("loaded {number}").into_bytes(),
    };
    let rows: Vec<NewRow> = (0..20).map(row).collect();
    let name = LoadName { staged: rig.clock.read().wall, nonce: [7; 16] };
    rig.disk.storage().create_folder("loads").unwrap();
    let runs = stage(rig.disk.storage(), &rows, name, 10).unwrap();
    let fact = tried(rig, |node| node.load(name_hash("", "job"), &runs).unwrap());
    let Some(Outcome::Loaded(base, 20)) = rig.node().take_outcome(fact) else { panic!("it was not loaded") };
    let subject = rig.node().subject_number("loaded").unwrap();
    let key = DueKey { due: rows[3].due, sequence: Sequence(base.0 + 3) };
    let receipt = rig.node().receipt_of(key, subject, 8).unwrap();
    rig.moved(&receipt, Due::After(7 * HOUR_MS));
}

/// All that waits, and what is ready, in the order in which it comes after a long time.
pub fn taken(rig: &mut Rig) -> Vec<String> {
    let mut places = Vec::new();
    for (subject, group) in TAKEN_BY {
        places.push(rig.earliest(subject, group));
        let retries = retry_subject(subject, group);
        if rig.node().subject_number(&retries).is_some() {
            places.push(rig.earliest(&retries, group));
        }
    }
    rig.pass(20 * HOUR_MS);
    let mut bodies = Vec::new();
    for place in places {
        bodies.push(format!("{place:?}"));
        bodies.extend(rig.take_all(place));
    }
    bodies
}

/// What is listed as pending.
pub fn listed(rig: &mut Rig) -> Vec<DueKey> {
    let (keys, is_whole) = rig.node().list_pending(1_000).unwrap();
    assert!(is_whole);
    keys
}

pub fn identity_of(rig: &Rig) -> Identity {
    open_identity(rig.disk.copy().as_ref(), None).unwrap()
}

/// A plan of pieces of so many sequences.
pub fn planned(rig: &Rig, sequences: u32) -> RebuildPlan {
    plan_rebuild(&rig.disk.shared(), &identity_of(rig), sequences).unwrap().0
}

/// Every piece of a plan, compared and written.
pub fn rebuilt(rig: &Rig, plan: &RebuildPlan) -> Vec<RebuiltPiece> {
    let storage = rig.disk.shared();
    let identity = identity_of(rig);
    let piece = |index: u32| {
        let name = LoadName { staged: START, nonce: u128::from(index + 1).to_le_bytes() };
        rebuild_piece(&storage, &identity, plan, index, Some((storage.as_ref(), name))).unwrap()
    };
    (0..plan.pieces().len() as u32).map(piece).collect()
}

/// All counts together.
pub fn sum(pieces: &[RebuiltPiece]) -> RebuildCounts {
    pieces.iter().map(|piece| piece.counts).fold(RebuildCounts::default(), |sum, counts| RebuildCounts {
        pending: sum.pending + counts.pending,
        same: sum.same + counts.same,
        different: sum.different + counts.different,
        missing: sum.missing + counts.missing,
        unreadable: sum.unreadable + counts.unreadable,
        kept: sum.kept + counts.kept,
        vanishing: sum.vanishing + counts.vanishing,
    })
}

pub fn staged(pieces: &[RebuiltPiece]) -> Vec<(u32, Option<StagedRun>)> {
    (0..).zip(pieces).map(|(index, piece)| (index, piece.staged)).collect()
}

pub fn adopt(rig: &Rig, plan: &RebuildPlan, pieces: &[RebuiltPiece]) -> Result<Adopted> {
    adopt_rebuilt(&rig.disk.shared(), &identity_of(rig), plan, &staged(pieces))
}

/// Rebuilds everything, and adopts it.
pub fn rebuild_all(rig: &Rig) -> (RebuildCounts, Result<Adopted>) {
    let plan = planned(rig, 32);
    let pieces = rebuilt(rig, &plan);
    (sum(&pieces), adopt(rig, &plan, &pieces))
}
