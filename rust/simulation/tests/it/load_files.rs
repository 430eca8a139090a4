//! A copy has the files of a load, durably, before it has the fact that names them, wherever the machine stops meanwhile.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::sync::Arc;

use crate::rig::{Rig, lean, proves};
use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::SEGMENT_BYTES_MIN;
use delaymq_core::planted::Planted;
use delaymq_core::record::terms::NameHash;
use delaymq_core::replication::{FilePart, FilePlace, LogView, SentFile};
use delaymq_core::run::{LOAD_FOLDER, LoadName, StagedRun, check_staged};
use delaymq_core::storage::{Crash, MemoryStorage, Storage};
use delaymq_core::store::{Follower, LOAD_SWEPT_MS, open_copy, read_identity, receive_load};
use delaymq_core::units::{Millis, Sequence};
use delaymq_simulation::node::{NewRow, stage};

const NODE: [u8; 16] = [9; 16];
const PART_BYTES: usize = 400;
const CRASHES: [Crash; 3] = [Crash::Kill, Crash::PowerCut, Crash::PowerCutLosesAll];

/// A primary with a load in its log.
struct Primary {
    rig: Rig,
    runs: Vec<StagedRun>,
    batches: Vec<u8>,
}

impl Primary {
    /// One with a load of two files, between two other messages.
    fn new() -> Self {
        let mut rig = Rig::new(lean());
        rig.publish("s", 5_000, "before");
        let now = rig.node().reading().now;
        let row = |number: u64| NewRow {
            subject: "loaded".to_owned(),
            due: now.plus(1_000 + number),
            body: vec![b'x'; 50 + number as usize],
        };
        let rows: Vec<NewRow> = (0..12).map(row).collect();
        let runs = stage(rig.disk.shared().as_ref(), &rows, LoadName { staged: now, nonce: [3; 16] }, 8).unwrap();
        assert_eq!(runs.len(), 2);
        rig.node().load(NameHash { low: 1, high: 2 }, &runs).unwrap().unwrap();
        rig.settle();
        rig.publish("s", 5_000, "behind");
        let batches = rig.node().ship(Sequence(1), usize::MAX).unwrap();
        Self { rig, runs, batches }
    }

    fn end(&mut self) -> Sequence {
        self.rig.next_sequence()
    }

    /// An empty copy of another node.
    fn copy(&self) -> MemoryStorage {
        let storage = MemoryStorage::new(2);
        let identity = read_identity(self.rig.disk.shared().as_ref()).unwrap();
        open_copy(&storage, identity.stream, (NODE, SEGMENT_BYTES_MIN)).unwrap();
        storage
    }

    fn parts(&self, lacking: &[StagedRun]) -> Vec<FilePart> {
        let image = self.rig.disk.storage().image();
        let mut parts = Vec::new();
        for run in lacking {
            for (number, bytes) in image[&run.name.path()].chunks(PART_BYTES).enumerate() {
                let offset = (number * PART_BYTES) as u64;
                let place = FilePlace { file: SentFile::Load(run.name), offset };
                parts.push(FilePart { place, zeros: 0, bytes: bytes.to_vec() });
            }
        }
        parts
    }

    /// Gives a copy the files that it lacks of these.
    fn send(&self, copy: &MemoryStorage, lacking: &[StagedRun]) -> Result<()> {
        let mut incoming = receive_load(Arc::new(copy.clone()), lacking)?;
        for part in self.parts(lacking) {
            if incoming.next() == Some(part.place) {
                let next = incoming.next_after(&part);
                assert!(incoming.take(&part)?);
                assert_eq!(incoming.next(), next);
                assert!(!incoming.take(&part)?, "a part that comes twice is not taken twice");
            }
        }
        assert_eq!(incoming.next(), None);
        Ok(())
    }

    /// Gives a copy all batches, and the files that it asks for, until it has everything, durably.
    fn follow(&self, copy: &MemoryStorage) -> Result<Follower> {
        let mut follower = open(copy)?;
        loop {
            let from = follower.ends().end();
            let rest = self.rig_batches(from);
            let lacking = follower.append(&rest)?;
            if lacking.is_empty() {
                follower.sync()?;
                return Ok(follower);
            }
            self.send(copy, &lacking)?;
        }
    }

    /// The batches from this sequence on.
    fn rig_batches(&self, from: Sequence) -> Vec<u8> {
        let mut rest = self.batches.as_slice();
        while let Some(header) = delaymq_core::record::batch::BatchHeader::read(rest) {
            if header.base_sequence.get() >= from.0 {
                break;
            }
            rest = &rest[header.length.get() as usize..];
        }
        rest.to_vec()
    }
}

fn open(copy: &MemoryStorage) -> Result<Follower> {
    let identity = read_identity(copy)?;
    Follower::open(Arc::new(copy.clone()), &identity, lean().owner, SEGMENT_BYTES_MIN, &mut |_| {})
}

/// True if the copy has all of the log, durably, and can apply it.
fn has_everything(copy: &MemoryStorage, end: Sequence) -> bool {
    let Ok(mut follower) = open(copy) else { return false };
    follower.ends().durable() == end
        && follower.commit(end).is_ok()
        && follower.owner().state().schedule.pending() == 14
}

