//! Reads batches that are known to be good: those that a scan has checked, or the visible ones of a running
//! log.

use std::sync::Arc;

use super::batch_check::{Fault, Scratch, check_records, read_header};
use super::window::{Opening, Window};
use crate::error::{Error, Result};
use crate::message_log::append::commit_options::Mark;
use crate::message_log::holes::Holes;
use crate::message_log::segment::{SEGMENT_HEADER_BYTES, Stream, segment_path};
use crate::planted::{self, Planted};
use crate::record::batch::{BATCH_HEADER_BYTES, BatchHeader};
use crate::record::header::{RawRecord, Records};
use crate::storage::Storage;
use crate::units::{Location, SegmentNumber, Sequence};

/// One batch, read.
#[derive(Debug)]
pub struct ScannedBatch {
    /// Its header.
    pub header: BatchHeader,
    /// Where its header starts.
    pub start: Location,
    /// True if it is the first batch after a hole.
    pub behind_hole: bool,
    /// The whole batch, header and records. Give it back with `recycle`.
    pub bytes: Vec<u8>,
}

impl ScannedBatch {
    /// The point after it.
    pub fn end(&self) -> Mark {
        let location = Location(self.start.0.saturating_add(u64::from(self.header.length.get())));
        Mark { location, sequence: self.header.next_sequence() }
    }

    /// Its records.
    pub fn records(&self) -> &[u8] {
        self.bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default()
    }

    /// Its facts, each with its place. Their checks were compared when the batch was read; their payloads are not
    /// checked.
    pub fn facts(&self) -> impl Iterator<Item = (Location, RawRecord<'_>)> {
        let records = self.start.0.saturating_add(BATCH_HEADER_BYTES as u64);
        let facts = Records::checked(self.records(), Sequence(self.header.base_sequence.get())).flatten();
        facts.map(move |(at, record)| (Location(records.saturating_add(at as u64)), record))
    }
}

/// Batches from one position to another, in order.
pub struct BatchReader {
    window: Window,
    holes: Holes,
    /// A hole was passed since the last batch.
    passed_hole: bool,
    open: Option<SegmentNumber>,
    next: Location,
    end: Location,
    chain: Option<u32>,
    scratch: Scratch,
    spare: Vec<Vec<u8>>,
}

impl BatchReader {
    /// Reads from `start`, the start of a batch, to `end`, the end of one. Both must have been visible, or
    /// checked by a scan.
    pub fn new(storage: Arc<dyn Storage>, stream: Stream, start: Location, end: Location) -> Self {
        Self {
            window: Window::new(storage, stream),
            holes: Holes::default(),
            passed_hole: false,
            open: None,
            next: start,
            end,
            chain: None,
            scratch: Scratch::new(),
            spare: Vec::new(),
        }
    }

    /// The same reader for a log with these holes, which it skips.
    #[must_use]
    pub fn past(mut self, holes: Holes) -> Self {
        self.holes = holes;
        self
    }

    /// Where the reader expects the next batch.
    pub fn position(&self) -> Location {
        self.next
    }

    /// Extends the range to `end`, in a log that has grown in the meantime.
    pub fn extend(&mut self, end: Location) {
        self.end = self.end.max(end);
        self.window.forget();
    }

    /// The next batch with facts. `None` at the end. Errors: `Corrupt` and `MissingFile` if a batch has
    /// changed since, and those of the storage. Payloads are not checked.
    pub fn next_batch(&mut self) -> Result<Option<ScannedBatch>> {
        let Some((start, header)) = self.next_header()? else { return Ok(None) };
        let bytes = self.copy_batch(&header, start.offset())?;
        let behind_hole = std::mem::take(&mut self.passed_hole);
        Ok(Some(ScannedBatch { header, start, behind_hole, bytes }))
    }

    /// As [`Self::next_batch`], its place and its header alone. Its records are neither read nor checked.
    ///
    /// # Errors
    /// Those of [`Self::next_batch`].
    pub fn next_header(&mut self) -> Result<Option<(Location, BatchHeader)>> {
        while self.next < self.end {
            if self.pass_hole()? {
                continue;
            }
            self.open_segment()?;
            let at = self.next.offset();
            let header = match read_header(&mut self.window, at)? {
                Ok(header) => self.check_chain(header, at)?,
                Err(fault) => return Err(self.corrupt(&fault)),
            };
            let start = self.next;
            self.next = if header.is_seal() {
                Location::in_segment(self.window.number().next(), SEGMENT_HEADER_BYTES)
            } else {
                self.window.at(at.saturating_add(header.length.get()))
            };
            self.chain = Some(header.chain.get());
            if header.record_count.get() > 0 {
                return Ok(Some((start, header)));
            }
        }
        Ok(None)
    }

