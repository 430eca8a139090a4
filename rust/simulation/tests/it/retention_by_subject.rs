//! Retention by subject: a file is kept as long as the longest retention of the subjects that have messages in it.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use crate::rig::{Place, Rig, lean, sees};
use delaymq_core::message_log::segment_path;
use delaymq_core::planted::Planted;
use delaymq_core::store::{FileKind, FileSubjects, InspectedFile, KeepFinished, KeptForAge, inspect};
use delaymq_core::units::{LocationFile, Millis, SegmentNumber};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{KeptApart, NodeOptions};

const KEEP_MS: u64 = 50_000;

/// Nothing finished is kept, but for one subject.
fn options() -> NodeOptions {
    NodeOptions { kept_apart: KeptApart { is_on: true, subject: "settlement", keep_ms: KEEP_MS }, ..lean() }
}

fn keep() -> KeepFinished {
    KeepFinished { rest_ms: 0, of: BTreeMap::from([("settlement".to_owned(), KEEP_MS)]) }
}

fn last_segment(rig: &mut Rig) -> SegmentNumber {
    rig.node().owner().state().segments.last().unwrap().segment
}

/// Publishes until the log is in another segment; those that are full since.
fn fill(rig: &mut Rig, subject: &str) -> Vec<SegmentNumber> {
    let first = last_segment(rig);
    while last_segment(rig) == first {
        rig.publish(subject, 0, &"x".repeat(900));
    }
    (first.0..last_segment(rig).0).map(SegmentNumber).collect()
}

/// Everything is taken, and nothing is kept for the sake of an earlier checkpoint.
fn finish(rig: &mut Rig, places: &[Place]) {
    for _ in 0..4 {
        rig.pass(1);
        for place in places {
            rig.take_all(*place);
        }
        rig.publish("noise", 0, "a fact that tells the time");
        rig.checkpoint();
    }
}

fn places(rig: &mut Rig) -> [Place; 2] {
    rig.publish("noise", 0, "first");
    rig.publish("settlement", 0, "first");
    ["noise", "settlement"].map(|subject| rig.earliest(subject, "g"))
}

fn has(rig: &Rig, segment: SegmentNumber) -> bool {
    rig.files().contains(&segment_path(segment))
}

fn inspected(rig: &mut Rig) -> Vec<InspectedFile> {
    let identity = *rig.node().identity();
    inspect(&rig.disk.shared(), &identity, &[], &keep()).unwrap().files
}

/// The segment with a settlement outlives those before it, and goes when its time is over.
fn a_segment_stays_for_the_subject_that_is_kept_longest() {
    let mut rig = Rig::new(options());
    let places = places(&mut rig);
    fill(&mut rig, "noise");
    let noise = fill(&mut rig, "noise");
    rig.pass(KEEP_MS);
    let settlements = fill(&mut rig, "settlement");
    let behind = fill(&mut rig, "noise");
    finish(&mut rig, &places);
    assert!(noise.iter().all(|segment| !has(&rig, *segment)), "{:?}", rig.files());
    assert!(settlements.iter().chain(&behind).all(|segment| has(&rig, *segment)), "{:?}", rig.files());
    rig.reopen(End::PowerCutLosesAll);
    let places = ["noise", "settlement"].map(|subject| rig.earliest(subject, "g"));
    finish(&mut rig, &places);
    assert!(settlements.iter().all(|segment| has(&rig, *segment)));
    rig.pass(KEEP_MS);
    finish(&mut rig, &places);
    assert!(settlements.iter().chain(&behind).all(|segment| !has(&rig, *segment)), "{:?}", rig.files());
    let identity = *rig.node().identity();
    rig.close();
    rig.verify(&identity);
}

#[test]
fn a_segment_outlives_the_others_for_its_subject_and_goes_afterwards() {
    a_segment_stays_for_the_subject_that_is_kept_longest();
    sees(Planted::RetentionForgetsSubjects, a_segment_stays_for_the_subject_that_is_kept_longest);
}

