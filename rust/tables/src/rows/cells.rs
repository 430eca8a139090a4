//! The cells of one column of a batch that is being collected.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Int32Builder, Int64Builder, PrimitiveBuilder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, StringArray};
use delaymq_core::units::Millis;

use crate::schema::column::{Column, Shape};

/// The value of a row in a column.
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

/// So many values are put together before they are appended.
const VALUES: usize = 64;
/// A text that so many rows have is copied as a whole stretch: each copy of two bytes costs as much as one of a hundred.
const REPEATED_FROM: usize = 8;

/// See the module.
pub(crate) enum Cells {
    Long(Int64Builder),
    Short(Int32Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Time(TimestampMicrosecondBuilder),
    Flag(BooleanBuilder),
}

impl Cells {
    /// With room for so many rows, and so many bytes of their texts or bodies.
    pub(crate) fn of(column: Column, rows: usize, bytes: usize) -> Self {
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
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(cells) => cells.values_slice().len(),
            Self::Bytes(cells) => cells.values_slice().len(),
            _ => 0,
        }
    }

    /// Appends a cell, null where it is of another shape, and returns the bytes of its text or body.
    #[expect(clippy::inline_always, reason = "a column is matched once then, not a second time by its cell")]
    #[inline(always)]
    pub(crate) fn put(&mut self, cell: Cell<'_>, written: &str) -> usize {
        match (self, cell) {
            (Self::Long(cells), Cell::Number(number)) => cells.append_value(long(number)),
            (Self::Long(cells), Cell::Signed(number)) => cells.append_value(number),
            (Self::Short(cells), Cell::Number(number)) => cells.append_value(short(number)),
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
            (cells, _) => cells.put_nulls(1),
        }
        0
    }

    /// Appends a number of each row.
    pub(crate) fn put_numbers<R>(&mut self, rows: &[R], number: impl Fn(&R) -> Option<u64>) {
        match self {
            Self::Long(cells) => append_each(cells, rows, |row| number(row).map(long)),
            other => other.put_nulls(rows.len()),
        }
    }

    /// Appends a time of each row.
    pub(crate) fn put_times<R>(&mut self, rows: &[R], time: impl Fn(&R) -> Option<Millis>) {
        match self {
            Self::Time(cells) => append_each(cells, rows, |row| time(row).map(microseconds)),
            other => other.put_nulls(rows.len()),
        }
    }

    /// Appends a body of each row, and returns their bytes.
    pub(crate) fn put_bodies<R>(&mut self, rows: &[R], body: impl Fn(&R) -> Option<&[u8]>) -> usize {
        let Self::Bytes(cells) = self else {
            self.put_nulls(rows.len());
            return 0;
        };
        let before = cells.values_slice().len();
        for row in rows {
            cells.append_option(body(row));
        }
        cells.values_slice().len().saturating_sub(before)
    }

    /// Appends a cell so many times, and returns the bytes of all of them.
    pub(crate) fn put_repeated(&mut self, cell: Cell<'_>, times: usize, written: &str) -> usize {
        match (self, cell) {
            (Self::Short(cells), Cell::Number(number)) => cells.append_value_n(short(number), times),
            (Self::Time(cells), Cell::Time(time)) => cells.append_value_n(microseconds(time), times),
            (Self::Text(cells), Cell::Text(text)) => {
                if times < REPEATED_FROM || cells.append_array(&StringArray::new_repeated(text, times)).is_err() {
                    cells.append_value_n(text, times);
                }
                return text.len().saturating_mul(times);
            }
            (cells, Cell::Null) => cells.put_nulls(times),
            (cells, cell) => return (0..times).map(|_| cells.put(cell, written)).sum(),
        }
        0
    }

    fn put_nulls(&mut self, count: usize) {
        match self {
            Self::Long(cells) => cells.append_nulls(count),
            Self::Short(cells) => cells.append_nulls(count),
            Self::Text(cells) => cells.append_nulls(count),
            Self::Bytes(cells) => cells.append_nulls(count),
            Self::Time(cells) => cells.append_nulls(count),
            Self::Flag(cells) => cells.append_nulls(count),
        }
    }

    pub(crate) fn finish(&mut self) -> ArrayRef {
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

/// Appends a value of each row, or null.
fn append_each<T, R>(cells: &mut PrimitiveBuilder<T>, rows: &[R], value: impl Fn(&R) -> Option<i64>)
where
    T: ArrowPrimitiveType<Native = i64>,
{
    for rows in rows.chunks(VALUES) {
        let (mut values, mut are_there) = ([0; VALUES], [false; VALUES]);
        for ((row, into), is_there) in rows.iter().zip(&mut values).zip(&mut are_there) {
            let found = value(row);
            (*into, *is_there) = (found.unwrap_or_default(), found.is_some());
        }
        let (values, are_there) = (values.split_at(rows.len()).0, are_there.split_at(rows.len()).0);
        if are_there.iter().all(|is| *is) {
            cells.append_slice(values);
        } else {
            cells.append_values(values, are_there);
        }
    }
}

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn short(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn microseconds(time: Millis) -> i64 {
    i64::try_from(time.0).ok().and_then(|ms| ms.checked_mul(1_000)).unwrap_or(i64::MAX)
}
