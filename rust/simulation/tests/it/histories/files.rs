//! Histories of files, checkpoints and recovery.
#![expect(clippy::indexing_slicing, reason = "a test may panic")]

use crate::rig::{Rig, lean, os, sees, small};
use delaymq_core::error::{Error, StorageFault};
use delaymq_core::message_log::{Durability, segment_path};
use delaymq_core::planted::Planted;
use delaymq_core::storage::{Call, Storage};
use delaymq_core::store::Outcome;
use delaymq_core::units::SegmentNumber;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NewMessage, NodeOptions};

const ENDS: [End; 3] = [End::Kill, End::PowerCut, End::PowerCutLosesAll];

/// All that a consumer gets of a store that opens, sorted.
fn content(rig: &mut Rig) -> Vec<String> {
    let mut taken = rig.drain("s", "g");
    taken.sort();
    taken
}

#[test]
fn nothing_is_answered_before_its_sync_and_everything_answered_survives() {
    let mut rig = Rig::new(small());
    rig.publish("s", 0, "answered");
    let receipt = rig.submit("s", 0, "written");
    rig.node().write_batch().unwrap();
    assert!(rig.node().commits().visible().sequence <= receipt.key.sequence);
    for seed in 0..50 {
        for end in ENDS {
            let mut after = rig.fork(end, seed);
            after.try_open().unwrap();
            let found = content(&mut after);
            assert_eq!(found[0], "answered");
            assert!(end == End::PowerCut || found.len() == if end == End::Kill { 2 } else { 1 });
        }
    }
}

#[test]
fn a_power_cut_in_os_mode_leaves_one_moment_of_the_past_whole() {
    let mut rig = Rig::new(os());
    for number in 0..40 {
        rig.submit("s", 0, &format!("{number:02} {}", "x".repeat(180)));
        rig.write();
    }
    for seed in 0..300 {
        let mut after = rig.fork(End::PowerCut, seed);
        after.try_open().unwrap_or_else(|error| panic!("{seed}: {error}"));
        after.in_flight_max = 100;
        let found = content(&mut after);
        for (number, body) in found.iter().enumerate() {
            assert!(body.starts_with(&format!("{number:02} ")), "{seed}: a hole before {body}");
        }
        after.compare_with_log();
    }
}

#[test]
fn a_restart_after_a_failed_sync_goes_on_from_what_can_be_trusted() {
    for seed in 0..60 {
        let mut rig = Rig::new(small());
        rig.publish("s", 0, "answered");
        rig.submit("s", 0, "in doubt");
        rig.disk.storage().fail_call_of(Call::Sync, 0, StorageFault::Io);
        rig.try_settle().unwrap_err();
        let refused = rig.node().publish(&[NewMessage {
            subject: "s",
            due: Due::After(0),
            body: b"no",
            expires: None,
            meta: b"",
        }]);
        assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
        // The page cache shows all of it; what is appended behind must not lean on that.
        rig.reopen(End::Kill);
        rig.publish("s", 0, "later");
        let mut after = rig.fork(End::PowerCut, seed);
        after.try_open().unwrap();
        let found = content(&mut after);
        assert!(found.contains(&"answered".to_owned()) && found.contains(&"later".to_owned()), "{found:?}");
        after.compare_with_log();
    }
}

#[test]
fn a_segment_behind_a_cut_is_set_aside_and_never_appended_behind() {
    let mut rig = Rig::new(small());
    rig.publish("s", 0, "a");
    let ahead = rig.newest("log/");
    let file = rig.disk.storage().open(&ahead).unwrap();
    file.write_at(5_000, b"of another life").unwrap();
    file.sync_data().unwrap();
    rig.reopen(End::Kill);
    assert_eq!(rig.node().recovered().set_aside.len(), 1);
    assert!(rig.files().iter().any(|path| path.starts_with("aside/")));
    for seed in 0..20 {
        let mut after = rig.fork(End::PowerCut, seed);
        after.try_open().unwrap();
        assert_eq!(content(&mut after), ["a"]);
    }
}

#[test]
fn a_full_segment_is_durable_before_the_next_one_is_used_also_in_os_mode() {
    let mut rig = Rig::new(os());
    for number in 0..60 {
        rig.submit("s", 0, &format!("{number:02} {}", "x".repeat(180)));
        rig.write();
    }
    rig.reopen(End::Kill);
    rig.publish("s", 0, "60 behind all");
    for seed in 0..100 {
        let mut after = rig.fork(End::PowerCut, seed);
        after.in_flight_max = 100;
        after.try_open().unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert_eq!(content(&mut after).len(), 61, "a killed process has lost nothing, and all of it was synced since");
    }
}

