//! Files that an archive has not read yet: segments stay and no hole is punched until the archive's mark has passed
//! them.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::rig::{Place, Rig, lean, sees};
use delaymq_core::message_log::segment_path;
use delaymq_core::planted::Planted;
use delaymq_core::storage::Storage as _;
use delaymq_core::store::OwnerOptions;
use delaymq_core::units::{SegmentNumber, Sequence};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::NodeOptions;

/// The archive has all that was told below this sequence, as one rename of a real one would say.
fn mark(rig: &Rig, end: Sequence) {
    let storage = rig.disk.storage();
    let others = storage.list("pins").unwrap();
    drop(storage.create(&format!("pins/archived-{:020}-audit", end.0)).unwrap());
    storage.sync_folder("pins").unwrap();
    for other in others.iter().filter(|name| name.starts_with("archived-")) {
        storage.remove(&format!("pins/{other}")).unwrap();
    }
    storage.sync_folder("pins").unwrap();
}

fn last_segment(rig: &mut Rig) -> SegmentNumber {
    rig.node().owner().state().segments.last().unwrap().segment
}

/// Publishes until the log is in another segment; the one that is full since.
fn fill(rig: &mut Rig) -> SegmentNumber {
    let first = last_segment(rig);
    while last_segment(rig) == first {
        rig.publish("noise", 0, &"x".repeat(900));
    }
    first
}

/// Everything is taken, and nothing is kept for the sake of an earlier checkpoint.
fn finish(rig: &mut Rig, place: Place) {
    for _ in 0..4 {
        rig.take_all(place);
        rig.publish("noise", 0, "a fact that tells the time");
        rig.checkpoint();
    }
}

fn has(rig: &Rig, segment: SegmentNumber) -> bool {
    rig.files().contains(&segment_path(segment))
}

/// What was told before goes, the rest stays however the machine ends, and goes when the mark has passed it.
fn segments_wait() {
    let mut rig = Rig::new(lean());
    rig.publish("noise", 0, "first");
    let place = rig.earliest("noise", "g");
    let archived = [fill(&mut rig), fill(&mut rig)];
    // The mark is in the midst of the segment that is written to.
    rig.publish("noise", 0, "the last one that it has");
    let end = rig.next_sequence();
    mark(&rig, end);
    let awaited = [fill(&mut rig), fill(&mut rig)];
    finish(&mut rig, place);
    assert!(!has(&rig, archived[0]) && !has(&rig, archived[1]), "{:?}", rig.files());
    assert!(awaited.iter().all(|segment| has(&rig, *segment)), "{:?}", rig.files());
    for machine in [End::Kill, End::PowerCut, End::PowerCutLosesAll] {
        rig.reopen(machine);
        let place = rig.earliest("noise", "g");
        finish(&mut rig, place);
        assert!(awaited.iter().all(|segment| has(&rig, *segment)), "{machine:?}: {:?}", rig.files());
    }
    let end = rig.next_sequence();
    mark(&rig, end);
    let place = rig.earliest("noise", "g");
    finish(&mut rig, place);
    assert!(!awaited.iter().any(|segment| has(&rig, *segment)), "{:?}", rig.files());
    let identity = *rig.node().identity();
    rig.close();
    rig.verify(&identity);
}

#[test]
fn what_an_archive_has_not_got_yet_stays() {
    segments_wait();
    sees(Planted::ArchiveMarkIgnored, segments_wait);
}

/// A message that nobody takes holds the log; what is finished behind it may be given back, but for what is awaited.
fn holes_wait() {
    let owner = OwnerOptions { reclaim_bytes: 1, hole_bytes_min: 1, hole_block_bytes: 8, ..lean().owner };
    let mut rig = Rig::new(NodeOptions { owner, ..lean() });
    rig.publish("slow", 0, "held for ever");
    rig.earliest("slow", "g");
    rig.publish("noise", 0, "first");
    let place = rig.earliest("noise", "g");
    fill(&mut rig);
    fill(&mut rig);
    let end = rig.next_sequence();
    mark(&rig, end);
    fill(&mut rig);
    fill(&mut rig);
    finish(&mut rig, place);
    let ends = |rig: &mut Rig| -> Vec<Sequence> {
        rig.node().owner().state().holes.iter().map(|hole| hole.to.next_sequence).collect()
    };
    let found = ends(&mut rig);
    assert!(!found.is_empty() && found.iter().all(|to| *to <= end), "{found:?} of {end}");
    rig.reopen(End::PowerCutLosesAll);
    let place = rig.earliest("noise", "g");
    finish(&mut rig, place);
    let found = ends(&mut rig);
    assert!(found.iter().all(|to| *to <= end), "{found:?} of {end}");
    let next = rig.next_sequence();
    mark(&rig, next);
    finish(&mut rig, place);
    let found = ends(&mut rig);
    assert!(found.iter().any(|to| *to > end), "{found:?} of {end}");
    let identity = *rig.node().identity();
    rig.close();
    rig.verify(&identity);
}

#[test]
fn what_an_archive_has_not_got_yet_is_no_hole() {
    holes_wait();
    sees(Planted::ArchiveMarkIgnored, holes_wait);
}
