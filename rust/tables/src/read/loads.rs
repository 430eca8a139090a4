//! Loaded runs: their messages are in no record of the log, and come behind the fact that adopted them.

use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::record::header::read_record;
use delaymq_core::record::message::decode_message;
use delaymq_core::run::{RowScan, Run, ScanBuffer, ScheduleRow};
use delaymq_core::storage::Storage;
use delaymq_core::units::{Epoch, Millis, Sequence};

use crate::plan::range::Range;
use crate::plan::range_parts::KnownLoad;
use crate::rows::content::Content;
use crate::rows::message_row::MessageRow;
use crate::rows::row_batches::Gathered;
use crate::schema::choice::Choice;
use crate::schema::column::Column;

/// Rows that are shown at once.
const PORTION: usize = 1_000;

/// One reading of the messages of a loaded run.
pub(crate) struct LoadReader {
    run: Run,
    names: Vec<String>,
    epoch: Option<Epoch>,
    next: Sequence,
    published: Millis,
    record: Vec<u8>,
}

impl LoadReader {
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        range: &Range,
        load: &KnownLoad,
        epoch: Option<Epoch>,
    ) -> Result<Self> {
        let (run, names) = load.open(storage.as_ref(), &range.stream)?;
        let next = range.filter.first_sequence.map_or(load.base, |first| first.max(load.base));
        Ok(Self { run, names, epoch, next, published: load.published, record: Vec::new() })
    }

    /// Shows some more rows; false at the end.
    /// Fails with `Storage`.
    pub(crate) fn read_next(&mut self, range: &Range, choice: &Choice, sink: &mut Gathered) -> Result<bool> {
        let mut buffer = ScanBuffer::default();
        let first = self.next.since(self.run.first_sequence());
        let rows_in_block = delaymq_core::run::BLOCK_ROWS as u64;
        let block = u32::try_from(first / rows_in_block).unwrap_or(u32::MAX);
        let (mut rows, mut is_behind) = (Vec::new(), false);
        {
            let mut scan = RowScan::<ScheduleRow>::from_block(&self.run, block, None, &mut buffer);
            while rows.len() < PORTION {
                match scan.next_row() {
                    Ok(Some(row)) if row.key.sequence < self.next => {}
                    Ok(Some(row)) if range.filter.end_sequence.is_some_and(|end| row.key.sequence >= end) => {
                        is_behind = true;
                        break;
                    }
                    Ok(Some(row)) => rows.push(row),
                    Ok(None) => break,
                    Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
                    Err(damage) => {
                        sink.damage(damage.error);
                        scan.skip_block();
                    }
                }
            }
        }
        for row in &rows {
            self.next = row.key.sequence.next();
            match self.show(row, range, choice, sink) {
                Err(error @ Error::Storage { .. }) => return Err(error),
                Err(error) => sink.damage(error),
                Ok(()) => {}
            }
        }
        Ok(rows.len() == PORTION && !is_behind)
    }

    fn show(&mut self, row: &ScheduleRow, range: &Range, choice: &Choice, sink: &mut Gathered) -> Result<()> {
        let filter = &range.filter;
        let place = (row.subject.0 as usize).checked_sub(1);
        let subject = place.and_then(|place| self.names.get(place)).map(String::as_str);
        let is_asked = |subject: &str| range.names.values().any(|name| name == subject);
        let is_other = filter.only_named && !subject.is_some_and(is_asked);
        if is_other || !filter.takes(row.key.sequence, row.key.due) {
            return Ok(());
        }
        let file = self.run.file().path().to_owned();
        let mut shown = MessageRow {
            sequence: row.key.sequence,
            epoch: self.epoch,
            subject,
            key: None,
            content: None,
            published: Some(self.published),
            due: row.key.due,
            file: &file,
            offset: row.location.offset(),
            payload_check: None,
            published_sequence: row.key.sequence,
        };
        if !choice.reads_payload() && !choice.has(Column::PayloadCheck) {
            sink.row(&shown);
            return Ok(());
        }
        let offset = u64::from(row.location.offset());
        self.run.read_payload(offset, row.payload_sequence, Some(row.length), &mut self.record)?;
        let malformed = || Error::corrupt(&file, offset, "a message with id, tags and attributes", "other bytes");
        let record = read_record(&self.record, row.payload_sequence).map_err(|_| malformed())?;
        let message = decode_message(&record).ok_or_else(malformed)?;
        shown.content = Some(Content::of(&message).ok_or_else(malformed)?);
        shown.payload_check = Some(record.header.payload_check.get());
        sink.row(&shown);
        Ok(())
    }
}