/// A store of every kind of state, and what it must give.
fn full(options: NodeOptions) -> Rig {
    let mut rig = Rig::new(options);
    let place = rig.earliest("s", "other");
    for number in 0..12 {
        rig.publish("s", number * 40, &format!("{number:02}"));
    }
    let cancelled = rig.publish("s", 5_000, "cancelled");
    rig.checkpoint();
    rig.pass(100);
    let handed = rig.pull(place);
    rig.acknowledge(place, &[handed[0].delivery.offset.0]);
    rig.give_back(("s", "other"), place, &handed[1], 700);
    assert_eq!(rig.cancel(&cancelled), Outcome::Done);
    rig.checkpoint();
    rig.publish("s", 9_000, "late");
    rig
}

fn expected() -> Vec<String> {
    // The first two are finished: acknowledged, and given back.
    let numbers = (2..12).map(|number| format!("{number:02}"));
    numbers.chain(["late".to_owned()]).collect()
}

#[test]
fn a_checkpoint_that_is_stopped_anywhere_names_nothing_that_is_not_there() {
    for options in [small(), os()] {
        for calls in 0.. {
            let mut rig = full(options);
            rig.disk.storage().stop_after_calls(calls);
            let done = rig.node().checkpoint().is_ok();
            for seed in 0..12 {
                for end in [End::PowerCut, End::PowerCutLosesAll] {
                    let mut after = rig.fork(end, seed);
                    after.try_open().unwrap_or_else(|error| panic!("{calls} {seed}: {error}"));
                    after.compare_with_log();
                    if options.durability == small().durability {
                        assert_eq!(content(&mut after), expected(), "{calls} {seed}");
                    }
                }
            }
            if done {
                assert!(calls > 15);
                break;
            }
        }
    }
}

#[test]
fn an_opening_that_is_stopped_anywhere_is_done_again() {
    let mut rig = full(small());
    rig.checkpoint();
    rig.submit("s", 1, "torn");
    rig.node().write_batch().unwrap();
    let newest = rig.newest("checkpoints/");
    for damaged in [false, true] {
        for calls in 0.. {
            let mut done = false;
            for seed in 0..6 {
                let mut first = rig.fork(End::PowerCut, seed);
                if damaged {
                    first.disk.storage().damage(&newest, 30, 1);
                }
                first.disk.storage().stop_after_calls(calls);
                done = first.try_open().is_ok();
                let mut second = first.fork(if seed % 2 == 0 { End::Kill } else { End::PowerCut }, seed);
                if damaged && seed % 3 == 0 {
                    // It becomes readable again.
                    second.disk.storage().damage(&newest, 30, 1);
                }
                second.disk.storage().stop_after_calls(calls.wrapping_mul(7) % 60);
                let _ = second.try_open();
                let mut third = second.fork(End::PowerCut, seed);
                third.try_open().unwrap_or_else(|error| panic!("{damaged} {calls} {seed}: {error}"));
                third.compare_with_log();
                let mut found = content(&mut third);
                found.retain(|body| body != "torn");
                assert_eq!(found, expected(), "{damaged} {calls} {seed}");
            }
            if done {
                assert!(calls > 20);
                break;
            }
        }
    }
}

#[test]
fn all_of_a_checkpoint_is_as_of_one_moment_and_what_comes_meanwhile_is_carried_over() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("s", "g");
    let cancelled = rig.publish("s", 500, "cancelled while it is written");
    rig.publish("s", 50, "dispatched while it is written");
    rig.publish("s", 5_000, "stays");
    assert!(rig.node().begin_checkpoint());
    let mut pieces = 0;
    loop {
        match pieces {
            1 => assert_eq!(rig.cancel(&cancelled), Outcome::Done),
            2 => rig.pass(60),
            3 => drop(rig.publish("s", 700, "published while it is written")),
            4 => assert_eq!(rig.take_all(place), ["dispatched while it is written"]),
            _ => {}
        }
        if rig.node().checkpoint_piece(1).unwrap() {
            break;
        }
        pieces += 1;
    }
    assert!(pieces >= 4, "{pieces}");
    rig.compare_with_log();
    for again in 0..3 {
        rig.reopen(End::PowerCutLosesAll);
        assert!(rig.node().recovered().checkpoint.is_some());
        rig.compare_with_log();
        assert_eq!(rig.cancel(&cancelled), Outcome::Done, "{again}");
        rig.checkpoint();
    }
    let place = (place.0, rig.consumer(place.0, "d"));
    rig.pass(10_000);
    assert_eq!(rig.take_all(place), ["published while it is written", "stays"]);
}

