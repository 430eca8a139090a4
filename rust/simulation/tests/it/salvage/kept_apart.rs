//! Salvage of stores that were damaged on purpose: the saved messages, the reported losses, and that the damaged store
//! is only read.

use std::sync::Arc;

use crate::rig::saving::{
    DISPATCH, HOUR_MS, SCHEDULE, bodies, counts, files_of, filled, flip, look, place_of, publish_all, remove, retired,
    runs_of, saved, subject, whole,
};
use crate::rig::{Rig, lean, small};
use delaymq_core::error::{Error, StorageFault};
use delaymq_core::record::retry::Death;
use delaymq_core::storage::{Call, MemoryStorage, Storage};
use delaymq_core::store::StartAt;
use delaymq_core::store::{Outcome, salvage};
use delaymq_simulation::disk::End;

#[test]
fn a_sound_store_is_saved_whole_and_each_group_gets_what_it_has_not_finished() {
    let (rig, _) = filled();
    let found = look(&rig).unwrap();
    assert_eq!((found.damage.as_slice(), found.gaps.as_slice(), found.is_blind), ([].as_slice(), [].as_slice(), false));
    assert_eq!(counts(&found), whole());
    assert_eq!((found.saved(), found.lost_count(), found.reasons_count()), (173, 0, 1));
    assert_eq!(found.delay_ms_max, 315_360_000_000);
    let told = saved(&found);
    let to = |place: &str| told.iter().filter(|(to, _)| to == place).count();
    // Six are finished by `quick` and go to `slow` alone.
    assert_eq!((to("now slow"), to("now")), (6, 5));
    let groups: Vec<_> =
        found.groups.iter().map(|one| (one.subject.as_str(), one.name.as_str(), one.unfinished)).collect();
    assert!(groups.contains(&("now", "slow", 11)) && groups.contains(&("now", "quick", 5)), "{groups:?}");
    let mut reasons = Vec::new();
    found
        .each(&mut |one| {
            reasons.extend(one.death.map(|death| (one.message.body.to_vec(), death.clone())));
            Ok(())
        })
        .unwrap();
    assert_eq!(reasons, [(b"now 5".to_vec(), Death::Reason("no such order".into()))]);
}

#[test]
fn the_first_error_of_whoever_takes_them_ends_it() {
    let (rig, _) = filled();
    let found = look(&rig).unwrap();
    let mut taken = 0;
    let ended = found.each(&mut |_| {
        taken += 1;
        if taken == 3 { Err(Error::Closed) } else { Ok(()) }
    });
    assert_eq!((ended, taken), (Err(Error::Closed), 3));
}

#[test]
fn a_store_that_changes_after_it_was_looked_at_is_not_saved_wrongly() {
    let (rig, _) = filled();
    let found = look(&rig).unwrap();
    let (path, offset) = place_of(&rig, "behind 007");
    flip(&rig, &path, offset);
    let mut taken = Vec::new();
    let ended = found.each(&mut |one| {
        taken.push(one.message.body.to_vec());
        Ok(())
    });
    assert!(matches!(&ended, Err(Error::DamagedPayload { path: named, .. }) if *named == path), "{ended:?}");
    assert!(!taken.iter().any(|body| body.starts_with(b"behind 007") || body.len() < 5));
    remove(&rig, &path);
    let ended = found.each(&mut |_| Ok(()));
    assert!(matches!(&ended, Err(Error::MissingFile { path: named, .. }) if *named == path), "{ended:?}");
}

#[test]
fn where_there_is_no_store_nothing_is_saved() {
    let rig = Rig::new(small()).fork(End::Kill, 1);
    for path in rig.files() {
        remove(&rig, &path);
    }
    assert!(matches!(look(&rig).err(), Some(Error::NotAStore { .. })));
    let file = rig.disk.storage().create("identity").unwrap();
    file.write_at(0, b"of another program").unwrap();
    assert!(matches!(look(&rig).err(), Some(Error::NotAStore { path, .. }) if path == "identity"));
}

