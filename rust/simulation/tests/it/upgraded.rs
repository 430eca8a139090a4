//! A store of an earlier format, as the last build that wrote it has left it, opened by today's.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::rig::saving::{HOUR_MS, flip, place_of};
use crate::rig::{Rig, small};
use delaymq_simulation::disk::{Disk, End};
use delaymq_simulation::small_worlds::formats::{OF_FORMAT_4, lay};

/// The machine with this store on its disk.
fn with_store(golden: &str) -> Rig {
    let mut rig = Rig::new(small());
    rig.end(End::Kill);
    rig.disk = Disk::new(1);
    lay(rig.disk.storage(), golden).unwrap();
    rig
}

/// Each open would count everything one by one until a checkpoint says what came of it.
#[test]
fn what_an_upgraded_store_counted_is_saved_by_a_checkpoint_that_is_due_at_once() {
    let mut rig = with_store(OF_FORMAT_4);
    for round in 0..2 {
        rig.try_open().unwrap();
        assert!(rig.node().owner().state().pending_counts().values().sum::<u64>() > 0);
        assert!(rig.node().owner().checkpoint_due(), "{round}");
        rig.end(End::Kill);
    }
    rig.try_open().unwrap();
    rig.checkpoint();
    for round in 0..2 {
        assert!(!rig.node().owner().checkpoint_due(), "{round}");
        rig.reopen(End::PowerCutLosesAll);
    }
}

/// A body that cannot be read was counted as nothing, and is taken away as nothing: all is not counted again for it.
#[test]
fn a_damaged_body_whose_size_no_row_says_becomes_ready_without_a_count_of_everything() {
    let mut rig = with_store(OF_FORMAT_4);
    // One copy is in the log, the other in a run.
    for _ in 0..2 {
        let (path, at) = place_of(&rig, "copied into a run");
        flip(&rig, &path, at + 3);
    }
    rig.try_open().unwrap();
    rig.checkpoint();
    let before = rig.node().owner().state().pending_counts();
    rig.clock.advance(400 * 24 * HOUR_MS);
    for _ in 0..20 {
        if rig.node().needs_segment(1) {
            rig.node().prepare().unwrap();
        }
        let now = rig.clock.read();
        rig.node().look(now);
        rig.node().step(1_000).unwrap();
        rig.settle();
    }
    let state = rig.node().owner().state();
    assert!(state.pending_counts() != before, "{before:?}");
    let storage = rig.disk.shared();
    let (cells, damaged) = rig.node().owner().state().count_cells(&storage).unwrap();
    assert!(damaged.is_empty() && rig.node().owner().state().totals_are(&cells), "{cells:?}");
    assert!(!rig.node().owner().checkpoint_due());
}
