//! Salvage where whole files, blocks of runs or payloads are missing: other copies of a message are found, and messages
//! without a copy are reported as lost.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::sync::Arc;

use crate::rig::saving::{
    DISPATCH, HOUR_MS, SCHEDULE, bodies, counts, files_of, filled, flip, look, place_of, publish_all, remove, retired,
    runs_of, saved, subject, whole,
};
use crate::rig::{Rig, lean, small};
use delaymq_core::error::Error;
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::store::{OwnerOptions, Salvage, salvage};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NewMessage, NodeOptions};

/// Ways in which a run is lost: all of it, its footer, or its first block.
fn spoil(rig: &Rig, run: &str, way: usize) {
    let length = rig.disk.storage().image()[run].len() as u64;
    match way {
        0 => remove(rig, run),
        1 => flip(rig, run, length - 50),
        _ => flip(rig, run, 5_000),
    }
}

fn names(found: &Salvage, path: &str) -> bool {
    let is_it = |error: &Error| match error {
        Error::Corrupt { path: named, .. } | Error::MissingFile { path: named, .. } => named == path,
        _ => false,
    };
    found.damage.iter().any(is_it)
}

#[test]
fn what_stood_in_a_lost_run_comes_from_the_log() {
    let (rig, _) = filled();
    let all = saved(&look(&rig).unwrap());
    for kind in [SCHEDULE, DISPATCH] {
        for way in 0..3 {
            let rig = rig.fork(End::Kill, 1);
            let run = &runs_of(&rig, kind)[0];
            spoil(&rig, run, way);
            let found = look(&rig).unwrap();
            assert!(names(&found, run), "{run} {way}: {:?}", found.damage);
            assert_eq!((counts(&found), found.lost_count()), (whole(), 0), "{run} {way}");
            assert_eq!(saved(&found), all, "{run} {way}");
        }
    }
}

#[test]
fn what_stood_in_a_lost_run_alone_is_told_to_be_lost() {
    for way in 0..3 {
        let rig = retired();
        let run = runs_of(&rig, SCHEDULE).remove(0);
        spoil(&rig, &run, way);
        let found = look(&rig).unwrap();
        assert!(names(&found, &run), "{way}: {:?}", found.damage);
        assert_eq!((found.lost_count(), found.saved(), found.is_blind), (3, 60, false), "{way}");
        let lost = &found.lost[0];
        // Its subject stood in the run, too.
        assert_eq!((lost.subject.as_str(), lost.due), ("", None));
        assert!(matches!(&lost.error, Error::MissingFile { path, .. } if path == "log"), "{:?}", lost.error);
        let sequences: Vec<u64> = found.lost.iter().map(|one| one.sequence.0).collect();
        assert!(sequences[0] > 0 && sequences.windows(2).all(|pair| pair[0] < pair[1]), "{sequences:?}");
    }
}

#[test]
fn ready_messages_that_cannot_be_counted_any_more_are_kept_in_doubt() {
    for way in 0..3 {
        let rig = retired();
        let run = runs_of(&rig, DISPATCH).pop().unwrap();
        spoil(&rig, &run, way);
        let found = look(&rig).unwrap();
        assert!(names(&found, &run), "{way}: {:?}", found.damage);
        let now = subject(&found, "now");
        assert_eq!(now.ready + now.doubtful, 60, "{way}: {now:?}");
        assert_eq!((found.lost_count(), subject(&found, "late").pending), (0, 3), "{way}");
        assert_eq!(bodies(&found).iter().filter(|body| body.starts_with("unfinished")).count(), 60);
    }
}

#[test]
fn ready_messages_whose_rows_and_records_are_both_gone_are_counted_as_lost() {
    let rig = retired();
    remove(&rig, &runs_of(&rig, DISPATCH).pop().unwrap());
    let (segment, _) = place_of(&rig, &format!("unfinished {:->190}", 30));
    let image = rig.disk.storage().image();
    let inside = |number: &u64| {
        let text = format!("unfinished {number:->190}");
        image[&segment].windows(text.len()).any(|window| window == text.as_bytes())
    };
    let gone = (0..60).filter(inside).count() as u64;
    assert!(gone > 5);
    remove(&rig, &segment);
    let found = look(&rig).unwrap();
    let now = subject(&found, "now");
    assert_eq!((now.ready + now.doubtful, now.lost), (60 - gone, gone), "{now:?}");
    let lost: Vec<_> = found.lost.iter().filter(|one| one.subject == "now").collect();
    assert_eq!(lost.len() as u64, gone);
}

