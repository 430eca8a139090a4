//! Windows of the schedule are merged and their files removed: no message is lost or comes twice. Windows that cannot
//! be merged stay as they are.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::collections::BTreeSet;

use crate::rig::{Rig, lean, sees};
use delaymq_core::planted::Planted;
use delaymq_core::store::{Outcome, OwnerOptions, Receipt};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NodeOptions};

const FAR_MS: u64 = 500_000;

/// Nothing finished is kept, and room is given back soon.
fn merging() -> NodeOptions {
    let owner = OwnerOptions { reclaim_bytes: 64 << 10, ..lean().owner };
    NodeOptions { owner, segment_bytes: 4 << 20, ..lean() }
}

/// As `merging`, and whatever is beside another is merged.
fn eager() -> NodeOptions {
    let owner = OwnerOptions { merge_windows_min: 2, ..merging().owner };
    NodeOptions { owner, ..merging() }
}

fn runs(rig: &Rig) -> Vec<String> {
    rig.files().into_iter().filter(|path| path.starts_with("runs/")).collect()
}

fn run_bytes(rig: &Rig) -> u64 {
    rig.disk
        .storage()
        .image()
        .iter()
        .filter(|(path, _)| path.starts_with("runs/"))
        .map(|(_, bytes)| bytes.len() as u64)
        .sum()
}

/// Messages that are due long from now, `count` to each of `checkpoints`.
fn hoard(rig: &mut Rig, checkpoints: usize, count: usize, bytes: usize) -> Vec<(String, Receipt)> {
    let mut stored = Vec::new();
    for checkpoint in 0..checkpoints {
        add_checkpoint(rig, (checkpoint, count, bytes), &mut stored);
    }
    stored
}

fn add_checkpoint(
    rig: &mut Rig,
    (checkpoint, count, bytes): (usize, usize, usize),
    stored: &mut Vec<(String, Receipt)>,
) {
    for number in 0..count {
        let body = format!("{checkpoint}-{number}-{}", "x".repeat(bytes));
        // Neighbours in sequence are far apart in time, so that runs overlap.
        let delay_ms = FAR_MS + (number as u64 * 7_919 + checkpoint as u64 * 31) % 10_000;
        let receipt = rig.submit("s", delay_ms, &body);
        stored.push((body, receipt));
    }
    rig.settle();
    rig.checkpoint();
}

/// What is left comes once, and no other.
fn comes_once(rig: &mut Rig, stored: &[(String, Receipt)]) {
    let mut handed = rig.drain("s", "g");
    handed.sort();
    let mut expected: Vec<String> = stored.iter().map(|(body, _)| body.clone()).collect();
    expected.sort();
    assert_eq!(handed, expected);
}

/// Checkpoints for as long as they give room back.
fn reclaim(rig: &mut Rig) -> usize {
    let mut checkpoints = 0;
    while rig.node().owner().checkpoint_due() {
        rig.checkpoint();
        checkpoints += 1;
        assert!(checkpoints < 50, "it does not come to an end");
    }
    checkpoints
}

#[test]
fn many_checkpoints_leave_few_runs_and_no_files_of_those_before() {
    let mut rig = Rig::new(merging());
    let stored = hoard(&mut rig, 200, 5, 20);
    assert!(rig.node().owner().state().schedule.windows().len() <= 24);
    assert!(runs(&rig).len() <= 32, "{:?}", runs(&rig));
    rig.reopen(End::PowerCut);
    comes_once(&mut rig, &stored);
    rig.compare_with_log();
}

/// So many checkpoints, each with a few messages: how many windows and runs there were at most, and each comes once.
fn few_runs_stay(checkpoints: usize, count: usize) -> (usize, usize) {
    let mut rig = Rig::new(merging());
    let (mut stored, mut most) = (Vec::new(), (0, 0));
    for checkpoint in 0..checkpoints {
        add_checkpoint(&mut rig, (checkpoint, count, 20), &mut stored);
        if checkpoint % 50 == 0 {
            let windows = rig.node().owner().state().schedule.windows().len();
            most = (windows.max(most.0), runs(&rig).len().max(most.1));
        }
    }
    rig.reopen(End::PowerCut);
    comes_once(&mut rig, &stored);
    most
}

