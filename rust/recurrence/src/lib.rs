//! Computes when a recurring message is due: intervals, and cron patterns in the time of a zone.
//!
//! Pure: no clock, no files, no threads. The caller gives the rules of time zones ([`Zones`]). All times are milliseconds
//! since 1970 in UTC. A rule returns the occurrence after a given one, never the one after the current time, so
//! occurrences do not drift.
//!
//! Changes of the clock: a pattern with one time of day (one second, one minute, one hour) that is in the gap
//! occurs at the first moment after the gap, if that is on a day of the pattern. If it is in the repeated hour, it
//! occurs once, the first time. A pattern with several times of day, by `*`, a list, a range or a step, follows the
//! clock: a skipped time does not occur, and a repeated time occurs twice. An interval does not depend on zones. A
//! gap of more than two hours, as where a zone left out a day, has no first moment after it: times in such a gap do
//! not occur, and the pattern continues after it.
//!
//! If a pattern names days of the month and days of the week, a day that matches either one is a day of the
//! pattern, as in the cron library.

#![forbid(unsafe_code)]

mod pattern;
mod refusal;
mod rule;
mod turn;
mod zones;

pub use pattern::TEXT_BYTES_MAX;
pub use refusal::Refused;
pub use rule::{EVERY_MS_MAX, EVERY_MS_MIN, HORIZON_MS, Rule, ZONE_BYTES_MAX};
pub use turn::{CatchUp, next_turn};
pub use zones::{BUNDLED_VERSION, Zones, ZonesVersion};