#[test]
fn without_its_identity_a_store_is_known_by_its_log() {
    let (rig, _) = filled();
    let lost = rig.fork(End::Kill, 1);
    remove(&lost, "identity");
    let found = look(&lost).unwrap();
    assert!(matches!(&found.damage[..], [Error::MissingFile { path, .. }] if path == "identity"), "{:?}", found.damage);
    assert_eq!(counts(&found), whole());
    let damaged = rig.fork(End::Kill, 1);
    flip(&damaged, "identity", 40);
    // A segment that has lost its header does not say whose it is; the next one does.
    let first = &files_of(&damaged, "log/")[0];
    flip(&damaged, first, 20);
    let found = look(&damaged).unwrap();
    assert!(matches!(&found.damage[0], Error::Corrupt { path, .. } if path == "identity"), "{:?}", found.damage);
    assert!(matches!(&found.damage[1], Error::Corrupt { path, .. } if path == first), "{:?}", found.damage);
    assert_eq!(counts(&found), whole());
}

#[test]
fn files_of_a_later_release_are_not_judged() {
    let (rig, _) = filled();
    let later = |path: &str, format_at: usize, checked: usize, check_at: usize| {
        let rig = rig.fork(End::Kill, 1);
        let mut bytes = rig.disk.storage().image()[path].clone();
        let from = if path.starts_with("runs/") { bytes.len() - 40 } else { 0 };
        bytes[from + format_at..from + format_at + 4].copy_from_slice(&99_u32.to_le_bytes());
        let check = crc32fast::hash(&bytes[from..from + checked]);
        bytes[from + check_at..from + check_at + 4].copy_from_slice(&check.to_le_bytes());
        rig.disk.storage().open(path).unwrap().write_at(0, &bytes).unwrap();
        match look(&rig).err() {
            Some(Error::NewerFormat { path: named, found: 99, .. }) => assert_eq!(named, path),
            other => panic!("{path}: {other:?}"),
        }
    };
    later("identity", 8, 76, 76);
    later(&rig.newest("checkpoints/"), 8, 60, 60);
    later(&runs_of(&rig, SCHEDULE)[0], 24, 28, 28);
    later(&runs_of(&rig, DISPATCH)[0], 24, 28, 28);
}

#[test]
fn one_call_that_fails_is_made_again_and_changes_nothing() {
    let (rig, _) = filled();
    // So that every way of looking further is gone.
    for run in [&runs_of(&rig, SCHEDULE)[0], &runs_of(&rig, DISPATCH)[0]] {
        flip(&rig, run, 5_000);
    }
    let (path, offset) = place_of(&rig, "behind 007");
    flip(&rig, &path, offset);
    let undisturbed = look(&rig).unwrap();
    assert_eq!(subject(&undisturbed, "behind").lost, 1);
    for call in [Call::Open, Call::Read, Call::List, Call::Length] {
        for number in 0.. {
            let rig = rig.fork(End::Kill, 1);
            let calls = || rig.disk.storage().counts().of(call);
            let before = calls();
            rig.disk.storage().fail_call_of(call, number, StorageFault::Io);
            let found = look(&rig).unwrap_or_else(|error| panic!("{call:?} {number}: {error}"));
            assert_eq!(saved(&found), saved(&undisturbed), "{call:?} {number}");
            assert_eq!(
                (counts(&found), &found.damage),
                (counts(&undisturbed), &undisturbed.damage),
                "{call:?} {number}"
            );
            if calls() - before <= number {
                assert!(number > 0, "{call:?}");
                break;
            }
        }
    }
}

#[test]
fn a_disk_that_is_not_allowed_or_gone_is_an_error_and_never_a_loss() {
    let (rig, _) = filled();
    for call in [Call::Open, Call::Read, Call::List] {
        for number in 0.. {
            let rig = rig.fork(End::Kill, 1);
            let calls = || rig.disk.storage().counts().of(call);
            let before = calls();
            rig.disk.storage().fail_call_of(call, number, StorageFault::PermissionDenied);
            match salvage(&rig.disk.shared()) {
                Err(Error::Storage { fault: StorageFault::PermissionDenied, .. }) => {}
                Err(error) => panic!("{call:?} {number}: {error}"),
                Ok(_) => {
                    assert!(calls() - before <= number && number > 0, "{call:?} {number}");
                    break;
                }
            }
        }
    }
}

#[test]
fn the_checkpoint_that_loses_least_is_taken() {
    let (rig, _) = filled();
    let [older, newest] = files_of(&rig, "checkpoints/").try_into().unwrap();
    for (damaged, is_blind) in [(vec![&newest], false), (vec![&older], false), (vec![&older, &newest], false)] {
        let rig = rig.fork(End::Kill, 1);
        for path in &damaged {
            flip(&rig, path, 100);
        }
        let found = look(&rig).unwrap();
        let named: Vec<String> = found.damage.iter().map(ToString::to_string).collect();
        assert_eq!(named.len(), damaged.len(), "{named:?}");
        assert!(damaged.iter().all(|path| named.iter().any(|words| words.starts_with(path.as_str()))), "{named:?}");
        // The log is there from its beginning: everything is as certain as before.
        assert_eq!((counts(&found), found.is_blind), (whole(), is_blind));
    }
}

