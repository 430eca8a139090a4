//! Bytes that wait for the peer, in pieces with the time since when they wait.

use std::collections::VecDeque;

use crate::error::Result;
use crate::units::Millis;
use crate::wire::frame::{Header, put_frame};

/// Small frames share a piece up to this size.
const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug)]
struct Piece {
    bytes: Vec<u8>,
    sent: usize,
    queued: Millis,
}

/// Waiting output; see the module.
#[derive(Debug, Default)]
pub(in crate::wire) struct Outgoing {
    pieces: VecDeque<Piece>,
    bytes: usize,
}

impl Outgoing {
    /// The number of waiting bytes.
    pub(in crate::wire) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of memory that it holds.
    pub(in crate::wire) fn capacity(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes.capacity()).sum()
    }

    /// Since when the first of them waits.
    pub(in crate::wire) fn oldest(&self) -> Option<Millis> {
        self.pieces.front().map(|piece| piece.queued)
    }

    /// The waiting bytes, in order.
    pub(in crate::wire) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| piece.bytes.get(piece.sent..).unwrap_or_default())
    }

    /// Appends a frame. After an error nothing is appended.
    pub(in crate::wire) fn put(
        &mut self,
        now: Millis,
        header: Header,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let mut piece = match self.pieces.pop_back() {
            Some(piece) if piece.bytes.len() < PIECE_BYTES => piece,
            other => {
                self.pieces.extend(other);
                Piece { bytes: Vec::new(), sent: 0, queued: now }
            }
        };
        let before = piece.bytes.len();
        let put = put_frame(&mut piece.bytes, header, fill);
        self.bytes = self.bytes.saturating_add(piece.bytes.len().saturating_sub(before));
        if !piece.bytes.is_empty() {
            self.pieces.push_back(piece);
        }
        put
    }

    /// The first `count` waiting bytes are sent.
    pub(in crate::wire) fn sent(&mut self, count: usize) {
        let mut left = count.min(self.bytes);
        self.bytes = self.bytes.saturating_sub(left);
        while let Some(piece) = self.pieces.front_mut() {
            let whole = piece.bytes.len().saturating_sub(piece.sent);
            if left < whole {
                piece.sent = piece.sent.saturating_add(left);
                return;
            }
            left = left.saturating_sub(whole);
            self.pieces.pop_front();
        }
    }

    /// Drops all bytes.
    pub(in crate::wire) fn clear(&mut self) {
        self.pieces.clear();
        self.bytes = 0;
    }
}
