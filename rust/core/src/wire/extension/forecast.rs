//! The due messages of each minute or second: FORECAST (244).
//!
//! | bytes | field of the request |
//! |---|---|
//! | str | `subject`; empty for all |
//! | 1 | `by_second`: 1 by seconds, 0 by minutes |
//! | 8 | `due_from_ms`; 2^64-1 for the first due time, or, by seconds, for now |
//! | 8 | `due_before_ms`; 2^64-1 for no limit, or, by seconds, for an hour |
//!
//! | bytes | field of the answer |
//! |---|---|
//! | 8 | `next_ms`: the start of the next piece; 0 if this is the last one |
//! | 8 | `hidden_rows`: entries of damaged blocks, which are not counted |
//! | 4, then each | `start_ms u64`, `messages u64`, `bytes u64` of a minute or second with due messages, in order |

use bytes::BufMut;

use crate::error::Result;
use crate::store::{Forecast, ForecastQuery, ForecastSlot};
use crate::units::{Millis, Tally};
use crate::wire::fields::{put_count, put_text};
use crate::wire::malformed::Read;
use crate::wire::reader::Reader;

/// The most minutes or seconds in one answer.
pub const SLOTS_MAX: usize = 32_768;
/// Bytes of one of them.
const SLOT_BYTES: usize = 24;
/// Means that there is no limit.
const NO_BOUND: u64 = u64::MAX;

/// A request for a piece of the forecast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForecastAsked<'a> {
    /// The subject; empty for all subjects.
    pub subject: &'a str,
    /// True for seconds, false for minutes.
    pub by_second: bool,
    /// Due at this time or later.
    pub due_from: Option<Millis>,
    /// Due before this time.
    pub due_before: Option<Millis>,
}

impl<'a> ForecastAsked<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let (subject, by_second) = (reader.text("subject")?, reader.flag("by_second")?);
        let (due_from, due_before) = (reader.u64("due_from")?, reader.u64("due_before")?);
        let bound = |due: u64| (due != NO_BOUND).then_some(Millis(due));
        Ok(Self { subject, by_second, due_from: bound(due_from), due_before: bound(due_before) })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_text(out, "subject", self.subject)?;
        out.put_u8(u8::from(self.by_second));
        out.put_u64(self.due_from.map_or(NO_BOUND, |due| due.0));
        out.put_u64(self.due_before.map_or(NO_BOUND, |due| due.0));
        Ok(())
    }

    /// The query for the store.
    pub fn query(&self) -> ForecastQuery {
        ForecastQuery {
            subject: (!self.subject.is_empty()).then(|| self.subject.to_owned()),
            due_from: self.due_from,
            due_before: self.due_before,
            by_second: self.by_second,
        }
    }
}

/// A piece of the forecast.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForecastTold {
    /// The start of the next piece; 0 if there is none.
    pub next: Millis,
    /// The counts.
    pub forecast: Forecast,
}

impl ForecastTold {
    /// The first part of a forecast that fits into one answer.
    pub fn first_of(mut forecast: Forecast) -> Self {
        let next = forecast.slots.get(SLOTS_MAX).map_or(Millis(0), |slot| slot.start);
        forecast.slots.truncate(SLOTS_MAX);
        Self { next, forecast }
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &[u8]) -> Read<Self> {
        let mut reader = Reader::new(body);
        let (next, hidden_rows) = (Millis(reader.u64("next")?), reader.u64("hidden_rows")?);
        let count = reader.count("slots", SLOTS_MAX, SLOT_BYTES)?;
        let mut slots = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Millis(reader.u64("start")?);
            slots.push(ForecastSlot {
                start,
                tally: Tally { messages: reader.u64("messages")?, bytes: reader.u64("bytes")? },
            });
        }
        reader.finish("slots").map(|()| Self { next, forecast: Forecast { slots, hidden_rows } })
    }

    /// Appends the answer.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u64(self.next.0);
        out.put_u64(self.forecast.hidden_rows);
        put_count(out, "slots", SLOTS_MAX, self.forecast.slots.len())?;
        for slot in &self.forecast.slots {
            out.put_u64(slot.start.0);
            out.put_u64(slot.tally.messages);
            out.put_u64(slot.tally.bytes);
        }
        Ok(())
    }
}
