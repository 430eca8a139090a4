//! Histories of full disks, damage, losses, and names; and every prefix of the last commit.
#![expect(clippy::panic, reason = "a test may panic")]

use crate::rig::{Rig, bodies_of, lean, os, sees, small};
use delaymq_core::error::{Error, StorageFault};
use delaymq_core::message_log::{Durability, FreeMarks, segment_path};
use delaymq_core::planted::Planted;
use delaymq_core::storage::{Call, Storage};
use delaymq_core::store::Outcome;
use delaymq_core::store::StartAt;
use delaymq_core::units::Location;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NewMessage, NodeOptions};

/// Publishes until the store says that it is full; how many were taken.
fn fill(rig: &mut Rig) -> usize {
    let mut taken = 0;
    for _ in 0..500 {
        let message = NewMessage { subject: "s", due: Due::After(0), body: &[b'x'; 300], expires: None, meta: b"" };
        match rig.node().publish(&[message]) {
            Ok(Some(_)) => {
                taken += 1;
                rig.settle();
            }
            Ok(None) => {
                if let Err(error) = rig.node().prepare() {
                    assert!(error.is_no_space(), "{error}");
                }
            }
            Err(Error::DiskFull) => return taken,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk is never full");
}

#[test]
fn a_full_disk_refuses_what_grows_and_finishing_goes_on_and_resumes_by_itself() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("s", "g");
    let far = rig.publish("s", 1_000_000, "far");
    let used = rig.disk.used_bytes();
    rig.disk.storage().set_capacity(used + 9_000);
    let taken = fill(&mut rig);
    assert!(taken > 0);
    for _ in 0..5 {
        assert!(matches!(
            rig.node().publish(&[NewMessage {
                subject: "s",
                due: Due::After(0),
                body: b"no",
                expires: None,
                meta: b""
            }]),
            Err(Error::DiskFull)
        ));
    }
    let handed = rig.pull(place);
    assert!(!handed.is_empty(), "deliveries go on");
    rig.acknowledge(place, &[handed[0].delivery.offset.0]);
    assert_eq!(rig.cancel(&far), Outcome::Done, "and so do cancels");
    rig.disk.storage().set_capacity(u64::MAX);
    rig.node().prepare().unwrap();
    rig.publish("s", 0, "after");
    rig.reopen(End::PowerCut);
    rig.in_flight_max = 1_000;
    let place = (place.0, rig.consumer(place.0, "d"));
    let all = rig.take_all(place);
    assert_eq!((all.len(), all.last().unwrap().as_str()), (taken, "after"), "nothing is lost");
    rig.compare_with_log();
}

#[test]
fn below_the_mark_what_grows_is_refused_and_it_is_taken_again_by_itself() {
    let mark = 1 << 40;
    let marks = FreeMarks { warn_bytes: 0, refuse_bytes: mark };
    let mut rig = Rig::new(NodeOptions { marks, ..small() });
    let place = rig.earliest("s", "g");
    let far = rig.publish("s", 1_000_000, "far");
    rig.publish("s", 0, "before");
    let used = rig.disk.used_bytes();
    let message = || NewMessage { subject: "s", due: Due::After(0), body: b"no", expires: None, meta: b"" };
    let prepared = rig.node().commits().spare_bytes(0);
    for free in [mark - prepared - 1, 0] {
        rig.disk.storage().set_capacity(used + free);
        rig.node().look_at_room();
        assert!(matches!(rig.node().publish(&[message()]), Err(Error::BelowMark { .. })));
        assert!(matches!(rig.node().subscribe("t", "h", StartAt::Latest), Err(Error::BelowMark { .. })));
    }
    let handed = rig.pull(place);
    assert_eq!(bodies_of(&handed), ["before"]);
    rig.acknowledge(place, &[handed[0].delivery.offset.0]);
    assert_eq!(rig.cancel(&far), Outcome::Done);
    rig.disk.storage().set_capacity(u64::MAX);
    rig.node().look_at_room();
    rig.publish("s", 0, "after");
    rig.reopen(End::PowerCut);
    let place = (place.0, rig.consumer(place.0, "d"));
    assert_eq!(rig.take_all(place), ["after"], "nothing is lost, and nothing comes back");
    rig.compare_with_log();
}

#[test]
fn below_the_mark_what_is_finished_goes_by_itself_though_nothing_comes() {
    let marks = FreeMarks { warn_bytes: 0, refuse_bytes: 1 << 40 };
    let mut rig = Rig::new(NodeOptions { marks, ..lean() });
    let place = rig.earliest("s", "g");
    for number in 0..60 {
        rig.publish("s", 0, &format!("{number:0200}"));
    }
    rig.checkpoint();
    assert_eq!(rig.take_all(place).len(), 60);
    let used = rig.disk.used_bytes();
    let segments = |rig: &Rig| rig.files().iter().filter(|path| path.starts_with("log/")).count();
    let before = segments(&rig);
    rig.disk.storage().set_capacity(used + (1 << 20));
    let mut checkpoints = 0;
    for _ in 0..8 {
        rig.node().look_at_room();
        if rig.node().owner().checkpoint_due() {
            rig.checkpoint();
            checkpoints += 1;
        }
    }
    assert!(segments(&rig) < before, "{before} segments, and {} after {checkpoints} checkpoints", segments(&rig));
    assert!((1..=3).contains(&checkpoints), "{checkpoints} checkpoints, where the second has given all back");
    rig.disk.storage().set_capacity(u64::MAX);
    rig.reopen(End::PowerCut);
    let place = (place.0, rig.consumer(place.0, "d"));
    rig.publish("s", 0, "after");
    assert_eq!(rig.take_all(place), ["after"], "what is finished stays finished");
}

#[test]
fn a_full_disk_while_a_checkpoint_is_written_costs_nothing_but_the_checkpoint() {
    for free in (0..40_000).step_by(997) {
        let mut rig = Rig::new(small());
        for number in 0..6 {
            rig.publish("s", 50_000 + number, &format!("{number}"));
        }
        let used = rig.disk.used_bytes();
        rig.disk.storage().set_capacity(used + free);
        rig.node().begin_checkpoint();
        let mut failed = 0;
        let mut done = false;
        while failed < 3 && !done {
            match rig.node().checkpoint_piece(100) {
                Ok(finished) => done = finished,
                Err(error) => {
                    assert!(error.is_no_space(), "{error}");
                    failed += 1;
                }
            }
        }
        rig.disk.storage().set_capacity(u64::MAX);
        rig.publish("s", 50_010, "6");
        if failed > 0 {
            while !rig.node().checkpoint_piece(u64::MAX).unwrap() {}
        }
        rig.reopen(End::PowerCutLosesAll);
        assert!(rig.node().recovered().checkpoint.is_some());
        rig.compare_with_log();
        assert_eq!(rig.drain("s", "g"), ["0", "1", "2", "3", "4", "5", "6"], "{free}");
    }
}

#[test]
fn a_failed_rename_of_a_checkpoint_is_tried_again() {
    for calls in 0..4 {
        let mut rig = Rig::new(small());
        rig.publish("s", 50_000, "a");
        rig.disk.storage().fail_call_of(Call::Rename, calls, StorageFault::NoSpace);
        rig.node().begin_checkpoint();
        let mut failed = 0;
        loop {
            match rig.node().checkpoint_piece(u64::MAX) {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => failed += usize::from(error.is_no_space()),
            }
        }
        assert_eq!(failed, usize::from(calls < 2), "{calls}");
        rig.reopen(End::PowerCutLosesAll);
        assert!(rig.node().recovered().checkpoint.is_some());
        assert_eq!(rig.drain("s", "g"), ["a"]);
    }
}

#[test]
fn a_flipped_bit_in_the_last_commit_is_a_torn_tail_without_a_witness_and_damage_with_one() {
    let mut rig = Rig::new(small());
    rig.publish("s", 0, "first");
    let start = rig.node().appender().written().location;
    rig.publish("s", 0, "last");
    let end = rig.node().appender().written().location;
    let path = segment_path(start.segment().unwrap());
    let mut witnessed = rig.fork(End::Kill, 1);
    for offset in u64::from(start.offset())..u64::from(end.offset()) {
        let mut after = rig.fork(End::Kill, 1);
        after.disk.storage().damage(&path, offset, 1);
        after.try_open().unwrap();
        let found = after.drain("s", "g");
        let torn = !after.node().recovered().set_aside.is_empty();
        // Padding is nobody's.
        assert!((found == ["first"] && torn) || (found == ["first", "last"] && !torn), "{offset}: {found:?}");
    }
    assert!(rig.node().witness().unwrap());
    for offset in u64::from(start.offset())..u64::from(end.offset()) {
        witnessed.disk = rig.fork(End::Kill, 1).disk;
        witnessed.disk.storage().damage(&path, offset, 1);
        let before = witnessed.disk.storage().image();
        match witnessed.try_open() {
            Err(Error::Corrupt { path: named, .. }) => {
                assert_eq!(named, path);
                assert_eq!(witnessed.disk.storage().image(), before, "nothing was touched");
            }
            Err(error) => panic!("{offset}: {error}"),
            Ok(()) => {
                let found = witnessed.drain("s", "g");
                let voided = witnessed.node().owner().state().voided;
                assert!((found == ["first"] && voided == 1) || (found == ["first", "last"] && voided == 0));
            }
        }
    }
}

#[test]
fn every_prefix_of_the_last_commit_is_all_of_it_or_nothing() {
    let mut rig = Rig::new(small());
    rig.publish("s", 0, "before");
    let start = rig.node().appender().written().location;
    rig.submit("s", 0, "one of three");
    rig.submit("s", 0, "two of three");
    rig.submit("t", 0, "three of three");
    rig.node().write_batch().unwrap();
    let end = rig.node().appender().written().location;
    let path = segment_path(start.segment().unwrap());
    let whole = rig.disk.storage().image()[&path].clone();
    for cut in start.offset()..=end.offset() {
        let mut after = rig.fork(End::Kill, 1);
        let file = after.disk.storage().open(&path).unwrap();
        file.write_at(u64::from(cut), &vec![0; (end.offset() - cut) as usize]).unwrap();
        let kept = after.disk.storage().image()[&path] == whole;
        after.try_open().unwrap_or_else(|error| panic!("{cut}: {error}"));
        let found = after.drain("s", "g");
        let expected: &[&str] = if kept { &["before", "one of three", "two of three"] } else { &["before"] };
        assert_eq!(found, expected, "{cut}");
        assert_eq!(after.drain("t", "g").len(), usize::from(kept));
        after.compare_with_log();
    }
}

#[test]
fn a_receipt_from_before_a_loss_is_refused_and_cancels_no_stranger() {
    let mut rig = Rig::new(os());
    rig.publish("s", 0, "synced");
    let lost = rig.submit("s", 90_000, "lost");
    rig.write();
    rig.reopen(End::PowerCutLosesAll);
    let stranger = rig.publish("s", 90_000, "stranger");
    let stranger = if stranger.key.sequence == lost.key.sequence { stranger } else { rig.publish("s", 90_000, "x") };
    assert_eq!(rig.node().may_be_here(&lost), Ok(false));
    assert_eq!(rig.node().may_be_here(&stranger), Ok(true));
    let mut forged = stranger;
    forged.key.sequence = forged.key.sequence.next();
    assert!(rig.node().may_be_here(&forged).is_err());
    rig.reopen(End::Kill);
    assert_eq!(rig.node().may_be_here(&lost), Ok(false));
    assert_eq!(rig.cancel(&stranger), Outcome::Done);
}

#[test]
fn a_restored_copy_refuses_the_receipts_of_what_it_never_had() {
    let mut rig = Rig::new(small());
    rig.publish("s", 0, "in the copy");
    let mut copy = rig.fork(End::Kill, 1);
    let later = rig.publish("s", 90_000, "later");
    copy.chance = delaymq_simulation::chance::Chance::new(77);
    copy.try_open().unwrap();
    for number in 0..5 {
        copy.publish("s", 90_000, &number.to_string());
    }
    assert_eq!(copy.node().may_be_here(&later), Ok(false), "its epoch ended before");
}

#[test]
fn a_names_number_given_out_before_its_fact_is_durable_is_nobodys_after_a_crash() {
    let mut rig = Rig::new(small());
    rig.submit("lost", 0, "never durable");
    let lost = rig.node().subject_number("lost").unwrap();
    rig.reopen(End::PowerCutLosesAll);
    assert_eq!(rig.node().subject_number("lost"), None);
    let other = rig.publish("other", 0, "other");
    assert_eq!(other.subject, lost, "the number is free again");
    let again = rig.publish("lost", 0, "again");
    assert_ne!(again.subject, lost);
    rig.reopen(End::PowerCutLosesAll);
    assert_eq!(rig.drain("other", "g"), ["other"]);
    assert_eq!(rig.drain("lost", "g"), ["again"]);
}

#[test]
fn a_group_that_was_never_answered_is_there_whole_or_not_at_all() {
    for calls in 0..30 {
        let mut rig = Rig::new(small());
        rig.publish("s", 0, "a");
        rig.disk.storage().stop_after_calls(calls);
        let asked = rig.node().subscribe("s", "g", StartAt::Unfinished);
        let settled = asked.and_then(|_| rig.try_settle());
        rig.reopen(End::PowerCut);
        rig.compare_with_log();
        let known = rig.node().owner().state().groups.len();
        assert!(known == 1 || settled.is_err());
        assert_eq!(rig.drain("s", "g"), ["a"]);
    }
}

#[test]
fn a_damaged_payload_keeps_its_number_is_voided_and_all_others_flow() {
    for (checkpoints, options) in [(0, small()), (2, small()), (2, lean())] {
        let mut rig = Rig::new(options);
        let place = rig.earliest("s", "g");
        for body in ["first", "damaged", "third"] {
            rig.publish("s", 50_000, body);
        }
        for _ in 0..checkpoints {
            rig.checkpoint();
        }
        rig.node().witness().unwrap();
        let image = rig.disk.storage().image();
        let mut hit = 0;
        for (path, bytes) in &image {
            let found = bytes.windows(7).position(|window| window == b"damaged");
            if let Some(offset) = found {
                rig.disk.storage().damage(path, offset as u64, 1);
                hit += 1;
            }
        }
        assert!(hit > 0);
        rig.reopen(End::Kill);
        let place = (place.0, rig.consumer(place.0, "d"));
        rig.pass(50_000);
        let mut found = rig.take_all(place);
        found.extend(rig.take_all(place));
        assert_eq!(found, ["first", "third"], "{checkpoints}");
        assert_eq!(rig.node().owner().state().voided, 1);
        // Every group is spared it, those to come, too, and after a restart as well.
        rig.reopen(End::PowerCut);
        let later = rig.earliest("s", "later");
        assert!(!rig.take_all(later).contains(&"damaged".to_owned()));
        rig.compare_with_log();
    }
}

#[test]
fn a_run_that_cannot_be_read_for_a_moment_loses_nothing() {
    let mut options = small();
    options.owner.ready_entries_max = 0;
    let mut rig = Rig::new(options);
    let place = rig.earliest("s", "g");
    for body in ["a", "b", "c"] {
        rig.publish("s", 0, body);
    }
    rig.pull(place);
    rig.checkpoint();
    rig.reopen(End::Kill);
    let place = (place.0, rig.consumer(place.0, "c"));
    let request = delaymq_core::store::PullRequest {
        group: place.0,
        consumer: place.1,
        count_max: 10,
        in_flight_max: 8,
        beside: 0,
    };
    for _ in 0..6 {
        rig.disk.storage().fail_call_of(Call::Read, 0, StorageFault::Io);
        drop(rig.node().pull(request, 0));
        rig.settle();
    }
    rig.reopen(End::Kill);
    let place = (place.0, rig.consumer(place.0, "c"));
    assert_eq!(rig.take_all(place), ["a", "b", "c"]);
    assert_eq!(rig.node().owner().state().voided, 0);
}

#[test]
fn a_folder_of_something_else_and_a_newer_format_are_refused_untouched() {
    let mut rig = Rig::new(small());
    rig.publish("s", 0, "a");
    rig.end(End::Kill);
    let storage = rig.disk.storage().clone();
    let identity = storage.open("identity").unwrap();
    let mut bytes = vec![0; 80];
    identity.read_at(0, &mut bytes).unwrap();
    let mut newer = bytes.clone();
    newer[8..12].copy_from_slice(&99_u32.to_le_bytes());
    let check = crc_of(&newer[..76]);
    newer[76..].copy_from_slice(&check.to_le_bytes());
    identity.write_at(0, &newer).unwrap();
    let before = storage.image();
    assert!(matches!(rig.try_open(), Err(Error::NewerFormat { found: 99, .. })));
    assert_eq!(storage.image(), before);
    identity.write_at(0, b"RIFFWAVE").unwrap();
    assert!(matches!(rig.try_open(), Err(Error::NotAStore { .. })));
    storage.remove("identity").unwrap();
    let before = storage.image();
    assert!(matches!(rig.try_open(), Err(Error::MissingFile { .. })));
    assert_eq!(storage.image(), before);
}

/// CRC-32 (IEEE), written a second time.
fn crc_of(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn each_durability_opens_what_the_other_wrote() {
    let mut rig = Rig::new(os());
    rig.publish("s", 90_000, "os");
    rig.options = NodeOptions { durability: Durability::Disk, ..rig.options };
    rig.reopen(End::Kill);
    rig.publish("s", 90_000, "disk");
    rig.options = NodeOptions { durability: Durability::Os, ..rig.options };
    rig.reopen(End::PowerCut);
    let handed = {
        let place = rig.earliest("s", "g");
        rig.pass(90_000);
        rig.pull(place)
    };
    assert_eq!(bodies_of(&handed), ["os", "disk"]);
    assert!(handed.iter().all(|one| one.delivery.entry.location() > Location(0)));
}

// With the fault planted that each of them is told for, these do not hold.

#[test]
fn a_log_without_witness_is_seen() {
    sees(
        Planted::WitnessNotWritten,
        a_flipped_bit_in_the_last_commit_is_a_torn_tail_without_a_witness_and_damage_with_one,
    );
}

#[test]
fn a_full_disk_that_stops_finishing_is_seen() {
    sees(Planted::FullDiskStopsFinishing, a_full_disk_refuses_what_grows_and_finishing_goes_on_and_resumes_by_itself);
}

#[test]
fn a_mark_that_refuses_for_good_is_seen() {
    sees(Planted::RefusedForGood, below_the_mark_what_grows_is_refused_and_it_is_taken_again_by_itself);
}

#[test]
fn a_receipt_of_what_was_lost_that_is_taken_is_seen() {
    sees(Planted::LostReceiptTaken, a_receipt_from_before_a_loss_is_refused_and_cancels_no_stranger);
}
