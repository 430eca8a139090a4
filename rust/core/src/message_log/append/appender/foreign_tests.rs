use super::*;
use crate::error::StorageFault;
use crate::message_log::tests::fixture::{
    KIND_FACT, Log, STREAM, batch_of, empty_storage, encode, marks, scan, shared, start,
};
use crate::message_log::{
    AppendMarks, AppenderStart, BatchReader, Durability, ScanEnd, ScanStart, ScannedBatch, repair, segment_path,
};
use crate::record::FORMAT_VERSION;
use crate::record::batch::{BATCH_HEADER_BYTES, BatchFields, LOCAL_SEAL, LOCAL_WITNESS, rewrite_local};
use crate::record::command::{EpochStart, encode_epoch_start};
use crate::record::message::KIND_MESSAGE;
use crate::storage::{Call, Crash, MemoryStorage};
use crate::units::{Epoch, Location, Millis, SegmentNumber, Sequence};
use proptest::prelude::*;
use zerocopy::IntoBytes;

#[path = "damaged_tests.rs"]
mod damaged;

const SMALL: u32 = 8 << 10;

/// All batches of a log, as its primary sends them.
fn sent(log: &Log) -> Vec<Vec<u8>> {
    batches(log).into_iter().map(|batch| batch.bytes).collect()
}

fn batches(log: &Log) -> Vec<ScannedBatch> {
    let end = log.appender.written().location;
    let mut reader = BatchReader::new(shared(&log.storage), STREAM, ScanStart::BEGINNING.location, end);
    std::iter::from_fn(|| reader.next_batch().unwrap()).collect()
}

/// The position of each batch, which is the same on every copy.
fn identities(log: &Log) -> Vec<(u32, u64, u32)> {
    let identity = |batch: ScannedBatch| {
        let header = batch.header;
        (header.epoch.get(), header.base_sequence.get(), header.chain.get())
    };
    batches(log).into_iter().map(identity).collect()
}

fn copy_of(storage: MemoryStorage, epoch: u32) -> Log {
    Log::in_storage(storage, &AppenderStart { epoch: Epoch(epoch), ..start(SMALL) })
}

fn write_at(log: &mut Log, trusted: u64, payload: &[u8]) {
    let marks = AppendMarks { trusted: Millis(trusted), ..marks(1, Durability::Os) };
    let record = encode(KIND_MESSAGE, payload);
    log.appender.append(&mut batch_of(&[record]), &marks).unwrap();
}

/// A primary with three batches, and a copy with the first two.
fn behind() -> (Log, Log) {
    let mut primary = Log::new(SMALL);
    write_at(&mut primary, 2000, b"one");
    write_at(&mut primary, 3000, b"two");
    write_at(&mut primary, 4000, b"three");
    let mut copy = Log::new(SMALL);
    for mut batch in sent(&primary).into_iter().take(2) {
        copy.appender.append_foreign(&mut batch, Location(0)).unwrap();
    }
    (primary, copy)
}

/// The refusal of a batch, after which the copy takes the right one.
fn refusal(copy: &mut Log, batch: &[u8], right: &[u8]) -> Error {
    let before = (copy.storage.counts(), copy.appender.written(), copy.appender.chain());
    let error = copy.appender.append_foreign(&mut batch.to_vec(), Location(0)).unwrap_err();
    let after = (copy.storage.counts(), copy.appender.written(), copy.appender.chain());
    assert_eq!(before, after, "{error}");
    copy.appender.append_foreign(&mut right.to_vec(), Location(0)).unwrap();
    error
}

/// The third batch of the primary, changed.
fn changed(change: impl FnOnce(&mut BatchHeader)) -> Error {
    let (primary, mut copy) = behind();
    let right = sent(&primary)[2].clone();
    let mut header = BatchHeader::read(&right).unwrap();
    change(&mut header);
    header.header_check = header.expected_check().into();
    let mut batch = right.clone();
    batch[..BATCH_HEADER_BYTES].copy_from_slice(header.as_bytes());
    refusal(&mut copy, &batch, &right)
}

