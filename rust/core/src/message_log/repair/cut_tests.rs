use super::*;
use crate::message_log::tests::fixture::{KIND_FACT, Log, STREAM, batch_of, encode, marks, scan, shared, start};
use crate::message_log::{AppenderStart, Durability, segment_path};
use crate::storage::{Crash, MemoryStorage};
use crate::units::Epoch;

const SMALL: u32 = 8 << 10;
/// The sequence, and the payloads, that stay in most tests.
const STAYS: usize = 5;

/// A log of two epochs over several segments, and the bytes of each batch. The batch behind the cut has its header in
/// two sectors.
struct Old {
    log: Log,
    payloads: Vec<Vec<u8>>,
    batches: Vec<Vec<u8>>,
}

fn old() -> Old {
    let mut log = Log::new(SMALL);
    let mut old = Vec::new();
    for number in 0..16_usize {
        if number == 3 {
            log.appender.begin_epoch(Epoch(4)).unwrap();
        }
        let bytes = if number + 1 == STAYS { to_sector_end(&log) } else { 300 + number * 77 };
        let payload = vec![number as u8 + 1; bytes];
        log.write(&[&payload]);
        old.push(payload);
        if number % 3 != 1 {
            log.appender.sync().unwrap();
        }
        if number == 12 {
            log.witness();
        }
    }
    log.appender.sync().unwrap();
    log.prepare(false);
    let end = log.appender.written().location;
    let mut reader = BatchReader::new(shared(&log.storage), STREAM, ScanStart::BEGINNING.location, end);
    let batches = std::iter::from_fn(|| reader.next_batch().unwrap().map(|batch| batch.bytes)).collect();
    Old { log, payloads: old, batches }
}

/// The payload with which the next batch ends 48 bytes before the end of a sector.
fn to_sector_end(log: &Log) -> usize {
    let overhead = batch_of(&[encode(KIND_FACT, b"")]).len();
    let at = log.appender.written().location.offset() as usize + overhead;
    512 + (464 - at % 512 + 512) % 512
}

fn point(epoch: u32, sequence: u64, committed: u64) -> CutPoint {
    CutPoint { epoch: Epoch(epoch), sequence: Sequence(sequence), committed: Sequence(committed) }
}

fn cut(storage: &MemoryStorage, point: &CutPoint) -> Result<Cut> {
    cut_after(&shared(storage), STREAM, &ScanStart::BEGINNING, point)
}

/// Opens the log behind a cut.
fn go_on(storage: &MemoryStorage, cut: &Cut) -> Log {
    let next = AppenderStart {
        epoch: cut.position.epoch,
        number: cut.next_segment,
        chain: cut.position.chain,
        next_sequence: cut.position.next_sequence,
        trusted: cut.position.trusted,
        ..start(SMALL)
    };
    Log::in_storage(storage.clone(), &next)
}

fn evidence(storage: &MemoryStorage) -> Vec<Vec<u8>> {
    let files = storage.image().into_iter();
    files.filter(|(path, _)| path.starts_with("aside/divergent-")).map(|(_, bytes)| bytes).collect()
}

#[test]
fn the_log_ends_at_the_cut_and_everything_behind_it_is_kept() {
    let old = old();
    for stays in 0..16 {
        let storage = old.log.storage.crash(Crash::Kill, 1);
        let epoch = [0, 1, 1, 1].get(stays).copied().unwrap_or(4);
        let done = cut(&storage, &point(epoch, stays as u64, 0)).unwrap();
        let after = storage.crash(Crash::PowerCutLosesAll, 1);
        let (payloads, ending) = scan(&after).unwrap();
        assert_eq!(payloads, old.payloads[..stays]);
        assert!(ending.sealed && ending.later_segments.is_empty() && ending.torn.is_none());
        assert_eq!((done.position.end, done.position.chain), (ending.end, ending.chain));
        let expected = format!("aside/divergent-4-{}-16-{:08x}", stays + 1, old.log.appender.chain());
        assert_eq!(done.evidence.as_deref(), Some(expected.as_str()));
        assert_eq!(after.image()[&expected], old.batches[stays..].concat());
        assert!(after.image().keys().all(|path| !path.contains(".tmp")));
        let mut log = go_on(&after, &done);
        log.appender.begin_epoch(Epoch(5)).unwrap();
        log.commit(&[b"on"]);
        assert_eq!(scan(&after.crash(Crash::PowerCutLosesAll, 1)).unwrap().0[stays..], [b"on"]);
    }
}