#[test]
fn a_payload_is_read_wherever_a_whole_copy_is() {
    let (rig, _) = filled();
    let body = "late 007";
    let (log, at) = place_of(&rig, body);
    assert!(log.starts_with("log/"));
    let run = runs_of(&rig, SCHEDULE).remove(0);
    let bytes = &rig.disk.storage().image()[&run];
    let copied = bytes.windows(body.len()).position(|window| window == body.as_bytes()).unwrap() as u64;
    for (in_log, in_run) in [(true, false), (false, true)] {
        let rig = rig.fork(End::Kill, 1);
        if in_log {
            flip(&rig, &log, at);
        }
        if in_run {
            flip(&rig, &run, copied);
        }
        let found = look(&rig).unwrap();
        assert_eq!(counts(&found), whole(), "{in_log} {in_run}");
        assert!(bodies(&found).contains(&body.to_owned()));
    }
    flip(&rig, &log, at);
    flip(&rig, &run, copied);
    let found = look(&rig).unwrap();
    assert_eq!(found.lost_count(), 1);
    let lost = &found.lost[0];
    assert_eq!(lost.subject, "late");
    assert!(lost.due.is_some());
    assert!(matches!(&lost.error, Error::DamagedPayload { path, .. } if *path == run), "{:?}", lost.error);
    let late = subject(&found, "late");
    assert_eq!((late.pending, late.lost), (139, 1));
    assert!(!bodies(&found).iter().any(|body| body.starts_with("late 007") || !body.is_ascii()));
}

#[test]
fn a_payload_whose_segment_is_gone_is_lost_unless_a_run_has_a_copy() {
    let options = NodeOptions { owner: OwnerOptions { copy_after_ms: 600_000, ..lean().owner }, ..lean() };
    for delay_ms in [HOUR_MS, 60_000] {
        let mut rig = Rig::new(options);
        for number in 0..20 {
            rig.publish("s", delay_ms, &format!("copied or not {number:02}"));
        }
        rig.checkpoint();
        let (segment, _) = place_of(&rig, "copied or not 03");
        publish_all(&mut rig, "later", 0..100);
        rig.checkpoint();
        remove(&rig, &segment);
        let found = look(&rig).unwrap();
        let of = subject(&found, "s");
        if delay_ms == HOUR_MS {
            assert_eq!((of.pending, of.lost), (20, 0));
        } else {
            assert_eq!((of.pending, of.lost), (0, 20));
            let is_named = |error: &Error| matches!(error, Error::MissingFile { path, .. } if *path == segment);
            assert!(found.lost.iter().all(|one| is_named(&one.error) && one.due.is_some()), "{:?}", found.lost[0]);
        }
    }
}

