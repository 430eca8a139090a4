//! One golden file for every kind of record, each read back by the library too.

use delaymq_core::record::adopt::{AdoptedRun, encode_adopt};
use delaymq_core::record::attach::{Attach, encode_attach};
use delaymq_core::record::command::{
    Cancel, EpochStart, Move, Void, encode_cancel, encode_epoch_start, encode_move, encode_void,
};
use delaymq_core::record::expire::{ExpiredBy, ExpiresAfter, Expiry, OnExpiry, encode_expire};
use delaymq_core::record::header::read_record;
use delaymq_core::record::message::{Message, Meta, encode_message, encode_meta};
use delaymq_core::record::name::{
    GroupEnd, GroupStart, encode_consumer, encode_consumer_end, encode_group, encode_group_end, encode_group_reset,
    encode_subject,
};
use delaymq_core::record::queue::{
    NumberRange, Reserve, encode_acknowledge, encode_assign, encode_filtered, encode_pass_over, encode_reserve,
};
use delaymq_core::record::ready::encode_ready;
use delaymq_core::record::recurring::{CatchUp, NewSeries, Occurrence, Recur, encode_occurrence, encode_recur};
use delaymq_core::record::retry::{Destination, Redrive, Retry, encode_redrive, encode_retry};
use delaymq_core::record::terms::{
    ByKey, IfExists, KeyCommand, MessageTerms, NameHash, TermsLimits, encode_by_key, encode_terms,
};
use delaymq_core::record::{Fact, decode, seal_record};
use delaymq_core::units::{
    ConsumerNumber, DueKey, Epoch, GroupNumber, Millis, PullOffset, ReadyNumber, Sequence, SubjectNumber,
};

use crate::files::{Outcome, compare};

/// A sequence with something in its upper half, so that the whole mark is seen.
const SEQUENCE: Sequence = Sequence((2 << 32) + 41);

/// The message that other golden files hold too: opaque, with an id, tags and an attribute.
pub(crate) fn message(out: &mut Vec<u8>) {
    let meta = Meta {
        message_id: "order-17".to_owned(),
        tags: vec!["a".to_owned(), "β".to_owned()],
        attributes: vec![("k".to_owned(), vec![0, 1, 2])],
    };
    let meta = encode_meta(&meta).unwrap_or_default();
    encode_message(
        out,
        &Message {
            due: Millis(1_700_000_600_000),
            published: Millis(1_700_000_000_000),
            subject: SubjectNumber(3),
            opaque: true,
            expiry: None,
            meta: &meta,
            body: b"the body",
        },
    );
}

/// The first fact of a store.
pub(crate) fn epoch_start(out: &mut Vec<u8>) {
    encode_epoch_start(
        out,
        &EpochStart {
            epoch: Epoch(1),
            format_version: 1,
            nonce: [0xA1; 16],
            node: [0xB2; 16],
            previous_epoch: Epoch(0),
            previous_chain: 0,
            previous_sequence: Sequence(0),
            delay_ms_max: 315_576_000_000,
        },
    );
}

/// Terms of two messages: one with a key and an id, one with a key alone.
pub(crate) fn terms(out: &mut Vec<u8>) {
    let limits = TermsLimits { keys_max: 1_000, ids_max: 2_000, id_window_ms: 600_000 };
    let (key, id) = (Some(NameHash { low: 0x0102, high: 0x0304 }), Some(NameHash { low: 0x0506, high: 0x0708 }));
    let both = MessageTerms { place: 0, key, if_exists: IfExists::Keep, id };
    let other = Some(NameHash { low: 0x090A, high: 0x0B0C });
    let keyed = MessageTerms { place: 1, key: other, if_exists: IfExists::Replace, id: None };
    encode_terms(out, 2, limits, &[both, keyed]);
}

