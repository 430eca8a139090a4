//! Cuts between batches of a piece of the log.

use delaymq_core::error::Result;
use delaymq_core::message_log::{LogPiece, segment_path};
use delaymq_core::record::batch::{BATCH_HEADER_BYTES, BatchHeader};
use delaymq_core::storage::{Storage, StorageFile};
use delaymq_core::units::{Millis, Sequence};

/// Headers are read in portions of so many bytes: where batches are small, one portion has many.
const PORTION_BYTES: usize = 16 << 10;

/// A piece, and bytes of batches in it.
pub(crate) type Measured = (LogPiece, u64);

/// Cuts a piece into pieces of about `split_bytes`. A part that cannot be followed stays one piece, and its reader
/// reports why.
pub(crate) fn cut(storage: &dyn Storage, piece: &LogPiece, split_bytes: u64) -> Result<Vec<Measured>> {
    let (mut pieces, mut rest, mut trusted) = (Vec::new(), *piece, piece.trusted_from);
    let followed = follow(storage, piece, |at, header| {
        let begun = at.saturating_sub(u64::from(rest.from));
        if begun >= split_bytes.max(1) && header.record_count.get() > 0 {
            let (to, base) = (u32::try_from(at).unwrap_or(u32::MAX), Sequence(header.base_sequence.get()));
            pieces.push((LogPiece { to: Some(to), end: base, trusted_to: trusted, ..rest }, begun));
            rest = LogPiece { from: to, first: base, chain: header.chain_before.get(), trusted_from: trusted, ..rest };
        }
        trusted = trusted.max(Millis(header.trusted_ms.get()));
    })?;
    let Some(end) = followed else { return Ok(vec![(*piece, 0)]) };
    if rest.first < rest.end {
        pieces.push((rest, end.saturating_sub(u64::from(rest.from))));
    }
    Ok(pieces)
}

/// Whether dispatch was held when the last batch of a piece was written. A seal does not say.
pub(crate) fn ends_held(storage: &dyn Storage, piece: &LogPiece) -> Result<bool> {
    let mut is_held = false;
    follow(storage, piece, |_, header| is_held = if header.is_seal() { is_held } else { header.is_held() })?;
    Ok(is_held)
}

/// Shows the header of each batch of a piece, with its location, as far as batches can be followed. Returns where that
/// ends, or nothing if the file is gone.
fn follow(storage: &dyn Storage, piece: &LogPiece, mut show: impl FnMut(u64, &BatchHeader)) -> Result<Option<u64>> {
    let file = match storage.open(&segment_path(piece.segment)) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let end = u64::from(piece.to.unwrap_or(u32::MAX)).min(file.length()?);
    let mut headers = Headers { file: file.as_ref(), buffer: vec![0; PORTION_BYTES], at: 0, filled: 0 };
    let mut at = u64::from(piece.from);
    while at < end {
        let Some(header) = headers.read(at)? else { break };
        show(at, &header);
        at = at.saturating_add(u64::from(header.length.get()));
        if header.is_seal() {
            break;
        }
    }
    Ok(Some(at))
}

/// Headers of batches, one after the other.
struct Headers<'a> {
    file: &'a dyn StorageFile,
    buffer: Vec<u8>,
    at: u64,
    filled: usize,
}

impl Headers<'_> {
    fn read(&mut self, at: u64) -> Result<Option<BatchHeader>> {
        let behind = at.saturating_add(BATCH_HEADER_BYTES as u64);
        if at < self.at || behind > self.at.saturating_add(self.filled as u64) {
            self.filled = self.file.read_at(at, &mut self.buffer)?;
            self.at = at;
        }
        let start = usize::try_from(at.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let bytes = self.buffer.get(start..self.filled).unwrap_or_default();
        Ok(BatchHeader::read(bytes))
    }
}
