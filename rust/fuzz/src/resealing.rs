//! Recomputes the checks of changed bytes, so that the code after a check is reached. Each function goes through a
//! file as far as its lengths are valid, and leaves the rest unchanged.

use delaymq_core::message_log::SEGMENT_HEADER_BYTES;
use delaymq_core::record::batch::{BATCH_HEADER_BYTES, BATCH_MAGIC, BatchHeader, chain_of};
use delaymq_core::record::header::{RECORD_HEADER_BYTES, sequence_mark};
use delaymq_core::units::{Sequence, padded};

/// Bytes of a block of a run, and of its header.
const BLOCK_BYTES: usize = 4_096;
/// Bytes of a run's trailer.
const TRAILER_BYTES: usize = 40;
/// Bytes of a checkpoint's header.
const CHECKPOINT_HEADER_BYTES: usize = 64;

fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
}

fn length(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    number(bytes, at, width).and_then(|number| usize::try_from(number).ok())
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(field) = bytes.get_mut(at..at.saturating_add(value.len())) {
        field.copy_from_slice(value);
    }
}

/// Writes the CRC-32 of `from..to` at `at`.
fn seal(bytes: &mut [u8], from: usize, to: usize, at: usize) {
    if let Some(covered) = bytes.get(from..to) {
        let check = crc32fast::hash(covered).to_le_bytes();
        put(bytes, at, &check);
    }
}

/// The batches of a segment, from `at` on: records, chains, headers. The chain of the first one continues its
/// `chain_before`.
pub fn reseal_batches(bytes: &mut [u8], at: usize, stream: &[u8; 16]) {
    let (mut at, mut chain, mut sequence) = (at, None, None);
    while let Some(end) = batch_end(bytes, at) {
        if let Some(chain) = chain {
            put(bytes, at.saturating_add(44), &u32::to_le_bytes(chain));
        }
        if let Some(sequence) = sequence {
            put(bytes, at.saturating_add(16), &u64::to_le_bytes(sequence));
        }
        let base = number(bytes, at.saturating_add(16), 8).unwrap_or_default();
        let mut checks = Vec::new();
        let mut record = at.saturating_add(BATCH_HEADER_BYTES);
        while record < end {
            let ordinal = (checks.len() / 4) as u64;
            let Some((taken, check)) = reseal_record(bytes, record, end, Sequence(base.wrapping_add(ordinal))) else {
                break;
            };
            checks.extend_from_slice(&check.to_le_bytes());
            record = record.saturating_add(taken);
        }
        let count = u32::try_from(checks.len() / 4).unwrap_or(u32::MAX);
        let before = number(bytes, at.saturating_add(44), 4).unwrap_or_default();
        seal(bytes, at, at.saturating_add(84), at.saturating_add(84));
        let header = bytes.get(at..).and_then(BatchHeader::read);
        let mine = match header {
            Some(header) if count > 0 => chain_of(stream, &header, &checks),
            _ => u32::try_from(before).unwrap_or_default(),
        };
        put(bytes, at.saturating_add(48), &mine.to_le_bytes());
        seal(bytes, at, at.saturating_add(84), at.saturating_add(84));
        chain = Some(mine);
        sequence = Some(base.wrapping_add(number(bytes, at.saturating_add(24), 4).unwrap_or_default()));
        at = end;
    }
}

/// The end of the batch at `at`, if a batch begins there and ends within the bytes.
fn batch_end(bytes: &[u8], at: usize) -> Option<usize> {
    let starts = bytes.get(at..at.checked_add(BATCH_MAGIC.len())?)? == BATCH_MAGIC;
    let end = at.checked_add(length(bytes, at.checked_add(8)?, 4)?)?;
    (starts && end >= at.checked_add(BATCH_HEADER_BYTES)? && end <= bytes.len()).then_some(end)
}

/// Recomputes the checks of the record at `at`; returns its padded length and its header check.
fn reseal_record(bytes: &mut [u8], at: usize, end: usize, sequence: Sequence) -> Option<(usize, u32)> {
    let whole = length(bytes, at, 4)?;
    let fixed = length(bytes, at.checked_add(6)?, 2)?;
    let body = at.checked_add(RECORD_HEADER_BYTES)?;
    let payload = body.checked_add(fixed)?;
    let payload_end = at.checked_add(whole)?;
    if payload_end > end || payload > payload_end {
        return None;
    }
    seal(bytes, payload, payload_end, at.checked_add(8)?);
    let head = [bytes.get(at..at.checked_add(12)?)?, bytes.get(body..payload)?].concat();
    let check = crc32fast::hash(&head) ^ sequence_mark(sequence);
    put(bytes, at.checked_add(12)?, &check.to_le_bytes());
    Some((padded(whole), check))
}