/// Terms of one message with a key.
pub(crate) fn key_alone(out: &mut Vec<u8>) {
    let limits = TermsLimits { keys_max: 1_000, ids_max: 2_000, id_window_ms: 600_000 };
    let key = Some(NameHash { low: 0x0D0E, high: 0x0F10 });
    encode_terms(out, 1, limits, &[MessageTerms { place: 0, key, if_exists: IfExists::Refuse, id: None }]);
}

/// A series, in the subject of this number.
pub(crate) const fn series(subject: SubjectNumber) -> NewSeries<'static> {
    NewSeries {
        subject,
        name: "dünning",
        if_exists: IfExists::Keep,
        rule: "30 9 * * mon-fri",
        zone: "Europe/Berlin",
        catch_up: CatchUp::Skip,
        expires_after: None,
        after: Millis(1_700_000_000_000),
        meta: b"",
        body: b"again",
    }
}

/// The load of the golden staged run.
pub(crate) fn adopt(out: &mut Vec<u8>) {
    encode_adopt(out, NameHash { low: 0x0102, high: 0x0304 }, &[STAGED]);
}

/// The golden staged run as a fact names it.
pub(crate) const STAGED: AdoptedRun = AdoptedRun {
    staged: Millis(1_700_000_000_000),
    nonce: crate::batches::STREAM,
    length: 12_708,
    digest: 1_452_304_297,
    rows: 4,
};

fn compare_record(name: &str, encode: impl FnOnce(&mut Vec<u8>)) -> Outcome {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    seal_record(&mut bytes, SEQUENCE).ok_or("too short")?;
    let record = read_record(&bytes, SEQUENCE).map_err(|fault| format!("{name}: {fault:?}"))?;
    assert!(record.payload_is_whole(), "{name}");
    assert!(decode(&record).is_some(), "{name}");
    compare(name, &[("sequence", SEQUENCE.to_string())], &bytes)
}

#[test]
fn messages() -> Outcome {
    compare_record("record_message", message)?;
    for (name, then) in
        [("record_message_that_expires", OnExpiry::Drop), ("record_message_that_dies", OnExpiry::DeadLetter)]
    {
        compare_record(name, |out| {
            let message = Message {
                due: Millis(1_700_000_600_000),
                published: Millis(1_700_000_000_000),
                subject: SubjectNumber(3),
                opaque: true,
                expiry: Some(Expiry { at: Millis(1_700_000_660_000), then }),
                meta: b"",
                body: b"of use for a minute",
            };
            encode_message(out, &message);
        })?;
    }
    compare_record("record_message_of_qmq", |out| {
        let message = Message {
            due: Millis(1_700_000_000_000),
            published: Millis(1_700_000_000_000),
            subject: SubjectNumber(4),
            opaque: false,
            expiry: None,
            meta: b"",
            body: b"kept as it came",
        };
        encode_message(out, &message);
    })
}

#[test]
fn commands() -> Outcome {
    let key = DueKey { due: Millis(1_700_000_600_000), sequence: Sequence(7) };
    let (subject, size) = (SubjectNumber(3), 8);
    compare_record("record_cancel", |out| encode_cancel(out, Cancel { target: key, subject, size }))?;
    let moved = Move { target: key, due: Millis(1_700_000_900_000), delay_ms: None, subject, size };
    compare_record("record_move", |out| encode_move(out, &moved))?;
    let delay_ms = Some(900_000);
    compare_record("record_move_by_delay", |out| encode_move(out, &Move { delay_ms, ..moved }))?;
    compare_record("record_void_ready", |out| {
        encode_void(out, Void::Ready { subject: SubjectNumber(3), number: ReadyNumber(9) });
    })?;
    compare_record("record_void_pending", |out| {
        encode_void(out, Void::Pending { subject: SubjectNumber(3), sequence: Sequence(7) });
    })?;
    compare_record("record_epoch_start", epoch_start)
}

