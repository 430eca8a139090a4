//! Golden batches: records under one header, and the two kinds of batch without records.

use delaymq_core::record::batch::{
    BATCH_HEADER_BYTES, BatchFields, BatchHeader, LOCAL_SEAL, LOCAL_WITNESS, seal_batch,
};
use delaymq_core::units::{Epoch, Location, Millis, SegmentNumber, Sequence};

use crate::files::{Outcome, compare};
use crate::records;

/// The stream of every golden file.
pub(crate) const STREAM: [u8; 16] = *b"golden stream 01";

fn fields(record_count: u32, local_flags: u32) -> BatchFields {
    BatchFields {
        stream: STREAM,
        epoch: Epoch(3),
        base_sequence: Sequence(1_000),
        record_count,
        trusted: Millis(1_700_000_000_123),
        held: record_count > 0,
        chain_before: 0x0123_4567,
        durability: u32::from(record_count > 0),
        synced: Location::in_segment(SegmentNumber(6), 4_096),
        committed: Location::in_segment(SegmentNumber(7), 8_192),
        segment: SegmentNumber(7),
        local_flags,
    }
}

fn compare_batch(name: &str, mut bytes: Vec<u8>, fields: &BatchFields) -> Outcome {
    seal_batch(&mut bytes, fields).ok_or("records do not fill the batch")?;
    assert!(BatchHeader::read(&bytes).is_some(), "{name}");
    compare(name, &[("stream", String::from_utf8_lossy(&STREAM).into_owned())], &bytes)
}

#[test]
fn batches() -> Outcome {
    let mut bytes = vec![0; BATCH_HEADER_BYTES];
    records::epoch_start(&mut bytes);
    records::message(&mut bytes);
    compare_batch("batch", bytes, &fields(2, 0))?;
    let mut bytes = vec![0; BATCH_HEADER_BYTES];
    records::message(&mut bytes);
    records::adopt(&mut bytes);
    compare_batch("batch_with_adoption", bytes, &fields(2, 0))?;
    compare_batch("batch_witness", vec![0; BATCH_HEADER_BYTES], &fields(0, LOCAL_WITNESS))?;
    compare_batch("batch_seal", vec![0; BATCH_HEADER_BYTES], &fields(0, LOCAL_SEAL))
}
