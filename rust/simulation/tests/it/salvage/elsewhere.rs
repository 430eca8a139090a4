//! Salvage where the certain sources are not enough: rows of runs that no readable checkpoint names, and disks that do
//! not return all of their bytes.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::rig::saving::{
    DISPATCH, SCHEDULE, bodies, counts, files_of, filled, flip, look, place_of, publish_all, remove, runs_of, saved,
    subject, whole,
};
use crate::rig::{Rig, small};
use delaymq_core::error::{Error, Result, StorageFault};
use delaymq_core::storage::{Storage, StorageFile};
use delaymq_core::store::{Salvage, salvage};
use delaymq_simulation::disk::End;

/// A checkpoint, and behind it a run with the rows and payloads of 100 messages, whose checkpoint is damaged; returns
/// the run and its sequences.
fn unnamed() -> (Rig, String, Range<u64>) {
    let mut rig = Rig::new(small());
    publish_all(&mut rig, "before", 0..10);
    rig.checkpoint();
    let first = rig.next_sequence().0;
    publish_all(&mut rig, "late", 0..100);
    let end = rig.next_sequence().0;
    rig.checkpoint();
    let newest = rig.newest("checkpoints/");
    flip(&rig, &newest, 100);
    let run = runs_of(&rig, SCHEDULE).pop().unwrap();
    (rig, run, first..end)
}

fn is_in_gap(found: &Salvage, sequence: u64) -> bool {
    found.gaps.iter().any(|gap| gap.first.0 <= sequence && sequence - gap.first.0 < gap.count)
}

#[test]
fn rows_of_a_run_that_only_a_damaged_checkpoint_names_are_kept_in_doubt() {
    let (rig, _, sequences) = unnamed();
    for path in files_of(&rig, "log/") {
        remove(&rig, &path);
    }
    let found = look(&rig).unwrap();
    assert_eq!((found.saved(), found.lost_count(), found.is_blind), (110, 0, false));
    assert_eq!(subject(&found, "before").pending, 10);
    assert_eq!(found.subjects.iter().map(|one| one.doubtful).sum::<u64>(), 100);
    assert_eq!(bodies(&found).iter().filter(|body| body.starts_with("late")).count(), 100);
    assert!(sequences.clone().all(|sequence| is_in_gap(&found, sequence)), "{:?}", found.gaps);
}

#[test]
fn a_block_of_such_a_run_that_cannot_be_read_is_told_and_its_messages_are_within_a_gap() {
    let (rig, run, sequences) = unnamed();
    for path in files_of(&rig, "log/") {
        remove(&rig, &path);
    }
    flip(&rig, &run, 5_000);
    let found = look(&rig).unwrap();
    assert!(found.saved() < 110 && found.saved() >= 10);
    let told = |error: &Error| matches!(error, Error::Corrupt { path, offset: 4_096, .. } if *path == run);
    assert!(found.damage.iter().any(told), "{:?}", found.damage);
    assert!(sequences.clone().all(|sequence| is_in_gap(&found, sequence)), "{:?}", found.gaps);
}

#[test]
fn without_a_checkpoint_rows_behind_the_first_segments_are_kept_in_doubt() {
    let (rig, _, sequences) = unnamed();
    for path in files_of(&rig, "checkpoints/").iter().chain(files_of(&rig, "log/").iter().skip(2)) {
        remove(&rig, path);
    }
    let found = look(&rig).unwrap();
    assert!(!found.is_blind, "the first fact is there");
    assert_eq!((found.saved(), found.lost_count()), (110, 0));
    assert!(is_in_gap(&found, sequences.end - 1), "{:?}", found.gaps);
}

