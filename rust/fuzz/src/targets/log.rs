//! The log after a stop: any bytes after a segment's header.

use std::sync::Arc;

use delaymq_core::Error;
use delaymq_core::message_log::{
    Find, Holes, LOG_FOLDER, SEGMENT_BYTES_MIN, SEGMENT_HEADER_BYTES, ScanEnd, ScanStart, ScannedBatch, Scanner,
    SegmentHeader, Stream, repair, segment_path, sift,
};
use delaymq_core::record::Records;
use delaymq_core::record::batch::{BATCH_HEADER_BYTES, BatchHeader, chain_of};
use delaymq_core::record::header::RECORD_BYTES_MAX;
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::units::{Epoch, SegmentNumber, Sequence};

use crate::resealing::reseal_batches;
use crate::verdict::{Judged, Verdict, holds, same, unexpected};

/// The stream of the golden files, so that these files are inputs.
pub(super) const STREAM: Stream = Stream { id: *b"golden stream 01", timeline: 1 };
const FIRST: SegmentNumber = SegmentNumber(1);
/// Zeros after the content, as room for the seal of a repair.
const SPARE_BYTES: usize = 512;
const RESEALED: u8 = 1;

/// The first byte decides whether the checks are recomputed; the content of the log's only segment follows.
pub(super) fn judge(input: &[u8]) -> Judged {
    let content = log_content(input);
    let storage = stored(&content)?;
    sifted(&storage)?;
    let (ending, batches) = match scanned(&content) {
        Ok(found) => found,
        Err(Error::Corrupt { .. } | Error::NewerFormat { .. } | Error::MissingFile { .. }) => {
            return Ok(Verdict::Refused);
        }
        Err(error) => return Err(format!("a scan of one segment: {error}")),
    };
    judge_batches(&batches, &ending)?;
    holds("the end is in the segment", ending.end.segment() == Some(FIRST))?;
    judge_cut(&content, &ending, &batches)?;
    judge_repair(&storage, &ending, &batches)?;
    Ok(if batches.is_empty() { Verdict::Refused } else { Verdict::Taken })
}

/// The bytes after the header of the segment, for an input.
pub(super) fn log_content(input: &[u8]) -> Vec<u8> {
    let (mode, content) = input.split_first().map_or((0, input), |(mode, content)| (*mode, content));
    let mut content = content.to_vec();
    if mode & RESEALED != 0 {
        reseal_batches(&mut content, 0, &STREAM.id);
    }
    content
}

fn stored(content: &[u8]) -> Result<Arc<dyn Storage>, String> {
    let length = content.len().next_multiple_of(8).saturating_add(SEGMENT_HEADER_BYTES as usize + SPARE_BYTES);
    let capacity = u32::try_from(length).unwrap_or(u32::MAX).max(SEGMENT_BYTES_MIN);
    let mut bytes = SegmentHeader { number: FIRST, stream: STREAM, capacity }.to_block();
    bytes.extend_from_slice(content);
    bytes.resize(capacity as usize, 0);
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1));
    let written = storage
        .create_folder(LOG_FOLDER)
        .and_then(|()| storage.create(&segment_path(FIRST)))
        .and_then(|file| file.write_at(0, &bytes));
    written.map_err(unexpected("writing the segment")).map(|()| storage)
}

/// All batches that a scan returns, and how the log ends.
///
/// # Errors
/// Those of the scan.
pub fn scanned(content: &[u8]) -> delaymq_core::Result<(ScanEnd, Vec<ScannedBatch>)> {
    let storage = stored(content).map_err(|what| Error::corrupt("log", 0, "a disk in memory", what))?;
    scan(&storage)
}

pub(super) fn scan(storage: &Arc<dyn Storage>) -> delaymq_core::Result<(ScanEnd, Vec<ScannedBatch>)> {
    let mut scanner = Scanner::new(Arc::clone(storage), STREAM, &ScanStart::BEGINNING)?;
    let mut batches = Vec::new();
    while let Some(batch) = scanner.next_batch()? {
        batches.push(batch);
    }
    Ok((scanner.ending().clone(), batches))
}

