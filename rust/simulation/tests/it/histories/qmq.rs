//! Known weaknesses of QMQ's delay server, by their numbers: this core does not have them.

use crate::rig::{Rig, lean, os, sees, small};
use delaymq_core::planted::Planted;
use delaymq_core::storage::Storage;
use delaymq_core::store::{CHECKPOINT_FOLDER, OwnerOptions};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::NodeOptions;

/// D3: only the two newest dispatch buckets were recovered; an outage longer than that lost the
/// rest.
#[test]
fn d3_any_downtime_and_any_number_of_runs_however_old() {
    // Every run by itself, and all of them merged.
    for (options, merge_windows_min) in [(small(), 0), (lean(), 0), (small(), 8), (lean(), 8)] {
        let owner = OwnerOptions { merge_windows_min, ..options.owner };
        let mut rig = Rig::new(NodeOptions { owner, ..options });
        let place = rig.earliest("s", "g");
        let mut published = Vec::new();
        for hour in 0..8_u64 {
            for part in 0..4 {
                let body = format!("hour {hour} part {part}");
                rig.publish("s", 3_600_000 * (hour + 1) + part, &body);
                published.push(body);
            }
            rig.checkpoint();
        }
        // Some of the first two hours go out, then nothing for a year.
        rig.pass(3_600_001);
        let mut taken = rig.take_all(place);
        rig.checkpoint();
        rig.clock.restart_after(365 * 24 * 3_600_000);
        rig.reopen(End::PowerCutLosesAll);
        let place = (place.0, rig.consumer(place.0, "d"));
        rig.node().release_clock();
        rig.step();
        taken.extend(rig.take_all(place));
        assert_eq!(taken, published);
    }
}

/// D4: a record between the end of a load and the move of the loading cursor was in neither path.
#[test]
fn d4_no_message_falls_between_a_load_and_an_arrival() {
    let mut options = lean();
    (options.owner.window_ms, options.owner.window_entries_max) = (4, 3);
    options.segment_bytes = 64 << 10;
    let mut rig = Rig::new(options);
    rig.in_flight_max = 10_000;
    let place = rig.earliest("s", "g");
    let (mut published, mut taken) = (0, Vec::new());
    for load in 0..600_u64 {
        for ahead in [0, 1, 2, 3, 4, 5, 8] {
            rig.submit("s", ahead, &format!("{published}"));
            published += 1;
            if ahead % 2 == load % 2 {
                let now = rig.clock.read();
                rig.node().look(now);
                rig.node().step(2).unwrap();
            }
        }
        rig.settle();
        if load % 50 == 0 {
            rig.checkpoint();
        }
        rig.pass(load % 3);
        taken.extend(rig.take_all(place));
    }
    rig.pass(100);
    taken.extend(rig.take_all(place));
    let mut numbers: Vec<u64> = taken.iter().map(|body| body.parse().unwrap_or(u64::MAX)).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..published).collect::<Vec<u64>>());
}

/// D11: the checkpoint could cover records that were not flushed yet.
#[test]
fn d11_a_checkpoint_covers_only_what_is_durable() {
    for calls in 0.. {
        let mut rig = Rig::new(os());
        rig.publish("s", 90_000, "synced");
        for number in 0..3 {
            rig.submit("s", 90_000, &format!("written {number}"));
            rig.write();
        }
        rig.disk.storage().stop_after_calls(calls);
        let done = rig.node().checkpoint().is_ok();
        rig.reopen(End::PowerCutLosesAll);
        rig.compare_with_log();
        let found = rig.drain("s", "g");
        assert!(found.first().is_some_and(|body| body == "synced"));
        if done {
            assert_eq!(found.len(), 4, "a finished checkpoint has made the log durable first");
            break;
        }
    }
}