#[test]
fn a_checkpoint_overtakes_an_immediate_message() {
    let mut rig = Rig::new(small());
    assert!(rig.node().begin_checkpoint());
    rig.publish("s", 0, "immediate");
    while !rig.node().checkpoint_piece(1).unwrap() {}
    rig.reopen(End::PowerCutLosesAll);
    assert_eq!(content(&mut rig), ["immediate"]);
    let mut rig = Rig::new(small());
    rig.publish("s", 0, "immediate");
    rig.checkpoint();
    rig.reopen(End::PowerCutLosesAll);
    assert_eq!(content(&mut rig), ["immediate"]);
}

#[test]
fn the_newest_checkpoint_is_unreadable() {
    let rig = full(small());
    let newest = rig.newest("checkpoints/");
    let length = rig.disk.storage().image()[&newest].len() as u64;
    for offset in (0..length).step_by(7) {
        let mut after = rig.fork(End::Kill, offset);
        after.disk.storage().damage(&newest, offset, 0x10);
        after.try_open().unwrap_or_else(|error| panic!("{offset}: {error}"));
        assert_eq!(after.node().recovered().checkpoints_refused.len(), 1, "{offset}");
        assert!(!after.files().contains(&newest), "and it is removed, so that it never comes back");
        after.compare_with_log();
        let mut cut = after.fork(End::PowerCut, offset);
        assert!(!cut.files().contains(&newest));
        cut.try_open().unwrap();
        assert_eq!(content(&mut cut), expected());
    }
}

#[test]
fn a_checkpoint_of_no_length_is_not_used_and_nothing_is_scheduled_twice() {
    let rig = full(small());
    let newest = rig.newest("checkpoints/");
    let mut after = rig.fork(End::Kill, 1);
    let storage = after.disk.storage().clone();
    storage.remove(&newest).unwrap();
    storage.create(&newest).unwrap().sync_data().unwrap();
    storage.sync_folder("checkpoints").unwrap();
    after.try_open().unwrap();
    assert_eq!(after.node().recovered().checkpoints_refused.len(), 1);
    after.compare_with_log();
    assert_eq!(content(&mut after), expected());
}

#[test]
fn a_missing_run_or_segment_is_refused_by_name_and_nothing_is_touched() {
    let mut rig = full(small());
    rig.publish("s", 100_000, &"x".repeat(3_000));
    rig.publish("s", 100_000, &"y".repeat(3_000));
    rig.checkpoint();
    rig.publish("s", 100_000, &"z".repeat(3_000));
    let files = rig.files();
    let mut refused = 0;
    let needed = files.iter().filter(|path| path.starts_with("runs/") || path.starts_with("log/"));
    let unused = segment_path(SegmentNumber(rig.node().appender().written().location.segment().unwrap().0 + 1));
    for path in needed.filter(|path| **path < unused || path.starts_with("runs/")) {
        let mut after = rig.fork(End::Kill, 1);
        after.disk.storage().remove(path).unwrap();
        let before = after.disk.storage().image();
        match after.try_open() {
            Err(Error::MissingFile { path: named, .. }) => {
                assert_eq!(&named, path);
                assert_eq!(after.disk.storage().image(), before);
                refused += 1;
            }
            // The last segment, of which nothing was vouched for.
            Ok(()) => assert!(path.starts_with("log/"), "{path}"),
            Err(error) => panic!("{path}: {error}"),
        }
    }
    assert!(refused >= 4, "{refused}");
}

#[test]
fn both_kept_checkpoints_hold_their_files() {
    let mut rig = Rig::new(lean());
    for round in 0..6 {
        rig.publish("s", 500, &format!("near {round}"));
        rig.publish("s", 100_000, &format!("far {round}"));
        rig.checkpoint();
        rig.pass(300);
    }
    let newest = rig.newest("checkpoints/");
    rig.end(End::PowerCutLosesAll);
    assert_eq!(rig.files().iter().filter(|path| path.starts_with("checkpoints/")).count(), 2);
    rig.disk.storage().damage(&newest, 40, 1);
    rig.try_open().unwrap();
    assert_eq!(content(&mut rig).len(), 12);
}