#[test]
fn a_run_outlives_the_others_for_its_subject_and_goes_afterwards() {
    let mut rig = Rig::new(options());
    let places = places(&mut rig);
    let mut runs = Vec::new();
    for subject in ["noise", "settlement"] {
        rig.publish(subject, 10_000, "waits");
        let before = rig.files();
        rig.checkpoint();
        let state = rig.node().owner().state();
        let number = state.subjects.number(subject).unwrap();
        let alone = |subjects: &FileSubjects| subjects.known() == Some(&[number][..]);
        let of_it = state.runs.values().filter(|known| alone(&known.subjects));
        let of_it: Vec<String> = of_it.map(|known| delaymq_core::run::run_path(known.run.number())).collect();
        runs.push(of_it.into_iter().find(|path| !before.contains(path)).unwrap());
    }
    rig.pass(10_000);
    finish(&mut rig, &places);
    let is_there = |rig: &Rig| -> Vec<bool> { runs.iter().map(|path| rig.files().contains(path)).collect() };
    assert_eq!(is_there(&rig), [false, true]);
    // The messages can be read again, counted from the end of the segment in which they became ready.
    fill(&mut rig, "noise");
    rig.pass(KEEP_MS);
    finish(&mut rig, &places);
    assert_eq!(is_there(&rig), [false, false]);
}

type Contents = (BTreeMap<u32, FileSubjects>, BTreeMap<u32, FileSubjects>);

fn contents(rig: &mut Rig) -> Contents {
    let state = rig.node().owner().state();
    let segments = state.segments.iter().map(|start| (start.segment.0, start.subjects.clone())).collect();
    let runs = state.runs.iter().map(|(number, known)| (number.0, known.subjects.clone())).collect();
    (segments, runs)
}

/// What a checkpoint says, and what the log behind it adds.
fn contents_are_the_same_after_a_crash() {
    let mut rig = Rig::new(crate::rig::small());
    for end in [End::Kill, End::PowerCut, End::PowerCutLosesAll] {
        fill(&mut rig, "noise");
        rig.publish("settlement", 500_000, "far");
        rig.checkpoint();
        rig.publish("order", 0, "behind the checkpoint");
        fill(&mut rig, "order");
        rig.publish("noise", 400_000, "in the last one");
        let before = contents(&mut rig);
        assert!(before.0.values().chain(before.1.values()).all(|subjects| subjects.known().is_some()));
        rig.reopen(end);
        let after = contents(&mut rig);
        // The open has begun a segment of its own.
        assert!(before.0.iter().all(|(segment, subjects)| after.0.get(segment) == Some(subjects)), "{after:?}");
        assert_eq!(before.1, after.1);
    }
    let identity = *rig.node().identity();
    rig.close();
    rig.verify(&identity);
}

#[test]
fn whose_messages_a_file_has_is_known_after_a_crash_as_before() {
    contents_are_the_same_after_a_crash();
    sees(Planted::FileSubjectsNotSaved, contents_are_the_same_after_a_crash);
}

#[test]
fn an_inspection_names_the_subject_that_holds_a_file_and_until_when() {
    let mut rig = Rig::new(options());
    let places = places(&mut rig);
    fill(&mut rig, "settlement");
    let settlements = fill(&mut rig, "settlement");
    let behind = fill(&mut rig, "noise");
    finish(&mut rig, &places);
    let found = inspected(&mut rig);
    let of = |segment: SegmentNumber| {
        found.iter().find(|file| file.place == Some(LocationFile::Segment(segment))).unwrap().clone()
    };
    let last = of(*settlements.last().unwrap());
    // The next one has the end of what was published; nothing of settlement came after it.
    let next = of(behind[0]);
    assert_eq!(next.kept.as_ref().unwrap().subject.as_deref(), Some("settlement"));
    assert_eq!(next.kept.unwrap().until, Millis(next.written.unwrap().0 + KEEP_MS));
    let expected = KeptForAge { subject: Some("settlement".to_owned()), until: last.written.unwrap().plus(KEEP_MS) };
    assert_eq!(last.kept, Some(expected));
    let unwritten = |file: &InspectedFile| file.kind == FileKind::Segment && file.written.is_none();
    assert!(found.iter().filter(|file| unwritten(file)).all(|file| file.kept.is_none()));
    assert!(found.iter().filter(|file| file.kind == FileKind::Checkpoint).all(|file| file.kept.is_none()));
}

/// Which subjects a file with messages of more than 1,024 of them has is not known: it stays as long as any may ask for.
#[test]
fn a_file_of_more_subjects_than_are_remembered_is_kept_for_the_longest() {
    let mut rig = Rig::new(options());
    for number in 0..1_025 {
        rig.publish(&format!("subject {number}"), 1_000_000, "x");
    }
    rig.pass(1_000);
    rig.checkpoint();
    assert!(rig.node().owner().state().runs.values().any(|known| known.subjects.known().is_none()));
    let found = inspected(&mut rig);
    let run = found.iter().find(|file| file.kind == FileKind::ScheduleRun).unwrap();
    let longest = run.written.unwrap().plus(KEEP_MS);
    assert_eq!(run.kept, Some(KeptForAge { subject: None, until: longest }), "{}", run.path);
}
