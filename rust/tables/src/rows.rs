//! Rows that become record batches.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use delaymq_core::record::terms::NameHash;
use delaymq_core::units::{Epoch, Millis, Sequence};

use crate::content::Content;
use crate::json::{put_list, put_object};
use crate::range::Table;
use crate::schema::{Choice, Column};

/// A batch is handed out with so many rows, or with so many bytes of texts and bodies.
const BATCH_ROWS: usize = 10_000;
const BATCH_BYTES: usize = 8 << 20;

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) sequence: Sequence,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) subject: Option<&'a str>,
    pub(crate) key: Option<NameHash>,
    /// `None` where no column is of it.
    pub(crate) content: Option<Content<'a>>,
    pub(crate) published: Option<Millis>,
    pub(crate) due: Millis,
    pub(crate) file: &'a str,
    pub(crate) offset: u32,
    /// `None` where the record was not read.
    pub(crate) payload_check: Option<u32>,
    pub(crate) published_sequence: Sequence,
}

enum Cells {
    Long(Int64Builder),
    Short(Int32Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Time(TimestampMicrosecondBuilder),
}

/// Collects rows.
pub(crate) struct Rows {
    schema: SchemaRef,
    cells: Vec<(Column, Cells)>,
    count: usize,
    bytes: usize,
    scratch: String,
}

impl Rows {
    pub(crate) fn new(table: Table, choice: &Choice) -> Self {
        let cells = choice.columns().iter().map(|column| (*column, cells_of(*column))).collect();
        Self { schema: choice.schema(table), cells, count: 0, bytes: 0, scratch: String::new() }
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.count >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    pub(crate) fn push(&mut self, row: &Row<'_>) {
        self.count = self.count.saturating_add(1);
        for (column, cells) in &mut self.cells {
            let taken = match cells {
                Cells::Long(cells) => put_long(cells, *column, row),
                Cells::Short(cells) => {
                    cells.append_option(row.epoch.map(|epoch| i32::try_from(epoch.0).unwrap_or(i32::MAX)));
                    0
                }
                Cells::Text(cells) => put_text(cells, *column, row, &mut self.scratch),
                Cells::Bytes(cells) => {
                    let body = row.content.as_ref().map(|content| content.body);
                    cells.append_option(body);
                    body.map_or(0, <[u8]>::len)
                }
                Cells::Time(cells) => {
                    let time = if matches!(column, Column::Due) { Some(row.due) } else { row.published };
                    cells.append_option(time.map(microseconds));
                    0
                }
            };
            self.bytes = self.bytes.saturating_add(taken);
        }
    }

    /// What was collected, as a record batch.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        (self.count, self.bytes) = (0, 0);
        let columns = self.cells.iter_mut().map(|(_, cells)| finished(cells)).collect();
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

fn cells_of(column: Column) -> Cells {
    use arrow_schema::DataType;
    match column.data_type() {
        DataType::Int64 => Cells::Long(Int64Builder::new()),
        DataType::Int32 => Cells::Short(Int32Builder::new()),
        DataType::Binary => Cells::Bytes(BinaryBuilder::new()),
        DataType::Timestamp(..) => Cells::Time(TimestampMicrosecondBuilder::new().with_timezone("UTC")),
        _ => Cells::Text(StringBuilder::new()),
    }
}

fn finished(cells: &mut Cells) -> ArrayRef {
    match cells {
        Cells::Long(cells) => Arc::new(cells.finish()),
        Cells::Short(cells) => Arc::new(cells.finish()),
        Cells::Text(cells) => Arc::new(cells.finish()),
        Cells::Bytes(cells) => Arc::new(cells.finish()),
        Cells::Time(cells) => Arc::new(cells.finish()),
    }
}

fn put_long(cells: &mut Int64Builder, column: Column, row: &Row<'_>) -> usize {
    let number = match column {
        Column::Sequence => Some(row.sequence.0),
        Column::BodyBytes => row.content.as_ref().map(|content| content.body.len() as u64),
        Column::PublishedSequence => Some(row.published_sequence.0),
        Column::Offset => Some(u64::from(row.offset)),
        Column::PayloadCheck => row.payload_check.map(u64::from),
        _ => None,
    };
    cells.append_option(number.map(|number| i64::try_from(number).unwrap_or(i64::MAX)));
    0
}

/// Appends a text and returns its bytes.
fn put_text(cells: &mut StringBuilder, column: Column, row: &Row<'_>, scratch: &mut String) -> usize {
    scratch.clear();
    let content = row.content.as_ref();
    let text = match (column, content) {
        (Column::Subject, _) => row.subject,
        (Column::Segment, _) => Some(row.file),
        (Column::MessageId, Some(content)) => Some(content.message_id).filter(|id| !id.is_empty()),
        (Column::Tags, Some(content)) => {
            put_list(scratch, content.tags.iter().copied());
            Some(scratch.as_str())
        }
        (Column::Attributes, Some(content)) => {
            put_object(scratch, content.attributes.iter().copied());
            Some(scratch.as_str())
        }
        (Column::Key, _) => row.key.map(|key| {
            let _ = write!(scratch, "{:016x}{:016x}", key.high, key.low);
            scratch.as_str()
        }),
        _ => None,
    };
    cells.append_option(text);
    text.map_or(0, str::len)
}

fn microseconds(time: Millis) -> i64 {
    i64::try_from(time.0).ok().and_then(|ms| ms.checked_mul(1_000)).unwrap_or(i64::MAX)
}