#[test]
fn without_later_facts_nothing_is_cut() {
    let old = old();
    let done = cut(&old.log.storage, &point(4, 16, 16)).unwrap();
    assert_eq!(done.evidence, None);
    let (payloads, ending) = scan(&old.log.storage).unwrap();
    assert_eq!((payloads, ending.sealed), (old.payloads, true));
    let again = cut(&old.log.storage, &point(4, 16, 16)).unwrap();
    assert_eq!(again, done);
    assert!(evidence(&old.log.storage).is_empty());
}

#[test]
fn a_cut_within_what_is_committed_changes_nothing() {
    let old = old();
    let before = old.log.storage.image();
    let refused = cut(&old.log.storage, &point(4, 8, 9));
    assert!(matches!(refused, Err(Error::InvalidArgument { argument: "committed", .. })), "{refused:?}");
    assert_eq!(old.log.storage.image(), before);
    assert!(cut(&old.log.storage, &point(4, 8, 8)).is_ok());
}

/// The log itself says what was committed when it was written, whatever the caller knows.
#[test]
fn a_cut_before_what_the_log_calls_committed_changes_nothing() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    let committed = log.commit(&[b"b"]).end.location;
    let with_committed = crate::message_log::AppendMarks { committed, ..marks(1, Durability::Disk) };
    log.appender.append(&mut batch_of(&[encode(KIND_FACT, b"c")]), &with_committed).unwrap();
    log.appender.sync().unwrap();
    let before = log.storage.image();
    let refused = cut(&log.storage, &point(1, 1, 0));
    assert!(matches!(refused, Err(Error::InvalidArgument { argument: "committed", .. })), "{refused:?}");
    assert_eq!(log.storage.image(), before);
    cut(&log.storage, &point(1, 2, 0)).unwrap();
    assert_eq!(scan(&log.storage).unwrap().0, [b"a", b"b"]);
}

/// The committed position may be the start of a segment in which nothing is written yet.
#[test]
fn a_cut_at_what_the_log_calls_committed_is_done_also_at_the_end_of_a_segment() {
    let mut log = Log::new(SMALL);
    log.commit(&[&[1; 3000]]);
    let second = log.commit(&[&[2; 3000]]);
    assert!(second.rolled);
    let with_committed = crate::message_log::AppendMarks { committed: second.start, ..marks(1, Durability::Disk) };
    log.appender.append(&mut batch_of(&[encode(KIND_FACT, b"c")]), &with_committed).unwrap();
    cut(&log.storage, &point(1, 1, 1)).unwrap();
    let (payloads, ending) = scan(&log.storage).unwrap();
    assert_eq!(payloads, [vec![1; 3000]]);
    assert!(ending.committed <= ending.end, "{ending:?}");
}

#[test]
fn a_place_where_no_batch_ends_is_refused() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    log.commit(&[b"b", b"c"]);
    log.appender.begin_epoch(Epoch(3)).unwrap();
    log.commit(&[b"d"]);
    let before = log.storage.image();
    for (epoch, sequence) in [(1, 2), (2, 1), (3, 3), (1, 4), (3, 5), (3, 0)] {
        let refused = cut(&log.storage, &point(epoch, sequence, 0));
        let is_typed = matches!(refused, Err(Error::InvalidArgument { argument: "sequence", .. }));
        assert!(is_typed, "{epoch} {sequence}: {refused:?}");
    }
    assert_eq!(log.storage.image(), before);
}

#[test]
fn a_cut_from_a_checkpoint_does_not_read_what_is_before_it() {
    let old = old();
    let (_, ending) = scan(&old.log.storage).unwrap();
    let storage = old.log.storage.crash(Crash::Kill, 1);
    let first = cut(&storage, &point(4, 8, 0)).unwrap();
    let storage = old.log.storage.crash(Crash::Kill, 1);
    let from = ScanStart {
        location: first.position.end,
        chain: first.position.chain,
        next_sequence: first.position.next_sequence,
        epoch: first.position.epoch,
        trusted: first.position.trusted,
        vouched: first.position.end,
    };
    storage.damage(&segment_path(SegmentNumber(1)), 5000, 1);
    let refused = cut_after(&shared(&storage), STREAM, &from, &point(4, 7, 0));
    assert!(matches!(refused, Err(Error::InvalidArgument { argument: "sequence", .. })));
    for stays in [11, 8] {
        let done = cut_after(&shared(&storage), STREAM, &from, &point(4, stays, 8)).unwrap();
        assert_eq!(done.position.next_sequence, Sequence(stays + 1));
    }
    assert_eq!(ending.next_sequence, Sequence(17));
}

