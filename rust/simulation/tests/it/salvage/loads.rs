//! Salvage of loaded messages: the load is known from a checkpoint, known from its fact, or in doubt; or staged files
//! are damaged or missing.
#![expect(clippy::unwrap_used, reason = "a test may")]

use crate::rig::saving::{HOUR_MS, counts, files_of, flip, look, place_of, publish_all, remove, saved, subject};
use crate::rig::{Rig, small};
use delaymq_core::error::Error;
use delaymq_core::record::terms::NameHash;
use delaymq_core::run::{LoadName, StagedRun};
use delaymq_core::store::Outcome;
use delaymq_core::units::Millis;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{NewRow, stage};

const ROWS: u64 = 20;
/// Rows of a staged file.
const FILE_ROWS: u32 = 8;

fn staged(rig: &Rig) -> Vec<StagedRun> {
    let due = |number: u64| Millis(crate::rig::START.0 + 2 * HOUR_MS + number);
    let row = |number: u64| NewRow {
        subject: "loaded".to_owned(),
        due: due(number),
        body: format!("loaded {number:03}").into_bytes(),
    };
    let rows: Vec<NewRow> = (0..ROWS).map(row).collect();
    let name = LoadName { staged: crate::rig::START, nonce: [7; 16] };
    stage(rig.disk.shared().as_ref(), &rows, name, FILE_ROWS).unwrap()
}

/// Some are published, some are loaded, and some are published behind these. `is_known`: the checkpoint knows the load.
fn loaded(is_known: bool) -> Rig {
    let mut rig = Rig::new(small());
    publish_all(&mut rig, "before", 0..5);
    rig.checkpoint();
    publish_all(&mut rig, "between", 0..5);
    let runs = staged(&rig);
    let asked = rig.node().load(NameHash { low: 1, high: 1 }, &runs).unwrap().unwrap();
    rig.settle();
    assert!(matches!(rig.node().take_outcome(asked), Some(Outcome::Loaded(_, ROWS))));
    if is_known {
        rig.checkpoint();
    }
    publish_all(&mut rig, "behind", 0..5);
    rig
}

fn of_loads(found: &[(String, String)]) -> usize {
    found.iter().filter(|(to, body)| to == "loaded" && body.starts_with("loaded ")).count()
}

#[test]
fn what_was_loaded_is_saved_as_what_was_published() {
    for is_known in [true, false] {
        let rig = loaded(is_known);
        let found = look(&rig).unwrap();
        assert_eq!((found.damage.len(), found.gaps.len(), found.lost_count()), (0, 0, 0));
        assert_eq!(counts(&found)["loaded"], (ROWS, 0, 0, 0), "{is_known}");
        assert_eq!(of_loads(&saved(&found)), 20);
    }
}

#[test]
fn without_any_checkpoint_it_is_found_by_its_fact() {
    let rig = loaded(true).fork(End::Kill, 1);
    let checkpoints = files_of(&rig, "checkpoints/");
    assert_eq!(checkpoints.len(), 2);
    for path in checkpoints {
        remove(&rig, &path);
    }
    let found = look(&rig).unwrap();
    assert_eq!(counts(&found)["loaded"], (ROWS, 0, 0, 0));
    assert_eq!((of_loads(&saved(&found)), found.lost_count()), (20, 0));
}

#[test]
fn behind_a_fact_that_is_lost_it_is_kept_in_doubt_and_none_is_lost() {
    let rig = loaded(false).fork(End::Kill, 1);
    let (path, offset) = place_of(&rig, "between 002");
    // Behind its fixed part, which its header covers.
    flip(&rig, &path, offset - 40);
    let found = look(&rig).unwrap();
    assert!(!found.damage.is_empty());
    assert_eq!(subject(&found, "loaded").doubtful, ROWS, "{:?}", counts(&found));
    assert_eq!(of_loads(&saved(&found)), 20);
}

#[test]
fn a_damaged_message_of_a_load_is_told_to_be_lost_and_the_others_are_saved() {
    for is_known in [true, false] {
        let rig = loaded(is_known).fork(End::Kill, 1);
        let (path, offset) = place_of(&rig, "loaded 011");
        assert!(path.starts_with("loads/"), "{path}");
        flip(&rig, &path, offset);
        let found = look(&rig).unwrap();
        let of = subject(&found, "loaded");
        assert_eq!((of.pending, of.lost), (ROWS - 1, 1), "{is_known}");
        assert!(matches!(&found.lost[0].error, Error::DamagedPayload { path: named, .. } if *named == path));
        assert!(!saved(&found).iter().any(|(_, body)| body == "loaded 011"));
    }
}

#[test]
fn a_staged_file_that_is_gone_costs_its_own_messages_and_is_named() {
    for is_known in [true, false] {
        let rig = loaded(is_known).fork(End::Kill, 1);
        let gone = files_of(&rig, "loads/").remove(0);
        remove(&rig, &gone);
        let found = look(&rig).unwrap();
        let is_named = |error: &Error| matches!(error, Error::MissingFile { path, .. } if *path == gone);
        assert!(found.damage.iter().any(is_named), "{:?}", found.damage);
        assert_eq!(of_loads(&saved(&found)), 20 - FILE_ROWS as usize, "{is_known}: {:?}", counts(&found));
        let unread: u64 = found.gaps.iter().map(|gap| gap.count).sum();
        assert!(found.lost_count() + unread >= u64::from(FILE_ROWS), "{is_known}: nobody says that they are gone");
        for other in ["before", "between", "behind"] {
            let of = subject(&found, other);
            assert_eq!(of.pending + of.doubtful, 5, "{is_known}: {other}");
        }
    }
}
