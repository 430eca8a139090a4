//! A golden checkpoint: a small history, applied by the owner and frozen.

use std::sync::Arc;

use delaymq_core::message_log::{
    AppendMarks, AppenderStart, Durability, FileEpochSource, SEGMENT_BYTES_MIN, SegmentAppender, Stream,
};
use delaymq_core::record::attach::{Attach, encode_attach};
use delaymq_core::record::batch::BATCH_HEADER_BYTES;
use delaymq_core::record::command::{Cancel, Move, Void, encode_cancel, encode_move, encode_void};
use delaymq_core::record::expire::{ExpiredBy, ExpiresAfter, OnExpiry, encode_expire};
use delaymq_core::record::message::{Message, encode_message};
use delaymq_core::record::name::{
    GroupEnd, GroupStart, encode_consumer, encode_group, encode_group_end, encode_subject,
};
use delaymq_core::record::queue::{NumberRange, Reserve, encode_acknowledge, encode_assign, encode_reserve};
use delaymq_core::record::recurring::{NewSeries, Occurrence, Recur, encode_occurrence, encode_recur};
use delaymq_core::record::retry::{Destination, Retry, encode_retry};
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::store::{
    CheckpointProgress, NewStore, OwnerOptions, Recovered, VisibleBatch, checkpoint_path, open_identity, recover,
};
use delaymq_core::units::{
    ConsumerNumber, DueKey, GroupNumber, Millis, PullOffset, ReadyNumber, Sequence, SubjectNumber,
};

use crate::batches::STREAM;
use crate::files::{Outcome, compare_file};
use crate::{records, runs};

const NOW: Millis = Millis(1_700_000_000_000);
const ORDERS: SubjectNumber = SubjectNumber(1);
const RETRIES: SubjectNumber = SubjectNumber(2);
const DEAD_LETTERS: SubjectNumber = SubjectNumber(3);
const BILLING: GroupNumber = GroupNumber(1);
const WORKER: ConsumerNumber = ConsumerNumber(1);
const MAIL: GroupNumber = GroupNumber(5);
const CLIENT: ConsumerNumber = ConsumerNumber(2);

type Encode = fn(&mut Vec<u8>);

/// Batch by batch what happens: sequences count from 1.
const HISTORY: [&[Encode]; 10] = [
    &[
        records::epoch_start,
        |out| encode_subject(out, ORDERS, "orders"),
        |out| encode_subject(out, RETRIES, "%RETRY%orders%billing"),
        |out| encode_group(out, ORDERS, GroupStart::Unfinished, "billing"),
        |out| encode_group(out, ORDERS, GroupStart::Latest, "audit"),
        |out| encode_consumer(out, BILLING, "worker-1"),
    ],
    &[
        |out| message(out, 0, b"ready 0"),
        |out| message(out, 0, b"ready 1"),
        |out| message(out, 0, b"ready 2"),
        |out| message(out, 0, b"ready 3"),
        |out| message(out, 60_000, b"soon"),
        |out| message(out, 90_000, b"cancelled"),
        |out| message(out, 86_400_000, b"far"),
    ],
    &[
        |out| encode_cancel(out, CANCEL),
        |out| encode_group_end(out, GroupNumber(2), GroupEnd::Alone),
        |out| encode_reserve(out, RESERVE),
        |out| encode_assign(out, BILLING, WORKER, PullOffset(0), &[NumberRange { first: 0, count: 3 }]),
    ],
    &[
        |out| encode_acknowledge(out, BILLING, WORKER, &[NumberRange { first: 1, count: 1 }]),
        |out| encode_retry(out, &RETRY),
        |out| encode_void(out, Void::Ready { subject: ORDERS, number: ReadyNumber(3) }),
    ],
    &[
        |out| message(out, 0, b"ready 4"),
        |out| message(out, 0, b"ready 5"),
        |out| message(out, 0, b"ready 6"),
        |out| {
            encode_expire(
                out,
                ORDERS,
                ExpiredBy::Operator { due_before: NOW.plus(1) },
                &[NumberRange { first: 5, count: 1 }],
            );
        },
        |out| encode_assign(out, BILLING, WORKER, PullOffset(3), &[NumberRange { first: 4, count: 1 }]),
        |out| encode_subject(out, DEAD_LETTERS, "%DEAD_RETRY%orders%billing"),
        |out| encode_retry(out, &DEAD_LETTER),
    ],
    &[
        |out| encode_attach(out, &ATTACH),
        |out| message(out, 0, b"ready 7"),
        |out| encode_assign(out, MAIL, CLIENT, PullOffset(0), &[NumberRange { first: 7, count: 1 }]),
    ],
    &[|out| encode_move(out, &BY_DELAY), |out| encode_move(out, &TO_A_TIME)],
    &[records::terms, |out| message(out, 50_000, b"keyed"), |out| message(out, 70_000, b"keyed too")],
    &[
        |out| encode_recur(out, &Recur::Begin(records::series(ORDERS))),
        |out| {
            let expires_after = Some(ExpiresAfter { after_ms: 60_000, then: OnExpiry::Drop });
            let named = NewSeries { name: "owes one", meta: b"meta", expires_after, ..records::series(ORDERS) };
            encode_recur(out, &Recur::Begin(named));
        },
        |out| encode_occurrence(out, Occurrence { series: Sequence(36), after: NOW }),
        |out| message(out, 40_000, b"again"),
    ],
    &[records::key_alone, |out| message(out, 0, b"keyed and ready")],
];

