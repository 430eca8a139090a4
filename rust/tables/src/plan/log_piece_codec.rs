//! Pieces of the log in a token.

use delaymq_core::error::Result;
use delaymq_core::message_log::LogPiece;
use delaymq_core::units::{Millis, SegmentNumber, Sequence};

use crate::plan::token_codec::{TokenReader, TokenWriter, malformed};

pub(crate) fn put_pieces(out: &mut TokenWriter, pieces: &[LogPiece]) {
    out.number(pieces.len() as u64);
    for piece in pieces {
        put_piece(out, piece);
    }
}

pub(crate) fn pieces(from: &mut TokenReader<'_>) -> Result<Vec<LogPiece>> {
    let mut pieces = Vec::new();
    for _ in 0..from.number()? {
        pieces.push(piece(from)?);
    }
    Ok(pieces)
}

fn put_piece(out: &mut TokenWriter, piece: &LogPiece) {
    out.number(u64::from(piece.segment.0));
    out.number(u64::from(piece.from));
    out.optional(piece.to.map(u64::from));
    let times = [piece.trusted_from.0, piece.trusted_to.0];
    for number in [piece.first.0, piece.end.0, u64::from(piece.chain)].into_iter().chain(times) {
        out.number(number);
    }
}

fn piece(from: &mut TokenReader<'_>) -> Result<LogPiece> {
    let (segment, start) = (SegmentNumber(from.narrow()?), from.narrow()?);
    let to =
        from.optional()?.map(u32::try_from).transpose().map_err(|_| malformed("an offset beyond every segment"))?;
    let (first, end) = (Sequence(from.number()?), Sequence(from.number()?));
    let chain = from.narrow()?;
    let (trusted_from, trusted_to) = (Millis(from.number()?), Millis(from.number()?));
    Ok(LogPiece { segment, from: start, to, first, end, chain, trusted_from, trusted_to })
}
