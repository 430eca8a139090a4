//! Queries of the forecast, and their answers.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::schedule_log::DUE_MAX;
use crate::store::owner::Owner;
use crate::store::state::forecast::HotMinute;
use crate::units::{Millis, Minute, Tally, Utc};

/// Milliseconds of an hour, the longest range of a forecast by second.
const HOUR_MS: u64 = 3_600_000;
/// Milliseconds of a second.
const SECOND_MS: u64 = 1_000;

/// The choice of messages that are counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ForecastQuery {
    /// Only messages of this subject; `None` for all subjects.
    pub subject: Option<String>,
    /// From the minute or second of this time on. `None` for no limit; by second, `None` for now.
    pub due_from: Option<Millis>,
    /// Up to the minute or second that has the last millisecond before this time. `None` for no limit; by second,
    /// `None` for an hour.
    pub due_before: Option<Millis>,
    /// Count by second, for at most an hour, instead of by minute.
    pub by_second: bool,
}

/// A minute or a second in which messages are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForecastSlot {
    /// Its first millisecond.
    pub start: Millis,
    /// The messages that are due in it.
    pub tally: Tally,
}

/// The answer: when how many messages are due.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Forecast {
    /// In order. Minutes and seconds in which no message is due are left out.
    pub slots: Vec<ForecastSlot>,
    /// Rows of damaged blocks, which are not counted. Some of them may be pending messages that the query asked for.
    pub hidden_rows: u64,
}

impl ForecastQuery {
    /// Returns the range of due times that are counted.
    ///
    /// # Errors
    /// `InvalidArgument` naming `due_before` if it is before `due_from`, or, by second, more than an hour after it.
    pub fn range(&self, now: Millis) -> Result<Range<Millis>> {
        let first = if self.by_second { now } else { Millis(0) };
        let from = self.due_from.unwrap_or(first);
        let hour = from.plus(HOUR_MS);
        let last = if self.by_second { hour } else { DUE_MAX.next() };
        let before = self.due_before.unwrap_or(last);
        if before < from && self.due_before.is_some() {
            return Err(refused(&format!("a time not before {}", Utc(from)), before));
        }
        if self.by_second && before > hour {
            return Err(refused(&format!("at most an hour after {}, by the second", Utc(from)), before));
        }
        Ok(from..before)
    }
}

fn refused(expected: &str, found: Millis) -> Error {
    Error::InvalidArgument { argument: "due_before", expected: expected.to_owned(), found: Utc(found).to_string() }
}

impl Forecast {
    /// A forecast by minute, in order.
    pub fn of_minutes(minutes: impl Iterator<Item = (Minute, Tally)>, hidden_rows: u64) -> Self {
        Self {
            slots: minutes.map(|(minute, tally)| ForecastSlot { start: minute.start(), tally }).collect(),
            hidden_rows,
        }
    }

    /// Counts a message by second. It must not be due earlier than the messages counted before.
    pub fn add_second(&mut self, due: Millis, tally: Tally) {
        let start = Millis(due.0 / SECOND_MS * SECOND_MS);
        match self.slots.last_mut().filter(|last| last.start == start) {
            Some(last) => last.tally.add(tally),
            None => self.slots.push(ForecastSlot { start, tally }),
        }
    }
}

/// Returns the minutes that a range of times touches.
pub fn minutes_of(range: &Range<Millis>) -> Range<Minute> {
    let last = Millis(range.end.0.saturating_sub(1)).minute();
    range.start.minute()..if range.end > range.start { last.next() } else { range.start.minute() }
}

impl Owner {
    /// Returns the minutes that became hot since the last call, each once.
    pub fn take_hot_minutes(&mut self) -> Vec<HotMinute> {
        self.state.totals.take_newly_hot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_of_whole_minutes_and_never_upside_down() {
        let asked = |from, before, by_second| {
            let query = ForecastQuery { due_from: from, due_before: before, by_second, ..ForecastQuery::default() };
            query.range(Millis(100_000))
        };
        let all = asked(None, None, false).unwrap();
        assert_eq!(minutes_of(&all), Minute(0)..Minute(u32::MAX));
        let some = asked(Some(Millis(60_001)), Some(Millis(120_001)), false).unwrap();
        assert_eq!(minutes_of(&some), Minute(1)..Minute(3));
        assert_eq!(minutes_of(&asked(None, Some(Millis(60_000)), false).unwrap()), Minute(0)..Minute(1));
        assert_eq!(asked(None, None, true).unwrap(), Millis(100_000)..Millis(3_700_000));
        assert_eq!(asked(Some(Millis(5)), Some(Millis(3_600_005)), true).unwrap(), Millis(5)..Millis(3_600_005));
        for by_second in [false, true] {
            let none = asked(Some(Millis(5)), Some(Millis(5)), by_second).unwrap();
            assert!(
                none.is_empty() && minutes_of(&none).is_empty(),
                "an empty range has nothing, and is none that is wrong"
            );
        }
        for (from, before, by_second) in
            [(Some(5), 4, false), (Some(5), 4, true), (None, 99_999, true), (Some(0), 3_600_001, true)]
        {
            let refused = asked(from.map(Millis), Some(Millis(before)), by_second);
            assert!(matches!(refused, Err(Error::InvalidArgument { argument: "due_before", .. })), "{refused:?}");
        }
    }

    #[test]
    fn seconds_are_told_in_order() {
        let mut told = Forecast::default();
        for due in [1_000, 1_999, 2_000] {
            told.add_second(Millis(due), Tally::one(3));
        }
        let slots: Vec<_> =
            told.slots.iter().map(|slot| (slot.start.0, slot.tally.messages, slot.tally.bytes)).collect();
        assert_eq!(slots, [(1_000, 2, 6), (2_000, 1, 3)]);
    }
}