#[test]
fn an_earlier_evidence_is_never_overwritten() {
    let old = old();
    let storage = old.log.storage.clone();
    let mut kept = Vec::new();
    for turn in 0..3_u8 {
        let done = cut(&storage, &point(1, 2, 0)).unwrap();
        kept.extend(done.evidence.clone());
        let mut log = go_on(&storage, &done);
        log.appender.begin_epoch(Epoch(9)).unwrap();
        for number in 0..14 {
            log.commit(&[&[turn, number]]);
        }
    }
    assert_eq!(evidence(&storage).len(), 3, "{kept:?}");
    assert_eq!(storage.image()[&kept[0]], old.batches[2..].concat());
}

#[test]
fn a_torn_tail_behind_the_cut_goes_aside_as_in_a_repair() {
    let mut old = old();
    let torn = old.log.write(&[b"torn"]);
    let segment = torn.start.segment().unwrap();
    old.log.storage.damage(&segment_path(segment), u64::from(torn.start.offset()) + 2, 1);
    cut(&old.log.storage, &point(4, STAYS as u64, 0)).unwrap();
    let image = old.log.storage.crash(Crash::PowerCutLosesAll, 1).image();
    assert!(image.keys().any(|path| path.starts_with(&format!("aside/{segment:010}.segment."))), "{:?}", image.keys());
    assert_eq!(evidence(&old.log.storage), [old.batches[STAYS..].concat()]);
}

/// Everything that must hold of a log after a cut that was stopped: its facts are a beginning of the old ones, up to the
/// cut or further, and what is missing is kept.
fn judge(storage: &MemoryStorage, old: &Old) -> std::result::Result<usize, String> {
    let (payloads, _) = scan(storage).map_err(|error| format!("the log is refused: {error}"))?;
    if payloads.len() < STAYS || old.payloads.get(..payloads.len()) != Some(&payloads[..]) {
        return Err(format!("{} facts, which are not those of before", payloads.len()));
    }
    let cut_off = old.batches[STAYS..].concat();
    if payloads.len() < old.payloads.len() && !evidence(storage).contains(&cut_off) {
        return Err(format!("facts behind {} are cut and not kept", payloads.len()));
    }
    Ok(payloads.len())
}

/// Cuts with a stop in each call, and again with a stop in some call, and then to the end. Returns the number of calls.
fn stopped_everywhere(old: &Old, seeds: u64) -> std::result::Result<u64, String> {
    let stays = point(4, STAYS as u64, 0);
    for calls in 0.. {
        let mut is_done = false;
        for seed in 0..seeds {
            let kinds = [Crash::PowerCut, Crash::Kill, Crash::PowerCutLosesAll];
            let kind = kinds[seed as usize % 3];
            let mut storage = old.log.storage.crash(Crash::Kill, seed);
            for (turn, limit) in [calls, seed * 7 % 60].into_iter().enumerate() {
                storage.stop_after_calls(limit);
                is_done |= cut(&storage, &stays).is_ok() && turn == 0;
                storage = storage.crash(kind, seed);
                judge(&storage, old)?;
            }
            let done = cut(&storage, &stays).map_err(|error| format!("again: {error}"))?;
            storage = storage.crash(kind, seed);
            if judge(&storage, old)? != STAYS {
                return Err("the cut did not last".to_owned());
            }
            let mut log = go_on(&storage, &done);
            log.appender.begin_epoch(Epoch(5)).map_err(|error| error.to_string())?;
            log.commit(&[b"on"]);
            let payloads = scan(&storage.crash(kind, seed)).map_err(|error| error.to_string())?.0;
            if payloads.len() != STAYS + 1 {
                return Err(format!("{} facts after it went on", payloads.len()));
            }
        }
        if is_done {
            return Ok(calls);
        }
    }
    Ok(0)
}

#[test]
fn a_cut_that_is_stopped_anywhere_is_done_again() {
    let calls = stopped_everywhere(&old(), 40).unwrap();
    assert!(calls > 60, "{calls}");
}

#[cfg(feature = "planted")]
#[test]
fn a_cut_in_place_is_noticed() {
    let old = old();
    crate::planted::plant(Some(Planted::CutInPlace));
    let found = stopped_everywhere(&old, 40);
    crate::planted::plant(None);
    assert!(found.is_err(), "{found:?}");
}
