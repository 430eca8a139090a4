//! Reads a piece of the log for a subject: everything that its facts may have made ready, in order. The work needs no
//! owner, and takes long.

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

/// A piece of the log, read.
#[derive(Debug)]
pub(in crate::store) struct HistoryPiece {
    pub(super) subject: SubjectNumber,
    pub(super) number: ReadyNumber,
    pub(super) is_known: bool,
    pub(super) first: ReadyNumber,
    pub(super) count: u64,
    /// The entries that facts of the subject name as ready, in order, whether or not the facts counted.
    pub(super) entries: Vec<Entry>,
    pub(super) batches: Vec<PieceBatch>,
    /// Where the next piece begins.
    pub(super) end: Location,
    /// Facts before `end` could not be read.
    pub(super) ends_in_gap: bool,
    /// No fact was visible behind the piece.
    pub(super) is_last: bool,
    pub(super) places: PayloadPlaces,
    pub(super) error: Option<Error>,
}

impl HistoryRequest {
    /// Reads the piece.
    ///
    /// # Errors
    /// `Storage` if the log or a run could not be read; a later try may succeed. Damage costs only what it covers.
    pub(in crate::store) fn read(self) -> Result<HistoryPiece> {
        let (mut piece, unresolved, kept) = self.scanned()?;
        piece.places.resolve(&unresolved, &mut piece.entries, &kept, piece.subject)?;
        Ok(piece)
    }

    /// Reads the piece without looking for payloads. Returns the entries that have none yet as well, with their places in
    /// the piece, and the facts that were read.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn scanned(self) -> Result<(HistoryPiece, Unresolved, KeptFacts)> {
        let Self { kept, subject, from, number, is_known, first, count, places } = self;
        let piece = HistoryPiece {
            subject,
            number,
            is_known,
            first,
            count,
            entries: Vec::new(),
            batches: Vec::new(),
            end: from,
            ends_in_gap: false,
            is_last: false,
            places,
            error: None,
        };
        let mut unresolved = Vec::new();
        let piece = piece.filled(&kept, &mut unresolved)?;
        Ok((piece, unresolved, kept))
    }
}

/// Shows the entries of a subject that the facts of a batch name.
fn each_of(batch: &ScannedBatch, subject: SubjectNumber, show: &mut dyn FnMut(NamedEntry)) {
    let time = BatchTime::of(&batch.header);
    for (location, record) in batch.facts() {
        each_entry((&record, location), time, subject, show);
    }
}

impl HistoryPiece {
    fn filled(mut self, kept: &KeptFacts, unresolved: &mut Unresolved) -> Result<Self> {
        let wanted = self.first.since(self.number).saturating_add(self.count);
        let (mut bytes, mut is_behind_gap) = (0_u64, false);
        let mut reader = reader_from(kept, self.end);
        while (self.entries.len() as u64) < wanted && bytes < PIECE_BYTES {
            match reader.next_batch() {
                Ok(Some(batch)) => {
                    is_behind_gap |= batch.behind_hole;
                    let entries_before = self.entries.len();
                    self.batches.push(PieceBatch {
                        start: batch.start,
                        entries_before,
                        is_behind_gap,
                        trusted: Millis(batch.header.trusted_ms.get()),
                        end_sequence: Sequence(batch.header.base_sequence.get())
                            .plus(u64::from(batch.header.count.get())),
                    });
                    is_behind_gap = false;
                    bytes = bytes.saturating_add(batch.bytes.len() as u64);
                    self.take_in(&batch, unresolved);
                    reader.recycle(batch.bytes);
                }
                Ok(None) => {
                    self.is_last = true;
                    break;
                }
                Err(error @ Error::Storage { .. }) => return Err(error),
                Err(error) => {
                    self.error.get_or_insert(error);
                    is_behind_gap = true;
                    let Some(next) = next_segment(kept, reader.position()) else {
                        self.is_last = true;
                        break;
                    };
                    reader = reader_from(kept, next);
                }
            }
        }
        (self.end, self.ends_in_gap) = (reader.position(), is_behind_gap);
        Ok(self)
    }

    /// Its batches, each with its entries.
    pub(super) fn batches(&self) -> impl Iterator<Item = (&PieceBatch, &[Entry])> {
        self.batches.iter().enumerate().map(|(place, batch)| {
            let next = self.batches.get(place.saturating_add(1));
            let end = next.map_or(self.entries.len(), |next| next.entries_before);
            (batch, self.entries.get(batch.entries_before..end).unwrap_or_default())
        })
    }

    fn take_in(&mut self, batch: &ScannedBatch, unresolved: &mut Unresolved) {
        let (subject, entries) = (self.subject, &mut self.entries);
        each_of(batch, subject, &mut |named| {
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
            let entry = Entry::new(named.key, named.attempt, named.key.sequence, location, subject);
            entries.push(entry.with_size(size));
        });
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