#[test]
fn a_reason_that_cannot_be_read_is_left_out_and_its_dead_letter_kept() {
    let (rig, _) = filled();
    let (path, at) = place_of(&rig, "no such order");
    flip(&rig, &path, at);
    let found = look(&rig).unwrap();
    assert_eq!((found.reasons_count(), counts(&found)["%DEAD_RETRY%now%quick"]), (0, (0, 1, 0, 0)));
    let mut seen = 0;
    found
        .each(&mut |one| {
            seen += u64::from(one.subject.starts_with("%DEAD"));
            assert_eq!(one.death, None);
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, 1);
}

#[test]
fn more_files_than_are_held_open_at_once_are_read() {
    let mut rig = Rig::new(NodeOptions { segment_bytes: 4_096 + 4_096, ..small() });
    for number in 0..150 {
        rig.publish("s", 50, &format!("{number:03}{}", "x".repeat(2_500)));
    }
    assert!(files_of(&rig, "log/").len() > 65);
    let found = look(&rig).unwrap();
    assert_eq!(found.saved(), 150);
    let mut numbers = Vec::new();
    found
        .each(&mut |one| {
            numbers.push(one.message.body[..3].to_vec());
            Ok(())
        })
        .unwrap();
    assert_eq!(numbers, (0..150).map(|number| format!("{number:03}").into_bytes()).collect::<Vec<_>>());
}

/// 10,050 pending messages in one segment, and a run with their rows.
fn many() -> (Rig, String) {
    let owner = OwnerOptions { copy_after_ms: 600_000, ..small().owner };
    let mut rig = Rig::new(NodeOptions { segment_bytes: 4 << 20, owner, ..small() });
    for batch in 0..67 {
        let body = |number: u64| format!("one of many {:05}", batch * 150 + number);
        let bodies: Vec<String> = (0..150).map(body).collect();
        let message = |body| NewMessage { subject: "many", due: Due::After(60_000), body, expires: None, meta: b"" };
        let messages: Vec<_> = bodies.iter().map(|body| message(body.as_bytes())).collect();
        rig.node().publish(&messages).unwrap().unwrap();
        rig.settle();
    }
    rig.checkpoint();
    let (segment, _) = place_of(&rig, "one of many 00000");
    assert_eq!(place_of(&rig, "one of many 10049").0, segment);
    (rig, segment)
}

#[test]
fn of_many_lost_messages_all_are_counted_and_the_first_are_listed() {
    let (rig, segment) = many();
    remove(&rig, &segment);
    let found = look(&rig).unwrap();
    assert_eq!((found.lost_count(), found.lost.len(), found.saved()), (10_050, 10_000, 0));
    assert_eq!(subject(&found, "many").lost, 10_050);
    // Without their rows nothing but their sequences is known.
    remove(&rig, &runs_of(&rig, SCHEDULE)[0]);
    let found = look(&rig).unwrap();
    assert_eq!((found.lost_count(), found.lost.len()), (10_050, 10_000));
    assert_eq!(counts(&found), [("", (0, 0, 0, 10_050))].into());
}

#[test]
fn stray_segments_with_high_numbers_are_told_in_bounded_memory() {
    let (rig, _) = filled();
    let storage = rig.disk.storage();
    for number in [50_000_u32, 100_000, u32::MAX - 1] {
        storage.create(&format!("log/{number:010}.segment")).unwrap().write_at(0, b"not a segment").unwrap();
    }
    let found = look(&rig).unwrap();
    assert_eq!(counts(&found), whole());
    assert!(found.damage.len() < 3_100, "{}", found.damage.len());
    let last = found.damage.iter().rfind(|error| matches!(error, Error::MissingFile { .. })).unwrap();
    assert_eq!(
        last.to_string(),
        "log/0000101001.segment is missing: so are all behind it up to log/4294967294.segment"
    );
    assert_eq!(found.damage_unlisted, 0);
    for number in 1..=9_u32 {
        storage.create(&format!("log/{:010}.segment", number * 5_000)).unwrap();
    }
    let found = look(&rig).unwrap();
    assert_eq!((found.damage.len(), found.damage_unlisted > 1_000), (10_000, true));
    assert_eq!(counts(&found), whole());
}

#[test]
fn without_the_folder_of_the_log_the_runs_are_saved() {
    let mut rig = Rig::new(lean());
    publish_all(&mut rig, "late", 0..10);
    rig.checkpoint();
    let bare = MemoryStorage::new(1);
    for folder in ["checkpoints", "runs"] {
        bare.create_folder(folder).unwrap();
    }
    for (path, bytes) in rig.disk.storage().image() {
        if !path.starts_with("log/") {
            bare.create(&path).unwrap().write_at(0, &bytes).unwrap();
        }
    }
    let bare: Arc<dyn Storage> = Arc::new(bare);
    let found = salvage(&bare).unwrap();
    assert!(matches!(&found.damage[..], [Error::MissingFile { path, .. }] if path == "log"), "{:?}", found.damage);
    assert_eq!((found.saved(), found.lost_count()), (10, 0));
    assert_eq!(bodies(&found)[9], "late 009");
}

#[test]
fn a_beginning_that_never_learns_of_what_is_lost_is_not_taken_for_the_better_one() {
    // One payload is gone in every way to begin; from the older checkpoint and from the first fact on, a
    // whole segment of messages as well, of which these know nothing.
    let mut rig = Rig::new(small());
    rig.publish("late", 50, "damaged");
    rig.checkpoint();
    publish_all(&mut rig, "late", 0..150);
    rig.checkpoint();
    let (path, at) = place_of(&rig, "damaged");
    flip(&rig, &path, at);
    let (gone, _) = place_of(&rig, "late 070");
    assert!(gone != path && gone != rig.newest("log/"));
    remove(&rig, &gone);
    let found = look(&rig).unwrap();
    assert_eq!((found.saved(), found.lost_count(), found.gaps.len()), (150, 1, 0), "they are in the run");
    // The log ends before the checkpoints do.
    for path in files_of(&rig, "log/") {
        if path > gone {
            remove(&rig, &path);
        }
    }
    let found = look(&rig).unwrap();
    assert_eq!((found.saved(), found.lost_count(), found.gaps.len()), (150, 1, 0));
}

#[test]
fn without_a_checkpoint_and_a_log_the_runs_are_kept_in_doubt() {
    let mut rig = Rig::new(small());
    publish_all(&mut rig, "late", 0..10);
    rig.checkpoint();
    for path in files_of(&rig, "log/") {
        remove(&rig, &path);
    }
    for path in files_of(&rig, "checkpoints/") {
        flip(&rig, &path, 100);
    }
    let found = look(&rig).unwrap();
    assert_eq!((found.is_blind, found.saved(), found.lost_count()), (true, 10, 0));
    assert!(counts(&found).values().all(|one| *one == (0, 0, 10, 0)), "{:?}", counts(&found));
}
