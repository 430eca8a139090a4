//! Reads a piece of the log for some subjects: everything that its facts may have made ready, in order. The work needs
//! no owner, and takes long.

use std::sync::Arc;

use super::payload_places::PayloadPlaces;
use super::ready_facts::{NamedEntry, PayloadOf, each_entry};
use crate::error::{Error, Result};
use crate::message_log::{BatchReader, SEGMENT_HEADER_BYTES, ScannedBatch};
use crate::schedule_log::Entry;
use crate::store::apply::placement::BatchTime;
use crate::store::recovery::rescue::KeptFacts;
use crate::units::{Location, Millis, ReadyNumber, SegmentNumber, Sequence, SubjectNumber};

/// A piece ends behind the batch that fills so many bytes, even if it has fewer messages than asked for.
const PIECE_BYTES: u64 = 32 << 20;

/// Entries without payloads, with their places in a piece.
type Unresolved = Vec<(usize, NamedEntry)>;

/// A piece of the log that is to be read.
#[derive(Debug)]
pub(in crate::store) struct HistoryRequest {
    pub(super) kept: KeptFacts,
    pub(super) subject: SubjectNumber,
    /// Where the piece begins: before this batch.
    pub(super) from: Location,
    /// The ready number of the subject's next message there.
    pub(super) number: ReadyNumber,
    /// False if that number is not known.
    pub(super) is_known: bool,
    /// The number that is asked for, and how many messages from there on.
    pub(super) first: ReadyNumber,
    pub(super) count: u64,
    /// The rows and indexes that earlier pieces have read to find payloads.
    pub(super) places: PayloadPlaces,
}

/// A batch of a piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieceBatch {
    pub(super) start: Location,
    /// How many entries of the piece come before it.
    pub(super) entries_before: usize,
    /// Facts before it could not be read.
    pub(super) is_behind_gap: bool,
    /// Its trusted time.
    pub(super) trusted: Millis,
    /// The sequence behind its last one.
    pub(super) end_sequence: Sequence,
}

impl PieceBatch {
    pub(super) fn is_first_of_segment(&self) -> bool {
        self.start.offset() == SEGMENT_HEADER_BYTES
    }
}

/// A piece of the log, read for a subject.
#[derive(Debug)]
pub(in crate::store) struct HistoryPiece {
    pub(super) subject: SubjectNumber,
    pub(super) number: ReadyNumber,
    pub(super) is_known: bool,
    pub(super) first: ReadyNumber,
    pub(super) count: u64,
    pub(super) log: LogPiece,
    pub(super) places: PayloadPlaces,
}

/// A piece of the log, read.
#[derive(Debug)]
pub(super) struct LogPiece {
    /// The entries that facts of the subjects name as ready, in order, whether or not the facts counted.
    pub(super) entries: Vec<Entry>,
    pub(super) batches: Vec<PieceBatch>,
    /// Where the next piece begins.
    pub(super) end: Location,
    /// Facts before `end` could not be read.
    pub(super) ends_in_gap: bool,
    /// No fact was visible behind the piece.
    pub(super) is_last: bool,
    pub(super) error: Option<Error>,
}

impl HistoryRequest {
    /// Reads the piece.
    ///
    /// # Errors
    /// `Storage` if the log or a run could not be read; a later try may succeed. Damage costs only what it covers.
    pub(in crate::store) fn read(self) -> Result<HistoryPiece> {
        let Self { kept, subject, from, number, is_known, first, count, mut places } = self;
        let mut unresolved = Vec::new();
        let entries_max = first.since(number).saturating_add(count);
        places.begin(&kept.log);
        let pass = |batch: &ScannedBatch| places.pass(batch, &kept.log, subject);
        let mut log = LogPiece::read((&kept, from), entries_max, |of| of == subject, pass, &mut unresolved)?;
        places.resolve(&unresolved, &mut log.entries, &kept, subject)?;
        Ok(HistoryPiece { subject, number, is_known, first, count, log, places })
    }
}

