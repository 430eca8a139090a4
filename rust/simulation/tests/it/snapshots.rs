//! A copy whose log the primary no longer has gets files instead. They take the place of its own as one change, wherever the
//! machine stops meanwhile.
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;

use crate::rig::{Rig, lean};
use delaymq_core::error::Error;
use delaymq_core::message_log::{Identity, Mark, SEGMENT_BYTES_MIN, list_segments};
use delaymq_core::planted::Planted;
use delaymq_core::replication::{FilePart, FilePlace, LogView, SentFile, SnapshotFile, SnapshotOffer};
use delaymq_core::storage::{Crash, MemoryStorage, Storage};
use delaymq_core::store::{
    Follower, IncomingSnapshot, KeepFinished, OutgoingSnapshot, adopt_snapshot, inspect, open_copy, read_identity,
    verify,
};
use delaymq_simulation::planted::Plant;

const NODE: [u8; 16] = [9; 16];

/// The files of a primary that has removed the beginning of its log, and the end of the log.
struct Primary {
    storage: MemoryStorage,
    written: Mark,
}

impl Primary {
    fn new() -> Self {
        let mut rig = Rig::new(lean());
        rig.publish("s", 0, "first");
        let place = rig.earliest("s", "g");
        for turn in 0..60 {
            rig.publish("s", if turn < 40 { 0 } else { 86_400_000 * (turn % 3) }, &"x".repeat(900));
        }
        for _ in 0..4 {
            rig.pass(1);
            rig.take_all(place);
            rig.publish("s", 0, "a fact that tells the time");
            rig.checkpoint();
        }
        rig.publish("s", 5, "behind the checkpoint");
        let written = rig.node().appender().written();
        let storage = rig.disk.storage().crash(Crash::Kill, 1);
        let segments = list_segments(&storage).unwrap();
        // The first one is empty.
        assert!(segments.iter().all(|number| number.0 == 1 || number.0 > 4), "the log has its beginning: {segments:?}");
        Self { storage, written }
    }

    fn identity(&self) -> Identity {
        read_identity(&self.storage).unwrap()
    }

    fn snapshot(&self) -> OutgoingSnapshot {
        OutgoingSnapshot::of(Arc::new(self.storage.clone()), self.identity().stream, || self.written).unwrap()
    }

    /// An empty copy of another node.
    fn copy(&self) -> MemoryStorage {
        let storage = MemoryStorage::new(2);
        open_copy(&storage, self.identity().stream, (NODE, SEGMENT_BYTES_MIN)).unwrap();
        storage
    }

    fn is_equal_to(&self, copy: &MemoryStorage) {
        let shown = |storage: &MemoryStorage| {
            let identity = Identity { clustered: false, ..read_identity(storage).unwrap() };
            let storage: Arc<dyn Storage> = Arc::new(storage.clone());
            let checked = verify(&storage, &identity).unwrap();
            assert!(checked.findings.is_empty(), "{:?}", checked.findings);
            let seen = inspect(&storage, &identity, &[], &KeepFinished::default()).unwrap();
            (seen.next_sequence, seen.trusted, seen.pending, seen.ready, seen.next_due, seen.subjects, seen.groups)
        };
        assert_eq!(shown(&self.storage), shown(copy));
    }
}

/// Asks for each part, as a node does.
fn receive(from: &mut OutgoingSnapshot, incoming: &mut IncomingSnapshot) -> delaymq_core::error::Result<()> {
    let files = incoming.files();
    while let Some(place) = files.next() {
        let part = from.part(place)?.unwrap();
        let next = files.next_after(&part);
        assert!(files.take(&part)?);
        assert_eq!(files.next(), next);
        assert!(!files.take(&part)?, "a part that comes twice is not taken twice");
    }
    Ok(())
}

fn open(storage: &MemoryStorage) -> Follower {
    let identity = read_identity(storage).unwrap();
    Follower::open(Arc::new(storage.clone()), &identity, lean().owner, SEGMENT_BYTES_MIN, &mut |_| {}).unwrap()
}

fn adopted(primary: &Primary, copy: &MemoryStorage) -> delaymq_core::error::Result<()> {
    let mut from = primary.snapshot();
    let mut incoming = IncomingSnapshot::begin(Arc::new(copy.clone()), from.offer(1))?;
    receive(&mut from, &mut incoming)?;
    incoming.check(&read_identity(copy)?)?;
    incoming.seal()?;
    assert!(adopt_snapshot(copy)?);
    Ok(())
}

#[test]
fn a_copy_has_everything_of_a_primary_whose_log_has_lost_its_beginning() {
    let primary = Primary::new();
    let copy = primary.copy();
    adopted(&primary, &copy).unwrap();
    primary.is_equal_to(&copy);
    assert_eq!(read_identity(&copy).unwrap().node, NODE, "the copy is the same node");
    let follower = open(&copy);
    assert_eq!(follower.ends().end(), primary.written.sequence);
    assert!(!adopt_snapshot(&copy).unwrap());
    // It goes on as any copy.
    drop(follower);
    adopted(&primary, &copy).unwrap();
    primary.is_equal_to(&copy);
}