/// Each batch is covered by its checks, is at its offset and continues the one before.
fn judge_batches(batches: &[ScannedBatch], ending: &ScanEnd) -> Result<(), String> {
    let (mut next, mut chain) = (Sequence(1), 0);
    for batch in batches {
        let header = BatchHeader::read(&batch.bytes).ok_or("a batch whose header is not whole")?;
        same("the header's length", &(header.length.get() as usize), &batch.bytes.len())?;
        holds("a batch before the end", batch.start < ending.end)?;
        same("the sequence", &header.base_sequence.get(), &next.0)?;
        same("the chain before", &header.chain_before.get(), &chain)?;
        let records = batch.bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default();
        let mut checks = Vec::new();
        for record in Records::new(records, next) {
            let (_, record) = record.map_err(|fault| format!("a record that was handed out: {fault:?}"))?;
            checks.extend_from_slice(&record.header.header_check.get().to_le_bytes());
        }
        same("records", &(header.record_count.get() as usize), &(checks.len() / 4))?;
        same("the chain", &header.chain.get(), &chain_of(&STREAM.id, &header, &checks))?;
        chain = header.chain.get();
        next = next.plus(u64::from(header.count.get()));
    }
    same("the sequence behind the last", &ending.next_sequence, &next)?;
    same("the last chain", &ending.chain, &chain)
}

fn told(batches: &[ScannedBatch]) -> Vec<(u64, &[u8])> {
    batches.iter().map(|batch| (batch.start.0, batch.bytes.as_slice())).collect()
}

/// With zeros after its end, which may be a seal, the log gives the same result, except for facts that only later
/// bytes vouch for.
fn judge_cut(content: &[u8], ending: &ScanEnd, batches: &[ScannedBatch]) -> Result<(), String> {
    if ending.damaged_payloads > 0 {
        return Ok(());
    }
    let seal = if ending.sealed { BATCH_HEADER_BYTES } else { 0 };
    let end = (ending.end.offset() as usize).saturating_sub(SEGMENT_HEADER_BYTES as usize).saturating_add(seal);
    let (cut_ending, cut) =
        scanned(content.get(..end).unwrap_or(content)).map_err(unexpected("the good prefix alone"))?;
    same("its end", &(ending.end, ending.next_sequence), &(cut_ending.end, cut_ending.next_sequence))?;
    same("its batches", &told(batches), &told(&cut))
}

/// A repaired log ends in a seal and has the same batches.
fn judge_repair(storage: &Arc<dyn Storage>, ending: &ScanEnd, batches: &[ScannedBatch]) -> Result<(), String> {
    // An opening's epoch is above all epochs in the log, including those of witnesses.
    repair(storage.as_ref(), STREAM, ending, Epoch(u32::MAX)).map_err(unexpected("a repair"))?;
    let (repaired_ending, repaired) = scan(storage).map_err(unexpected("a repaired log"))?;
    holds("a seal", repaired_ending.sealed && repaired_ending.torn.is_none())?;
    same("repaired batches", &told(batches), &told(&repaired))?;
    same("the repaired end", &ending.next_sequence, &repaired_ending.next_sequence)
}

/// Sifting returns complete records only, in order, and ends.
fn sifted(storage: &Arc<dyn Storage>) -> Result<(), String> {
    let mut broken = Ok(());
    let found = sift(storage, STREAM, &Holes::default(), &mut |find| {
        let judged = match &find {
            Find::Record { record, .. } => {
                let length = record.fixed.len().saturating_add(record.payload.len());
                holds("a length that a record may have", length <= RECORD_BYTES_MAX)
            }
            Find::Batch { header, records, .. } => {
                let whole = Records::new(records, Sequence(header.base_sequence.get())).all(|record| record.is_ok());
                holds("a whole batch", whole)
            }
            Find::Damage(error) => holds("words", !error.to_string().is_empty()),
        };
        if broken.is_ok() {
            broken = judged;
        }
    });
    found.map_err(unexpected("sifting"))?;
    broken
}
