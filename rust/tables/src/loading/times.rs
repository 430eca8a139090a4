//! The due time of a row, or the time at which it expires, from any unit. Fractions of a millisecond round up, so that
//! nothing is early.

use arrow_array::{
    Array, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use arrow_schema::DataType;
use delaymq_core::error::Result;
use delaymq_core::units::Millis;

use super::texts::Texts;
use crate::refused;

const NANOS_OF_MILLI: i128 = 1_000_000;

#[derive(Clone, Copy)]
enum Values<'a> {
    Seconds(&'a TimestampSecondArray),
    Millis(&'a TimestampMillisecondArray),
    Micros(&'a TimestampMicrosecondArray),
    Nanos(&'a TimestampNanosecondArray),
    /// As ISO 8601 writes them.
    Written(Texts<'a>),
}

/// A column of times.
#[derive(Clone, Copy)]
pub(super) struct Times<'a> {
    name: &'static str,
    values: Values<'a>,
    has_zone: bool,
}

impl<'a> Times<'a> {
    /// `None` for an array that holds something else. Times without a zone are times: each row is refused for it.
    pub(super) fn of(name: &'static str, array: &'a dyn Array) -> Option<Self> {
        let any = array.as_any();
        let values = None
            .or_else(|| any.downcast_ref().map(Values::Micros))
            .or_else(|| any.downcast_ref().map(Values::Millis))
            .or_else(|| any.downcast_ref().map(Values::Nanos))
            .or_else(|| any.downcast_ref().map(Values::Seconds))
            .or_else(|| Texts::of(array).map(Values::Written))?;
        let has_zone = !matches!(array.data_type(), DataType::Timestamp(_, None));
        Some(Self { name, values, has_zone })
    }

    /// The time of the row at a place; `None` if it is null.
    pub(super) fn at(self, place: usize) -> Result<Option<Millis>> {
        let nanos = |value: i64, unit: i128| i128::from(value).saturating_mul(unit);
        let found = match self.values {
            Values::Seconds(array) => array.is_valid(place).then(|| nanos(array.value(place), 1_000_000_000)),
            Values::Millis(array) => array.is_valid(place).then(|| nanos(array.value(place), 1_000_000)),
            Values::Micros(array) => array.is_valid(place).then(|| nanos(array.value(place), 1_000)),
            Values::Nanos(array) => array.is_valid(place).then(|| nanos(array.value(place), 1)),
            Values::Written(texts) => texts.at(place).map(|text| written(self.name, text)).transpose()?,
        };
        let Some(nanos) = found else { return Ok(None) };
        if !self.has_zone {
            return Err(refused(self.name, "a time with a zone", "one without"));
        }
        rounded_up(self.name, nanos).map(Some)
    }
}

fn rounded_up(name: &'static str, nanos: i128) -> Result<Millis> {
    // Towards later: the quotient of what is negative is cut towards zero already.
    let below = nanos.div_euclid(NANOS_OF_MILLI);
    let millis = if nanos.rem_euclid(NANOS_OF_MILLI) == 0 { below } else { below.saturating_add(1) };
    let expected = if millis < 0 { "a time after 1970" } else { "a time that fits into 64 bits of ms since 1970" };
    u64::try_from(millis).map(Millis).map_err(|_| refused(name, expected, &format!("{millis} ms since then")))
}

fn written(name: &'static str, text: &str) -> Result<i128> {
    let found = text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_nanosecond);
    // Text of a stranger is not repeated whole.
    let shown: String = text.chars().take(50).collect();
    found.map_err(|_| refused(name, "a time with a zone, as in 2030-01-31T12:00:00Z", &format!("{shown:?}")))
}
