use super::*;
use crate::error::StorageFault;
use crate::message_log::list_segments;
use crate::message_log::tests::fixture::{Log, STREAM, batch_of, empty_storage, encode, marks, scan, shared, start};
use crate::record::batch::BatchHeader;
use crate::record::message::KIND_MESSAGE;
use crate::storage::{Call, Crash, read_upto};

const SMALL: u32 = 8 << 10;

fn headers(log: &Log, number: u32) -> Vec<BatchHeader> {
    let file = log.storage.open(&segment_path(SegmentNumber(number))).unwrap();
    let mut at = u64::from(SEGMENT_HEADER_BYTES);
    let mut found = Vec::new();
    while let Some(header) = BatchHeader::read(&read_upto(&*file, at, BATCH_HEADER_BYTES).unwrap()) {
        at += u64::from(header.length.get());
        found.push(header);
    }
    found
}

#[test]
fn batches_lie_one_behind_the_other_and_chain() {
    let mut log = Log::new(SMALL);
    let first = log.commit(&[b"a", b"b"]);
    let second = log.commit(&[b"c"]);
    assert_eq!(first.start, Location::in_segment(SegmentNumber(1), SEGMENT_HEADER_BYTES));
    assert_eq!(second.start, first.end.location);
    assert_eq!((first.end.sequence, second.end.sequence), (Sequence(3), Sequence(4)));
    let found = headers(&log, 1);
    assert_eq!(found[1].chain_before, found[0].chain);
    assert_eq!(found[0].synced.get(), first.start.0);
    assert_eq!(found[1].synced.get(), second.start.0);
    assert_eq!(second.header.chain.get(), log.appender.chain());
    assert!(!first.rolled && !second.rolled);
}

#[test]
fn one_write_and_one_sync_make_one_batch() {
    let mut log = Log::new(SMALL);
    let before = log.storage.counts();
    log.commit(&[b"a", b"b", b"c"]);
    let after = log.storage.counts();
    assert_eq!(after.changing() - before.changing(), 2);
    log.appender.sync().unwrap();
    assert_eq!(log.storage.counts(), after, "nothing new, nothing to sync");
}

#[test]
fn trusted_time_never_goes_back() {
    let mut log = Log::new(SMALL);
    for trusted in [2000, 1500] {
        let with_time = AppendMarks { trusted: Millis(trusted), ..marks(1, Durability::Os) };
        let appended = log.appender.append(&mut batch_of(&[encode(1, b"a")]), &with_time).unwrap();
        assert_eq!(appended.header.trusted_ms.get(), 2000);
        assert_eq!(appended.header.durability.get(), 1);
    }
}

#[test]
fn a_full_segment_is_sealed_and_the_prepared_one_goes_on() {
    let mut log = Log::new(SMALL);
    log.prepare(true);
    log.prepare(false);
    assert_eq!(log.appender.stock_rooms().collect::<Vec<_>>(), [u64::from(fresh_room(SMALL)); 2]);
    log.write(&[&[1; 3000]]);
    let second = log.write(&[&[2; 3000]]);
    assert!(second.rolled);
    assert_eq!(second.start, Location::in_segment(SegmentNumber(2), SEGMENT_HEADER_BYTES));
    assert_eq!(second.synced.location, second.start, "all before the new segment is durable");
    assert_eq!(second.header.synced.get(), second.start.0);
    assert!(headers(&log, 1)[1].is_seal());
    assert_eq!(log.appender.stock_rooms().count(), 1);
    let cut = log.storage.crash(Crash::PowerCutLosesAll, 1);
    assert_eq!(scan(&cut).unwrap().0, [vec![1; 3000]]);
}

#[test]
fn without_a_prepared_segment_one_is_made() {
    let mut log = Log::new(SMALL);
    for number in 1..=4 {
        log.commit(&[&[number; 3000]]);
    }
    assert_eq!(list_segments(&log.storage).unwrap().len(), 4);
    assert_eq!(scan(&log.storage.crash(Crash::PowerCutLosesAll, 1)).unwrap().0.len(), 4);
}

#[test]
fn a_prepared_segment_whose_number_was_used_gets_the_next() {
    let mut log = Log::new(SMALL);
    let late = Preparing::begin(shared(&log.storage), log.appender.plan_next(0), true).unwrap().finish().unwrap();
    assert_eq!(late.number(), SegmentNumber(2));
    log.commit(&[&[1; 3000]]);
    log.commit(&[&[2; 3000]]);
    log.appender.adopt(late).unwrap();
    let third = log.commit(&[&[3; 3000]]);
    assert_eq!(third.start.segment(), Some(SegmentNumber(3)));
    assert_eq!(scan(&log.storage.crash(Crash::PowerCutLosesAll, 1)).unwrap().0.len(), 3);
}

#[test]
fn a_batch_larger_than_the_opening_segment_goes_to_the_next() {
    let mut log = Log::in_storage(empty_storage(), &AppenderStart { opening_bytes: SMALL, ..start(64 << 10) });
    let large = log.commit(&[&vec![1; 20_000]]);
    assert_eq!(large.start.segment(), Some(SegmentNumber(2)));
    assert_eq!(scan(&log.storage).unwrap().0, [vec![1; 20_000]]);
}

