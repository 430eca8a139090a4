//! When something that recurs happens: intervals, and cron patterns in the time of a zone.
//!
//! Pure: no clock, no files, no threads; the database of zones is part of the program. All times are milliseconds
//! since 1970 in UTC. A rule is asked for the occurrence after a given one, never for one after now, so that
//! nothing drifts.
//!
//! The rule for a clock that is put forward or back: a pattern with one time of day (one second, one minute, one hour)
//! that falls into the gap happens at the first moment after it, where that is a day of the pattern; one that falls
//! into the hour that is there twice happens once, the first time. A pattern with several times of day, by `*`, a
//! list, a range or a step, goes by what the clock shows: what it does not show does not happen, and what it shows
//! twice happens twice. An interval knows nothing of zones. A gap of more than two hours, as where a zone left out a
//! day, has no first moment after it: what falls into one does not happen, and the pattern goes on behind it.
//!
//! Where a pattern names days of the month and days of the week, a day that is one of either is a day of it, as the
//! library has it: the two are joined by or.

#![forbid(unsafe_code)]

mod rule;
mod turn;

pub use rule::{EVERY_MS_MAX, EVERY_MS_MIN, HORIZON_MS, Refused, Rule, TEXT_BYTES_MAX, ZONE_BYTES_MAX};
pub use turn::{CatchUp, next_turn, turn_of};
