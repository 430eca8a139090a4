//! The text of a cron pattern, as people write it: nicknames such as `@daily`, and ranges that wrap, such as `fri-mon`.
//!
//! In: the text of a user. Out: the same pattern in the fields that the cron library reads, or what is wrong with which
//! field. The nicknames are those of crontab(5); `@every` is an interval and no pattern.

use crate::refusal::{Refused, quoted};

/// The most bytes of the text of a rule.
pub const TEXT_BYTES_MAX: usize = 256;

const SHAPES: &str = "five fields of cron, six with seconds first, @hourly, @daily, @weekly, @monthly, @yearly, or \
                      @every with a duration";
const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// The weeks of a month that `#` may name.
const WEEKS_MAX: u8 = 5;

/// One field of a pattern.
struct Field {
    name: &'static str,
    min: u8,
    max: u8,
    /// The number of values in a cycle. Weekday 7 is weekday 0.
    cycle: u8,
    /// Names of the values from `min` on.
    names: &'static [&'static str],
}

const FIELDS: [Field; 6] = [
    Field { name: "second", min: 0, max: 59, cycle: 60, names: &[] },
    Field { name: "minute", min: 0, max: 59, cycle: 60, names: &[] },
    Field { name: "hour", min: 0, max: 23, cycle: 24, names: &[] },
    Field { name: "day of the month", min: 1, max: 31, cycle: 31, names: &[] },
    Field { name: "month", min: 1, max: 12, cycle: 12, names: &MONTHS },
    Field { name: "weekday", min: 0, max: 7, cycle: 7, names: &WEEKDAYS },
];

/// The requirement on a part of a field, and the part that was found.
struct Wrong {
    expected: String,
    found: String,
}

/// Returns a pattern in the fields that the cron library reads.
///
/// # Errors
/// [`Refused`] naming `cron`: the field, what it must be, and what it was.
pub(crate) fn standard(text: &str) -> Result<String, Refused> {
    let shown = quoted(text, TEXT_BYTES_MAX);
    if text.len() > TEXT_BYTES_MAX {
        return Err(Refused::new("cron", SHAPES, format!("{shown}, which is too long")));
    }
    if let Some((_, pattern)) = NICKNAMES.iter().find(|(nickname, _)| nickname.eq_ignore_ascii_case(text)) {
        return Ok((*pattern).to_owned());
    }
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b" *,-/?#".contains(&byte);
    let texts: Vec<&str> = text.split_ascii_whitespace().collect();
    let missing = FIELDS.len().checked_sub(texts.len()).filter(|missing| *missing <= 1);
    let Some(fields) = missing.and_then(|missing| FIELDS.get(missing..)).filter(|_| text.bytes().all(is_known)) else {
        return Err(Refused::new("cron", SHAPES, shown));
    };
    let standard: Result<Vec<String>, Wrong> =
        fields.iter().zip(texts).map(|(field, text)| field.standard(text)).collect();
    match standard {
        Ok(fields) => Ok(fields.join(" ")),
        Err(wrong) => Err(Refused::new("cron", &wrong.expected, format!("{} in {shown}", wrong.found))),
    }
}

/// Returns the milliseconds of a duration of whole days, hours, minutes, seconds and milliseconds, such as `1h30m`.
pub(crate) fn duration_ms(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 5] = [("ms", 1), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    let (mut rest, mut total_ms) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, behind) = rest.split_at_checked(digits)?;
        let (after, unit_ms) = UNITS.iter().find_map(|(unit, ms)| Some((behind.strip_prefix(unit)?, *ms)))?;
        total_ms = total_ms.checked_add(number.parse::<u64>().ok()?.checked_mul(unit_ms)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total_ms)
}

impl Field {
    fn standard(&self, text: &str) -> Result<String, Wrong> {
        let parts: Result<Vec<String>, Wrong> = text.split(',').map(|part| self.standard_part(part)).collect();
        Ok(parts?.join(","))
    }