/// What comes behind it where something is loaded.
const LOAD: &[Encode] = &[|out| encode_subject(out, SubjectNumber(4), "β"), records::adopt];

const fn key(delay_ms: u64, sequence: u64) -> DueKey {
    DueKey { due: Millis(NOW.0 + delay_ms), sequence: Sequence(sequence) }
}

const CANCEL: Cancel = Cancel { target: key(90_000, 12), subject: ORDERS, size: 9 };
const BY_DELAY: Move = Move {
    target: key(86_400_000, 13),
    due: Millis(NOW.0 + 120_000),
    delay_ms: Some(120_000),
    subject: ORDERS,
    size: 3,
};
const TO_A_TIME: Move =
    Move { target: key(120_000, 31), due: Millis(NOW.0 + 43_200_000), delay_ms: None, subject: ORDERS, size: 3 };
const ATTACH: Attach<'_> = Attach {
    subject: ORDERS,
    start: GroupStart::Latest,
    block: 64,
    is_broadcast: true,
    group: "mail",
    consumer: "host-7@@0a1b",
};

const RESERVE: Reserve =
    Reserve { group: BILLING, consumer: WORKER, offset_end: PullOffset(256), number_end: ReadyNumber(256) };
const RETRY: Retry<'_> = Retry {
    group: BILLING,
    consumer: WORKER,
    offset: PullOffset(2),
    number: ReadyNumber(2),
    due: Millis(NOW.0 + 30_000),
    target: RETRIES,
    attempt: 2,
    payload_sequence: Sequence(9),
    size: Some(120),
    destination: Destination::Again,
};
const DEAD_LETTER: Retry<'_> = Retry {
    group: BILLING,
    consumer: WORKER,
    offset: PullOffset(3),
    number: ReadyNumber(4),
    due: NOW,
    target: DEAD_LETTERS,
    attempt: 1,
    payload_sequence: Sequence(21),
    size: Some(120),
    destination: Destination::DeadLetter { reason: "it cannot be" },
};

fn message(out: &mut Vec<u8>, delay_ms: u64, body: &[u8]) {
    let (due, published) = (NOW.plus(delay_ms), NOW);
    encode_message(out, &Message { due, published, subject: ORDERS, opaque: true, expiry: None, meta: b"", body });
}

fn apply_history(
    storage: &Arc<dyn Storage>,
    recovered: &mut Recovered,
    stream: Stream,
    history: &[&[Encode]],
) -> Result<SegmentAppender, Box<dyn std::error::Error>> {
    let start = AppenderStart {
        stream,
        epoch: recovered.epoch,
        number: recovered.next_segment,
        chain: 0,
        next_sequence: Sequence(1),
        trusted: NOW,
        segment_bytes: SEGMENT_BYTES_MIN,
        opening_bytes: SEGMENT_BYTES_MIN,
        given_bytes: 0,
    };
    let mut appender = SegmentAppender::open(Arc::clone(storage), &start)?;
    for facts in history {
        let mut bytes = vec![0; BATCH_HEADER_BYTES];
        for encode in *facts {
            encode(&mut bytes);
        }
        let record_count = u32::try_from(facts.len())?;
        let committed = appender.synced().location;
        let durability = Durability::Disk;
        let marks = AppendMarks { record_count, trusted: NOW, held: false, committed, durability };
        let appended = appender.append(&mut bytes, &marks)?;
        appender.sync()?;
        let records = bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default();
        recovered.owner.apply(&VisibleBatch { header: appended.header, start: appended.start, records })?;
    }
    Ok(appender)
}

#[test]
fn checkpoint() -> Outcome {
    compare_checkpoint("checkpoint", &HISTORY)
}

#[test]
fn checkpoint_with_load() -> Outcome {
    let history: Vec<&[Encode]> = HISTORY.into_iter().chain([LOAD]).collect();
    compare_checkpoint("checkpoint_with_load", &history)
}

fn compare_checkpoint(name: &str, history: &[&[Encode]]) -> Outcome {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1));
    let new = NewStore { stream: STREAM, node: *b"golden node 0001", segment_bytes: SEGMENT_BYTES_MIN };
    let identity = open_identity(storage.as_ref(), Some(new))?;
    let mut epochs = FileEpochSource::new(Arc::clone(&storage), identity);
    let mut recovered = recover(&storage, &identity, &mut epochs, OwnerOptions::default(), &mut |_| {})?;
    runs::stage(storage.as_ref())?;
    let appender = apply_history(&storage, &mut recovered, identity.stream, history)?;
    let mut work = recovered.owner.freeze().ok_or("a checkpoint is under way")?;
    loop {
        match work.write_piece(&storage, 1 << 20, appender.synced().location)? {
            CheckpointProgress::More => {}
            CheckpointProgress::WaitForSync(position) => return Err(format!("not synced up to {position}").into()),
            CheckpointProgress::Finished(_) => break,
        }
    }
    compare_file(storage.as_ref(), &checkpoint_path(1), name)
}