fn is_malformed(error: &Error, words: &str) -> bool {
    matches!(error, Error::InvalidArgument { argument: "batch", expected, .. } if expected.starts_with(words))
}

#[test]
fn a_copy_has_the_same_batches_in_its_own_segments() {
    let mut primary = Log::new(64 << 10);
    for number in 0..30_u8 {
        primary.write_records(&[encode(KIND_FACT, &[number; 700]), encode(KIND_MESSAGE, &[number; 3])]);
        if number % 7 == 0 {
            primary.appender.sync().unwrap();
            primary.witness();
        }
    }
    let mut copy = Log::new(SMALL);
    let mut rolled = 0;
    for (number, mut batch) in sent(&primary).into_iter().enumerate() {
        let before = copy.appender.written();
        let Taken { appended, damaged } = copy.appender.append_foreign(&mut batch, before.location).unwrap();
        assert_eq!(damaged, []);
        let header = &appended.header;
        assert_eq!(BatchHeader::read(&batch).unwrap().as_bytes(), header.as_bytes());
        assert_eq!(header.segment.get(), appended.start.segment().unwrap().0);
        assert_eq!((header.committed.get(), header.durability.get()), (before.location.0, 0));
        assert_eq!(header.synced.get(), appended.synced.location.0);
        assert_eq!(appended.end, copy.appender.written());
        rolled += u32::from(appended.rolled);
        if number % 4 == 0 {
            copy.appender.sync().unwrap();
            copy.witness();
        }
    }
    assert!(rolled > 3);
    copy.appender.sync().unwrap();
    assert_eq!(identities(&copy), identities(&primary));
    let (payloads, end) = scan(&copy.storage.crash(Crash::PowerCutLosesAll, 1)).unwrap();
    assert_eq!(payloads, scan(&primary.storage).unwrap().0);
    assert_eq!((end.chain, end.next_sequence, end.torn), (primary.appender.chain(), Sequence(61), None));
}

#[test]
fn the_epoch_of_a_later_release_is_refused_and_nothing_is_written() {
    let begun = |format_version| {
        let mut record = Vec::new();
        let previous = (Epoch(0), 0, Sequence(0));
        let start = EpochStart {
            epoch: Epoch(1),
            format_version,
            nonce: [1; 16],
            node: [2; 16],
            previous_epoch: previous.0,
            previous_chain: previous.1,
            previous_sequence: previous.2,
            delay_ms_max: 1,
        };
        encode_epoch_start(&mut record, &start);
        let mut primary = Log::new(SMALL);
        primary.write_records(&[record]);
        sent(&primary).remove(0)
    };
    let mut copy = Log::new(SMALL);
    let path = "the log of the primary".to_owned();
    let refused = Error::NewerFormat { path, offset: 88, found: FORMAT_VERSION + 1, supported: FORMAT_VERSION };
    assert_eq!(refusal(&mut copy, &begun(FORMAT_VERSION + 1), &begun(FORMAT_VERSION)), refused);
}

#[test]
fn a_gap_and_a_repetition_name_the_end_of_the_log() {
    let mut primary = Log::new(SMALL);
    for number in 0..4_u8 {
        primary.commit(&[&[number]]);
    }
    let all = sent(&primary);
    let mut copy = Log::new(SMALL);
    assert_eq!(refusal(&mut copy, &all[1], &all[0]), Error::NotNext { expected: 1, found: 2 });
    assert_eq!(refusal(&mut copy, &all[0], &all[1]), Error::NotNext { expected: 2, found: 1 });
    assert_eq!(refusal(&mut copy, &all[3], &all[2]), Error::NotNext { expected: 3, found: 4 });
}