#[test]
fn wherever_the_machine_stops_the_copy_is_the_old_one_or_the_new_one() {
    let primary = Primary::new();
    let (mut old, mut new) = (0, 0);
    for calls in 0.. {
        let copy = primary.copy();
        let before = copy.crash(Crash::Kill, 0);
        copy.stop_after_calls(calls);
        let is_done = adopted(&primary, &copy).is_ok();
        for crash in [Crash::Kill, Crash::PowerCut, Crash::PowerCutLosesAll] {
            // The process that comes next may be stopped as well.
            let left = copy.crash(crash, calls);
            left.stop_after_calls(calls % 7);
            drop(adopt_snapshot(&left));
            let left = left.crash(crash, calls);
            adopt_snapshot(&left).unwrap();
            // An opening vouches for more of the log.
            let end = open(&left.crash(Crash::Kill, 0)).ends().end();
            if end == primary.written.sequence {
                primary.is_equal_to(&left);
                new += 1;
            } else {
                assert_eq!(end, open(&before).ends().end(), "after {calls} calls and {crash:?}");
                assert!(!is_done, "it was adopted, and is gone");
                old += 1;
            }
        }
        if is_done {
            break;
        }
    }
    assert!(old > 100 && new > 20, "{old} old, {new} new");
}

#[test]
fn files_that_are_adopted_before_they_are_durable_are_found() {
    let primary = Primary::new();
    let _planted = Plant::new(Some(Planted::SnapshotNotSynced));
    let copy = primary.copy();
    adopted(&primary, &copy).unwrap();
    let left = copy.crash(Crash::PowerCutLosesAll, 1);
    let identity = read_identity(&left).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(left);
    let opened = Follower::open(storage, &identity, lean().owner, SEGMENT_BYTES_MIN, &mut |_| {});
    let is_lost = |follower: &Follower| follower.ends().end() < primary.written.sequence;
    assert!(opened.is_err() || opened.is_ok_and(|follower| is_lost(&follower)));
}

#[test]
fn a_snapshot_of_which_a_part_is_missing_is_not_adopted() {
    let primary = Primary::new();
    let (mut from, copy) = (primary.snapshot(), primary.copy());
    let mut incoming = IncomingSnapshot::begin(Arc::new(copy.clone()), from.offer(1)).unwrap();
    let files = incoming.files();
    let first = from.part(files.next().unwrap()).unwrap().unwrap();
    let of = |number, file| FilePlace { file: SentFile::Snapshot { number, file }, offset: 0 };
    assert_eq!(first.place, of(1, 0));
    for wrong in [of(2, 0), of(1, 1), FilePlace { offset: 1, ..first.place }] {
        assert!(!files.take(&FilePart { place: wrong, ..first.clone() }).unwrap());
    }
    let too_long = FilePart { zeros: 1 << 40, ..first.clone() };
    assert!(!files.take(&too_long).unwrap() && files.take(&first).unwrap());
    let Err(Error::InvalidArgument { argument, .. }) = incoming.seal() else { panic!("it was sealed") };
    assert_eq!((argument, adopt_snapshot(&copy)), ("snapshot", Ok(false)));
    assert_eq!(copy.list("incoming").unwrap(), [""; 0]);
}

#[test]
fn a_snapshot_with_a_file_outside_the_store_is_refused() {
    let primary = Primary::new();
    for path in ["identity", "../log/x", "log/../identity", "log/.x", "log/", "aside/x", "log/a\nb", "log/a/b"] {
        let files = vec![SnapshotFile { path: path.to_owned(), length: 1 }];
        let begun =
            IncomingSnapshot::begin(Arc::new(primary.copy()), SnapshotOffer { files, ..primary.snapshot().offer(1) });
        assert!(matches!(begun.map(drop), Err(Error::InvalidArgument { argument: "snapshot", .. })), "{path}");
    }
}

#[test]
fn a_damaged_checkpoint_is_found_before_the_copy_is_changed() {
    let primary = Primary::new();
    let (mut from, copy) = (primary.snapshot(), primary.copy());
    let mut incoming = IncomingSnapshot::begin(Arc::new(copy.clone()), from.offer(1)).unwrap();
    let mut is_first = true;
    while let Some(place) = incoming.files().next() {
        let mut part = from.part(place).unwrap().unwrap();
        if std::mem::take(&mut is_first) {
            part.bytes[100] ^= 1;
        }
        assert!(incoming.files().take(&part).unwrap());
    }
    // Without its checkpoint, the log has no beginning.
    assert!(incoming.check(&read_identity(&copy).unwrap()).is_err());
}
