//! Bytes: records, batches, checks, meta, receipts. No disk and no clock.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use delaymq_core::record::batch::{BATCH_HEADER_BYTES, BatchFields, seal_batch};
use delaymq_core::record::header::{Records, read_record};
use delaymq_core::record::message::{Message, Meta, decode_message, decode_meta, encode_message, encode_meta};
use delaymq_core::store::Receipt;
use delaymq_core::units::{DueKey, Epoch, Location, Millis, SegmentNumber, Sequence, SubjectNumber};

const BODIES: [usize; 3] = [64, 256, 4096];
const BATCH: usize = 1_000;

pub(crate) fn benches(criterion: &mut Criterion) {
    records(criterion);
    batches(criterion);
    meta(criterion);
    receipts(criterion);
}

fn message(body: &[u8]) -> Message<'_> {
    Message {
        due: Millis(1 << 40),
        published: Millis(1 << 39),
        subject: SubjectNumber(7),
        opaque: true,
        expiry: None,
        meta: &[],
        body,
    }
}

/// Sealed, as the log has it: `count` records behind a header.
fn sealed(body: &[u8], count: usize) -> Vec<u8> {
    let mut bytes = unsealed(body, count);
    seal_batch(&mut bytes, &fields(count));
    bytes
}

fn unsealed(body: &[u8], count: usize) -> Vec<u8> {
    let mut bytes = vec![0; BATCH_HEADER_BYTES];
    for _ in 0..count {
        encode_message(&mut bytes, &message(body));
    }
    bytes
}

fn fields(count: usize) -> BatchFields {
    BatchFields {
        stream: [1; 16],
        epoch: Epoch(1),
        base_sequence: Sequence(1),
        record_count: u32::try_from(count).unwrap_or(u32::MAX),
        trusted: Millis(1),
        held: false,
        chain_before: 0,
        durability: 0,
        synced: Location(0),
        committed: Location(0),
        segment: SegmentNumber(1),
        local_flags: 0,
    }
}

/// One message to bytes, with the check of its payload; and back, with both its checks.
fn records(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("record");
    for size in BODIES {
        let body = vec![0xA5; size];
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("encode", size), |bencher| {
            let mut out = Vec::with_capacity(2 * size + 256);
            bencher.iter(|| {
                out.clear();
                encode_message(&mut out, black_box(&message(&body)));
            });
        });
        let batch = sealed(&body, 1);
        let record = batch.get(BATCH_HEADER_BYTES..).unwrap_or_default();
        group.bench_function(BenchmarkId::new("decode", size), |bencher| {
            bencher.iter(|| {
                let record = read_record(black_box(record), Sequence(1)).ok();
                record.is_some_and(|record| record.payload_is_whole() && decode_message(&record).is_some())
            });
        });
    }
    group.finish();
}

/// A thousand records given their sequences and a header with the chained check; and read again.
fn batches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batch");
    let body = vec![0xA5; 256];
    group.throughput(Throughput::Elements(BATCH as u64));
    let fresh = unsealed(&body, BATCH);
    group.bench_function("seal", |bencher| {
        bencher.iter_batched_ref(|| fresh.clone(), |bytes| seal_batch(bytes, &fields(BATCH)), BatchSize::LargeInput);
    });
    let whole = sealed(&body, BATCH);
    let records = whole.get(BATCH_HEADER_BYTES..).unwrap_or_default();
    group.bench_function("read", |bencher| {
        bencher.iter(|| {
            let read = Records::new(black_box(records), Sequence(1)).flatten();
            read.filter(|(_, record)| record.payload_is_whole()).count()
        });
    });
    group.finish();
}

fn meta(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("meta");
    let meta = Meta {
        message_id: "order-1234567".to_owned(),
        tags: vec!["new".to_owned(), "eu".to_owned()],
        attributes: vec![("trace".to_owned(), b"00-4bf92f3577b34da6a3ce929d0e0e4736".to_vec())],
    };
    group.bench_function("encode", |bencher| bencher.iter(|| encode_meta(black_box(&meta))));
    let bytes = encode_meta(&meta).unwrap_or_default();
    group.bench_function("decode", |bencher| bencher.iter(|| decode_meta(black_box(&bytes))));
    group.finish();
}

/// What a publish gives out and a cancel reads.
fn receipts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("receipt");
    let (stream, nonce) = ([1; 16], [2; 16]);
    let key = DueKey { due: Millis(1 << 40), sequence: Sequence(1 << 33) };
    let new = || Receipt::new(stream, Epoch(3), key, SubjectNumber(7), 256, &nonce);
    group.bench_function("new", |bencher| bencher.iter(|| black_box(new())));
    let receipt = new();
    group.bench_function("to_text", |bencher| bencher.iter(|| black_box(&receipt).to_text()));
    let text = receipt.to_text();
    group.bench_function("parse", |bencher| bencher.iter(|| Receipt::parse(black_box(&text))));
    group.bench_function("is_genuine", |bencher| bencher.iter(|| black_box(&receipt).is_genuine(&nonce)));
    group.finish();
}
