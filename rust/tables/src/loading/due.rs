//! The due time of a row, from any unit. Fractions of a millisecond round up, so that nothing is early.

use arrow_array::{
    Array, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use arrow_schema::DataType;
use delaymq_core::error::{Error, Result};
use delaymq_core::units::Millis;

use super::texts::Texts;
use crate::refused;

const NANOS_OF_MILLI: i128 = 1_000_000;

#[derive(Clone, Copy)]
enum Times<'a> {
    Seconds(&'a TimestampSecondArray),
    Millis(&'a TimestampMillisecondArray),
    Micros(&'a TimestampMicrosecondArray),
    Nanos(&'a TimestampNanosecondArray),
    /// As ISO 8601 writes them.
    Written(Texts<'a>),
}

/// A column of due times.
#[derive(Clone, Copy)]
pub(super) struct Dues<'a> {
    times: Times<'a>,
    has_zone: bool,
}

impl<'a> Dues<'a> {
    /// `None` for an array that holds something else. Times without a zone are times: each row is refused for it.
    pub(super) fn of(array: &'a dyn Array) -> Option<Self> {
        let any = array.as_any();
        let times = None
            .or_else(|| any.downcast_ref().map(Times::Micros))
            .or_else(|| any.downcast_ref().map(Times::Millis))
            .or_else(|| any.downcast_ref().map(Times::Nanos))
            .or_else(|| any.downcast_ref().map(Times::Seconds))
            .or_else(|| Texts::of(array).map(Times::Written))?;
        let has_zone = !matches!(array.data_type(), DataType::Timestamp(_, None));
        Some(Self { times, has_zone })
    }

    /// When the row at a place is due.
    pub(super) fn at(self, place: usize) -> Result<Millis> {
        let nanos = |value: i64, unit: i128| i128::from(value).saturating_mul(unit);
        let found = match self.times {
            Times::Seconds(array) => array.is_valid(place).then(|| nanos(array.value(place), 1_000_000_000)),
            Times::Millis(array) => array.is_valid(place).then(|| nanos(array.value(place), 1_000_000)),
            Times::Micros(array) => array.is_valid(place).then(|| nanos(array.value(place), 1_000)),
            Times::Nanos(array) => array.is_valid(place).then(|| nanos(array.value(place), 1)),
            Times::Written(texts) => texts.at(place).map(written).transpose()?,
        };
        let Some(nanos) = found else { return Err(refused_due("a time", "null")) };
        if !self.has_zone {
            return Err(refused_due("a time with a zone", "one without"));
        }
        rounded_up(nanos)
    }
}

fn rounded_up(nanos: i128) -> Result<Millis> {
    // Towards later: the quotient of what is negative is cut towards zero already.
    let below = nanos.div_euclid(NANOS_OF_MILLI);
    let millis = if nanos.rem_euclid(NANOS_OF_MILLI) == 0 { below } else { below.saturating_add(1) };
    let expected = if millis < 0 { "a time after 1970" } else { "a time that fits into 64 bits of ms since 1970" };
    u64::try_from(millis).map(Millis).map_err(|_| refused_due(expected, &format!("{millis} ms since then")))
}

fn written(text: &str) -> Result<i128> {
    let found = text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_nanosecond);
    // Text of a stranger is not repeated whole.
    let shown: String = text.chars().take(50).collect();
    found.map_err(|_| refused_due("a time with a zone, as in 2030-01-31T12:00:00Z", &format!("{shown:?}")))
}

fn refused_due(expected: &str, found: &str) -> Error {
    refused("due", expected, found)
}