#[test]
fn a_batch_larger_than_any_segment_is_refused() {
    let mut log = Log::new(SMALL);
    let refused = log.appender.append(&mut batch_of(&[encode(1, &[1; 9000])]), &marks(1, Durability::Disk));
    assert!(matches!(refused, Err(Error::TooLarge { .. })));
}

#[test]
fn a_witness_is_written_once_per_pause() {
    let mut log = Log::new(SMALL);
    assert!(!log.witness(), "nothing to witness");
    let appended = log.commit(&[b"a"]);
    assert!(log.appender.witness_due());
    assert!(log.witness());
    assert!(!log.witness());
    let found = headers(&log, 1);
    assert!(found[1].is_witness());
    assert_eq!(found[1].synced.get(), appended.end.location.0);
    assert_eq!(log.appender.written(), log.appender.synced());
    log.commit(&[b"b"]);
    assert!(log.witness());
    assert_eq!(scan(&log.storage).unwrap().0, [b"a", b"b"]);
}

#[test]
fn a_witness_leaves_the_seal_its_room() {
    let mut log = Log::new(SMALL);
    let free = log.appender.tail_room() as usize - BATCH_HEADER_BYTES;
    log.commit(&[&vec![1; free - 40]]);
    assert_eq!(log.appender.tail_room(), 0);
    assert!(!log.witness());
    log.close();
    assert!(scan(&log.storage).unwrap().1.sealed);
}

#[test]
fn after_closing_nothing_is_taken() {
    let mut log = Log::new(SMALL);
    log.commit(&[b"a"]);
    log.close();
    assert_eq!(log.appender.sync(), Err(Error::Closed));
    assert!(scan(&log.storage.crash(Crash::PowerCutLosesAll, 1)).unwrap().1.sealed);
}

#[test]
fn any_failed_write_or_sync_poisons() {
    for (call, fault) in
        [(Call::Write, StorageFault::Io), (Call::Write, StorageFault::NoSpace), (Call::Sync, StorageFault::Io)]
    {
        let mut log = Log::new(SMALL);
        log.commit(&[b"a"]);
        log.storage.fail_call_of(call, 0, fault);
        let written = log.appender.append(&mut batch_of(&[encode(KIND_MESSAGE, b"b")]), &marks(1, Durability::Disk));
        let failed = written.map(drop).and_then(|()| log.appender.sync().map(drop)).unwrap_err();
        assert!(matches!(failed, Error::Storage { .. }));
        assert!(matches!(log.appender.sync(), Err(Error::Poisoned { reason }) if reason == failed.to_string()));
        assert!(matches!(log.appender.seal_and_close(Location(0)), Err(Error::Poisoned { .. })));
    }
}

#[test]
fn a_batch_that_does_not_hold_its_records_is_never_written() {
    let mut log = Log::new(SMALL);
    let before = log.storage.counts();
    let refused = log.appender.append(&mut batch_of(&[encode(1, b"a")]), &marks(2, Durability::Disk));
    assert!(matches!(refused, Err(Error::InvalidArgument { .. })));
    assert_eq!(log.storage.counts().of(Call::Write), before.of(Call::Write));
}

#[test]
fn a_full_disk_while_preparing_gives_the_room_back_and_poisons_nothing() {
    let mut log = Log::new(SMALL);
    let used = |log: &Log| log.storage.image().values().map(|bytes| bytes.len() as u64).sum::<u64>();
    let before = used(&log);
    log.storage.set_capacity(before + u64::from(SMALL) - 1);
    let failed = Preparing::begin(shared(&log.storage), log.appender.plan_next(0), true).map(drop).unwrap_err();
    assert!(failed.is_no_space());
    assert_eq!(used(&log), before);
    log.commit(&[b"a"]);
    log.storage.set_capacity(before + u64::from(SMALL));
    log.prepare(true);
}

#[test]
fn preparation_goes_in_pieces() {
    let storage = empty_storage();
    let header = SegmentHeader { number: SegmentNumber(1), stream: STREAM, capacity: 1 << 20 };
    let mut preparing = Preparing::begin(shared(&storage), header, true).unwrap();
    let mut steps = 0;
    let prepared = loop {
        steps += 1;
        match preparing.step(128 << 10).unwrap() {
            crate::message_log::PreparingStep::More(more) => preparing = more,
            crate::message_log::PreparingStep::Prepared(prepared) => break prepared,
        }
    };
    assert_eq!(steps, 8);
    assert!(storage.counts().of(Call::Sync) >= 8);
    assert_eq!(prepared.file.length().unwrap(), 1 << 20);
}

#[test]
fn a_failed_piece_leaves_nothing_behind() {
    let storage = empty_storage();
    let header = SegmentHeader { number: SegmentNumber(1), stream: STREAM, capacity: 1 << 20 };
    let preparing = Preparing::begin(shared(&storage), header, true).unwrap();
    storage.fail_call_of(Call::Write, 2, StorageFault::NoSpace);
    assert!(preparing.finish().map(drop).unwrap_err().is_no_space());
    assert!(storage.image().is_empty());
}