#[test]
fn two_thousand_checkpoints_leave_few_runs_at_every_moment() {
    let (windows, files) = few_runs_stay(2_000, 2);
    assert!(windows <= 40 && files <= 48, "{windows} windows, {files} runs");
}

#[test]
#[ignore = "minutes; `make soak` runs it"]
fn tens_of_thousands_of_checkpoints_leave_few_runs_at_every_moment() {
    let (windows, files) = few_runs_stay(30_000, 2);
    assert!(windows <= 56 && files <= 64, "{windows} windows, {files} runs");
}

#[test]
fn what_is_cancelled_gives_its_room_back_although_nothing_more_comes() {
    let mut rig = Rig::new(merging());
    let mut stored = hoard(&mut rig, 6, 150, 600);
    let before = run_bytes(&rig);
    let left = stored.split_off(stored.len() / 20 * 19);
    for (_, receipt) in &stored {
        rig.cancel(receipt);
    }
    // What makes a store look is a share of a checkpoint's facts, which here are without end.
    rig.checkpoint();
    assert!(reclaim(&mut rig) > 0, "nothing was due");
    let rest = before / stored.len() as u64 * left.len() as u64;
    assert!(run_bytes(&rig) <= rest * 2, "{} bytes of {before} are left, for {rest}", run_bytes(&rig));
    rig.reopen(End::PowerCutLosesAll);
    comes_once(&mut rig, &left);
}

/// The last cancels are too few to make anybody look, and nothing comes after them.
#[test]
fn a_store_that_falls_quiet_gives_the_room_of_a_small_tail_back() {
    let owner = OwnerOptions { checkpoint_facts: 64 * 50, ..merging().owner };
    let mut rig = Rig::new(NodeOptions { owner, ..merging() });
    let stored = hoard(&mut rig, 2, 60, 600);
    rig.checkpoint();
    rig.step();
    let before = run_bytes(&rig);
    for (_, receipt) in &stored[..110] {
        rig.cancel(receipt);
    }
    rig.pass(4_000);
    assert!(!rig.node().owner().checkpoint_due(), "more may come");
    let now = rig.clock.read();
    rig.node().look(now);
    let progress = rig.node().step(1_000).unwrap();
    assert!(progress.next.is_some_and(|next| next <= rig.node().reading().now.plus(5_000)), "{progress:?}");
    rig.pass(5_000);
    assert!(rig.node().owner().checkpoint_due(), "nothing comes any more");
    assert!(reclaim(&mut rig) > 0);
    assert!(run_bytes(&rig) < before / 4, "{} bytes of {before}", run_bytes(&rig));
    rig.pass(60_000);
    assert!(!rig.node().owner().checkpoint_due(), "once is enough");
    comes_once(&mut rig, &stored[110..]);
}

#[test]
fn a_merged_payload_is_copied_and_one_due_soon_stays_where_it_is() {
    let mut rig = Rig::new(eager());
    rig.publish("s", 5_000, "far enough");
    rig.checkpoint();
    rig.publish("s", 50_000, "farther");
    rig.checkpoint();
    rig.pass(4_950);
    let first = runs(&rig);
    // The first message is due within 100 ms: it may be in hand, and its run stays for its payload.
    for _ in 0..3 {
        rig.publish("s", 60_000, "more");
        rig.checkpoint();
    }
    assert!(runs(&rig).contains(&first[0]), "{:?} of {first:?}", runs(&rig));
    let place = rig.earliest("s", "g");
    rig.pass(100);
    assert_eq!(rig.take_all(place), ["far enough"]);
    for _ in 0..3 {
        rig.publish("s", 60_000, "more");
        rig.checkpoint();
    }
    assert!(!runs(&rig).contains(&first[0]), "{:?} of {first:?}", runs(&rig));
    rig.pass(100_000);
    assert_eq!(rig.take_all(place).len(), 7);
}

