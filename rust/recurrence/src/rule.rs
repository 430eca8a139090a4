//! One rule: an interval, or a cron pattern and its zone.

use std::fmt;

use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};

use crate::pattern::{TEXT_BYTES_MAX, duration_ms, standard};
use crate::refusal::{Refused, quoted};
use crate::zones::Zones;

/// The shortest interval, in milliseconds.
pub const EVERY_MS_MIN: u64 = 1_000;
/// The longest interval, in milliseconds: ten years.
pub const EVERY_MS_MAX: u64 = HORIZON_MS;
/// Ten years in milliseconds: a rule without an occurrence for so long has no further occurrence.
pub const HORIZON_MS: u64 = 315_360_000_000;
/// The most bytes of the name of a zone.
pub const ZONE_BYTES_MAX: usize = 64;

/// The only zone of an interval.
const UTC: &str = "UTC";
/// The prefix of the text of an interval.
const EVERY: &str = "every ";
/// The same where an interval is written as a cron pattern.
const AT_EVERY: &str = "@every ";
const SECOND_MS: u64 = 1_000;
const HOUR_S: u64 = 3_600;
/// The days of which a pattern must match one to occur at all: [`HORIZON_MS`], and one more at each end, since the
/// day of a zone is not the day of UTC.
const HORIZON_DAYS: usize = 3_652;
/// How far a search continues after a gap that is longer than the cron library handles, in hours.
const GAP_HOURS_MAX: u64 = 48;

/// A rule; see the module.
#[derive(Clone)]
pub struct Rule {
    kind: Kind,
}

impl fmt::Debug for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Every { interval_ms } => write!(out, "Rule({EVERY}{interval_ms}ms)"),
            Kind::Cron { pattern, .. } => write!(out, "Rule({:?})", pattern.pattern.to_string()),
        }
    }
}

#[derive(Clone)]
enum Kind {
    Every { interval_ms: u64 },
    Cron { pattern: Box<Cron>, zone: TimeZone },
}

impl Rule {
    /// The text of a rule with an occurrence every `interval_ms` milliseconds.
    pub fn every_text(interval_ms: u64) -> String {
        format!("{EVERY}{interval_ms}ms")
    }

    /// Reads a rule: `every 900000ms`, or a cron pattern as [`Self::cron`] reads it, in the time of `zone`, an IANA name.
    /// [`Self::next_after`] finds whether it ever occurs.
    ///
    /// # Errors
    /// [`Refused`] naming the part that is wrong.
    pub fn parse(text: &str, zone: &str, zones: &Zones) -> Result<Self, Refused> {
        match text.strip_prefix(EVERY) {
            Some(interval) => Self::every(interval, zone),
            None => Self::cron(text, zone, zones),
        }
    }

    fn every(interval: &str, zone: &str) -> Result<Self, Refused> {
        let digits = interval.strip_suffix("ms").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let found = interval.chars().take(TEXT_BYTES_MAX).collect::<String>();
        Self::every_ms(digits.and_then(|digits| digits.parse().ok()), zone, ("every", "1 second to 10 years", found))
    }