impl LogPiece {
    /// Reads from a place on, until the piece has so many entries of the wanted subjects, without looking for payloads.
    /// Adds those that have none yet to `unresolved`. Shows each batch that it passes.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn read(
        (kept, from): (&KeptFacts, Location),
        entries_max: u64,
        is_wanted: impl Fn(SubjectNumber) -> bool,
        mut pass: impl FnMut(&ScannedBatch),
        unresolved: &mut Unresolved,
    ) -> Result<Self> {
        let (entries, batches) = (Vec::new(), Vec::new());
        let mut piece = Self { entries, batches, end: from, ends_in_gap: false, is_last: false, error: None };
        let (mut bytes, mut is_behind_gap) = (0_u64, false);
        let mut reader = reader_from(kept, from);
        while (piece.entries.len() as u64) < entries_max && bytes < PIECE_BYTES {
            match reader.next_batch() {
                Ok(Some(batch)) => {
                    is_behind_gap |= batch.behind_hole;
                    let entries_before = piece.entries.len();
                    piece.batches.push(PieceBatch {
                        start: batch.start,
                        entries_before,
                        is_behind_gap,
                        trusted: Millis(batch.header.trusted_ms.get()),
                        end_sequence: Sequence(batch.header.base_sequence.get())
                            .plus(u64::from(batch.header.count.get())),
                    });
                    is_behind_gap = false;
                    bytes = bytes.saturating_add(batch.bytes.len() as u64);
                    piece.take_in(&batch, &is_wanted, unresolved);
                    pass(&batch);
                    reader.recycle(batch.bytes);
                }
                Ok(None) => {
                    piece.is_last = true;
                    break;
                }
                Err(error @ Error::Storage { .. }) => return Err(error),
                Err(error) => {
                    piece.error.get_or_insert(error);
                    is_behind_gap = true;
                    let Some(next) = next_segment(kept, reader.position()) else {
                        piece.is_last = true;
                        break;
                    };
                    reader = reader_from(kept, next);
                }
            }
        }
        (piece.end, piece.ends_in_gap) = (reader.position(), is_behind_gap);
        Ok(piece)
    }

    /// Its batches, each with its entries.
    pub(super) fn batches(&self) -> impl Iterator<Item = (&PieceBatch, &[Entry])> {
        self.batches.iter().enumerate().map(|(place, batch)| {
            let next = self.batches.get(place.saturating_add(1));
            let end = next.map_or(self.entries.len(), |next| next.entries_before);
            (batch, self.entries.get(batch.entries_before..end).unwrap_or_default())
        })
    }

    fn take_in(
        &mut self,
        batch: &ScannedBatch,
        is_wanted: impl Fn(SubjectNumber) -> bool,
        unresolved: &mut Unresolved,
    ) {
        let (time, entries) = (BatchTime::of(&batch.header), &mut self.entries);
        let mut take = |named: NamedEntry| {
            if !named.is_ready {
                return;
            }
            let (location, size) = match named.payload {
                PayloadOf::Fact(location, size) => (location, size),
                PayloadOf::Entry | PayloadOf::Moved(_) | PayloadOf::Message(_) => {
                    unresolved.push((entries.len(), named));
                    (Location::NOWHERE, None)
                }
            };
            let entry = Entry::new(named.key, named.attempt, named.key.sequence, location, named.subject);
            entries.push(entry.with_size(size));
        };
        for (location, record) in batch.facts() {
            each_entry((&record, location), time, &is_wanted, &mut take);
        }
    }
}

fn reader_from(kept: &KeptFacts, from: Location) -> BatchReader {
    let log = &kept.log;
    BatchReader::new(Arc::clone(&log.storage), log.stream, from, log.end).past(log.holes.clone())
}

/// The start of the segment behind a place.
fn next_segment(kept: &KeptFacts, place: Location) -> Option<Location> {
    let segment = place.segment().unwrap_or(SegmentNumber(0));
    let next = kept.log.segments.iter().find(|start| start.segment > segment)?;
    Some(Location::in_segment(next.segment, SEGMENT_HEADER_BYTES))
}
