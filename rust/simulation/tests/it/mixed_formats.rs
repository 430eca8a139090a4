//! A group in the middle of an upgrade: a copy of this format refuses the log and the files of a primary of the made-up next format, and
//! nothing of it changes. It follows once it is upgraded.
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;

use crate::rig::{Rig, lean};
use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::SEGMENT_BYTES_MIN;
use delaymq_core::record::FORMAT_VERSION;
use delaymq_core::replication::{FilePart, LogView, SnapshotOffer};
use delaymq_core::storage::MemoryStorage;
use delaymq_core::store::{Follower, IncomingSnapshot, OutgoingSnapshot, adopt_snapshot, open_copy, read_identity};
use delaymq_core::units::Sequence;
use delaymq_simulation::disk::End;
use delaymq_simulation::planted::KnowsNext;

const NODE: [u8; 16] = [9; 16];
const NEXT_FORMAT: u32 = FORMAT_VERSION + 1;

/// A primary that was upgraded, as a copy of the former format sees it.
struct Mixed {
    copy: MemoryStorage,
    /// What the upgraded primary has written.
    batches: Vec<u8>,
    end: Sequence,
    offer: SnapshotOffer,
    parts: Vec<FilePart>,
}

impl Mixed {
    fn new() -> Self {
        let mut rig = Rig::new(lean());
        rig.publish("s", 5_000, "before the upgrade");
        let identity = read_identity(rig.disk.storage()).unwrap();
        let copy = MemoryStorage::new(2);
        open_copy(&copy, identity.stream, (NODE, SEGMENT_BYTES_MIN)).unwrap();
        let mut follower = open(&copy).unwrap();
        follows(&mut follower, &rig.node().ship(Sequence(1), usize::MAX).unwrap()).unwrap();
        let known = follower.ends().end();
        let _next = KnowsNext::new();
        rig.reopen(End::Kill);
        rig.publish("s", 5_000, "after the upgrade");
        rig.checkpoint();
        rig.publish("s", 5_000, "behind the checkpoint");
        let (end, batches) = (rig.next_sequence(), rig.node().ship(known, usize::MAX).unwrap());
        let written = rig.node().appender().written();
        let mut outgoing = OutgoingSnapshot::of(rig.disk.shared(), identity.stream, || written).unwrap();
        let (offer, mut parts) = (outgoing.offer(1), Vec::new());
        let mut incoming = IncomingSnapshot::begin(Arc::new(MemoryStorage::new(3)), offer.clone()).unwrap();
        while let Some(place) = incoming.files().next() {
            let part = outgoing.part(place).unwrap().unwrap();
            assert!(incoming.files().take(&part).unwrap());
            parts.push(part);
        }
        Self { copy, batches, end, offer, parts }
    }

    /// Receives the files of the primary, and puts them into the place of the copy's own.
    fn adopt(&self) -> Result<()> {
        let mut incoming = IncomingSnapshot::begin(Arc::new(self.copy.clone()), self.offer.clone())?;
        for part in &self.parts {
            assert!(incoming.files().take(part)?);
        }
        match incoming.check(&read_identity(&self.copy)?) {
            Ok(()) => incoming.seal()?,
            Err(refused) => return incoming.discard().and(Err(refused)),
        }
        adopt_snapshot(&self.copy).map(drop)
    }

    /// The copy has the message that it got before the upgrade of the primary, and no other.
    fn is_as_before(&self) {
        assert_eq!(open(&self.copy).unwrap().owner().state().schedule.pending(), 1);
    }
}

fn open(copy: &MemoryStorage) -> Result<Follower> {
    let identity = read_identity(copy)?;
    Follower::open(Arc::new(copy.clone()), &identity, lean().owner, SEGMENT_BYTES_MIN, &mut |_| {})
}

/// Takes batches, and applies them.
fn follows(follower: &mut Follower, batches: &[u8]) -> Result<()> {
    assert!(follower.append(batches)?.is_empty());
    follower.sync()?;
    follower.commit(follower.ends().end())?;
    follower.witness().map(drop)
}

fn is_refused(result: &Result<()>) {
    let is_newer = matches!(result, Err(Error::NewerFormat { found: NEXT_FORMAT, supported: FORMAT_VERSION, .. }));
    assert!(is_newer, "{result:?}");
}

#[test]
fn a_copy_refuses_batches_of_the_next_format_untouched_and_follows_once_it_is_upgraded() {
    let mixed = Mixed::new();
    // The process ends with the error, and its supervisor starts it again.
    for _ in 0..2 {
        let mut follower = open(&mixed.copy).unwrap();
        let before = mixed.copy.image();
        is_refused(&follows(&mut follower, &mixed.batches));
        assert!(mixed.copy.image() == before, "a copy that refuses was touched");
    }
    mixed.is_as_before();
    let _next = KnowsNext::new();
    let mut follower = open(&mixed.copy).unwrap();
    follows(&mut follower, &mixed.batches).unwrap();
    assert_eq!((follower.ends().durable(), follower.owner().state().schedule.pending()), (mixed.end, 3));
}

#[test]
fn a_copy_refuses_a_snapshot_of_the_next_format_untouched_and_adopts_it_once_it_is_upgraded() {
    let mixed = Mixed::new();
    drop(open(&mixed.copy).unwrap());
    let before = mixed.copy.image();
    is_refused(&mixed.adopt());
    assert!(mixed.copy.image() == before, "a copy that refuses was touched");
    mixed.is_as_before();
    let _next = KnowsNext::new();
    mixed.adopt().unwrap();
    let mut follower = open(&mixed.copy).unwrap();
    follower.commit(mixed.end).unwrap();
    assert_eq!((follower.ends().durable(), follower.owner().state().schedule.pending()), (mixed.end, 3));
}