#[test]
fn a_lower_epoch_is_fenced_and_a_higher_one_is_taken() {
    let mut old = copy_of(empty_storage(), 3);
    old.commit(&[b"one"]);
    let first = sent(&old);
    old.commit(&[b"too late"]);
    let late = sent(&old)[1].clone();
    let mut new = copy_of(empty_storage(), 3);
    new.appender.append_foreign(&mut first[0].clone(), Location(0)).unwrap();
    new.appender.begin_epoch(Epoch(5)).unwrap();
    new.commit(&[b"two"]);
    new.commit(&[b"three"]);
    let all = sent(&new);
    let mut copy = copy_of(empty_storage(), 3);
    copy.appender.append_foreign(&mut first[0].clone(), Location(0)).unwrap();
    copy.appender.append_foreign(&mut all[1].clone(), Location(0)).unwrap();
    let mut header = BatchHeader::read(&late).unwrap();
    header.base_sequence = 3.into();
    header.header_check = header.expected_check().into();
    let mut late = late;
    late[..BATCH_HEADER_BYTES].copy_from_slice(header.as_bytes());
    assert_eq!(refusal(&mut copy, &late, &all[2]), Error::Fenced { newest: 5, found: 3 });
    assert_eq!(identities(&copy), identities(&new));
}

#[test]
fn another_content_in_the_same_place_is_told_apart() {
    let (primary, mut copy) = behind();
    let mut other = Log::new(SMALL);
    for payload in [b"one", b"TWO", b"six"] {
        write_at(&mut other, 4000, payload);
    }
    let (ours, theirs) = (copy.appender.chain(), identities(&other)[1].2);
    let error = refusal(&mut copy, &sent(&other)[2], &sent(&primary)[2]);
    assert_eq!(error, Error::Diverged { sequence: 3, expected: ours, found: theirs });
}

#[test]
fn a_batch_is_what_its_header_and_its_records_say() {
    assert!(is_malformed(&changed(|header| header.trusted_ms = 2999.into()), "trusted time 3000 or later"));
    assert!(is_malformed(&changed(|header| header.trusted_ms = 3000.into()), "chain "));
    assert!(is_malformed(&changed(|header| header.chain = 7.into()), "chain "));
    assert!(is_malformed(&changed(|header| header.epoch = 2.into()), "chain "));
    assert!(is_malformed(&changed(|header| header.flags = 1.into()), "chain "));
    assert!(is_malformed(&changed(|header| header.count = 2.into()), "1 sequences"));
    assert!(is_malformed(&changed(|header| header.record_count = 2.into()), "2 records"));
    assert!(is_malformed(&changed(|header| header.length = 88.into()), "a batch header"));
    for flag in [LOCAL_SEAL, LOCAL_WITNESS] {
        assert!(is_malformed(&changed(|header| header.local_flags = flag.into()), "a batch with records"));
    }
    assert!(is_malformed(&changed(|header| header.record_count = 0.into()), "a batch with records"));
}

#[test]
fn a_batch_of_another_stream_is_refused() {
    let (primary, mut copy) = behind();
    let other = Stream { id: [1; 16], timeline: 1 };
    let begin = AppenderStart { stream: other, chain: copy.appender.chain(), ..start(SMALL) };
    let begin = AppenderStart { next_sequence: Sequence(3), trusted: Millis(4000), ..begin };
    let mut stranger = Log::in_storage(empty_storage(), &begin);
    let appended = stranger.write(&[b"three"]);
    let path = segment_path(appended.start.segment().unwrap());
    let at = appended.start.offset() as usize;
    let batch = stranger.storage.image()[&path][at..at + appended.header.length.get() as usize].to_vec();
    assert!(is_malformed(&refusal(&mut copy, &batch, &sent(&primary)[2]), "chain "));
}

#[test]
fn a_batch_that_no_segment_takes_is_refused_and_poisons_nothing() {
    let mut primary = Log::new(64 << 10);
    primary.commit(&[&[1; 9000]]);
    let mut copy = Log::new(SMALL);
    let refused = copy.appender.append_foreign(&mut sent(&primary)[0].clone(), Location(0));
    assert!(matches!(refused, Err(Error::TooLarge { .. })));
    copy.commit(&[b"fits"]);
}