#[test]
fn what_the_newest_checkpoint_misses_comes_from_a_run_of_the_older_one() {
    let mut rig = Rig::new(small());
    for number in 0..20 {
        rig.publish("now", 5_000, &format!("ready later {number:02}"));
    }
    let (published, _) = place_of(&rig, "ready later 00");
    publish_all(&mut rig, "late", 0..60);
    rig.checkpoint();
    let dispatch = runs_of(&rig, DISPATCH);
    publish_all(&mut rig, "between", 0..150);
    rig.pass(10_000);
    rig.checkpoint();
    let (between, _) = place_of(&rig, "between 070");
    assert!(published < between);
    remove(&rig, &between);
    remove(&rig, &published);
    for run in runs_of(&rig, DISPATCH).iter().filter(|run| !dispatch.contains(run)) {
        remove(&rig, run);
    }
    // From the older checkpoint on more facts are gone than messages from the newest one on.
    let found = look(&rig).unwrap();
    let kept = bodies(&found);
    assert_eq!(kept.iter().filter(|body| body.starts_with("ready later")).count(), 20, "{:?}", counts(&found));
    assert_eq!((found.lost_count(), found.saved()), (0, 20 + 60 + 150));
    assert_eq!((subject(&found, "between").pending, subject(&found, "late").pending), (150, 60));
}

#[test]
fn finished_messages_that_are_found_instead_hide_no_loss() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("now", "quick");
    for number in 0..60 {
        rig.publish("now", 0, &format!("finished {number:->60}"));
    }
    assert_eq!(rig.take_all(place).len(), 60);
    let first = rig.next_sequence().0;
    for number in 0..60 {
        rig.publish("now", 0, &format!("unfinished {number:->60}"));
    }
    rig.checkpoint();
    let (gone, _) = place_of(&rig, &format!("unfinished {:->60}", 30));
    remove(&rig, &gone);
    for run in runs_of(&rig, DISPATCH) {
        remove(&rig, &run);
    }
    let found = look(&rig).unwrap();
    let kept = bodies(&found);
    let missed: Vec<u64> = (0..60).filter(|number| !kept.contains(&format!("unfinished {number:->60}"))).collect();
    assert!(missed.len() > 10 && kept.iter().any(|body| body.starts_with("finished")));
    assert!(missed.iter().all(|number| is_in_gap(&found, first + number)), "{:?} {missed:?}", found.gaps);
}

#[test]
fn a_run_of_a_later_release_that_nobody_names_is_told_and_the_rest_is_saved() {
    let (rig, _) = filled();
    let image = rig.disk.storage().image();
    let mut bytes = image[&runs_of(&rig, SCHEDULE)[0]].clone();
    let from = bytes.len() - 40;
    bytes[from + 24..from + 28].copy_from_slice(&99_u32.to_le_bytes());
    let check = crc32fast::hash(&bytes[from..from + 28]);
    bytes[from + 28..from + 32].copy_from_slice(&check.to_le_bytes());
    let stray = "runs/0000000099.run";
    rig.disk.storage().create(stray).unwrap().write_at(0, &bytes).unwrap();
    let found = look(&rig).unwrap();
    assert!(matches!(&found.damage[..], [Error::NewerFormat { path, .. }] if path == stray), "{:?}", found.damage);
    assert_eq!(counts(&found), whole());
}

#[test]
fn a_run_under_another_name_is_told_with_its_own_kind() {
    let (rig, _) = filled();
    let storage = rig.disk.storage();
    for (kind, stray) in [(SCHEDULE, "runs/0000000097.run"), (DISPATCH, "runs/0000000098.run")] {
        let bytes = storage.image()[&runs_of(&rig, kind)[0]].clone();
        storage.create(stray).unwrap().write_at(0, &bytes).unwrap();
        let found = look(&rig).unwrap();
        let [Error::Corrupt { path, expected, .. }] = &found.damage[..] else { panic!("{:?}", found.damage) };
        assert_eq!((path.as_str(), expected.contains(&format!("stream ({kind}, "))), (stray, true), "{expected}");
        assert_eq!(counts(&found), whole());
        storage.remove(stray).unwrap();
    }
}

/// A disk of which one piece of one file is never given; the file itself where the piece is empty.
struct BadPiece {
    inner: Arc<dyn Storage>,
    path: String,
    piece: Range<u64>,
}

struct BadFile {
    inner: Arc<dyn StorageFile>,
    piece: Range<u64>,
}

fn refused<T>(path: &str) -> Result<T> {
    let (path, message) = (path.to_owned(), "Input/output error (os error 5)".to_owned());
    Err(Error::Storage { operation: "read", path, fault: StorageFault::Io, message })
}

