//! Rows that become record batches.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use delaymq_core::error::Error;

use crate::rows::cells::{Cell, Cells};
use crate::schema::choice::Choice;
use crate::schema::column::Column;
use crate::schema::table::Table;

/// A batch is handed out with so many rows, or with so many bytes of texts and bodies.
const BATCH_ROWS: usize = 10_000;
const BATCH_BYTES: usize = 8 << 20;

/// One row of a table.
pub(crate) trait Row {
    /// What it has in a column. A text that is made up for it is written down, where nothing stands yet.
    fn cell(&self, column: Column, written: &mut String) -> Cell<'_>;
}

/// A row of a table of which many are known at once, and taken in column by column: row by row each cell asks anew which
/// column it is of, and what neighbours have in common is put down for each (2 M messages, with all else that was made
/// cheaper then: 0.39 s of a processor instead of 0.47).
pub(crate) trait Stretch: Row + Sized {
    /// Its texts and bodies have no more bytes than this, whatever columns are asked for.
    fn bytes_max(&self) -> usize;

    /// Appends what these rows have in a column, and returns the bytes of their texts and bodies there.
    fn put(rows: &[Self], column: Column, cells: &mut Cells, written: &mut String) -> usize;
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

    /// Takes in many rows, as if each were given alone.
    pub(crate) fn stretch<R: Stretch>(&mut self, mut rows: &[R]) {
        while let Some(first) = rows.first() {
            let (taken, rest) = rows.split_at(self.rows.room(rows));
            if taken.is_empty() {
                self.row(first);
                rows = rows.get(1..).unwrap_or_default();
                continue;
            }
            self.rows.push_all(taken);
            if self.rows.is_full() {
                self.full.push_back(self.rows.take());
            }
            rows = rest;
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

    /// How many of these rows surely make the batch no fuller than by the last of them. None of them where their
    /// bytes might.
    fn room<R: Stretch>(&self, rows: &[R]) -> usize {
        let count = rows.len().min(BATCH_ROWS.saturating_sub(self.count));
        let bytes = rows.iter().take(count).map(R::bytes_max).fold(self.bytes, usize::saturating_add);
        if bytes < BATCH_BYTES { count } else { 0 }
    }

    fn push_all<R: Stretch>(&mut self, rows: &[R]) {
        if self.count == 0 {
            self.make_room();
        }
        self.count = self.count.saturating_add(rows.len());
        for (column, cells) in &mut self.cells {
            let taken = R::put(rows, *column, cells, &mut self.written);
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
