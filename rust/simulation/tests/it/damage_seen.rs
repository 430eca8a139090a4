//! Damaged stores: `verify`, `inspect` and an open name each damaged place, and change no file.
#![expect(clippy::unwrap_used, reason = "a test may")]

use crate::rig::saving::{
    DISPATCH, HOUR_MS, SCHEDULE, files_of, filled, flip, place_of, publish_all, remove, retired, runs_of,
};
use crate::rig::{Rig, small};
use delaymq_core::error::{Error, Result, StorageFault};
use delaymq_core::message_log::Identity;
use delaymq_core::storage::{Call, Storage};
use delaymq_core::store::{FileKind, Inspection, Verification, VerificationProgress, inspect, verify, verify_telling};
use delaymq_core::store::{KeepFinished, inspect_damaged};
use delaymq_core::units::Sequence;
use delaymq_simulation::disk::End;

/// Every problem that a verification names; the store is as it was.
fn findings(rig: &mut Rig) -> Vec<String> {
    let before = rig.disk.storage().image();
    let identity = *rig.node().identity();
    let found = verify(&rig.disk.shared(), &identity).unwrap();
    assert!(rig.disk.storage().image() == before, "files were changed");
    found.findings
}

/// What an open says, and what `inspect` shows of the store all the same.
fn refused(rig: &Rig) -> (Error, Inspection) {
    let mut other = rig.fork(End::Kill, 1);
    let before = other.disk.storage().image();
    let error = other.try_open().unwrap_err();
    assert!(other.disk.storage().image() == before, "refused, and files were touched");
    let found = inspect_damaged(&other.disk.shared(), error.clone(), &[], &KeepFinished::default()).unwrap();
    assert!(other.disk.storage().image() == before, "files were changed");
    assert_eq!(found.refused, Some(error.clone()));
    (error, found)
}

#[test]
fn verify_names_each_damaged_file() {
    let (mut rig, _) = filled();
    assert_eq!(findings(&mut rig), Vec::<String>::new());
    let newest = rig.newest("checkpoints/");
    let (log, at) = place_of(&rig, "behind 007");
    let (schedule, dispatch) = (runs_of(&rig, SCHEDULE).remove(0), runs_of(&rig, DISPATCH).remove(0));
    for (path, offset) in [(&newest, 100), (&log, at), (&schedule, 5_000), (&dispatch, 5_000)] {
        flip(&rig, path, offset);
        let found = findings(&mut rig);
        assert!(
            !found.is_empty() && found.iter().all(|words| words.starts_with(&format!("{path} is damaged"))),
            "{found:?}"
        );
        flip(&rig, path, offset);
        assert_eq!(findings(&mut rig), Vec::<String>::new());
    }
    for run in [&schedule, &dispatch] {
        let rig = &mut rig.fork(End::Kill, 1);
        let identity = Identity::read(rig.disk.shared().as_ref()).unwrap().unwrap();
        remove(rig, run);
        let found = verify(&rig.disk.shared(), &identity).unwrap();
        assert!(found.findings.iter().all(|words| words.starts_with(&format!("{run} is missing"))), "{found:?}");
        assert_eq!(found.batches, 0, "without its runs no state can be compared");
        assert_eq!(found.checkpoints, 2);
    }
}

#[test]
fn a_checkpoint_that_says_otherwise_than_the_log_is_named_with_what_differs() {
    let (mut rig, _) = filled();
    let newest = rig.newest("checkpoints/");
    let bytes = rig.disk.storage().image()[&newest].clone();
    // Voided messages, and the next group's number, both in the fixed part of the body.
    for (field, words) in [(40, "the next numbers"), (48, "the next numbers"), (8, "the position")] {
        let mut changed = bytes.clone();
        changed[64 + field] ^= 1;
        let length = u64::from_le_bytes(changed[48..56].try_into().unwrap()) as usize;
        let digest = crc32fast::hash(&changed[64..64 + length]);
        changed[36..40].copy_from_slice(&digest.to_le_bytes());
        let check = crc32fast::hash(&changed[64..]);
        changed[56..60].copy_from_slice(&check.to_le_bytes());
        let check = crc32fast::hash(&changed[..60]);
        changed[60..64].copy_from_slice(&check.to_le_bytes());
        rig.disk.storage().open(&newest).unwrap().write_at(0, &changed).unwrap();
        let found = findings(&mut rig);
        assert!(found.contains(&format!("{newest} says otherwise than the log: {words}")), "{field}: {found:?}");
    }
}

#[test]
fn a_disk_that_fails_meanwhile_is_an_error_of_verify_or_a_finding_that_names_the_file() {
    let (mut rig, _) = filled();
    let identity = *rig.node().identity();
    for call in [Call::Open, Call::Read, Call::List, Call::Length] {
        for number in 0.. {
            let rig = rig.fork(End::Kill, 1);
            rig.disk.storage().fail_call_of(call, number, StorageFault::Io);
            let calls = || rig.disk.storage().counts().of(call);
            let before = calls();
            let mut told = 0;
            let found: Result<Verification> = verify_telling(&rig.disk.shared(), &identity, &mut |progress| {
                let VerificationProgress { bytes, bytes_whole } = progress;
                assert!(bytes > told && bytes <= bytes_whole);
                told = bytes;
            });
            match found {
                Err(error) => assert!(matches!(error, Error::Storage { .. }), "{call:?} {number}: {error}"),
                Ok(found) if calls() - before <= number => {
                    assert_eq!(found.findings, Vec::<String>::new());
                    assert!(told > 0);
                    break;
                }
                Ok(found) => assert!(
                    found.findings.iter().any(|words| words.contains("failed")),
                    "{call:?} {number} {:?}",
                    found.findings
                ),
            }
        }
    }
}

