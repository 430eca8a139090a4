//! Reads, batch by batch, a piece of the log that is known to be durable but may be damaged. The reader shows
//! everything that can be read, and each place that cannot.

use std::sync::Arc;

use super::batch_check::{Fault, read_header};
use super::salvage_reader::{Find, Sieve};
use super::window::Opening;
use crate::error::{Error, Result};
use crate::message_log::segment::{Stream, segment_path};
use crate::storage::Storage;
use crate::units::{Millis, SegmentNumber, Sequence};

/// Whole batches of one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogPiece {
    /// The segment.
    pub segment: SegmentNumber,
    /// Where its first batch begins.
    pub from: u32,
    /// Where its last batch ends. `None` if that is the segment's seal.
    pub to: Option<u32>,
    /// The sequence of its first fact.
    pub first: Sequence,
    /// The sequence after its last fact.
    pub end: Sequence,
    /// The chain of the batch before it.
    pub chain: u32,
    /// The earliest trusted time that its batches can have.
    pub trusted_from: Millis,
    /// The latest trusted time that its batches can have.
    pub trusted_to: Millis,
}

/// Reads one piece.
pub struct PieceReader {
    sieve: Sieve,
    piece: LogPiece,
    at: u32,
    /// The chain of the previous batch. `None` after damage.
    chain: Option<u32>,
    is_open: bool,
    is_done: bool,
    is_damaged: bool,
}

impl PieceReader {
    /// Makes a reader of a piece. The file is opened at the first read.
    pub fn new(storage: &Arc<dyn Storage>, stream: Stream, piece: LogPiece) -> Self {
        let sieve = Sieve::new(storage, stream, piece.first);
        let (at, chain) = (piece.from, Some(piece.chain));
        Self { sieve, piece, at, chain, is_open: false, is_done: false, is_damaged: false }
    }

    /// Shows the next batch or, after damage, the records that can be read up to the next whole batch. False
    /// at the end.
    ///
    /// # Errors
    /// `Storage`, `NewerFormat`. Damage is shown.
    pub fn read_next(&mut self, show: &mut dyn FnMut(Find<'_>)) -> Result<bool> {
        if !self.is_open && !self.is_done {
            self.open(show)?;
        }
        if self.is_done {
            return Ok(false);
        }
        if self.at >= self.sieve.window.end() {
            self.finish(show);
            return Ok(false);
        }
        match read_header(&mut self.sieve.window, self.at)? {
            Ok(header) => {
                let found = header.chain_before.get();
                if let Some(chain) = self.chain.filter(|chain| *chain != found) {
                    let words = (format!("chain {chain:08x}"), format!("{found:08x}"));
                    self.damage(&Fault { offset: self.at, expected: words.0, found: words.1 }, show);
                }
                let mut shown = Shown { show, damaged: false };
                self.sieve.batch(&header, self.at, &mut |find| shown.pass(find))?;
                self.is_damaged |= shown.damaged;
                self.chain = Some(header.chain.get());
                self.at = self.at.saturating_add(header.length.get());
                if header.is_seal() && self.piece.to.is_none() {
                    self.piece.to = Some(self.at);
                    self.sieve.window.limit(self.at);
                }
            }
            Err(fault) => {
                let mut shown = Shown { show, damaged: false };
                self.at = self.sieve.unreadable(self.at, &fault, &mut |find| shown.pass(find))?;
                let told = shown.damaged;
                // Zeros after the vouched part of a log are its end. This piece was durable, so zeros in it
                // are lost data.
                if told {
                    self.is_damaged = true;
                } else {
                    self.damage(&fault, show);
                }
                self.chain = None;
            }
        }
        Ok(true)
    }

    fn open(&mut self, show: &mut dyn FnMut(Find<'_>)) -> Result<()> {
        let path = segment_path(self.piece.segment);
        match self.sieve.window.open(self.piece.segment)? {
            Opening::Ready => {}
            Opening::Unreadable(error) => {
                self.is_damaged = true;
                show(Find::Damage(error));
            }
            Opening::Missing => {
                self.is_done = true;
                let reason = format!("facts {} to {} were in it", self.piece.first, self.piece.end);
                show(Find::Damage(Error::MissingFile { path, reason }));
                return Ok(());
            }
        }
        if let Some(to) = self.piece.to {
            self.sieve.window.limit(to);
        }
        self.is_open = true;
        Ok(())
    }

    /// Reports what is missing at the end, if no damage was reported before.
    fn finish(&mut self, show: &mut dyn FnMut(Find<'_>)) {
        self.is_done = true;
        let is_short = self.piece.to.is_none_or(|to| self.at < to) || self.sieve.next < self.piece.end;
        if is_short && !self.is_damaged {
            let (expected, found) = (format!("facts up to {}", self.piece.end), format!("up to {}", self.sieve.next));
            self.damage(&Fault { offset: self.at, expected, found }, show);
        }
    }

    fn damage(&mut self, fault: &Fault, show: &mut dyn FnMut(Find<'_>)) {
        self.is_damaged = true;
        show(Find::Damage(fault.corrupt(&segment_path(self.piece.segment))));
    }
}

/// Passes on what is shown, and remembers whether damage was shown.
struct Shown<'a> {
    show: &'a mut dyn FnMut(Find<'_>),
    damaged: bool,
}

impl Shown<'_> {
    fn pass(&mut self, find: Find<'_>) {
        self.damaged |= matches!(find, Find::Damage(_));
        (self.show)(find);
    }
}

#[cfg(test)]
#[path = "piece_tests.rs"]
mod tests;
