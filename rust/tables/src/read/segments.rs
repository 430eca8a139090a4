//! The table `segments`: every file of the log and every run, from headers and footers. No record is read.

use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{SEGMENT_HEADER_BYTES, SegmentHeader, Stream, segment_path};
use delaymq_core::record::batch::{BATCH_HEADER_BYTES, BatchHeader};
use delaymq_core::run::{Run, RunKind, TIME_BUCKET_MS};
use delaymq_core::storage::{Storage, StorageFile, read_upto};
use delaymq_core::units::{Millis, Sequence};

use crate::plan::range_parts::{KnownFile, KnownSegment};
use crate::rows::cells::Cell;
use crate::rows::row_batches::{Gathered, Row};
use crate::schema::column::Column;

struct FileRow {
    log: &'static str,
    path: String,
    number: u32,
    sequences: Option<(Sequence, Sequence)>,
    bytes: u64,
    rows: u64,
    min_time: Option<Millis>,
    max_time: Option<Millis>,
    is_sealed: bool,
}

impl Row for FileRow {
    fn cell(&self, column: Column, _written: &mut String) -> Cell<'_> {
        match column {
            Column::Log => Cell::Text(self.log),
            Column::Path => Cell::Text(&self.path),
            Column::Number => Cell::Number(u64::from(self.number)),
            Column::BaseSequence => Cell::number(self.sequences.map(|(first, _)| first.0)),
            Column::EndSequence => Cell::number(self.sequences.map(|(_, end)| end.0)),
            Column::Rows => Cell::Number(self.rows),
            Column::Bytes => Cell::Number(self.bytes),
            Column::MinTime => Cell::time(self.min_time),
            Column::MaxTime => Cell::time(self.max_time),
            Column::Sealed => Cell::Flag(self.is_sealed),
            _ => Cell::Null,
        }
    }
}

/// Shows the row of a file, or why there is none.
/// Fails with `Storage`, `NewerFormat`.
pub(crate) fn show_file(
    storage: &Arc<dyn Storage>,
    stream: &Stream,
    file: &KnownFile,
    sink: &mut Gathered,
) -> Result<()> {
    let row = match file {
        KnownFile::Segment(known) => segment_row(storage.as_ref(), stream, known),
        KnownFile::Run(number) => Run::open_any(storage.as_ref(), *number, &stream.id).and_then(|run| run_row(&run)),
        KnownFile::Load(load) => load.open(storage.as_ref(), stream).and_then(|(run, _)| run_row(&run)),
    };
    match row {
        Ok(row) => sink.row(&row),
        Err(error @ (Error::Storage { .. } | Error::NewerFormat { .. })) => return Err(error),
        Err(error) => sink.damage(error),
    }
    Ok(())
}

fn segment_row(storage: &dyn Storage, stream: &Stream, known: &KnownSegment) -> Result<FileRow> {
    let path = segment_path(known.number);
    let file = match storage.open(&path) {
        Err(error) if error.is_not_found() => {
            let reason = format!("facts {} to {} were in it", known.first, known.end);
            return Err(Error::MissingFile { path, reason });
        }
        other => other?,
    };
    let block = read_upto(file.as_ref(), 0, SEGMENT_HEADER_BYTES as usize)?;
    SegmentHeader::read(&path, &block)?.check_place(&path, known.number, stream)?;
    Ok(FileRow {
        log: "message",
        path,
        number: known.number.0,
        sequences: Some((known.first, known.end)),
        bytes: file.length()?,
        rows: known.end.since(known.first),
        min_time: if known.begins_hollow { None } else { Some(first_time(file.as_ref(), known)?) },
        max_time: Some(known.trusted_to),
        is_sealed: known.is_sealed,
    })
}

/// The trusted time of the first batch of a segment.
fn first_time(file: &dyn StorageFile, known: &KnownSegment) -> Result<Millis> {
    let at = u64::from(SEGMENT_HEADER_BYTES);
    let bytes = read_upto(file, at, BATCH_HEADER_BYTES)?;
    let header = BatchHeader::read(&bytes).filter(|header| header.base_sequence.get() <= known.first.0);
    let header = header.ok_or_else(|| Error::corrupt(file.path(), at, "the header of a batch", "other bytes"))?;
    Ok(Millis(header.trusted_ms.get()))
}

fn run_row(run: &Run) -> Result<FileRow> {
    let is_schedule = run.kind() == RunKind::Schedule;
    let last_hour = if is_schedule { run.time_buckets()?.last().copied() } else { None };
    let has_rows = run.row_count() > 0;
    Ok(FileRow {
        log: if is_schedule { "schedule" } else { "dispatch" },
        path: run.file().path().to_owned(),
        number: run.number().0,
        sequences: has_rows.then(|| (run.first_sequence(), run.last_sequence().next())),
        bytes: run.length(),
        rows: run.row_count(),
        min_time: run.first_key().filter(|_| is_schedule).map(|key| key.due_key().due),
        max_time: last_hour.map(|hour| hour.start.plus(TIME_BUCKET_MS - 1)),
        is_sealed: true,
    })
}
