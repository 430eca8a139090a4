//! Runs of real files that are rebuilt: next to an open store, and in place of a lost run.

#![cfg(test)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{collect, open, options, publish, subscribe};
use delaymq_core::error::Error;
use delaymq_core::store::RebuildPlan;
use delaymq_engine::{Due, Durability, adopt_rebuilt, plan_rebuild, rebuild_piece};

const MESSAGES: u8 = 100;
const DELAY_MS: u64 = 3_000;

/// An open store with a checkpoint, and facts behind it.
fn filled(path: &Path) -> Arc<delaymq_engine::Store> {
    let mut options = options(Durability::Disk);
    options.owner.copy_after_ms = 0;
    let store = open(path, options);
    for number in 0..MESSAGES {
        publish(&store, "late", Due::After(DELAY_MS), &[number; 50]);
    }
    store.checkpoint().unwrap();
    publish(&store, "late", Due::After(DELAY_MS), b"behind the checkpoint");
    store
}

fn files_of(path: &Path, folder: &str) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(path.join(folder)).unwrap();
    listed.map(|file| file.unwrap().path()).collect()
}

#[test]
fn an_open_store_is_compared_and_its_runs_stay_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let (plan, kept) = plan_rebuild(folder.path(), 32).unwrap();
    assert!(kept.is_empty());
    let mut staged = Vec::new();
    let (mut pending, mut same) = (0, 0);
    for index in 0..plan.pieces().len() as u32 {
        let rebuilt = rebuild_piece(folder.path(), &plan, index, true).unwrap();
        pending += rebuilt.counts.pending;
        same += rebuilt.counts.same;
        staged.push((index, rebuilt.staged));
    }
    assert_eq!((pending, same), (u64::from(MESSAGES), u64::from(MESSAGES)));
    assert_eq!(files_of(folder.path(), "loads").len(), plan.pieces().len());
    assert!(matches!(adopt_rebuilt(folder.path(), &plan, &staged), Err(Error::Locked { .. })));
    store.close().unwrap();
    let foreign = tempfile::tempdir().unwrap();
    filled(foreign.path()).close().unwrap();
    assert!(matches!(
        adopt_rebuilt(foreign.path(), &plan, &staged),
        Err(Error::InvalidArgument { argument: "plan", .. })
    ));
}

#[test]
fn a_store_whose_runs_are_gone_is_opened_again_with_all_its_messages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    filled(path).close().unwrap();
    for run in files_of(path, "runs") {
        std::fs::remove_file(run).unwrap();
    }
    let (plan, _) = plan_rebuild(path, 1 << 20).unwrap();
    let plan = RebuildPlan::from_bytes(&plan.to_bytes()).unwrap();
    let rebuilt = rebuild_piece(path, &plan, 0, true).unwrap();
    assert_eq!((plan.pieces().len(), rebuilt.counts.unreadable), (1, u64::from(MESSAGES)));
    assert!(rebuilt.examples[0].words.contains("runs/"), "{:?}", rebuilt.examples[0]);
    let adopted = adopt_rebuilt(path, &plan, &[(0, rebuilt.staged)]).unwrap();
    assert_eq!((adopted.runs, adopted.messages), (1, u64::from(MESSAGES)));
    assert!(files_of(path, "loads").is_empty());
    let store = open(path, options(Durability::Disk));
    let group = subscribe(&store, "late", "group");
    let found = collect(&group, usize::from(MESSAGES) + 1);
    let bodies: Vec<u8> = found.iter().map(|message| message.body()[0]).collect();
    assert_eq!(bodies, (0..MESSAGES).chain([b'b']).collect::<Vec<_>>());
}

#[test]
fn what_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "notes").unwrap();
    assert!(matches!(plan_rebuild(folder.path(), 32), Err(Error::NotAStore { .. })));
    assert!(matches!(plan_rebuild(&folder.path().join("none"), 32), Err(Error::Storage { .. })));
    let store = tempfile::tempdir().unwrap();
    open(store.path(), options(Durability::Disk)).close().unwrap();
    for sequences in [0, 33, 1 << 21] {
        let refused = plan_rebuild(store.path(), sequences);
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "piece_sequences", .. })));
    }
}
