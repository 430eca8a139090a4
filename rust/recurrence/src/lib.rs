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
//! twice happens twice. An interval knows nothing of zones.

#![forbid(unsafe_code)]

mod rule;
mod turn;

pub use rule::{EVERY_MS_MAX, EVERY_MS_MIN, HORIZON_MS, Refused, Rule, TEXT_BYTES_MAX, ZONE_BYTES_MAX};
pub use turn::{CatchUp, next_turn, turn_of};