#[test]
fn on_terms() -> Outcome {
    compare_record("record_terms", terms)?;
    let key = NameHash { low: 0x0102, high: 0x0304 };
    let asked = ByKey { key, subject: SubjectNumber(3), target: None, command: KeyCommand::Cancel };
    compare_record("record_by_key_cancel", |out| encode_by_key(out, &asked))?;
    let target = Some(DueKey { due: Millis(1_700_000_600_000), sequence: Sequence(7) });
    let command = KeyCommand::Move { due: Millis(1_700_000_900_000), delay_ms: Some(900_000) };
    compare_record("record_by_key_move", |out| encode_by_key(out, &ByKey { target, command, ..asked }))
}

#[test]
fn loads() -> Outcome {
    compare_record("record_adopt", adopt)
}

#[test]
fn what_recurs() -> Outcome {
    compare_record("record_recur", |out| encode_recur(out, &Recur::Begin(series(SubjectNumber(3)))))?;
    let expires_after = Some(ExpiresAfter { after_ms: 60_000, then: OnExpiry::DeadLetter });
    let expiring = NewSeries { expires_after, ..series(SubjectNumber(3)) };
    compare_record("record_recur_that_expires", |out| encode_recur(out, &Recur::Begin(expiring)))?;
    let end = Recur::End { subject: SubjectNumber(3), name: "dünning" };
    compare_record("record_recur_end", |out| encode_recur(out, &end))?;
    compare_record("record_recur_over", |out| encode_recur(out, &Recur::Over { series: Sequence(7) }))?;
    let occurrence = Occurrence { series: Sequence(7), after: Millis(1_700_000_000_000) };
    compare_record("record_occurrence", |out| encode_occurrence(out, occurrence))
}

#[test]
fn ready() -> Outcome {
    let entries = [(1_700_000_600_000, 7, 3), (1_700_000_600_000, 9, 4), (1_700_000_600_001, 8, 3)];
    let entries = entries.map(|(due, sequence, subject)| {
        (DueKey { due: Millis(due), sequence: Sequence(sequence) }, SubjectNumber(subject))
    });
    compare_record("record_ready", |out| encode_ready(out, entries.into_iter()))
}

#[test]
fn names() -> Outcome {
    let (group, consumer) = (GroupNumber(5), ConsumerNumber(6));
    compare_record("record_subject", |out| encode_subject(out, SubjectNumber(3), "order.timeout"))?;
    compare_record("record_group", |out| encode_group(out, SubjectNumber(3), GroupStart::Unfinished, "billing"))?;
    compare_record("record_group_latest", |out| {
        encode_group(out, SubjectNumber(3), GroupStart::Latest, "βilling");
    })?;
    let at = GroupStart::Number(ReadyNumber(4_000_000_007));
    compare_record("record_group_at_number", |out| encode_group(out, SubjectNumber(3), at, "βilling"))?;
    compare_record("record_group_end", |out| encode_group_end(out, group, GroupEnd::Alone))?;
    compare_record("record_group_end_with_retries", |out| encode_group_end(out, group, GroupEnd::WithItsRetries))?;
    compare_record("record_group_reset", |out| encode_group_reset(out, group, GroupStart::Latest))?;
    compare_record("record_group_reset_to_number", |out| encode_group_reset(out, group, at))?;
    compare_record("record_consumer", |out| encode_consumer(out, group, "worker-1"))?;
    compare_record("record_consumer_end", |out| encode_consumer_end(out, group, consumer))?;
    let attach = Attach {
        subject: SubjectNumber(3),
        start: GroupStart::Latest,
        block: 256,
        is_broadcast: true,
        group: "βilling",
        consumer: "host-7@@0a1b",
    };
    compare_record("record_attach", |out| encode_attach(out, &attach))?;
    let attach = Attach { start: at, is_broadcast: false, ..attach };
    compare_record("record_attach_at_number", |out| encode_attach(out, &attach))
}