#[test]
fn the_older_checkpoint_has_what_it_needs_when_the_newest_is_damaged() {
    let mut rig = Rig::new(lean());
    let place = rig.earliest("s", "g");
    for number in 0..40 {
        rig.publish("s", 0, &format!("{number:->200}"));
    }
    for _ in 0..2 {
        rig.clock.advance(1);
        rig.checkpoint();
    }
    // What the older one holds is finished by the newest.
    rig.take_all(place);
    rig.publish("s", 0, "unfinished");
    rig.clock.advance(1);
    rig.checkpoint();
    let newest = rig.newest("checkpoints/");
    rig.end(End::PowerCutLosesAll);
    rig.disk.storage().damage(&newest, 40, 1);
    rig.try_open().unwrap();
    assert_eq!(content(&mut rig), ["unfinished"]);
}

#[test]
fn retired_files_go_in_an_order_that_any_stop_leaves_well() {
    let prepared = || {
        let mut rig = Rig::new(lean());
        rig.checkpoint();
        let place = rig.earliest("s", "g");
        for number in 0..40 {
            rig.publish("s", 0, &format!("{number:->200}"));
            rig.clock.advance(1);
        }
        rig.take_all(place);
        rig.publish("s", 0, "unfinished");
        rig.checkpoint();
        rig
    };
    for calls in 0.. {
        let mut rig = prepared();
        rig.disk.storage().stop_after_calls(calls);
        let done = rig.node().checkpoint().is_ok();
        for seed in 0..10 {
            let mut after = rig.fork(End::PowerCut, seed);
            after.try_open().unwrap_or_else(|error| panic!("{calls} {seed}: {error}"));
            assert_eq!(content(&mut after), ["unfinished"], "{calls} {seed}");
        }
        if done {
            assert!(!rig.files().contains("log/0000000003.segment"), "nothing was retired: {:?}", rig.files());
            break;
        }
    }
}

#[test]
fn the_end_of_the_log_is_found_when_its_first_kept_batch_is_torn() {
    let mut rig = Rig::new(NodeOptions { durability: Durability::Os, ..lean() });
    let place = rig.earliest("s", "g");
    for number in 0..40 {
        rig.publish("s", 0, &format!("{number:->200}"));
    }
    rig.take_all(place);
    for _ in 0..4 {
        rig.clock.advance(1);
        // Until there is room behind the checkpoint, in the segment that it stands in.
        loop {
            rig.publish("t", 0, "other");
            rig.drain("t", "g");
            if rig.node().appender().written().location.offset() < 5_500 {
                break;
            }
        }
        rig.checkpoint();
    }
    let mut places = vec![rig.node().appender().written().location];
    for number in 0..4 {
        rig.submit("s", 0, &format!("unsynced {number} {}", "x".repeat(400)));
        rig.write();
        places.push(rig.node().appender().written().location);
    }
    let first = places[0].segment().unwrap();
    assert_eq!(places[4].segment(), Some(first), "all of it is in one segment, the first that is kept");
    // The very first one is empty, and goes with the next opening.
    let kept = rig.files().into_iter().filter(|path| path.starts_with("log/"));
    assert_eq!(kept.filter(|path| *path != segment_path(SegmentNumber(1))).min(), Some(segment_path(first)));
    let written = rig.disk.storage().image()[&segment_path(first)].clone();
    let mut torn_and_overtaken = 0;
    for seed in 0..200 {
        let mut after = rig.fork(End::PowerCut, seed);
        let left = after.disk.storage().image()[&segment_path(first)].clone();
        let is_whole = |batch: usize| {
            let bytes = places[batch].offset() as usize..places[batch + 1].offset() as usize;
            left.get(bytes.clone()) == written.get(bytes)
        };
        let whole = (0..4).take_while(|batch| is_whole(*batch)).count();
        let overtakes = (1..4).any(is_whole);
        after.try_open().unwrap_or_else(|error| panic!("{seed}: {error}"));
        let found = content(&mut after);
        assert!(found.iter().enumerate().all(|(at, body)| body.starts_with(&format!("unsynced {at} "))), "{found:?}");
        assert_eq!(found.len(), whole, "{seed}: what is whole in front is there, and nothing behind it");
        torn_and_overtaken += u32::from(whole == 0 && overtakes);
    }
    assert!(torn_and_overtaken > 10, "the first batch was torn, and a later one whole, {torn_and_overtaken} times");
}

#[test]
fn nothing_is_dispatched_before_the_log_is_applied_to_its_end() {
    let mut rig = Rig::new(small());
    let receipt = rig.publish("s", 100, "overdue and cancelled");
    rig.checkpoint();
    assert_eq!(rig.cancel(&receipt), Outcome::Done);
    rig.clock.advance(10_000);
    rig.reopen(End::PowerCutLosesAll);
    assert_eq!(rig.cancel(&receipt), Outcome::Done);
    assert_eq!(content(&mut rig), Vec::<String>::new());
}