#[test]
fn a_failed_write_poisons() {
    let (primary, mut copy) = behind();
    copy.storage.fail_call_of(Call::Write, 0, StorageFault::Io);
    let mut batch = sent(&primary)[2].clone();
    assert!(matches!(copy.appender.append_foreign(&mut batch.clone(), Location(0)), Err(Error::Storage { .. })));
    assert!(matches!(copy.appender.append_foreign(&mut batch, Location(0)), Err(Error::Poisoned { .. })));
}

#[test]
fn a_promoted_copy_goes_on_in_an_epoch_that_it_has_begun() {
    let (primary, mut copy) = behind();
    let own = || batch_of(&[encode(KIND_MESSAGE, b"own")]);
    let refused = copy.appender.append(&mut own(), &marks(1, Durability::Disk));
    assert!(matches!(refused, Err(Error::InvalidArgument { argument: "epoch", .. })));
    copy.appender.append_foreign(&mut sent(&primary)[2].clone(), Location(0)).unwrap();
    assert_eq!(copy.appender.begin_epoch(Epoch(1)), Err(Error::Fenced { newest: 1, found: 1 }));
    copy.appender.begin_epoch(Epoch(4)).unwrap();
    copy.witness();
    let appended = copy.appender.append(&mut own(), &marks(1, Durability::Disk)).unwrap();
    let header = &appended.header;
    assert_eq!((header.epoch.get(), header.base_sequence.get(), header.trusted_ms.get()), (4, 4, 4000));
    assert_eq!(header.chain_before.get(), primary.appender.chain());
    copy.appender.sync().unwrap();
    assert_eq!(scan(&copy.storage).unwrap().0.last().unwrap(), b"own");
}

/// A node that was primary had sealed and witnessed in its own epoch and by its own clock. The batches that it copies then
/// may be of an earlier epoch, and of an earlier time.
#[test]
fn seals_and_witnesses_bind_no_batch_of_another_copy() {
    let (primary, mut copy) = behind();
    copy.appender.begin_epoch(Epoch(9)).unwrap();
    copy.appender.append_witness(Millis(9000), false, Location(0)).unwrap();
    copy.appender.append_foreign(&mut sent(&primary)[2].clone(), Location(0)).unwrap();
    copy.appender.sync().unwrap();
    let (payloads, ending) = scan(&copy.storage).unwrap();
    assert_eq!((payloads.len(), ending.torn.clone(), ending.trusted), (3, None, Millis(4000)));
    let mut again = go_on(&copy.storage, &ending);
    let mut primary = primary;
    write_at(&mut primary, 4000, b"four");
    again.appender.append_foreign(&mut sent(&primary)[3].clone(), Location(0)).unwrap();
    let (payloads, ending) = scan(&again.storage).unwrap();
    assert_eq!((payloads.len(), ending.torn), (4, None));
}

#[derive(Clone, Debug)]
enum Step {
    Take,
    Sync,
    Witness,
    Close,
    Crash { kind: Crash, seed: u64 },
    Stop { calls: u8, seed: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(Crash::Kill), Just(Crash::PowerCut), Just(Crash::PowerCutLosesAll)];
    prop_oneof![
        12 => Just(Step::Take),
        3 => Just(Step::Sync),
        1 => Just(Step::Witness),
        1 => Just(Step::Close),
        2 => (kind, any::<u64>()).prop_map(|(kind, seed)| Step::Crash { kind, seed }),
        2 => (0..12_u8, any::<u64>()).prop_map(|(calls, seed)| Step::Stop { calls, seed }),
    ]
}

/// Opens the copy again as its node does, and checks that it has what it had synced.
fn reopened(storage: &MemoryStorage, all: &[ScannedBatch], synced: u64) -> Log {
    let ending = scan(storage).unwrap().1;
    let reaches = ending.next_sequence.0;
    assert!(reaches >= synced, "{reaches} of {synced} synced");
    let last = all.iter().take_while(|batch| batch.header.base_sequence.get() < reaches).last();
    assert_eq!(ending.chain, last.map_or(0, |batch| batch.header.chain.get()));
    go_on(storage, &ending)
}