    /// Passes all batches before the one that begins with `first`, by their headers. At the end of the range, all were
    /// passed.
    ///
    /// # Errors
    /// `InvalidArgument` if no batch begins with that sequence, and those of [`Self::next_batch`].
    pub fn pass_to(&mut self, first: Sequence) -> Result<()> {
        while let Some((start, header)) = self.next_header()? {
            let base = Sequence(header.base_sequence.get());
            if base.plus(u64::from(header.count.get())) <= first {
                continue;
            }
            if base != first {
                let (expected, found) = (format!("the first sequence of a batch, as {base}"), first.to_string());
                return Err(Error::InvalidArgument { argument: "sequence", expected, found });
            }
            (self.next, self.chain) = (start, Some(header.chain_before.get()));
            break;
        }
        Ok(())
    }

    /// Takes a buffer back, for a later batch.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare.is_empty() {
            self.spare.push(bytes);
        }
    }

    /// Continues after the hole that begins here. False if there is none.
    fn pass_hole(&mut self) -> Result<bool> {
        let Some(hole) = self.holes.beginning_at(self.next).copied() else { return Ok(false) };
        if let Some(chain) = self.chain.filter(|chain| *chain != hole.from.chain) {
            let (at, expected) =
                (u64::from(self.next.offset()), format!("a hole behind chain {:08x}", hole.from.chain));
            return Err(Error::corrupt(&segment_path(hole.segment()), at, expected, format!("chain {chain:08x}")));
        }
        (self.next, self.chain, self.passed_hole) = (hole.to.end, Some(hole.to.chain), true);
        Ok(true)
    }

    fn open_segment(&mut self) -> Result<()> {
        let number = self.next.segment().unwrap_or_default();
        if self.open == Some(number) {
            return Ok(());
        }
        match self.window.open(number)? {
            Opening::Ready => self.open = Some(number),
            Opening::Unreadable(error) => return Err(error),
            Opening::Missing => {
                let reason = format!("the log goes on there, up to {}", self.end);
                return Err(Error::MissingFile { path: segment_path(number), reason });
            }
        }
        Ok(())
    }

    fn check_chain(&self, header: BatchHeader, at: u32) -> Result<BatchHeader> {
        match self.chain {
            Some(chain) if header.chain_before.get() != chain => {
                let found = format!("{:08x}", header.chain_before.get());
                Err(self.corrupt(&Fault { offset: at, expected: format!("chain {chain:08x}"), found }))
            }
            _ => Ok(header),
        }
    }

    fn copy_batch(&mut self, header: &BatchHeader, at: u32) -> Result<Vec<u8>> {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        let stream = self.window.stream().id;
        let bytes = self.window.bytes(at, header.length.get() as usize)?;
        let checked = check_records(bytes, at, header, &stream, &mut self.scratch);
        copy.extend_from_slice(bytes);
        match checked {
            Err(fault) if !planted::is_on(Planted::TornTailAccepted) => Err(self.corrupt(&fault)),
            _ => Ok(copy),
        }
    }

    fn corrupt(&self, fault: &Fault) -> Error {
        fault.corrupt(&self.window.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message_log::ScanStart;
    use crate::message_log::tests::fixture::{Log, STREAM, shared};

    fn reader(log: &Log, end: Location) -> BatchReader {
        BatchReader::new(shared(&log.storage), STREAM, ScanStart::BEGINNING.location, end)
    }

    fn bases(reader: &mut BatchReader) -> Vec<Sequence> {
        let next = || reader.next_batch().unwrap().map(|batch| Sequence(batch.header.base_sequence.get()));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn it_follows_a_log_that_grows() {
        let mut log = Log::new(8 << 10);
        let mut reader = reader(&log, Location(0));
        assert!(bases(&mut reader).is_empty());
        for number in 1..20_u8 {
            let appended = log.commit(&[&[number; 900]]);
            log.witness();
            reader.extend(appended.end.location);
            assert_eq!(bases(&mut reader), [Sequence(u64::from(number))]);
            assert_eq!(reader.position(), appended.end.location);
        }
    }

    #[test]
    fn what_lies_behind_the_end_is_not_read() {
        let mut log = Log::new(8 << 10);
        let end = log.commit(&[b"a"]).end.location;
        log.write(&[b"b"]);
        assert_eq!(bases(&mut reader(&log, end)), [Sequence(1)]);
    }

    #[test]
    fn damage_and_missing_segments_are_named() {
        let mut log = Log::new(8 << 10);
        log.commit(&[&[1; 3000]]);
        let end = log.commit(&[&[2; 3000]]).end.location;
        log.storage.damage("log/0000000002.segment", 4096 + 90, 1);
        let mut broken = reader(&log, end);
        assert!(broken.next_batch().unwrap().is_some());
        assert!(matches!(broken.next_batch(), Err(Error::Corrupt { path, .. }) if path == "log/0000000002.segment"));
        log.storage.remove("log/0000000002.segment").unwrap();
        let mut missing = reader(&log, end);
        assert!(missing.next_batch().unwrap().is_some());
        assert!(matches!(missing.next_batch(), Err(Error::MissingFile { .. })));
    }
}
