//! Reads a piece of the log for a subject: everything that its facts may have made ready, in order. The work needs no
//! owner, and takes long.

use std::sync::Arc;

use super::payload_places::{Passed, resolve};
use super::ready_facts::{NamedEntry, each_entry};
use crate::error::{Error, Result};
use crate::message_log::{BatchReader, SEGMENT_HEADER_BYTES, ScannedBatch};
use crate::record::Records;
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::schedule_log::Entry;
use crate::store::apply::placement::BatchTime;
use crate::store::recovery::rescue::KeptFacts;
use crate::units::{Location, ReadyNumber, SegmentNumber, Sequence, SubjectNumber};

/// A piece ends behind the batch that fills so many bytes, even if it has fewer messages than asked for.
const PIECE_BYTES: u64 = 32 << 20;

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
    /// The entries passed before `from`; `None` for a reader that begins here.
    pub(super) passed: Option<Passed>,
}

/// A batch of a piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieceBatch {
    pub(super) start: Location,
    /// How many entries of the piece come before it.
    pub(super) entries_before: usize,
    /// Facts before it could not be read.
    pub(super) is_behind_gap: bool,
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
    pub(super) passed: Passed,
    pub(super) error: Option<Error>,
}

impl HistoryRequest {
    /// Reads the piece.
    ///
    /// # Errors
    /// `Storage` if the log or a run could not be read; a later try may succeed. Damage costs only what it covers.
    pub(in crate::store) fn read(self) -> Result<HistoryPiece> {
        let Self { kept, subject, from, number, is_known, first, count, passed } = self;
        let passed = passed.unwrap_or_else(|| Passed::from(from));
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
            passed,
            error: None,
        };
        let mut unresolved = Vec::new();
        let mut piece = piece.filled(&kept, &mut unresolved)?;
        if !unresolved.is_empty()
            && let Some(from) = piece.passed.begun.take()
        {
            piece.look_before(from, &kept, &mut unresolved)?;
        }
        resolve(&unresolved, &mut piece.entries, &mut piece.passed, &kept)?;
        Ok(piece)
    }
}

/// Passes the segment before the one of `from`, and what comes before `from` in its own: most messages become ready a
/// short time after they are published. Facts that cannot be read are left out.
fn passed_before(kept: &KeptFacts, subject: SubjectNumber, from: Location) -> Result<Passed> {
    let mut passed = Passed::default();
    let segment = from.segment().unwrap_or_default();
    let place = kept.log.segments.partition_point(|start| start.segment < segment);
    let Some(start) = kept.log.segments.get(place.saturating_sub(1)) else { return Ok(passed) };
    let mut reader = kept.log.from(start);
    while reader.position() < from {
        match reader.next_batch() {
            Ok(Some(batch)) if batch.start < from => {
                each_of(&batch, subject, &mut |named| {
                    if named.is_ready {
                        passed.take(&named, subject);
                    } else {
                        passed.note(&named, subject);
                    }
                });
                reader.recycle(batch.bytes);
            }
            Err(error @ Error::Storage { .. }) => return Err(error),
            Ok(_) | Err(_) => break,
        }
    }
    Ok(passed)
}

/// Shows the entries of a subject that the facts of a batch name.
fn each_of(batch: &ScannedBatch, subject: SubjectNumber, show: &mut dyn FnMut(NamedEntry)) {
    let (time, base) = (BatchTime::of(&batch.header), Sequence(batch.header.base_sequence.get()));
    let records = batch.start.0.saturating_add(BATCH_HEADER_BYTES as u64);
    for (at, record) in Records::new(batch.records(), base).flatten() {
        each_entry((&record, Location(records.saturating_add(at as u64))), time, subject, show);
    }
}

impl HistoryPiece {
    /// Takes the entries that were made before the reader began from there.
    fn look_before(
        &mut self,
        from: Location,
        kept: &KeptFacts,
        unresolved: &mut Vec<(usize, NamedEntry)>,
    ) -> Result<()> {
        let mut before = passed_before(kept, self.subject, from)?;
        let subject = self.subject;
        unresolved.retain(|(place, named)| match (before.take(named, subject), self.entries.get_mut(*place)) {
            (Some(entry), Some(found)) => {
                *found = entry;
                false
            }
            _ => true,
        });
        self.passed.join(before);
        Ok(())
    }

    fn filled(mut self, kept: &KeptFacts, unresolved: &mut Vec<(usize, NamedEntry)>) -> Result<Self> {
        let wanted = self.first.since(self.number).saturating_add(self.count);
        let (mut bytes, mut is_behind_gap) = (0_u64, false);
        let mut reader = reader_from(kept, self.end);
        while (self.entries.len() as u64) < wanted && bytes < PIECE_BYTES {
            match reader.next_batch() {
                Ok(Some(batch)) => {
                    is_behind_gap |= batch.behind_hole;
                    let entries_before = self.entries.len();
                    self.batches.push(PieceBatch { start: batch.start, entries_before, is_behind_gap });
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

    fn take_in(&mut self, batch: &ScannedBatch, unresolved: &mut Vec<(usize, NamedEntry)>) {
        let (subject, entries, passed) = (self.subject, &mut self.entries, &mut self.passed);
        each_of(batch, subject, &mut |named| {
            if !named.is_ready {
                passed.note(&named, subject);
                return;
            }
            entries.push(passed.take(&named, subject).unwrap_or_else(|| {
                unresolved.push((entries.len(), named));
                Entry::new(named.key, named.attempt, named.key.sequence, Location::NOWHERE, subject)
            }));
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
