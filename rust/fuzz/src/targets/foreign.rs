//! The batches of another copy of a log: any bytes, which a copy writes behind its own.

use std::sync::Arc;

use delaymq_core::Error;
use delaymq_core::message_log::{AppenderStart, LOG_FOLDER, SEGMENT_BYTES_MIN, SegmentAppender};
use delaymq_core::record::batch::{BATCH_HEADER_BYTES, BatchHeader};
use delaymq_core::record::header::{RawRecord, Records};
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::units::{Epoch, Millis, SegmentNumber, Sequence};

use super::log::{STREAM, log_content, scan};
use crate::verdict::{Judged, Verdict, holds, same, unexpected};

/// The fields that are the same on every copy: from the length to the chain.
const LOGICAL: std::ops::Range<usize> = 8..52;
const START: AppenderStart = AppenderStart {
    stream: STREAM,
    epoch: Epoch(0),
    number: SegmentNumber(1),
    chain: 0,
    next_sequence: Sequence(1),
    trusted: Millis(0),
    segment_bytes: 1 << 20,
    opening_bytes: SEGMENT_BYTES_MIN,
    given_bytes: 0,
};

/// The first byte decides whether the checks are recomputed; batches follow, one after the other.
pub(super) fn judge(input: &[u8]) -> Judged {
    let content = log_content(input);
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1));
    storage.create_folder(LOG_FOLDER).map_err(unexpected("a folder"))?;
    let mut appender = SegmentAppender::open(Arc::clone(&storage), &START).map_err(unexpected("an empty log"))?;
    let (mut taken, mut damaged) = (Vec::new(), 0_u64);
    let mut rest = content.as_slice();
    while !rest.is_empty() {
        let length = BatchHeader::read(rest).map_or(rest.len(), |header| header.length.get() as usize);
        let (batch, behind) = rest.split_at(length.min(rest.len()));
        if let Some(named) = take(&mut appender, batch)? {
            taken.push(logical(batch));
            damaged = damaged.saturating_add(named);
        }
        rest = behind;
    }
    let (ending, found) = scan(&storage).map_err(unexpected("a copy"))?;
    same("the batches of the copy", &taken, &found.iter().map(|batch| logical(&batch.bytes)).collect())?;
    holds("a log that is not torn", ending.torn.is_none())?;
    same("the damaged messages that were named", &damaged, &ending.damaged_payloads)?;
    same("the end", &(ending.next_sequence, ending.chain), &(appender.written().sequence, appender.chain()))?;
    Ok(if taken.is_empty() { Verdict::Refused } else { Verdict::Taken })
}

/// Offers one batch, and returns how many damaged messages it has. A refusal leaves the log as it is, and the next batch
/// is judged.
fn take(appender: &mut SegmentAppender, batch: &[u8]) -> Result<Option<u64>, String> {
    let before = (appender.written(), appender.chain());
    match appender.append_foreign(&mut batch.to_vec(), before.0.location) {
        Ok(taken) => {
            let written = taken.appended.header.length.get() as usize;
            same("the bytes that were written", &written, &batch.len()).map(|()| Some(taken.damaged.len() as u64))
        }
        Err(
            Error::NotNext { .. }
            | Error::Fenced { .. }
            | Error::Diverged { .. }
            | Error::InvalidArgument { .. }
            | Error::NewerFormat { .. }
            | Error::TooLarge { .. },
        ) => same("the log behind a refusal", &before, &(appender.written(), appender.chain())).map(|()| None),
        Err(error) => Err(format!("a batch of another copy: {error}")),
    }
}

/// A record without its padding: its sequence, its check, its payload.
type Content = (Sequence, u32, Vec<u8>);

/// The bytes that are the same on every copy: a part of the header, and the records.
fn logical(batch: &[u8]) -> (Vec<u8>, Vec<Content>) {
    let header = batch.get(LOGICAL).unwrap_or_default().to_vec();
    let base = BatchHeader::read(batch).map_or(0, |header| header.base_sequence.get());
    let records = Records::new(batch.get(BATCH_HEADER_BYTES..).unwrap_or_default(), Sequence(base)).flatten();
    let content = |(_, record): (usize, RawRecord<'_>)| {
        (record.sequence, record.header.header_check.get(), record.payload.to_vec())
    };
    (header, records.map(content).collect())
}