    fn standard_part(&self, part: &str) -> Result<String, Wrong> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (part, None),
        };
        if range == "*" || range == "?" || (step.is_none() && self.is_special(range)?) {
            return Ok(part.to_owned());
        }
        let Some((first, last)) = range.split_once('-') else {
            self.value(range)?;
            return Ok(part.to_owned());
        };
        let (first, last) = (self.value(first)?, self.value(last)?);
        Ok(self.listed(first, last, step.unwrap_or(1)))
    }

    /// True if the part names a day by its place in the month: `L`, `LW` or `15W` as a day of the month, `friL` or
    /// `fri#2` as a weekday.
    fn is_special(&self, part: &str) -> Result<bool, Wrong> {
        let upper = part.to_ascii_uppercase();
        let day = match self.name {
            "day of the month" if upper == "L" || upper == "LW" => return Ok(true),
            "day of the month" => upper.strip_suffix('W'),
            "weekday" => match upper.split_once('#') {
                Some((_, "L")) => upper.strip_suffix("#L"),
                Some((day, week)) => {
                    let is_week = week.parse().is_ok_and(|week: u8| (1..=WEEKS_MAX).contains(&week));
                    let expected = || format!("weekday of week 1 to {WEEKS_MAX} or L");
                    Some(is_week.then_some(day).ok_or_else(|| Wrong { expected: expected(), found: part.to_owned() })?)
                }
                None => upper.strip_suffix('L'),
            },
            _ => None,
        };
        day.map_or(Ok(false), |day| self.value(day).map(|_| true))
    }

    fn step(&self, step: &str) -> Result<u8, Wrong> {
        let is_number = !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| step.parse().ok()).flatten();
        number.filter(|number| (1..=self.max).contains(number)).ok_or_else(|| Wrong {
            expected: format!("step of the {} from 1 to {}", self.name, self.max),
            found: step.to_owned(),
        })
    }

    /// The number of a value, or of its name.
    fn value(&self, text: &str) -> Result<u8, Wrong> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named.and_then(|place| u8::try_from(place).ok()?.checked_add(self.min));
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = named.or_else(|| is_number.then(|| text.parse().ok()).flatten());
        number.filter(|number| (self.min..=self.max).contains(number)).ok_or_else(|| {
            let names = match (self.names.first(), self.names.last()) {
                (Some(first), Some(last)) => format!(" or {first} to {last}"),
                _ => String::new(),
            };
            let found = if text.is_empty() { "nothing" } else { text }.to_owned();
            Wrong { expected: format!("{} {} to {}{names}", self.name, self.min, self.max), found }
        })
    }

    /// The values of a range, which may wrap: from the last value of the cycle it goes on with the first one.
    fn listed(&self, first: u8, last: u8, step: u8) -> String {
        let place = |value: u8| (value.saturating_sub(self.min)).checked_rem(self.cycle).unwrap_or_default();
        // From 0 to 7 are all weekdays, and Sunday twice.
        let is_whole = last.saturating_sub(first) >= self.cycle;
        let behind = place(last).saturating_add(if place(last) < place(first) { self.cycle } else { 0 });
        let end = if is_whole { place(first).saturating_add(self.cycle.saturating_sub(1)) } else { behind };
        let values = (place(first)..=end).step_by(usize::from(step));
        let value = |place: u8| place.checked_rem(self.cycle).unwrap_or_default().saturating_add(self.min).to_string();
        values.map(value).collect::<Vec<String>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (String, String) {
        let Refused { part, expected, found } = standard(text).unwrap_err();
        assert_eq!(part, "cron");
        (expected, found)
    }

    #[test]
    fn ranges_wrap_at_the_end_of_their_cycle() {
        let standards = [
            ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
            ("50-10/10 * * * *", "50,0,10 * * * *"),
            ("0 0 30-2 * *", "0 0 30,31,1,2 * *"),
            ("0 0 * nov-FEB *", "0 0 * 11,12,1,2 *"),
            ("0 0 * * fri-mon", "0 0 * * 5,6,0,1"),
            ("0 0 * * fri-sun", "0 0 * * 5,6,0"),
            ("0 0 * * 7-2", "0 0 * * 0,1,2"),
            ("0 0 * * 0-7", "0 0 * * 0,1,2,3,4,5,6"),
            ("0 0 * * 5-7/2", "0 0 * * 5,0"),
            ("0 0 * * 3-3", "0 0 * * 3"),
        ];
        for (text, standard_text) in standards {
            assert_eq!(standard(text).unwrap(), standard_text, "{text}");
        }
    }

    #[test]
    fn what_is_no_range_stays_as_it_is() {
        for text in ["*/20 8,20 1 JAN,jul *", "0 0 L * friL", "0 0 LW,15W * fri#2,1#L", "5 0 0 ? * sun", "7/10 * * * *"]
        {
            assert_eq!(standard(text).unwrap(), text);
        }
    }

    #[test]
    fn nicknames_are_the_patterns_of_crontab() {
        assert_eq!(standard("@daily").unwrap(), "0 0 * * *");
        assert_eq!(standard("@Hourly").unwrap(), "0 * * * *");
        assert_eq!(refused("@reboot").1, "\"@reboot\"");
        assert!(refused("@reboot").0.contains("@daily"));
    }

    #[test]
    fn a_refusal_names_the_field_its_range_and_the_value() {
        let wrong = |text, expected: &str, found: &str| {
            assert_eq!(refused(text), (expected.to_owned(), format!("{found} in {text:?}")));
        };
        wrong("60 * * * *", "minute 0 to 59", "60");
        wrong("60 0 0 * * *", "second 0 to 59", "60");
        wrong("0 8-24 * * *", "hour 0 to 23", "24");
        wrong("0 0 0 * *", "day of the month 1 to 31", "0");
        wrong("0 0 1 jen *", "month 1 to 12 or jan to dec", "jen");
        wrong("0 0 * * 8", "weekday 0 to 7 or sun to sat", "8");
        wrong("0 0 * * mon#6", "weekday of week 1 to 5 or L", "mon#6");
        wrong("*/0 * * * *", "step of the minute from 1 to 59", "0");
        wrong("1,,2 * * * *", "minute 0 to 59", "nothing");
        wrong("0 0 32W * *", "day of the month 1 to 31", "32");
        wrong("300 * * * *", "minute 0 to 59", "300");
        assert_eq!(refused("* * * *"), (SHAPES.to_owned(), "\"* * * *\"".to_owned()));
    }

    #[test]
    fn durations_are_numbers_with_units() {
        let found = ["5m", "1h30m", "90s", "1d", "250ms", "1m250ms", "0s"].map(duration_ms);
        let expected = [300_000, 5_400_000, 90_000, 86_400_000, 250, 60_250, 0].map(Some);
        assert_eq!(found, expected);
        for text in ["", "5", "m", "5 m", "-5m", "1.5h", "5x", "99999999999999999999s", "9999999999999999d"] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }
}