/// A message is moved to a time that the feed has passed, and is not looked up before checkpoints have put it into a
/// run, merged its origin's run, and removed that.
#[test]
fn what_is_moved_near_is_found_although_its_origin_is_merged_before_the_next_step() {
    for steps_between in [false, true] {
        let mut rig = Rig::new(eager());
        let place = rig.earliest("s", "g");
        let stored = hoard(&mut rig, 3, 4, 20);
        rig.step();
        for (_, receipt) in &stored[..5] {
            rig.moved(receipt, Due::After(1_000));
            if steps_between {
                rig.step();
            }
        }
        for _ in 0..4 {
            rig.publish("s", FAR_MS, "more");
            rig.checkpoint();
        }
        rig.pass(1_000);
        let came = rig.take_all(place);
        assert_eq!(came, stored[..5].iter().map(|(body, _)| body.clone()).collect::<Vec<_>>());
        rig.compare_with_log();
    }
}

/// A message is moved near and taken in hand while a merge copies its payload; then the file goes that this was in.
#[test]
fn what_is_moved_near_while_its_origin_is_merged_has_its_payload_where_the_merge_put_it() {
    let mut rig = Rig::new(eager());
    let place = rig.earliest("s", "g");
    let stored = hoard(&mut rig, 3, 4, 20);
    // Little is left of each file, so that merges copy it.
    for (_, receipt) in &stored[1..11] {
        assert_eq!(rig.cancel(receipt), Outcome::Done);
    }
    rig.publish("s", FAR_MS, "more");
    // The feed has passed the time that it is moved to, and takes it in hand in the middle of the checkpoint.
    rig.step();
    assert!(rig.node().begin_checkpoint());
    rig.moved(&stored[0].1, Due::After(1_000));
    rig.step();
    while !rig.node().checkpoint_piece(40).unwrap() {}
    for _ in 0..4 {
        rig.publish("s", FAR_MS, "more");
        rig.checkpoint();
    }
    rig.pass(1_000);
    assert_eq!(rig.take_all(place), [stored[0].0.clone()]);
    rig.compare_with_log();
}

/// What is cancelled, dispatched or comes while a merge is written, in every place of it, and what a crash leaves.
fn decided_meanwhile() {
    for pieces in 0..14 {
        let mut rig = Rig::new(eager());
        let place = rig.earliest("s", "g");
        let stored = hoard(&mut rig, 1, 10, 30);
        rig.publish("s", 1_000, "soon");
        hoard(&mut rig, 1, 10, 31);
        rig.publish("s", FAR_MS, "behind");
        rig.node().begin_checkpoint();
        let mut left = pieces;
        while left > 0 && !rig.node().checkpoint_piece(700).unwrap() {
            left -= 1;
        }
        rig.cancel(&stored[3].1);
        rig.pass(1_000);
        assert_eq!(rig.take_all(place), ["soon"]);
        let mut forks: Vec<Rig> = (0..3).map(|seed| rig.fork(End::PowerCut, seed)).collect();
        rig.checkpoint();
        rig.compare_with_log();
        forks.push(rig.fork(End::Kill, 1));
        for mut fork in forks {
            fork.try_open().unwrap();
            fork.compare_with_log();
            fork.pass(1_000_000);
            let place = fork.earliest("s", "g");
            let mut handed = fork.take_all(place);
            handed.retain(|body| body != "soon");
            let unique: BTreeSet<&String> = handed.iter().collect();
            assert_eq!((handed.len(), unique.len()), (20, 20), "after {pieces} pieces");
            assert!(!handed.contains(&stored[3].0), "what was cancelled comes after {pieces} pieces");
        }
    }
}

#[test]
fn what_is_decided_while_a_merge_is_written_holds() {
    decided_meanwhile();
}