/// D14: sequences began again at 1 where the newest segment held no record.
#[test]
fn d14_no_sequence_is_given_out_twice_however_empty_the_newest_segment_is() {
    let mut rig = Rig::new(small());
    let mut last = rig.next_sequence();
    let mut receipts = Vec::new();
    for round in 0..12 {
        let end = if round % 2 == 0 { End::PowerCutLosesAll } else { End::Kill };
        if round % 3 == 0 {
            rig.checkpoint();
        }
        if round % 4 == 0 {
            rig.node().prepare().unwrap();
        }
        rig.reopen(end);
        let next = rig.next_sequence();
        assert!(next > last, "{next} after {last}");
        last = next;
        if round % 2 == 1 {
            receipts.push(rig.publish("s", 90_000, &round.to_string()).key.sequence);
        }
    }
    let count = receipts.len();
    receipts.dedup();
    assert_eq!(receipts.len(), count);
    assert_eq!(rig.drain("s", "g").len(), count);
}

/// D20: after a hard stop inside the checkpoint's window a message that was sent went out again,
/// and one that was pending twice.
#[test]
fn d20_a_hard_stop_between_two_checkpoints_repeats_nothing_that_was_acknowledged() {
    for calls in 0..60 {
        let mut rig = Rig::new(small());
        let place = rig.earliest("s", "g");
        rig.publish("s", 10, "sent");
        rig.publish("s", 90_000, "pending");
        rig.checkpoint();
        rig.pass(10);
        assert_eq!(rig.take_all(place), ["sent"]);
        rig.disk.storage().stop_after_calls(calls);
        drop(rig.node().checkpoint());
        rig.reopen(End::PowerCut);
        let place = (place.0, rig.consumer(place.0, "d"));
        assert!(rig.take_all(place).is_empty());
        rig.pass(90_000);
        assert_eq!(rig.take_all(place), ["pending"], "once");
    }
}

/// D21: one failure in a pass of the replay wrote the same sequences twice.
#[test]
fn d21_a_replay_that_is_stopped_anywhere_leaves_every_sequence_once() {
    let mut rig = Rig::new(small());
    for number in 0..6 {
        rig.publish("s", 90_000, &number.to_string());
    }
    for calls in 0..80 {
        let mut first = rig.fork(End::Kill, calls);
        first.disk.storage().stop_after_calls(calls);
        drop(first.try_open());
        let mut second = first.fork(End::PowerCut, calls);
        second.try_open().unwrap();
        second.compare_with_log();
        assert_eq!(second.node().owner().state().schedule.pending(), 6);
        assert_eq!(second.drain("s", "g"), ["0", "1", "2", "3", "4", "5"], "{calls}");
    }
}

/// D22: a checkpoint file of no length led to a replay of everything, and all was scheduled again.
#[test]
fn d22_checkpoints_of_no_length_lead_to_a_whole_replay_that_schedules_nothing_twice() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("s", "g");
    rig.publish("s", 10, "sent");
    rig.publish("s", 90_000, "pending");
    rig.pass(10);
    assert_eq!(rig.take_all(place), ["sent"]);
    rig.checkpoint();
    rig.publish("s", 90_001, "later");
    rig.checkpoint();
    rig.end(End::Kill);
    let storage = rig.disk.storage().clone();
    for name in storage.list(CHECKPOINT_FOLDER).unwrap_or_default() {
        let path = format!("{CHECKPOINT_FOLDER}/{name}");
        assert!(storage.remove(&path).is_ok());
        assert!(storage.create(&path).and_then(|file| file.sync_data()).is_ok());
    }
    assert!(storage.sync_folder(CHECKPOINT_FOLDER).is_ok());
    assert!(rig.try_open().is_ok());
    assert_eq!(rig.node().recovered().checkpoints_refused.len(), 2);
    rig.compare_with_log();
    let place = (place.0, rig.consumer(place.0, "d"));
    rig.pass(100_000);
    assert_eq!(rig.take_all(place), ["pending", "later"]);
}

// With the fault planted that each of them is told for, these do not hold.

#[test]
fn d3_two_newest_windows_alone_are_seen() {
    sees(Planted::TwoNewestRecovered, d3_any_downtime_and_any_number_of_runs_however_old);
}

#[test]
fn d4_a_race_of_the_cursor_is_seen() {
    sees(Planted::CursorRace, d4_no_message_falls_between_a_load_and_an_arrival);
}

#[test]
fn d11_a_position_read_after_the_flush_is_seen() {
    sees(Planted::CheckpointAfterFlush, d11_a_checkpoint_covers_only_what_is_durable);
}