/// A run: its header, blocks, footer, trailer.
pub fn reseal_run(bytes: &mut [u8]) {
    seal(bytes, 0, BLOCK_BYTES.saturating_sub(4), BLOCK_BYTES.saturating_sub(4));
    let Some(trailer) = bytes.len().checked_sub(TRAILER_BYTES) else { return };
    let Some(footer) = length(bytes, trailer, 8) else { return };
    let blocks_end = length(bytes, footer.saturating_add(32), 8).unwrap_or_default().min(footer);
    let mut block = BLOCK_BYTES;
    while block.saturating_add(BLOCK_BYTES) <= blocks_end {
        seal(bytes, block.saturating_add(4), block.saturating_add(BLOCK_BYTES), block);
        block = block.saturating_add(BLOCK_BYTES);
    }
    seal(bytes, footer, trailer, trailer.saturating_add(16));
    seal(bytes, trailer, trailer.saturating_add(28), trailer.saturating_add(28));
}

/// A staged run: its records, the check of its content, and the parts of a run.
pub fn reseal_staged(bytes: &mut [u8]) {
    reseal_run(bytes);
    let Some(trailer) = bytes.len().checked_sub(TRAILER_BYTES) else { return };
    let Some(footer) = length(bytes, trailer, 8) else { return };
    let count = |bytes: &[u8], at: usize| length(bytes, footer.saturating_add(at), 4).unwrap_or_default();
    let fences_and_references = count(bytes, 64).saturating_add(count(bytes, 68)).saturating_mul(16);
    let buckets_and_cells = count(bytes, 72).saturating_add(count(bytes, 76)).saturating_mul(24);
    let tail = footer.saturating_add(80).saturating_add(fences_and_references).saturating_add(buckets_and_cells);
    let start = length(bytes, footer.saturating_add(32), 8).unwrap_or_default().min(footer);
    let end = start.saturating_add(length(bytes, footer.saturating_add(40), 8).unwrap_or_default()).min(footer);
    let (mut at, mut sequence, mut checks) = (start, Sequence(0), Vec::new());
    while at < end {
        let Some((taken, check)) = reseal_record(bytes, at, end, sequence) else { break };
        checks.extend_from_slice(&check.to_le_bytes());
        (at, sequence) = (at.saturating_add(taken), sequence.next());
    }
    let mut block = BLOCK_BYTES;
    while block.saturating_add(BLOCK_BYTES) <= start {
        checks.extend_from_slice(bytes.get(block..block.saturating_add(4)).unwrap_or_default());
        block = block.saturating_add(BLOCK_BYTES);
    }
    put(bytes, tail, &crc32fast::hash(&checks).to_le_bytes());
    reseal_run(bytes);
}

/// A checkpoint: its body, digest and header. The length of the body is corrected.
pub fn reseal_checkpoint(bytes: &mut [u8]) {
    let Some(body) = bytes.len().checked_sub(CHECKPOINT_HEADER_BYTES) else { return };
    put(bytes, 40, &(body as u64).to_le_bytes());
    let logical = length(bytes, 48, 8).unwrap_or_default().min(body);
    seal(bytes, CHECKPOINT_HEADER_BYTES, CHECKPOINT_HEADER_BYTES.saturating_add(logical), 36);
    seal(bytes, CHECKPOINT_HEADER_BYTES, bytes.len(), 56);
    seal(bytes, 0, 60, 60);
}

/// A file of a store, by its path.
pub fn reseal_file(path: &str, bytes: &mut [u8], stream: &[u8; 16]) {
    match path.split('/').next().unwrap_or(path) {
        "log" => {
            seal(bytes, 0, 48, 48);
            reseal_batches(bytes, SEGMENT_HEADER_BYTES as usize, stream);
        }
        "runs" => reseal_run(bytes),
        "loads" => reseal_staged(bytes),
        "checkpoints" => reseal_checkpoint(bytes),
        "identity" => seal(bytes, 0, 76, 76),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::parse;

    const STREAM: &[u8; 16] = b"golden stream 01";

    #[test]
    fn what_was_whole_stays_as_it_is() -> Result<(), String> {
        for (path, golden) in [
            ("log/0000000001.segment", "@ segment"),
            ("runs/0000000012.run", "@ run_schedule"),
            ("runs/0000000013.run", "@ run_dispatch"),
            ("loads/1", "@ run_staged"),
            ("checkpoints/0000000001.checkpoint", "@ checkpoint"),
            ("identity", "@ identity"),
            ("identity", "@ identity_clustered"),
        ] {
            let whole = parse(golden)?;
            let mut bytes = whole.clone();
            reseal_file(path, &mut bytes, STREAM);
            assert!(bytes == whole, "{path}");
        }
        Ok(())
    }

    #[test]
    fn cut_and_empty_files_are_no_harm() -> Result<(), String> {
        let whole = parse("@ run_staged")?;
        for cut in 0..whole.len() {
            reseal_file("loads/1", whole[..cut].to_vec().as_mut_slice(), STREAM);
        }
        let whole = parse("@ segment")?;
        for cut in 0..whole.len() {
            reseal_file("log/1", whole[..cut].to_vec().as_mut_slice(), STREAM);
            reseal_file("runs/1", whole[..cut].to_vec().as_mut_slice(), STREAM);
            reseal_file("checkpoints/1", whole[..cut].to_vec().as_mut_slice(), STREAM);
        }
        Ok(())
    }
}
