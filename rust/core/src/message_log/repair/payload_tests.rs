use super::*;
use crate::message_log::tests::fixture::{KIND_FACT, Log, STREAM, encode, scan};
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::record::message::KIND_MESSAGE;
use crate::storage::{Crash, MemoryStorage};
use crate::units::{Location, RunNumber, SegmentNumber, Sequence};

/// Bytes before the payload of a record that the fixture encodes.
const BEFORE: u64 = RECORD_HEADER_BYTES as u64 + 24;

/// Three batches, of which the second has two messages; the payload of its second one, over three sectors, is damaged in
/// each of them.
struct Rotten {
    storage: MemoryStorage,
    whole: Vec<u8>,
    damaged: DamagedPayload,
    payload: Vec<u8>,
}

fn rotten() -> Rotten {
    let mut log = Log::new(8 << 10);
    log.write(&[b"before"]);
    let payload: Vec<u8> = (0..1_200_u32).map(|at| at as u8).collect();
    let records = [encode(KIND_FACT, b"beside"), encode(KIND_MESSAGE, &payload)];
    let appended = log.write_records(&records);
    log.commit(&[b"behind"]);
    log.witness();
    let path = segment_path(SegmentNumber(1));
    let whole = log.storage.image()[&path].clone();
    let location = Location(appended.start.0 + (BATCH_HEADER_BYTES + records[0].len()) as u64);
    for at in [3, 600, 1_199] {
        assert!(log.storage.damage(&path, u64::from(location.offset()) + BEFORE + at, 1));
    }
    let record_check = u32::from_le_bytes(*whole[location.offset() as usize + 12..].first_chunk().unwrap());
    let damaged = DamagedPayload { sequence: Sequence(3), record_check, location };
    Rotten { storage: log.storage, whole, damaged, payload }
}

impl Rotten {
    fn restore(&self, storage: &MemoryStorage) -> Result<bool> {
        restore_payload(storage, STREAM, &self.damaged, &self.payload)
    }

    /// The segment differs from the whole one within the damaged payload at most.
    fn differs_in_payload_alone(&self, storage: &MemoryStorage) -> bool {
        let found = storage.image()[&segment_path(SegmentNumber(1))].clone();
        let from = self.damaged.location.offset() as usize + BEFORE as usize;
        let to = from + self.payload.len();
        found[..from] == self.whole[..from] && found[to..] == self.whole[to..]
    }
}

#[test]
fn the_payload_of_another_copy_makes_the_record_whole() {
    let rotten = rotten();
    assert_eq!(scan(&rotten.storage).unwrap().1.damaged_payloads, 1);
    assert_eq!(rotten.restore(&rotten.storage), Ok(true));
    let after = rotten.storage.crash(Crash::PowerCutLosesAll, 1);
    assert!(after.image()[&segment_path(SegmentNumber(1))] == rotten.whole);
    assert_eq!(scan(&after).unwrap().1.damaged_payloads, 0);
    let changes = after.counts().changing();
    assert_eq!((rotten.restore(&after), after.counts().changing()), (Ok(false), changes), "it is whole already");
}

#[test]
fn a_repair_that_is_stopped_anywhere_leaves_the_damage_in_sight_or_none() {
    let rotten = rotten();
    let mut outcomes = [false; 2];
    for calls in 0.. {
        let mut done = false;
        for (kind, seed) in
            [Crash::PowerCut, Crash::Kill].into_iter().flat_map(|kind| (0..40).map(move |seed| (kind, seed)))
        {
            let storage = rotten.storage.crash(Crash::Kill, 0);
            storage.stop_after_calls(calls);
            done = rotten.restore(&storage).is_ok();
            let after = storage.crash(kind, seed);
            assert!(rotten.differs_in_payload_alone(&after), "{calls} {seed}");
            let (_, ending) = scan(&after).unwrap();
            let is_whole = after.image()[&segment_path(SegmentNumber(1))] == rotten.whole;
            assert_eq!((ending.torn, ending.damaged_payloads), (None, u64::from(!is_whole)), "{calls} {seed}");
            assert!(is_whole || !done, "{calls} {seed}");
            outcomes[usize::from(is_whole)] = true;
            assert_eq!(rotten.restore(&after), Ok(!is_whole));
            assert!(after.image()[&segment_path(SegmentNumber(1))] == rotten.whole);
        }
        if done {
            break;
        }
    }
    assert_eq!(outcomes, [true, true]);
}

#[test]
fn other_bytes_and_other_places_are_refused_and_change_nothing() {
    let rotten = rotten();
    let changes = rotten.storage.counts().changing();
    let refused =
        |damaged: &DamagedPayload, payload: &[u8]| match restore_payload(&rotten.storage, STREAM, damaged, payload)
            .unwrap_err()
        {
            Error::InvalidArgument { argument, .. } => argument,
            other => panic!("{other}"),
        };
    let (whole, damaged) = (&rotten.payload, rotten.damaged);
    assert_eq!(refused(&damaged, &whole[1..]), "payload");
    assert_eq!(refused(&damaged, &[&whole[..1_199], &[0]].concat()), "payload");
    let at = |offset: u64| Location(damaged.location.0 + offset);
    assert_eq!(refused(&DamagedPayload { sequence: Sequence(2), ..damaged }, whole), "location");
    assert_eq!(refused(&DamagedPayload { record_check: 1, ..damaged }, whole), "location");
    assert_eq!(refused(&DamagedPayload { location: at(8), ..damaged }, whole), "location");
    assert_eq!(refused(&DamagedPayload { location: at(1 << 20), ..damaged }, whole), "location");
    assert_eq!(
        refused(&DamagedPayload { location: Location::in_run(RunNumber(1), 4096), ..damaged }, whole),
        "location"
    );
    let missing = DamagedPayload { location: Location::in_segment(SegmentNumber(9), 4096), ..damaged };
    let missing = restore_payload(&rotten.storage, STREAM, &missing, whole);
    assert!(matches!(missing, Err(Error::MissingFile { .. })));
    let other = Stream { id: [1; 16], timeline: 1 };
    assert!(matches!(restore_payload(&rotten.storage, other, &damaged, whole), Err(Error::Corrupt { .. })));
    assert_eq!(rotten.storage.counts().changing(), changes);
}

#[cfg(feature = "planted")]
#[test]
fn bytes_that_are_written_without_a_look_at_their_check_are_found() {
    let rotten = rotten();
    let other: Vec<u8> = rotten.payload.iter().map(|byte| byte ^ 1).collect();
    crate::planted::plant(Some(Planted::RepairUnchecked));
    let restored = restore_payload(&rotten.storage, STREAM, &rotten.damaged, &other);
    crate::planted::plant(None);
    assert_eq!(restored, Ok(true), "other bytes were taken");
    assert_eq!(scan(&rotten.storage).unwrap().1.damaged_payloads, 1, "and the damage is found again");
}