#[test]
fn a_merge_that_forgets_what_was_decided_is_seen() {
    sees(Planted::MergedAsFrozen, decided_meanwhile);
}

#[test]
fn a_cancel_of_what_waits_for_a_consumer_says_so_although_its_log_is_gone() {
    for merge_windows_min in [0, 1] {
        let owner = OwnerOptions { merge_windows_min, ..lean().owner };
        let mut rig = Rig::new(NodeOptions { owner, ..lean() });
        let waiting = rig.earliest("s", "g");
        let quick = rig.earliest("quick", "g");
        let copied = rig.publish("s", 5_000, "copied");
        rig.checkpoint();
        rig.pass(5_000);
        let holds = rig.node().owner().state().segments.last().unwrap().segment;
        for round in 0.. {
            if rig.node().owner().state().segments[0].segment > holds {
                break;
            }
            assert!(round < 50, "segment {holds} stays: {:?}", rig.files());
            for _ in 0..20 {
                rig.publish("quick", 0, &"x".repeat(300));
            }
            rig.take_all(quick);
            rig.checkpoint();
        }
        assert_eq!(rig.cancel(&copied), Outcome::AlreadyDispatched);
        rig.reopen(End::PowerCut);
        assert_eq!(rig.cancel(&copied), Outcome::AlreadyDispatched);
        let (group, _) = waiting;
        let waiting = (group, rig.consumer(group, "again"));
        assert_eq!(rig.take_all(waiting), ["copied"]);
    }
}

/// Payloads that stay in the runs of before, since these are large.
fn payloads_stay() {
    let mut rig = Rig::new(NodeOptions {
        owner: OwnerOptions { merge_payload_bytes: 0, merge_windows_min: 2, ..merging().owner },
        ..merging()
    });
    let stored = hoard(&mut rig, 6, 4, 50);
    assert_eq!(rig.node().owner().state().schedule.windows().iter().filter(|window| window.run().is_some()).count(), 2);
    assert!(runs(&rig).len() > 6, "{:?}", runs(&rig));
    comes_once(&mut rig, &stored);
}

#[test]
fn runs_that_merged_rows_point_into_stay() {
    payloads_stay();
}

#[test]
fn a_merged_run_that_holds_nothing_is_seen() {
    sees(Planted::MergeHoldsNothing, payloads_stay);
}

#[test]
fn a_damaged_block_leaves_the_windows_as_they_are() {
    let mut rig = Rig::new(eager());
    let stored = hoard(&mut rig, 1, 4, 20);
    let first = rig.newest("runs/");
    rig.disk.storage().damage(&first, 4_096 + 100, 0xFF);
    let more = hoard(&mut rig, 5, 2, 20);
    let failures = rig.node().take_merge_failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].to_string().contains(&first), "{failures:?}");
    assert!(runs(&rig).contains(&first));
    // Their log is kept no longer, so that the four are given up by name; all others come.
    let handed = rig.drain("s", "g");
    assert!(more.iter().all(|(body, _)| handed.contains(body)));
    assert_eq!(handed.len() as u64 + rig.node().owner().state().voided, (stored.len() + more.len()) as u64);
}

#[test]
fn a_disk_without_room_for_a_merge_delays_no_checkpoint() {
    let mut rig = Rig::new(eager());
    let mut stored = hoard(&mut rig, 2, 75, 300);
    let used = rig.disk.used_bytes();
    stored.push(("last".to_owned(), rig.publish("s", FAR_MS, "last")));
    rig.disk.storage().set_capacity(used + 30_000);
    rig.checkpoint();
    let failures = rig.node().take_merge_failures();
    assert!(failures.iter().any(delaymq_core::error::Error::is_no_space), "{failures:?}");
    rig.disk.storage().set_capacity(u64::MAX);
    rig.reopen(End::PowerCut);
    rig.checkpoint();
    assert_eq!(rig.node().take_merge_failures(), []);
    comes_once(&mut rig, &stored);
}