#[test]
fn a_copy_stops_before_a_load_whose_files_it_lacks_and_goes_on_with_them() {
    let mut primary = Primary::new();
    let (copy, end) = (primary.copy(), primary.end());
    let mut follower = open(&copy).unwrap();
    let lacking = follower.append(&primary.batches).unwrap();
    assert_eq!(lacking, primary.runs);
    let stopped = follower.ends().end();
    assert!(stopped > Sequence(1) && stopped < end);
    // Again, and still nothing behind it is taken.
    assert_eq!(follower.append(&primary.rig_batches(stopped)), Ok(lacking.clone()));
    primary.send(&copy, &lacking[..1]).unwrap();
    assert_eq!(follower.append(&primary.rig_batches(stopped)), Ok(lacking[1..].to_vec()));
    drop(follower);
    drop(primary.follow(&copy).unwrap());
    assert!(has_everything(&copy, end));
    assert!(primary.runs.iter().all(|run| check_staged(&copy, run).is_ok()));
    assert!(copy.list(LOAD_FOLDER).unwrap().iter().all(|name| !name.contains(".tmp")));
}

#[test]
fn wherever_the_machine_stops_no_fact_is_there_without_its_files() {
    let mut primary = Primary::new();
    let end = primary.end();
    let (mut partly, mut whole) = (0, 0);
    for calls in 0.. {
        let copy = primary.copy();
        copy.stop_after_calls(calls);
        let is_done = primary.follow(&copy).is_ok();
        for crash in CRASHES {
            let left = copy.crash(crash, calls);
            if is_done || has_everything(&left.crash(Crash::Kill, 0), end) {
                assert!(has_everything(&left.crash(Crash::Kill, 0), end), "after {calls} calls and {crash:?}");
                whole += 1;
                continue;
            }
            partly += 1;
            // What the copy has, it can apply. It goes on from there.
            let mut follower = open(&left.crash(Crash::Kill, 0)).unwrap();
            let has = follower.ends().end();
            follower.commit(has).unwrap_or_else(|error| panic!("after {calls} calls and {crash:?}: {error}"));
            drop(follower);
            drop(primary.follow(&left).unwrap());
            assert!(has_everything(&left, end), "after {calls} calls and {crash:?}");
        }
        if is_done {
            break;
        }
    }
    assert!(partly > 200 && whole > 3, "{partly} partly, {whole} whole");
}

#[test]
fn a_copy_that_acknowledges_a_load_without_its_files_is_found() {
    proves(Planted::LoadAcknowledgedWithoutFiles, || {
        let mut primary = Primary::new();
        let (copy, end) = (primary.copy(), primary.end());
        drop(primary.follow(&copy).unwrap());
        has_everything(&copy.crash(Crash::PowerCutLosesAll, 1), end)
    });
}

#[test]
fn another_file_than_the_load_names_is_not_taken() {
    let primary = Primary::new();
    let copy = primary.copy();
    let other = StagedRun { digest: primary.runs[0].digest ^ 1, ..primary.runs[0] };
    let refused = primary.send(&copy, &[other]).unwrap_err();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    assert_eq!(copy.list(LOAD_FOLDER).unwrap(), [format!("{}.tmp", other.name.file_name())]);
    let too_long = StagedRun { length: 10, ..primary.runs[0] };
    let mut incoming = receive_load(Arc::new(copy.clone()), &[too_long]).unwrap();
    assert_eq!(incoming.take(&primary.parts(&[too_long])[0]), Ok(false));
    primary.send(&copy, &primary.runs).unwrap();
    assert!(primary.runs.iter().all(|run| check_staged(&copy, run).is_ok()));
}

#[test]
fn files_of_a_load_that_never_came_are_removed_when_they_are_old_and_not_before() {
    let mut primary = Primary::new();
    let copy = primary.copy();
    let never = StagedRun { name: LoadName { nonce: [8; 16], ..primary.runs[0].name }, ..primary.runs[0] };
    let path = format!("{}.tmp", never.name.path());
    copy.create_folder(LOAD_FOLDER).unwrap();
    copy.create(&path).unwrap().sync_data().unwrap();
    copy.sync_folder(LOAD_FOLDER).unwrap();
    let names = |copy: &MemoryStorage| copy.list(LOAD_FOLDER).unwrap().len();
    // The fact of these files is still to come.
    primary.send(&copy, &primary.runs).unwrap();
    let mut follower = open(&copy).unwrap();
    checkpoint(&mut follower, &copy);
    assert_eq!(names(&copy), 3);
    drop(follower);
    primary.rig.clock.advance(LOAD_SWEPT_MS);
    primary.rig.publish("s", 0, "a day later");
    primary.batches = primary.rig.node().ship(Sequence(1), usize::MAX).unwrap();
    let mut follower = primary.follow(&copy).unwrap();
    let end = primary.end();
    follower.commit(end).unwrap();
    checkpoint(&mut follower, &copy);
    assert_eq!(names(&copy), 2, "those of the load stay");
    assert!(primary.runs.iter().all(|run| check_staged(&copy, run).is_ok()));
    assert!(primary.runs[0].name.staged > Millis(0));
}

/// Makes a checkpoint, and removes what it does not need.
fn checkpoint(follower: &mut Follower, copy: &MemoryStorage) {
    let storage: Arc<dyn Storage> = Arc::new(copy.clone());
    let Some(mut work) = follower.owner_mut().freeze() else { return };
    loop {
        use delaymq_core::store::CheckpointProgress::{Finished, More, WaitForSync};
        match work.write_piece(&storage, u64::MAX, follower.synced().location).unwrap() {
            More => {}
            WaitForSync(_) => follower.sync().unwrap(),
            Finished(finished) => {
                return follower.owner_mut().install(finished).unwrap().remove(copy).unwrap();
            }
        }
    }
}