#[test]
fn queues() -> Outcome {
    let (group, consumer) = (GroupNumber(5), ConsumerNumber(6));
    let ranges = [NumberRange { first: 10, count: 3 }, NumberRange { first: 20, count: 1 }];
    let reserve = Reserve { group, consumer, offset_end: PullOffset(256), number_end: ReadyNumber(300) };
    compare_record("record_reserve", |out| encode_reserve(out, reserve))?;
    compare_record("record_assign", |out| encode_assign(out, group, consumer, PullOffset(100), &ranges))?;
    compare_record("record_acknowledge", |out| encode_acknowledge(out, group, consumer, &ranges))?;
    compare_record("record_acknowledge_filtered", |out| encode_filtered(out, group, consumer, &ranges))?;
    compare_record("record_pass_over", |out| encode_pass_over(out, group, consumer, &ranges))?;
    compare_record("record_expire", |out| {
        let by = ExpiredBy::Operator { due_before: Millis(1_700_000_600_000) };
        encode_expire(out, SubjectNumber(3), by, &ranges);
    })?;
    compare_record("record_expire_by_themselves", |out| {
        encode_expire(out, SubjectNumber(3), ExpiredBy::Themselves { group, received: false }, &ranges);
    })?;
    compare_record("record_expire_received", |out| {
        encode_expire(out, SubjectNumber(3), ExpiredBy::Themselves { group, received: true }, &ranges);
    })
}

const RETRY: Retry<'_> = Retry {
    group: GroupNumber(5),
    consumer: ConsumerNumber(6),
    offset: PullOffset(101),
    number: ReadyNumber(11),
    due: Millis(1_700_000_900_000),
    target: SubjectNumber(8),
    attempt: 2,
    payload_sequence: Sequence(7),
    size: Some(120),
    destination: Destination::Again,
};

#[test]
fn moves() -> Outcome {
    compare_record("record_retry", |out| encode_retry(out, &RETRY))?;
    let destination = Destination::DeadLetter { reason: "no such örder" };
    compare_record("record_retry_dead_letter", |out| encode_retry(out, &Retry { destination, ..RETRY }))?;
    for (name, received) in [("record_retry_expired", false), ("record_retry_expired_received", true)] {
        let destination = Destination::Expired { received };
        compare_record(name, |out| encode_retry(out, &Retry { destination, attempt: 0, ..RETRY }))?;
    }
    let redrive = Redrive {
        group: GroupNumber(9),
        target: SubjectNumber(8),
        number: ReadyNumber(4),
        due: Millis(1_700_000_900_000),
        payload_sequence: Sequence(7),
    };
    compare_record("record_redrive", |out| encode_redrive(out, &redrive))
}

/// Does not build when a kind of fact is added, so that its golden file is not forgotten.
#[test]
fn every_kind_of_fact_has_a_golden_file() {
    let file_of = |fact: &Fact<'_>| match fact {
        Fact::Message(_) => "record_message",
        Fact::Cancel(_) => "record_cancel",
        Fact::Move(_) => "record_move",
        Fact::Ready(_) => "record_ready",
        Fact::Subject { .. } => "record_subject",
        Fact::Group { .. } => "record_group",
        Fact::GroupEnd { .. } => "record_group_end",
        Fact::GroupReset { .. } => "record_group_reset",
        Fact::Consumer { .. } => "record_consumer",
        Fact::ConsumerEnd { .. } => "record_consumer_end",
        Fact::Attach(_) => "record_attach",
        Fact::Reserve(_) => "record_reserve",
        Fact::Assign(_) => "record_assign",
        Fact::Acknowledge(_) => "record_acknowledge",
        Fact::PassOver(_) => "record_pass_over",
        Fact::Retry(_) => "record_retry",
        Fact::Redrive(_) => "record_redrive",
        Fact::Expire(_) => "record_expire",
        Fact::Void(_) => "record_void_ready",
        Fact::EpochStart(_) => "record_epoch_start",
        Fact::Terms(_) => "record_terms",
        Fact::ByKey(_) => "record_by_key_cancel",
        Fact::Recur(_) => "record_recur",
        Fact::Occurrence(_) => "record_occurrence",
        Fact::Adopt(_) => "record_adopt",
    };
    assert_eq!(file_of(&Fact::GroupEnd { group: GroupNumber(1), end: GroupEnd::Alone }), "record_group_end");
}