#[test]
fn of_two_checkpoints_the_one_whose_runs_are_there_is_taken() {
    let mut rig = Rig::new(lean());
    publish_all(&mut rig, "late", 0..10);
    rig.checkpoint();
    publish_all(&mut rig, "late", 10..20);
    // Two segments more than the checkpoint needs.
    publish_all(&mut rig, "behind", 0..150);
    rig.checkpoint();
    let newer = runs_of(&rig, SCHEDULE).pop().unwrap();
    remove(&rig, &newer);
    let found = look(&rig).unwrap();
    assert!(matches!(&found.damage[..], [Error::MissingFile { path, .. }, ..] if *path == newer), "{:?}", found.damage);
    assert_eq!((found.lost_count(), found.is_blind), (0, false));
    assert_eq!((subject(&found, "late").pending, subject(&found, "behind").pending), (20, 150));
}

#[test]
fn blind_everything_is_kept_that_the_log_and_the_runs_still_hold() {
    let rig = retired();
    let sound = look(&rig).unwrap();
    assert_eq!((subject(&sound, "late").pending, subject(&sound, "now").ready, sound.is_blind), (3, 60, false));
    for path in files_of(&rig, "checkpoints/") {
        flip(&rig, &path, 100);
    }
    let found = look(&rig).unwrap();
    assert!(found.is_blind);
    assert_eq!((found.gaps.as_slice(), found.lost_count()), ([].as_slice(), 0));
    // Nobody can say what is finished: what was pending is kept as well as what was ready.
    assert!(found.subjects.iter().all(|one| (one.pending, one.ready) == (0, 0)), "{:?}", counts(&found));
    let kept = bodies(&found);
    for number in 0..3 {
        assert!(kept.contains(&format!("late {number:03}")), "{kept:?}");
    }
    assert_eq!(kept.iter().filter(|body| body.starts_with("unfinished")).count(), 60);
    assert!(!kept.iter().any(|body| body == "cancelled"), "a cancel before its time is believed");
    assert!(found.subjects.iter().any(|one| one.name.starts_with("salvaged.")), "a subject whose name is gone");
}

#[test]
fn blind_a_block_of_a_run_that_cannot_be_read_is_told() {
    let rig = retired();
    for path in files_of(&rig, "checkpoints/") {
        flip(&rig, &path, 100);
    }
    let runs = files_of(&rig, "runs/");
    for run in &runs {
        flip(&rig, run, 5_000);
    }
    let found = look(&rig).unwrap();
    for run in &runs {
        let told = |error: &Error| matches!(error, Error::Corrupt { path, offset: 4_096, .. } if path == run);
        assert!(found.damage.iter().any(told), "{run} is not among {:?}", found.damage);
    }
}

#[test]
fn behind_a_lost_fact_everything_is_kept_but_what_was_certainly_cancelled() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("now", "quick");
    rig.checkpoint();
    rig.publish("now", 0, "before");
    rig.publish("now", 0, "lost");
    rig.publish("now", 0, "finished behind");
    assert_eq!(rig.take_all(place).len(), 3);
    let early = rig.publish("now", HOUR_MS, "cancelled before its time");
    assert_eq!(rig.cancel(&early), Outcome::Done);
    let late = rig.publish("now", 5, "cancelled too late");
    rig.clock.advance(10);
    rig.cancel(&late);
    rig.publish("a new subject", HOUR_MS, "pending behind");
    rig.group("a new subject", "a new group", StartAt::Unfinished);
    rig.attach("a new subject", "another", StartAt::Latest, "client", 4);
    let (path, offset) = place_of(&rig, "lost");
    // In the header of its record.
    flip(&rig, &path, offset - 30);
    let found = look(&rig).unwrap();
    assert_eq!(found.gaps.iter().map(|gap| gap.count).sum::<u64>(), 1, "{:?}", found.gaps);
    assert!(matches!(&found.damage[..], [Error::Corrupt { path: named, .. }] if *named == path), "{:?}", found.damage);
    // `before` was acknowledged behind the gap, where numbers are not believed any more.
    assert_eq!(bodies(&found), ["before", "cancelled too late", "finished behind", "pending behind"]);
    assert_eq!((subject(&found, "now").ready, subject(&found, "now").doubtful), (1, 2));
    assert_eq!(subject(&found, "a new subject").doubtful, 1);
    let groups: Vec<_> = found.groups.iter().map(|one| (one.subject.as_str(), one.name.as_str())).collect();
    assert!(groups.contains(&("a new subject", "a new group")) && groups.contains(&("a new subject", "another")));
}

