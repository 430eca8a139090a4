//! Rows that become record batches.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use delaymq_core::error::Error;
use delaymq_core::units::Millis;

use crate::column::{Column, Shape};
use crate::schema::Choice;
use crate::table::Table;

/// A batch is handed out with so many rows, or with so many bytes of texts and bodies.
const BATCH_ROWS: usize = 10_000;
const BATCH_BYTES: usize = 8 << 20;

/// What a row has in a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    Number(u64),
    Text(&'a str),
    /// The text that was written down.
    Written,
    Bytes(&'a [u8]),
    Time(Millis),
    Flag(bool),
    /// A number that may be below zero.
    Signed(i64),
}

impl Cell<'_> {
    pub(crate) fn number(number: Option<u64>) -> Self {
        number.map_or(Self::Null, Self::Number)
    }

    pub(crate) fn time(time: Option<Millis>) -> Self {
        time.map_or(Self::Null, Self::Time)
    }
}

impl<'a> Cell<'a> {
    pub(crate) fn text(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

/// One row of a table.
pub(crate) trait Row {
    /// What it has in a column. A text that is made up for it is written down, where nothing stands yet.
    fn cell(&self, column: Column, written: &mut String) -> Cell<'_>;
}

/// What was read and not handed out: rows, full batches of them, and what is damaged.
pub(crate) struct Gathered {
    rows: Rows,
    full: VecDeque<Result<RecordBatch, ArrowError>>,
    pub(crate) damages: Vec<Error>,
    /// What is damaged and told by another range: rows may lack what stood there.
    pub(crate) elsewhere: Vec<Error>,
}

impl Gathered {
    pub(crate) fn new(table: Table, choice: &Choice) -> Self {
        Self { rows: Rows::new(table, choice), full: VecDeque::new(), damages: Vec::new(), elsewhere: Vec::new() }
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.rows.schema)
    }

    /// Takes in a row.
    pub(crate) fn row(&mut self, row: &impl Row) {
        self.rows.push(row);
        if self.rows.is_full() {
            self.full.push_back(self.rows.take());
        }
    }

    pub(crate) fn damage(&mut self, error: Error) {
        self.damages.push(error);
    }

    pub(crate) fn damage_elsewhere(&mut self, error: Error) {
        self.elsewhere.push(error);
    }

    /// The next full batch.
    pub(crate) fn next_full(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        self.full.pop_front()
    }

    /// The rows that are no full batch, where there are any.
    pub(crate) fn rest(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        (self.rows.count > 0).then(|| self.rows.take())
    }

    /// Forgets what was not handed out.
    pub(crate) fn forget(&mut self) {
        self.full.clear();
    }
}

enum Cells {
    Long(Int64Builder),
    Short(Int32Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Time(TimestampMicrosecondBuilder),
    Flag(BooleanBuilder),
}

/// Collects rows.
struct Rows {
    schema: SchemaRef,
    cells: Vec<(Column, Cells)>,
    count: usize,
    bytes: usize,
    written: String,
    /// Rows of the batch before, and bytes of texts and bodies of each of its columns.
    count_before: usize,
    before: Vec<usize>,
}

impl Rows {
    fn new(table: Table, choice: &Choice) -> Self {
        let cells = choice.columns().iter().map(|column| (*column, Cells::of(*column, 0, 0))).collect();
        Self {
            schema: choice.schema(table),
            cells,
            count: 0,
            bytes: 0,
            written: String::new(),
            count_before: 0,
            before: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.count >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    fn push(&mut self, row: &impl Row) {
        if self.count == 0 {
            self.make_room();
        }
        self.count = self.count.saturating_add(1);
        for (column, cells) in &mut self.cells {
            self.written.clear();
            let taken = cells.put(row.cell(*column, &mut self.written), &self.written);
            self.bytes = self.bytes.saturating_add(taken);
        }
    }

    /// Makes room for as much as the batch before had: a column that grows is copied each time.
    fn make_room(&mut self) {
        for ((column, cells), bytes) in self.cells.iter_mut().zip(&self.before) {
            *cells = Cells::of(*column, self.count_before, *bytes);
        }
    }

    /// What was collected, as a record batch.
    fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        self.count_before = self.count;
        self.before = self.cells.iter().map(|(_, cells)| cells.bytes()).collect();
        (self.count, self.bytes) = (0, 0);
        let columns = self.cells.iter_mut().map(|(_, cells)| cells.finish()).collect();
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

impl Cells {
    /// With room for so many rows, and so many bytes of their texts or bodies.
    fn of(column: Column, rows: usize, bytes: usize) -> Self {
        match column.shape() {
            Shape::Long => Self::Long(Int64Builder::with_capacity(rows)),
            Shape::Short => Self::Short(Int32Builder::with_capacity(rows)),
            Shape::Text => Self::Text(StringBuilder::with_capacity(rows, bytes)),
            Shape::Bytes => Self::Bytes(BinaryBuilder::with_capacity(rows, bytes)),
            Shape::Time => Self::Time(TimestampMicrosecondBuilder::with_capacity(rows).with_timezone("UTC")),
            Shape::Flag => Self::Flag(BooleanBuilder::with_capacity(rows)),
        }
    }

    /// Bytes of texts or bodies.
    fn bytes(&self) -> usize {
        match self {
            Self::Text(cells) => cells.values_slice().len(),
            Self::Bytes(cells) => cells.values_slice().len(),
            _ => 0,
        }
    }

    /// Appends a cell, null where it is of another shape, and returns the bytes of its text or body.
    #[expect(clippy::inline_always, reason = "beside the cells of a message, a fifth of all time of reading them")]
    #[inline(always)]
    fn put(&mut self, cell: Cell<'_>, written: &str) -> usize {
        match (self, cell) {
            (Self::Long(cells), Cell::Number(number)) => {
                cells.append_value(i64::try_from(number).unwrap_or(i64::MAX));
            }
            (Self::Long(cells), Cell::Signed(number)) => cells.append_value(number),
            (Self::Short(cells), Cell::Number(number)) => {
                cells.append_value(i32::try_from(number).unwrap_or(i32::MAX));
            }
            (Self::Text(cells), Cell::Text(text)) => {
                cells.append_value(text);
                return text.len();
            }
            (Self::Text(cells), Cell::Written) => {
                cells.append_value(written);
                return written.len();
            }
            (Self::Bytes(cells), Cell::Bytes(bytes)) => {
                cells.append_value(bytes);
                return bytes.len();
            }
            (Self::Time(cells), Cell::Time(time)) => cells.append_value(microseconds(time)),
            (Self::Flag(cells), Cell::Flag(is)) => cells.append_value(is),
            (cells, _) => cells.put_null(),
        }
        0
    }

    fn put_null(&mut self) {
        match self {
            Self::Long(cells) => cells.append_null(),
            Self::Short(cells) => cells.append_null(),
            Self::Text(cells) => cells.append_null(),
            Self::Bytes(cells) => cells.append_null(),
            Self::Time(cells) => cells.append_null(),
            Self::Flag(cells) => cells.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Long(cells) => Arc::new(cells.finish()),
            Self::Short(cells) => Arc::new(cells.finish()),
            Self::Text(cells) => Arc::new(cells.finish()),
            Self::Bytes(cells) => Arc::new(cells.finish()),
            Self::Time(cells) => Arc::new(cells.finish()),
            Self::Flag(cells) => Arc::new(cells.finish()),
        }
    }
}

fn microseconds(time: Millis) -> i64 {
    i64::try_from(time.0).ok().and_then(|ms| ms.checked_mul(1_000)).unwrap_or(i64::MAX)
}
