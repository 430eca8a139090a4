//! Ranges of the log: its pieces, cut and put together to the wanted size.

use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::{LogPiece, segment_path};
use delaymq_core::storage::Storage;

use crate::plan::cut::{Measured, cut};
use crate::plan::range::Range;
use crate::snapshot::table_snapshot::TableSnapshot;

/// A piece with so few facts is looked through, so that its bytes are known: its file may be long and mostly empty.
const FEW_FACTS: u64 = 1_024;

/// Pieces of the log, each read by itself.
pub(crate) fn log_ranges(
    snapshot: &TableSnapshot,
    storage: &Arc<dyn Storage>,
    range: &Range,
    split_bytes: u64,
) -> Result<Vec<Range>> {
    let may_have =
        |piece: &LogPiece| range.filter.may_take((piece.first, piece.end), (piece.trusted_from, piece.trusted_to));
    let mut measured: Vec<Measured> = Vec::new();
    for piece in snapshot.pieces.iter().filter(|piece| may_have(piece)) {
        let parts = measure(storage.as_ref(), piece, split_bytes)?;
        measured.extend(parts.into_iter().filter(|(part, _)| may_have(part)));
    }
    let mut ranges: Vec<Range> = Vec::new();
    for (piece, bytes) in measured {
        match ranges.last_mut() {
            Some(range) if range.bytes.saturating_add(bytes) <= split_bytes => {
                range.bytes = range.bytes.saturating_add(bytes);
                range.end_sequence = piece.end;
                range.pieces.push(piece);
            }
            _ => {
                let (first_sequence, end_sequence, pieces) = (piece.first, piece.end, vec![piece]);
                ranges.push(Range { bytes, first_sequence, end_sequence, pieces, ..range.clone() });
            }
        }
    }
    Ok(ranges)
}

fn measure(storage: &dyn Storage, piece: &LogPiece, split_bytes: u64) -> Result<Vec<Measured>> {
    let bytes = length_of(storage, piece)?;
    if bytes <= split_bytes && (piece.to.is_some() || piece.end.since(piece.first) > FEW_FACTS) {
        return Ok(vec![(*piece, bytes)]);
    }
    cut(storage, piece, split_bytes)
}

pub(crate) fn length_of(storage: &dyn Storage, piece: &LogPiece) -> Result<u64> {
    let length = match piece.to {
        Some(to) => u64::from(to),
        None => match storage.open(&segment_path(piece.segment)).and_then(|file| file.length()) {
            Err(error) if error.is_not_found() => 0,
            other => other?,
        },
    };
    Ok(length.saturating_sub(u64::from(piece.from)))
}