#[test]
fn the_cancel_of_a_message_in_a_run_survives_any_number_of_checkpoints() {
    let mut rig = Rig::new(small());
    let receipt = rig.publish("s", 50_000, "cancelled");
    rig.publish("s", 50_000, "kept");
    rig.checkpoint();
    assert_eq!(rig.cancel(&receipt), Outcome::Done);
    for round in 0..8 {
        rig.checkpoint();
        if round % 2 == 0 {
            rig.reopen(End::PowerCutLosesAll);
        }
        assert_eq!(rig.cancel(&receipt), Outcome::Done, "{round}");
    }
    assert_eq!(content(&mut rig), ["kept"]);
}

#[test]
fn recovery_comes_to_the_same_state_from_any_checkpoint_or_none() {
    let mut rig = full(small());
    rig.settle();
    let mut states = Vec::new();
    for without in 0..3 {
        let mut after = rig.fork(End::Kill, 1);
        for _ in 0..without {
            let newest = after.newest("checkpoints/");
            after.disk.storage().remove(&newest).unwrap();
        }
        after.try_open().unwrap_or_else(|error| panic!("{without}: {error}"));
        after.compare_with_log();
        states.push(content(&mut after));
    }
    assert!(states.iter().all(|state| *state == expected()), "{states:?}");
}

#[test]
fn the_only_checkpoint_is_unreadable() {
    let mut rig = Rig::new(lean());
    let place = rig.earliest("s", "g");
    for number in 0..40 {
        rig.publish("s", 0, &format!("{number:->200}"));
    }
    rig.take_all(place);
    rig.publish("s", 0, "unfinished");
    rig.clock.advance(1);
    rig.checkpoint();
    rig.reopen(End::PowerCutLosesAll);
    let only = rig.newest("checkpoints/");
    rig.end(End::Kill);
    rig.disk.storage().damage(&only, 30, 1);
    rig.try_open().unwrap();
    assert_eq!(content(&mut rig), ["unfinished"]);
}

#[test]
fn a_message_in_hand_whose_payload_was_copied_is_read_where_it_is_now() {
    for in_flight in [false, true] {
        let mut rig = Rig::new(lean());
        let place = rig.earliest("s", "g");
        rig.publish("s", 3_000, "in hand");
        rig.publish("s", 4_000_000, &"far".repeat(900));
        assert!(rig.node().begin_checkpoint());
        // The feed takes it in hand while its part is being written.
        rig.step();
        if in_flight {
            rig.clock.advance(3_000);
            let now = rig.clock.read();
            rig.node().look(now);
            assert_eq!(rig.node().step(10).unwrap().proposed, 1);
        }
        while !rig.node().checkpoint_piece(u64::MAX).unwrap() {}
        if !in_flight {
            for _ in 0..3 {
                rig.publish("s", 4_000_000, &"far".repeat(900));
                rig.checkpoint();
            }
            assert!(!rig.files().contains("log/0000000002.segment"), "where it lay is gone");
        }
        rig.pass(3_000);
        assert_eq!(rig.take_all(place), ["in hand"]);
        assert_eq!(rig.node().owner().state().voided, 0);
    }
}

// With the fault planted that each of them is told for, these do not hold.

#[test]
fn a_position_that_was_only_written_and_is_vouched_for_is_seen() {
    sees(Planted::WrittenVouchedFor, a_power_cut_in_os_mode_leaves_one_moment_of_the_past_whole);
}

#[test]
fn segments_that_are_left_behind_a_cut_are_seen() {
    sees(Planted::LaterSegmentsLeft, a_segment_behind_a_cut_is_set_aside_and_never_appended_behind);
}

#[test]
fn a_full_segment_that_is_not_synced_is_seen() {
    sees(Planted::RolledUnsynced, a_full_segment_is_durable_before_the_next_one_is_used_also_in_os_mode);
}

#[test]
fn decisions_that_a_checkpoint_forgets_are_seen() {
    sees(
        Planted::DecidedMeanwhileLost,
        all_of_a_checkpoint_is_as_of_one_moment_and_what_comes_meanwhile_is_carried_over,
    );
}

#[test]
fn a_newer_checkpoint_that_is_left_is_seen() {
    sees(Planted::NewerCheckpointLeft, the_newest_checkpoint_is_unreadable);
}

#[test]
fn files_that_only_the_newest_checkpoint_holds_are_seen() {
    sees(Planted::NewestHoldsAlone, the_older_checkpoint_has_what_it_needs_when_the_newest_is_damaged);
}
