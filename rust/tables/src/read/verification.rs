//! Verification of a range: reads every byte and compares every check, without making rows.

use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{Find, LogPiece, PieceReader, segment_path};
use delaymq_core::record::batch::BATCH_HEADER_BYTES;
use delaymq_core::record::header::{RawRecord, Records};
use delaymq_core::run::ScheduleRow;
use delaymq_core::storage::Storage;
use delaymq_core::units::{Location, Sequence};

use crate::plan::range::{Part, Range};
use crate::plan::range_parts::KnownLoad;
use crate::read::message::check_payload;
use crate::read::reader::{OnDamage, open_ranges};
use crate::schema::choice::Choice;

/// The result of a verification.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// Records that could be read, of every kind; of what is pending, entries whose payload could; of files, those that could be opened.
    pub records: u64,
    /// Bytes of the batches that they are in; of what is pending, those of the range.
    pub bytes: u64,
    /// What is damaged.
    pub damages: Vec<Error>,
}

/// Reads everything of a range, whatever part of it the range asks for.
///
/// # Errors
/// `Storage`, `NewerFormat`; for pending messages `Corrupt` and `MissingFile`, if none of them can be read.
pub fn verify(storage: &Arc<dyn Storage>, range: &Range) -> Result<Verified> {
    let mut verified = Verified::default();
    if matches!(range.part, Part::Pending(_) | Part::Files(_)) {
        return verify_rows(storage, range);
    }
    if matches!(&range.part, Part::Ready(part) if part.has_older) {
        verified = verify_rows(storage, &Range { pieces: Vec::new(), bytes: 0, ..range.clone() })?;
    }
    for piece in range.pieces.iter().filter(|piece| range.verifies(piece)) {
        let mut reader = PieceReader::new(storage, range.stream, *piece);
        while reader.read_next(&mut |find| verified.take(find, piece))? {}
    }
    for load in &range.loads {
        verified.take_load(storage, range, load)?;
    }
    Ok(verified)
}

fn verify_rows(storage: &Arc<dyn Storage>, range: &Range) -> Result<Verified> {
    let choice = Choice::all(range.table);
    let mut reading = open_ranges(Arc::clone(storage), range.table, vec![range.clone()], choice, OnDamage::Report);
    let mut verified = Verified { bytes: range.bytes, ..Verified::default() };
    while let Some(batch) = reading.next_batch()? {
        verified.records = verified.records.saturating_add(batch.num_rows() as u64);
    }
    verified.damages = reading.take_damages();
    Ok(verified)
}

impl Verified {
    /// Every byte of a loaded run.
    fn take_load(&mut self, storage: &Arc<dyn Storage>, range: &Range, load: &KnownLoad) -> Result<()> {
        match load.open(storage.as_ref(), &range.stream) {
            Err(error @ (Error::Storage { .. } | Error::NewerFormat { .. })) => return Err(error),
            Err(error) => self.damages.push(error),
            Ok((run, _)) => {
                run.verify::<ScheduleRow>(&mut |error| self.damages.push(error));
                self.records = self.records.saturating_add(run.row_count());
                self.bytes = self.bytes.saturating_add(run.length());
            }
        }
        Ok(())
    }

    fn take(&mut self, find: Find<'_>, piece: &LogPiece) {
        match find {
            Find::Damage(error) => self.damages.push(error),
            Find::Record { record, location, .. } => {
                self.bytes = self.bytes.saturating_add(u64::from(record.header.length.get()));
                self.record(&record, location, piece);
            }
            Find::Batch { header, start, records } => {
                self.bytes = self.bytes.saturating_add(u64::from(header.length.get()));
                let first = start.0.saturating_add(BATCH_HEADER_BYTES as u64);
                // A batch is shown whole, so that each of its records can be read.
                for (at, record) in Records::new(records, Sequence(header.base_sequence.get())).flatten() {
                    self.record(&record, Location(first.saturating_add(at as u64)), piece);
                }
            }
        }
    }

    fn record(&mut self, record: &RawRecord<'_>, location: Location, piece: &LogPiece) {
        self.records = self.records.saturating_add(1);
        if !record.payload_is_whole() {
            let checked = check_payload(record, &segment_path(piece.segment), location.offset());
            self.damages.extend(checked.err());
        }
    }
}
