//! Histories of openings: which files an opening may trust, and how much it reads.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use crate::rig::{Rig, lean, sees, small};
use delaymq_core::planted::Planted;
use delaymq_core::storage::Call;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NewMessage, NodeOptions};

/// Where a checkpoint is damaged that cannot be read for once.
const UNREADABLE_AT: u64 = 30;

/// The newest checkpoint cannot be read for once, and the opening that cannot is stopped when it has
/// unlinked it and before that is durable. Also the run that only it names.
fn stopped_behind_an_unlink() -> (Rig, String, String) {
    let mut rig = Rig::new(small());
    for body in ["first", "second"] {
        rig.publish("s", 50_000, body);
        rig.checkpoint();
    }
    let (newest, run) = (rig.newest("checkpoints/"), rig.newest("runs/"));
    rig.disk.storage().damage(&newest, UNREADABLE_AT, 1);
    for calls in 0..200 {
        let mut first = rig.fork(End::Kill, 1);
        first.disk.storage().stop_after_calls(calls);
        first.try_open().unwrap_err();
        if !first.files().contains(&newest) {
            assert!(first.fork(End::PowerCutLosesAll, 1).files().contains(&newest), "the unlink is not durable yet");
            return (first.fork(End::Kill, 1), newest, run);
        }
    }
    panic!("no opening removes what it does not use");
}

#[test]
fn folders_are_synced_before_recovery_trusts_them() {
    let (killed, newest, run) = stopped_behind_an_unlink();
    let mut removed = 0;
    for calls in 0..1_000 {
        let mut second = killed.fork(End::Kill, 1);
        assert!(second.files().contains(&run) && !second.files().contains(&newest));
        second.disk.storage().stop_after_calls(calls);
        let opened = second.try_open().is_ok();
        // Of the two unlinks only the second one is kept, where that can be.
        let mut third = second.fork_but(&|path| path == run);
        if third.files().contains(&newest) {
            // It can be read again.
            third.disk.storage().damage(&newest, UNREADABLE_AT, 1);
        }
        removed += u32::from(!third.files().contains(&run));
        third.try_open().unwrap_or_else(|error| panic!("stopped after {calls} calls: {error}"));
        assert_eq!(third.drain("s", "g"), ["first", "second"], "{calls}");
        third.compare_with_log();
        if opened {
            assert!(removed > 2, "the second unlink was kept {removed} times");
            return;
        }
    }
    panic!("the second opening does not come to its end");
}

/// Messages that are not due for long, in batches.
fn publish_far(rig: &mut Rig, count: usize) {
    let message = NewMessage {
        subject: "far",
        due: Due::After(2_592_000_000),
        body: b"it waits for thirty days",
        expires: None,
        meta: b"",
    };
    for part in vec![message; count].chunks(50) {
        while rig.node().publish(part).unwrap().is_none() {
            rig.settle();
            rig.node().prepare().unwrap();
        }
        rig.settle();
    }
}

/// A store with so many pending beyond the window, all in runs, and the same log behind them.
fn with_pending(count: usize) -> Rig {
    let mut rig = Rig::new(NodeOptions { segment_bytes: 64 << 10, ..lean() });
    publish_far(&mut rig, count);
    for _ in 0..4 {
        rig.clock.advance(1);
        rig.publish("s", 0, "more");
        rig.drain("s", "g");
        rig.checkpoint();
    }
    publish_far(&mut rig, 100);
    rig
}

/// Storage calls and bytes read of an opening after `kill -9`, without those of its checkpoints.
struct Cost {
    reads: u64,
    calls: u64,
    bytes: u64,
    checkpoints: u64,
    pending: u64,
}

fn cost_of_opening(rig: &Rig) -> Cost {
    let mut after = rig.fork(End::Kill, 1);
    let image = after.disk.storage().image();
    let checkpoints = image.iter().filter(|(path, _)| path.starts_with("checkpoints/"));
    let checkpoints = checkpoints.map(|(_, bytes)| bytes.len() as u64).sum();
    after.try_open().unwrap();
    let counts = after.disk.storage().counts();
    let pending = after.node().owner().state().schedule.pending();
    Cost {
        reads: counts.of(Call::Read),
        calls: counts.all(),
        bytes: counts.bytes_read().saturating_sub(checkpoints),
        checkpoints,
        pending,
    }
}

const FEW: usize = 2_000;

/// Ten times as much is pending, and all that grows are the two bits a sequence of each of two
/// checkpoints and, far less, the fences by which runs are searched.
fn check_costs(few: &Cost, many: &Cost) {
    let more = 9 * FEW as u64;
    assert_eq!(many.pending - few.pending, more);
    assert_eq!((few.reads, few.calls), (many.reads, many.calls), "as many calls of each kind");
    let bits = many.checkpoints - few.checkpoints;
    assert!((2 * more / 4..2 * more / 4 + 64).contains(&bits), "{bits} bytes for two bits of {more}, twice");
    let bytes = many.bytes - few.bytes;
    assert!(bytes <= more / 16, "{bytes} bytes more for {more} more, of {}", few.bytes);
}

#[test]
fn a_restart_reads_as_much_however_much_is_pending() {
    check_costs(&cost_of_opening(&with_pending(FEW)), &cost_of_opening(&with_pending(10 * FEW)));
}

#[test]
fn a_restart_in_the_middle_of_a_checkpoint_reads_as_much_however_much_is_pending() {
    let (mut few, mut many) = (with_pending(FEW), with_pending(10 * FEW));
    let mut pieces = 0;
    loop {
        check_costs(&cost_of_opening(&few), &cost_of_opening(&many));
        let done = [&mut few, &mut many].map(|rig| {
            if pieces == 0 {
                assert!(rig.node().begin_checkpoint());
            }
            rig.node().checkpoint_piece(2_000).unwrap()
        });
        assert_eq!(done[0], done[1]);
        if done[0] {
            break;
        }
        pieces += 1;
    }
    assert!(pieces > 5, "{pieces}");
}

// With the fault planted that each of them is told for, these do not hold.

#[test]
fn folders_that_are_trusted_before_their_sync_are_seen() {
    sees(Planted::FoldersTrustedUnsynced, folders_are_synced_before_recovery_trusts_them);
}