#[test]
fn a_missing_segment_is_a_gap_and_the_batches_behind_it_are_kept() {
    let mut rig = Rig::new(small());
    rig.publish("late", HOUR_MS, "before");
    rig.checkpoint();
    publish_all(&mut rig, "late", 0..200);
    let segments = files_of(&rig, "log/");
    let gone = segments.iter().find(|path| place_of(&rig, "late 100").0 == **path).unwrap();
    let image = rig.disk.storage().image();
    let inside = |path: &String| {
        (0..200)
            .filter(|number| {
                let text = format!("late {number:03}");
                image[path].windows(text.len()).any(|window| window == text.as_bytes())
            })
            .count() as u64
    };
    let lost = inside(gone);
    assert!(lost > 10);
    remove(&rig, gone);
    let found = look(&rig).unwrap();
    assert!(matches!(&found.damage[..], [Error::MissingFile { path, .. }] if path == gone), "{:?}", found.damage);
    assert_eq!(found.saved(), 201 - lost);
    assert_eq!(found.gaps.len(), 1);
    assert!(found.gaps[0].count >= lost);
    let late = subject(&found, "late");
    assert!(late.pending > 1 && late.doubtful > 10, "{late:?}");
}

#[test]
fn a_cancel_behind_a_lost_fact_is_believed_for_what_the_checkpoint_knows_as_well() {
    let mut rig = Rig::new(small());
    let receipt = rig.publish("late", HOUR_MS, "cancelled behind");
    rig.publish("late", HOUR_MS, "kept");
    rig.checkpoint();
    rig.publish("late", HOUR_MS, "lost");
    assert_eq!(rig.cancel(&receipt), Outcome::Done);
    let (path, offset) = place_of(&rig, "lost");
    flip(&rig, &path, offset - 30);
    let found = look(&rig).unwrap();
    assert_eq!((bodies(&found), found.gaps.len()), (vec!["kept".to_owned()], 1));
}

#[test]
fn damage_before_the_checkpoint_is_told_and_costs_only_the_payloads_that_lay_there() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("now", "quick");
    for number in 0..6 {
        rig.publish("now", 0, &format!("now {number}"));
    }
    let handed = rig.pull(place);
    rig.acknowledge(place, &[handed[0].delivery.offset.0]);
    rig.node().void_ready(handed[1].delivery.entry.subject(), handed[1].delivery.number).unwrap();
    rig.settle();
    rig.checkpoint();
    rig.publish("now", 0, "behind");
    // The header of its record: the batch is no whole one any more, and the next ones are.
    let (path, offset) = place_of(&rig, "now 3");
    flip(&rig, &path, offset - 30);
    let found = look(&rig).unwrap();
    assert!(matches!(&found.damage[..], [Error::Corrupt { path: named, .. }] if *named == path), "{:?}", found.damage);
    assert_eq!(found.gaps, []);
    // The first is finished and the second was given up: neither comes back.
    assert_eq!(bodies(&found), ["behind", "now 2", "now 4", "now 5"]);
    assert_eq!((subject(&found, "now").ready, subject(&found, "now").lost), (4, 1));
    // A record of a batch whose header is gone is found by itself.
    let (path, offset) = place_of(&rig, "now 4");
    flip(&rig, &path, offset - 60);
    let found = look(&rig).unwrap();
    assert_eq!(bodies(&found), ["behind", "now 2", "now 4", "now 5"]);
    assert_eq!(found.gaps, []);
}

#[test]
fn without_identity_and_log_nobody_says_whose_files_these_are() {
    let (rig, _) = filled();
    let storage = MemoryStorage::new(1);
    assert!(matches!(salvage(&shared(&storage)).err(), Some(Error::NotAStore { .. })), "an empty folder");
    storage.create_folder("checkpoints").unwrap();
    let path = rig.newest("checkpoints/");
    storage.create(&path).unwrap().write_at(0, &rig.disk.storage().image()[&path]).unwrap();
    assert!(matches!(salvage(&shared(&storage)).err(), Some(Error::NotAStore { .. })), "no identity and no log");
}

fn shared(storage: &MemoryStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}