/// Opens the log of a copy that ends there.
fn go_on(storage: &MemoryStorage, ending: &ScanEnd) -> Log {
    let repaired = repair(storage, STREAM, ending, Epoch(2)).unwrap();
    let next = AppenderStart {
        epoch: ending.epoch,
        number: repaired.next_segment,
        chain: ending.chain,
        next_sequence: ending.next_sequence,
        trusted: ending.trusted,
        ..start(SMALL)
    };
    Log::in_storage(storage.clone(), &next)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_that_is_stopped_anywhere_goes_on_from_its_end(steps in prop::collection::vec(step(), 1..80)) {
        let mut primary = Log::new(SMALL);
        for number in 0..40_u8 {
            if number % 9 == 8 {
                primary.appender.begin_epoch(Epoch(u32::from(number))).unwrap();
            }
            primary.commit(&[&vec![number; usize::from(number) * 37 % 1500]]);
        }
        let all = batches(&primary);
        let mut copy = Log::new(SMALL);
        let mut synced = 1;
        for step in steps {
            let (mut kind, mut seed) = (Crash::PowerCut, 0);
            let done = match step {
                Step::Take => {
                    let next = copy.appender.written();
                    match all.iter().find(|batch| batch.header.base_sequence.get() == next.sequence.0) {
                        Some(batch) => copy.appender.append_foreign(&mut batch.bytes.clone(), next.location).map(drop),
                        None => Ok(()),
                    }
                }
                Step::Sync => copy.appender.sync().map(|mark| synced = mark.sequence.0),
                Step::Witness => copy.appender.append_witness(Millis(0), false, Location(0)).map(drop),
                Step::Close => copy.appender.seal_and_close(Location(0)).and(Err(Error::Closed)),
                Step::Stop { calls, seed: chosen } => {
                    seed = chosen;
                    copy.storage.stop_after_calls(u64::from(calls));
                    Ok(())
                }
                Step::Crash { kind: chosen, seed: number } => {
                    (kind, seed) = (chosen, number);
                    Err(Error::Closed)
                }
            };
            synced = synced.max(copy.appender.synced().sequence.0);
            if done.is_err() {
                copy = reopened(&copy.storage.crash(kind, seed), &all, synced);
                synced = copy.appender.synced().sequence.0;
            }
        }
        let copy = reopened(&copy.storage.crash(Crash::Kill, 0), &all, synced);
        let reached = identities(&copy);
        let expected = identities(&primary);
        prop_assert_eq!(&reached[..], &expected[..reached.len()]);
    }
}

#[test]
fn the_local_fields_alone_are_rewritten() {
    let (primary, mut copy) = behind();
    let right = sent(&primary)[2].clone();
    let mut written = right.clone();
    copy.appender.append_foreign(&mut written, Location(77)).unwrap();
    assert_eq!(right[8..52], written[8..52]);
    assert_eq!(right[BATCH_HEADER_BYTES..], written[BATCH_HEADER_BYTES..]);
    let fields = BatchFields {
        stream: STREAM.id,
        epoch: Epoch(7),
        base_sequence: Sequence(7),
        record_count: 7,
        trusted: Millis(7),
        held: true,
        chain_before: 7,
        durability: 1,
        synced: Location(70),
        committed: Location(71),
        segment: SegmentNumber(72),
        local_flags: 2,
    };
    let header = rewrite_local(&mut written, &fields).unwrap();
    assert_eq!(right[8..52], written[8..52]);
    assert_eq!((header.durability.get(), header.synced.get(), header.committed.get()), (1, 70, 71));
    assert_eq!((header.segment.get(), header.local_flags.get()), (72, 2));
    assert_eq!(BatchHeader::read(&written).unwrap().as_bytes(), header.as_bytes());
}