    fn every_ms(interval_ms: Option<u64>, zone: &str, refusal: (&'static str, &str, String)) -> Result<Self, Refused> {
        let fits = interval_ms.filter(|interval_ms| (EVERY_MS_MIN..=EVERY_MS_MAX).contains(interval_ms));
        let Some(interval_ms) = fits else {
            let (part, expected, found) = refusal;
            return Err(Refused::new(part, expected, found));
        };
        if zone != UTC {
            return Err(Refused::new("zone", "no zone but UTC with an interval", quoted(zone, ZONE_BYTES_MAX)));
        }
        Ok(Self { kind: Kind::Every { interval_ms } })
    }

    /// Like [`Self::parse`], for a cron pattern only: five fields, six with seconds first, a nickname such as `@daily`,
    /// or `@every 5m`, which is an interval.
    ///
    /// # Errors
    /// [`Refused`] naming `cron` or `zone`.
    pub fn cron(text: &str, zone: &str, zones: &Zones) -> Result<Self, Refused> {
        if let Some(interval) = text.strip_prefix(AT_EVERY) {
            let expected = "@every with 1 second to 10 years, such as 5m or 1h30m";
            return Self::every_ms(duration_ms(interval), zone, ("cron", expected, quoted(text, TEXT_BYTES_MAX)));
        }
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let pattern = parser.parse(&standard(text)?).map_err(|error| {
            let found = format!("{}: {error}", quoted(text, TEXT_BYTES_MAX));
            Refused::new("cron", "a pattern that can be evaluated", found)
        })?;
        Ok(Self { kind: Kind::Cron { pattern: Box::new(pattern), zone: zone_named(zone, zones)? } })
    }

    /// The first occurrence after `after_ms`; `None` if there is none within ten years. An interval counts from
    /// `after_ms`, which must be an occurrence.
    ///
    /// # Errors
    /// [`Refused`] naming `cron` if the pattern cannot be evaluated from there: then it is unknown whether there is
    /// one.
    pub fn next_after(&self, after_ms: u64) -> Result<Option<u64>, Refused> {
        let next = match &self.kind {
            Kind::Every { interval_ms } => after_ms.checked_add(*interval_ms),
            Kind::Cron { pattern, zone } => next_of(pattern, zone, after_ms)?,
        };
        Ok(next.filter(|next| next.checked_sub(after_ms).is_some_and(|gap_ms| (1..=HORIZON_MS).contains(&gap_ms))))
    }

    /// The last occurrence after `after_ms` that is not after `until_ms`; `None` if there is none.
    ///
    /// # Errors
    /// As [`Self::next_after`].
    pub fn last_until(&self, after_ms: u64, until_ms: u64) -> Result<Option<u64>, Refused> {
        if let Kind::Every { interval_ms } = &self.kind {
            return Ok(last_of_grid(*interval_ms, after_ms, until_ms));
        }
        let within = |from: u64| Ok::<_, Refused>(self.next_after(from)?.filter(|next| *next <= until_ms));
        // An earlier time never has a later next occurrence, so a binary search finds the last time whose next
        // occurrence is within the limit.
        let Some(mut found) = within(after_ms)? else { return Ok(None) };
        let (mut low, mut high) = (found, until_ms);
        while low < high {
            let middle = low.saturating_add(high.saturating_sub(low).div_ceil(2));
            match within(middle)? {
                Some(next) => (found, low) = (next, next),
                None => high = middle.saturating_sub(1),
            }
        }
        Ok(Some(found))
    }

    /// The time from which a rule that begins at `now_ms` counts. Its first occurrence is at or after `start_ms`,
    /// or after now if there is no start or the start has passed. An interval whose start has passed keeps the grid
    /// of its start.
    pub fn counts_from(&self, now_ms: u64, start_ms: Option<u64>) -> Option<u64> {
        let Some(start_ms) = start_ms else { return Some(now_ms) };
        match &self.kind {
            Kind::Every { interval_ms } if start_ms > now_ms => start_ms.checked_sub(*interval_ms),
            Kind::Every { interval_ms } => Some(last_of_grid(*interval_ms, start_ms, now_ms).unwrap_or(start_ms)),
            Kind::Cron { .. } => Some(start_ms.saturating_sub(1).max(now_ms)),
        }
    }
}

fn zone_named(zone: &str, zones: &Zones) -> Result<TimeZone, Refused> {
    let named = (!zone.is_empty() && zone.len() <= ZONE_BYTES_MAX).then(|| zones.get(zone)).flatten();
    named.ok_or_else(|| Refused::new("zone", "the name of a zone, as Europe/Berlin", quoted(zone, ZONE_BYTES_MAX)))
}

/// The last time of a grid that is not after `until_ms`, and after `after_ms`, which is on the grid.
fn last_of_grid(interval_ms: u64, after_ms: u64, until_ms: u64) -> Option<u64> {
    let whole = until_ms.checked_sub(after_ms)?.checked_div(interval_ms)?;
    (whole > 0).then(|| after_ms.checked_add(whole.checked_mul(interval_ms)?)).flatten()
}

/// The next time of a pattern; `None` if no day of the next ten years matches, or the range of times ends before.
/// The library fails if a gap is longer than any in use today. The search then continues from a later hour, since
/// gaps end on an hour.
fn next_of(pattern: &Cron, zone: &TimeZone, after_ms: u64) -> Result<Option<u64>, Refused> {
    let refused = |error: &CronError| {
        let found = format!("{:?} after {after_ms} ms: {error}", pattern.pattern.to_string());
        Refused::new("cron", "a pattern whose next time can be found", found)
    };
    let after_s = after_ms / SECOND_MS;
    let Some(after) = timestamp(after_s) else { return Ok(None) };
    // Checked first, once and day by day: the library would search for a day that never comes until the year 5000.
    if !has_day(pattern, after).map_err(|error| refused(&error))? {
        return Ok(None);
    }
    for hours in 0..=GAP_HOURS_MAX {
        let whole_hour_s = (after_s / HOUR_S).saturating_add(hours).saturating_mul(HOUR_S);
        let Some(from) = timestamp(if hours == 0 { after_s } else { whole_hour_s }) else { return Ok(None) };
        #[cfg(test)]
        tests::SEARCHES.with(|searches| searches.set(searches.get() + 1));
        match pattern.find_next_occurrence(&from.to_zoned(zone.clone()), hours > 0) {
            Ok(next) => return Ok(u64::try_from(next.timestamp().as_millisecond()).ok()),
            Err(CronError::TimeSearchLimitExceeded) => {}
            Err(error) => return Err(refused(&error)),
        }
    }
    Err(refused(&CronError::TimeSearchLimitExceeded))
}

fn timestamp(at_s: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(at_s).ok()?).ok()
}

