//! Reads everything that can be read of a damaged log: whole batches, and single records of batches that are
//! not whole. It ignores which bytes were promised to be durable, and writes nothing.
//!
//! A record after a damaged one is found by its own check, which also proves its sequence. The record counts
//! if the skipped bytes can have held the sequences before it, and if its payload passes its check.

use std::sync::Arc;

use super::batch_check::{Fault, Scratch, check_records, read_header};
use super::window::{Opening, WINDOW_BYTES, Window};
use crate::error::{Error, Result};
use crate::message_log::holes::Holes;
use crate::message_log::segment::{LOG_FOLDER, SEGMENT_HEADER_BYTES, Stream, list_segments, segment_path};
use crate::record::adopt::sequences_of;
use crate::record::batch::{BATCH_HEADER_BYTES, BATCH_MAGIC, BatchHeader};
use crate::record::header::{RECORD_HEADER_BYTES, RawRecord, read_any_record, read_record};
use crate::storage::Storage;
use crate::units::{Location, Millis, SegmentNumber, Sequence, padded};

/// How many missing segments in a row are reported one by one.
const MISSING_NAMED_MAX: u32 = 1_000;

/// A find in the log.
#[derive(Debug)]
pub enum Find<'a> {
    /// A batch that is whole, apart from payloads.
    Batch {
        /// Its header.
        header: BatchHeader,
        /// Where the header begins.
        start: Location,
        /// The bytes after the header: records that have passed their checks.
        records: &'a [u8],
    },
    /// A record of a batch that is not whole.
    Record {
        /// The record. Its payload is not checked.
        record: RawRecord<'a>,
        /// Where it begins.
        location: Location,
        /// The trusted time of its batch, if that can be read.
        trusted: Option<Millis>,
    },
    /// Bytes that cannot be read, or a missing file.
    Damage(Error),
}