#[test]
fn inspect_shows_a_refused_store_up_to_the_first_fact_that_is_lost() {
    let (rig, _) = filled();
    let (path, at) = place_of(&rig, "behind 007");
    flip(&rig, &path, at - 30);
    let (error, found) = refused(&rig);
    assert!(matches!(&error, Error::Corrupt { path: named, .. } if *named == path), "{error}");
    let behind = found.subjects.iter().find(|one| one.name == "behind").unwrap();
    assert_eq!((behind.pending, found.pending), (7, 148));
    assert!(found.facts_unconfirmed > 12);
    assert!(found.damaged[0].starts_with(&format!("{path} is damaged")), "{:?}", found.damaged);
    assert!(found.damaged[1].starts_with("1 facts are gone, sequences "), "{:?}", found.damaged);
}

#[test]
fn inspect_shows_a_store_without_its_identity_or_its_beginning() {
    let (rig, _) = filled();
    flip(&rig, "identity", 40);
    let (_, found) = refused(&rig);
    assert!(found.damaged[0].starts_with("identity is damaged"), "{:?}", found.damaged);
    assert_eq!((found.pending, found.epoch.0), (161, 1));
    let rig = retired();
    for path in files_of(&rig, "checkpoints/") {
        flip(&rig, &path, 100);
    }
    let (_, found) = refused(&rig);
    let words = "no checkpoint can be read, and the beginning of the log is gone: nothing is certain";
    assert!(found.damaged.contains(&words.to_owned()), "{:?}", found.damaged);
    assert_eq!(found.checkpoint, None);
}

#[test]
fn inspect_tells_so_many_places_and_counts_the_others() {
    let (rig, _) = filled();
    for number in 1..=3_u32 {
        let path = format!("log/{:010}.segment", number * 2_000);
        rig.disk.storage().create(&path).unwrap();
    }
    let found = inspect_damaged(&rig.disk.shared(), Error::Closed, &[], &KeepFinished::default()).unwrap();
    assert_eq!(found.damaged.len(), 1_001);
    let last = found.damaged.last().unwrap();
    assert!(last.starts_with("and ") && last.ends_with(" more"), "{last}");
}

#[test]
fn inspect_uses_the_older_checkpoint_and_names_every_kind_of_file() {
    let (mut rig, _) = filled();
    let identity = *rig.node().identity();
    let newest = rig.newest("checkpoints/");
    let whole = inspect(&rig.disk.shared(), &identity, &[], &KeepFinished::default()).unwrap();
    flip(&rig, &newest, 100);
    let storage = rig.disk.storage();
    for path in ["runs/0000000099.run", "aside/evidence", "pins/reader", "stray", "log/stray"] {
        storage.create(path).unwrap();
    }
    let found = inspect(&rig.disk.shared(), &identity, &[], &KeepFinished::default()).unwrap();
    assert_eq!((found.pending, found.ready, found.groups), (whole.pending, whole.ready, whole.groups));
    assert!(found.checkpoint < whole.checkpoint);
    let kind = |path: &str| found.files.iter().find(|file| file.path == path).map(|file| file.kind);
    assert_eq!(kind(&newest), Some(FileKind::Other), "it is of no use");
    assert_eq!(kind("runs/0000000099.run"), Some(FileKind::UnusedRun));
    assert_eq!(kind("aside/evidence"), Some(FileKind::Aside));
    assert_eq!(kind("pins/reader"), Some(FileKind::Pin));
    assert_eq!((kind("stray"), kind("log/stray")), (Some(FileKind::Other), Some(FileKind::Other)));
    remove(&rig, "runs/0000000099.run");
    let (schedule, dispatch) = (&runs_of(&rig, SCHEDULE)[0], &runs_of(&rig, DISPATCH)[0]);
    assert_eq!((kind(schedule), kind(dispatch)), (Some(FileKind::ScheduleRun), Some(FileKind::DispatchRun)));
    flip(&rig, schedule, 5_000);
    let found = inspect(&rig.disk.shared(), &identity, &[], &KeepFinished::default()).unwrap();
    assert!(found.damaged.iter().any(|words| words.starts_with(&format!("{schedule} is damaged"))));
}

#[test]
fn an_open_whose_checkpoint_does_not_have_what_it_needs_is_refused() {
    let mut rig = Rig::new(small());
    publish_all(&mut rig, "late", 0..20);
    rig.checkpoint();
    rig.publish("now", 0, "ready");
    rig.checkpoint();
    rig.publish("late", HOUR_MS, "behind");
    // Another run under its name: whole, and not the one that was named.
    let runs = runs_of(&rig, SCHEDULE);
    let image = rig.disk.storage().image();
    let other = rig.fork(End::Kill, 1);
    remove(&other, &runs[0]);
    let mut bytes = image[&runs[0]].clone();
    let end = bytes.len();
    let footer = u64::from_le_bytes(bytes[end - 40..end - 32].try_into().unwrap()) as usize;
    bytes[footer + 56] ^= 1;
    let check = crc32fast::hash(&bytes[footer..end - 40]);
    bytes[end - 24..end - 20].copy_from_slice(&check.to_le_bytes());
    let check = crc32fast::hash(&bytes[end - 40..end - 12]);
    bytes[end - 12..end - 8].copy_from_slice(&check.to_le_bytes());
    other.disk.storage().create(&runs[0]).unwrap().write_at(0, &bytes).unwrap();
    let (error, found) = refused(&other);
    let Error::Corrupt { path, expected, .. } = &error else { panic!("{error}") };
    assert_eq!(*path, runs[0]);
    assert!(expected.contains("bytes with check"), "{expected}");
    assert!(found.damaged.iter().any(|words| words.starts_with(path.as_str())), "{:?}", found.damaged);
    assert!(found.next_sequence > Sequence(20));
}