/// True if a day of the next ten years, in any zone, matches the pattern.
fn has_day(pattern: &Cron, after: Timestamp) -> Result<bool, CronError> {
    let today = TimeZone::UTC.to_datetime(after).date();
    let days = today.yesterday().unwrap_or(today).series(jiff::Span::new().days(1));
    for day in days.take(HORIZON_DAYS) {
        let (month, of_month) = (day.month().unsigned_abs().into(), day.day().unsigned_abs().into());
        let weekday = weekday_of(day);
        if pattern.pattern.month_match(month)?
            && pattern.pattern.day_match(day.year().into(), month, of_month, weekday)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn weekday_of(day: civil::Date) -> Weekday {
    match day.weekday() {
        civil::Weekday::Sunday => Weekday::Sunday,
        civil::Weekday::Monday => Weekday::Monday,
        civil::Weekday::Tuesday => Weekday::Tuesday,
        civil::Weekday::Wednesday => Weekday::Wednesday,
        civil::Weekday::Thursday => Weekday::Thursday,
        civil::Weekday::Friday => Weekday::Friday,
        civil::Weekday::Saturday => Weekday::Saturday,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Searches of the library on this thread.
        pub(super) static SEARCHES: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn the_library_is_not_asked_for_what_never_happens() {
        let searches = |text: &str| {
            SEARCHES.set(0);
            let next =
                Rule::cron(text, "Europe/Berlin", &Zones::bundled()).unwrap().next_after(1_800_000_000_000).unwrap();
            (next.is_some(), SEARCHES.get())
        };
        assert_eq!(searches("0 0 30 2 *"), (false, 0));
        assert_eq!(searches("0 0 * 2 mon#5"), (false, 0));
        assert_eq!(searches("0 0 29 2 *"), (true, 1));
    }
}