impl Storage for BadPiece {
    fn open(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        if path != self.path {
            return self.inner.open(path);
        }
        if self.piece.is_empty() {
            return refused(path);
        }
        Ok(Arc::new(BadFile { inner: self.inner.open(path)?, piece: self.piece.clone() }))
    }
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list(folder)
    }
    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        panic!("{path} is made")
    }
    fn rename(&self, from: &str, _: &str) -> Result<()> {
        panic!("{from} is renamed")
    }
    fn remove(&self, path: &str) -> Result<()> {
        panic!("{path} is removed")
    }
    fn create_folder(&self, folder: &str) -> Result<()> {
        panic!("{folder} is made")
    }
    fn sync_folder(&self, folder: &str) -> Result<()> {
        panic!("{folder} is synced")
    }
    fn free_bytes(&self) -> Result<u64> {
        self.inner.free_bytes()
    }
}

impl StorageFile for BadFile {
    fn path(&self) -> &str {
        self.inner.path()
    }
    fn length(&self) -> Result<u64> {
        self.inner.length()
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let is_met = offset < self.piece.end && self.piece.start < offset + into.len() as u64;
        if is_met { refused(self.path()) } else { self.inner.read_at(offset, into) }
    }
    fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
        panic!("{} is written", self.path())
    }
    fn allocate(&self, _: u64) -> Result<()> {
        panic!("{} is written", self.path())
    }
    fn punch(&self, _: u64, _: u64) -> Result<bool> {
        panic!("{} is written", self.path())
    }
    fn sync_data(&self) -> Result<()> {
        panic!("{} is written", self.path())
    }
}

fn look_with(rig: &Rig, path: &str, piece: Range<u64>) -> Result<Salvage> {
    let disk: Arc<dyn Storage> = Arc::new(BadPiece { inner: rig.disk.shared(), path: path.to_owned(), piece });
    salvage(&disk)
}

#[test]
fn one_bad_piece_of_a_disk_costs_only_what_lay_there_and_that_is_named() {
    let (rig, _) = filled();
    let rig = rig.fork(End::Kill, 1);
    let all: BTreeSet<_> = saved(&look(&rig).unwrap()).into_iter().map(|(_, body)| body).collect();
    let (last, _) = place_of(&rig, "now behind");
    let (mut pieces, mut losing) = (0, 0);
    for (path, bytes) in rig.disk.storage().image() {
        for start in (0..bytes.len() as u64).step_by(4_096) {
            // One sector of it: the rest of the piece goes with it.
            let found =
                look_with(&rig, &path, start + 512..start + 1_024).unwrap_or_else(|error| panic!("{path}: {error}"));
            let told = |error: &&Error| matches!(error, Error::Corrupt { path: of, offset, .. } if *of == path && *offset == start);
            let is_met = start + 512 < bytes.len() as u64 && found.damage.iter().any(|error| told(&error));
            pieces += usize::from(is_met);
            let kept: BTreeSet<_> = saved(&found).into_iter().map(|(_, body)| body).collect();
            let missed = all.difference(&kept).count() as u64;
            let gone = found.gaps.iter().map(|gap| gap.count).sum::<u64>() + found.lost_count();
            // The end of the log has nothing behind it that says how far it went.
            let is_end = path == last;
            assert!(is_end || missed <= gone, "{path} {start}: {missed} are gone, and {gone} named");
            assert!(missed == 0 || is_met, "{path} {start}: {:?}", found.damage);
            losing += usize::from(missed > 0);
        }
    }
    assert!(pieces > 10 && losing > 0, "{pieces} {losing}");
}

#[test]
fn a_file_that_cannot_be_opened_is_told_and_counts_as_gone() {
    let (rig, _) = filled();
    let rig = rig.fork(End::Kill, 1);
    for path in rig.files() {
        let found = look_with(&rig, &path, 0..0).unwrap_or_else(|error| panic!("{path}: {error}"));
        let told = |error: &Error| matches!(error, Error::Corrupt { path: of, offset: 0, .. } if *of == path);
        let is_read =
            ["log/", "runs/", "checkpoints/"].iter().any(|folder| path.starts_with(folder)) || path == "identity";
        assert_eq!(found.damage.iter().any(told), is_read, "{path}: {:?}", found.damage);
    }
}