/// Shows everything that can be read of all existing segments, in log order, except for these holes.
///
/// # Errors
/// `Storage`, `NewerFormat`. Damage is shown.
pub fn sift(storage: &Arc<dyn Storage>, stream: Stream, holes: &Holes, show: &mut dyn FnMut(Find<'_>)) -> Result<()> {
    let mut sieve = Sieve::new(storage, stream, Sequence(0));
    let mut expected: Option<SegmentNumber> = None;
    for number in segments_there(storage.as_ref(), show)? {
        show_missing(expected.unwrap_or(number), number, show);
        expected = Some(number.next());
        match sieve.window.open(number)? {
            Opening::Ready => {}
            Opening::Unreadable(error) => show(Find::Damage(error)),
            Opening::Missing => continue,
        }
        sieve.segment(holes, u32::MAX, show)?;
    }
    Ok(())
}

/// Like [`sift`], for one segment, whose first fact has sequence `first`, up to the batch that begins at
/// `to`. A writer may be writing after that.
///
/// # Errors
/// Like [`sift`].
pub fn sift_segment(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    (number, first, to): (SegmentNumber, Sequence, u32),
    holes: &Holes,
    show: &mut dyn FnMut(Find<'_>),
) -> Result<()> {
    let mut sieve = Sieve::new(storage, stream, first);
    match sieve.window.open(number)? {
        Opening::Ready => {}
        Opening::Unreadable(error) => show(Find::Damage(error)),
        Opening::Missing => {
            let reason = "facts of the log stand there".to_owned();
            show(Find::Damage(Error::MissingFile { path: segment_path(number), reason }));
            return Ok(());
        }
    }
    sieve.segment(holes, to, show)
}

/// The existing segments. If their folder is missing, shows damage and returns none.
fn segments_there(storage: &dyn Storage, show: &mut dyn FnMut(Find<'_>)) -> Result<Vec<SegmentNumber>> {
    match list_segments(storage) {
        Err(error) if error.is_not_found() => {
            let (path, reason) = (LOG_FOLDER.to_owned(), "the whole log lay there".to_owned());
            show(Find::Damage(Error::MissingFile { path, reason }));
            Ok(Vec::new())
        }
        other => other,
    }
}

/// Reports the missing segments from `first` up to `there`. A stray file may have any number, so only a
/// limited count is reported one by one.
fn show_missing(first: SegmentNumber, there: SegmentNumber, show: &mut dyn FnMut(Find<'_>)) {
    let mut missing = |number: u32, reason: String| {
        show(Find::Damage(Error::MissingFile { path: segment_path(SegmentNumber(number)), reason }));
    };
    let named_end = there.0.min(first.0.saturating_add(MISSING_NAMED_MAX));
    for number in first.0..named_end {
        missing(number, "segments before and behind it are there".to_owned());
    }
    if named_end < there.0 {
        missing(named_end, format!("so are all behind it up to {}", segment_path(there)));
    }
}

pub(in crate::message_log) struct Sieve {
    pub(in crate::message_log) window: Window,
    scratch: Scratch,
    /// The sequence after the last one seen. 0 before the first.
    pub(in crate::message_log) next: Sequence,
}

impl Sieve {
    pub(in crate::message_log) fn new(storage: &Arc<dyn Storage>, stream: Stream, next: Sequence) -> Self {
        Self { window: Window::new(Arc::clone(storage), stream), scratch: Scratch::new(), next }
    }

    fn segment(&mut self, holes: &Holes, to: u32, show: &mut dyn FnMut(Find<'_>)) -> Result<()> {
        let mut at = SEGMENT_HEADER_BYTES;
        while at < self.window.end().min(to) {
            if let Some(hole) = holes.beginning_at(self.window.at(at)) {
                (at, self.next) = (hole.to.end.offset(), self.next.max(hole.to.next_sequence));
                continue;
            }
            at = match read_header(&mut self.window, at)? {
                Ok(header) => {
                    self.batch(&header, at, show)?;
                    if header.is_seal() {
                        return Ok(());
                    }
                    at.saturating_add(header.length.get())
                }
                Err(fault) => self.unreadable(at, &fault, show)?,
            };
        }
        Ok(())
    }

    /// Shows a batch whose header is whole.
    pub(in crate::message_log) fn batch(
        &mut self,
        header: &BatchHeader,
        at: u32,
        show: &mut dyn FnMut(Find<'_>),
    ) -> Result<()> {
        let (number, start, stream) = (self.window.number(), self.window.at(at), self.window.stream().id);
        let base = Sequence(header.base_sequence.get());
        let end = base.plus(u64::from(header.count.get()));
        let bytes = self.window.bytes(at, header.length.get() as usize)?;
        let records = bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default();
        match check_records(bytes, at, header, &stream, &mut self.scratch) {
            Ok(()) => show(Find::Batch { header: *header, start, records }),
            Err(fault) => {
                show(Find::Damage(fault.corrupt(&segment_path(number))));
                let place = Place { start, trusted: Some(Millis(header.trusted_ms.get())) };
                sift_records(records, base, Some(end), place, show);
            }
        }
        self.next = end;
        Ok(())
    }

    /// Searches bytes that should begin a batch for single records, up to the next batch or the end of the
    /// segment. Returns where to continue.
    pub(in crate::message_log) fn unreadable(
        &mut self,
        at: u32,
        fault: &Fault,
        show: &mut dyn FnMut(Find<'_>),
    ) -> Result<u32> {
        let next_batch = self.next_batch(at.saturating_add(8))?;
        let to = next_batch.unwrap_or(self.window.end());
        let (path, start) = (self.window.path(), self.window.at(at));
        let bytes = self.window.bytes(at, to.saturating_sub(at) as usize)?;
        let is_empty = bytes.iter().all(|byte| *byte == 0);
        if is_empty && next_batch.is_none() {
            return Ok(to);
        }
        show(Find::Damage(fault.corrupt(&path)));
        if !is_empty && self.next.0 > 0 {
            let records = bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default();
            self.next = sift_records(records, self.next, None, Place { start, trusted: None }, show);
        }
        Ok(to)
    }

    /// Where the next batch with a whole header begins.
    fn next_batch(&mut self, from: u32) -> Result<Option<u32>> {
        let mut at = from;
        let mut candidates = Vec::new();
        while at < self.window.end() {
            let bytes = self.window.bytes(at, WINDOW_BYTES)?;
            if bytes.is_empty() {
                break;
            }
            let taken = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let marks = bytes.chunks_exact(BATCH_MAGIC.len()).zip((at..).step_by(BATCH_MAGIC.len()));
            candidates.clear();
            candidates.extend(marks.filter(|(mark, _)| **mark == BATCH_MAGIC).map(|(_, offset)| offset));
            for candidate in &candidates {
                let header = read_header(&mut self.window, *candidate)?;
                if header.is_ok_and(|header| header.base_sequence.get() >= self.next.0) {
                    return Ok(Some(*candidate));
                }
            }
            at = at.saturating_add(taken);
        }
        Ok(None)
    }
}

/// The batch of the records that are searched for.
#[derive(Clone, Copy)]
struct Place {
    /// Where the batch begins.
    start: Location,
    trusted: Option<Millis>,
}

/// Shows the records in the bytes after a batch header, from sequence `first` on and below `end`. Returns the
/// sequence after the last.
fn sift_records(
    bytes: &[u8],
    first: Sequence,
    end: Option<Sequence>,
    place: Place,
    show: &mut dyn FnMut(Find<'_>),
) -> Sequence {
    let (mut next, mut at, mut last_end) = (first, 0_usize, 0_usize);
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= RECORD_HEADER_BYTES) {
        let in_place = if at == last_end { read_record(rest, next).ok() } else { None };
        let skipped_max = (at.saturating_sub(last_end) / RECORD_HEADER_BYTES) as u64;
        let again = || {
            let record = read_any_record(rest, next)?;
            let fits = record.sequence >= next && record.sequence.since(next) <= skipped_max;
            (fits && at > last_end && record.payload_is_whole()).then_some(record)
        };
        let record = in_place.or_else(again).filter(|record| end.is_none_or(|end| record.sequence < end));
        let Some(record) = record else {
            at = at.saturating_add(8);
            continue;
        };
        let offset = at.saturating_add(BATCH_HEADER_BYTES) as u64;
        let location = Location(place.start.0.saturating_add(offset));
        next = record.sequence.plus(sequences_of(&record));
        at = at.saturating_add(padded(record.header.length.get() as usize));
        last_end = at;
        show(Find::Record { record, location, trusted: place.trusted });
    }
    next
}

#[cfg(test)]
#[path = "salvage_reader_tests.rs"]
mod tests;
