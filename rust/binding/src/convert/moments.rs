//! Times and durations as Python's.

use delaymq_core::units::Millis;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

pub(crate) const DAY_MS: u64 = 86_400_000;
const YEAR_10000_MS: u64 = 253_402_300_800_000;

/// Types of `datetime`.
struct Types {
    datetime: Py<PyAny>,
    timedelta: Py<PyAny>,
    utc: Py<PyAny>,
}

impl Types {
    fn of(py: Python<'_>) -> PyResult<&Self> {
        static TYPES: PyOnceLock<Types> = PyOnceLock::new();
        TYPES.get_or_try_init(py, || {
            let module = py.import("datetime")?;
            let of = |name: &str| Ok::<_, PyErr>(module.getattr(name)?.unbind());
            Ok(Self { datetime: of("datetime")?, timedelta: of("timedelta")?, utc: of("UTC")? })
        })
    }
}

/// A time as an aware datetime in UTC. From the year 10,000 on, it raises the error of `delaymq.durations.moment`.
///
/// The fields are computed here: to add a timedelta to a datetime takes Python three times as long.
pub(crate) fn moment(py: Python<'_>, time: Millis) -> PyResult<Bound<'_, PyAny>> {
    if time.0 >= YEAR_10000_MS {
        return py.import("delaymq.durations")?.call_method1("moment", (time.0,));
    }
    let types = Types::of(py)?;
    let (year, month, day) = date(time.0 / DAY_MS);
    let of_day = time.0 % DAY_MS;
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
    let fields = (year, month, day, hour, minute, second, of_day % 1_000 * 1_000, &types.utc);
    types.datetime.bind(py).call1(fields)
}

/// Milliseconds as a timedelta.
pub(crate) fn duration(py: Python<'_>, milliseconds: i64) -> PyResult<Bound<'_, PyAny>> {
    Types::of(py)?.timedelta.bind(py).call1((0, 0, 0, milliseconds))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar; `None` before 1970.
pub(crate) fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    // A year that begins in March has its leap day at its end.
    let (year, month) = if month > 2 { (year, month.checked_sub(3)?) } else { (year.checked_sub(1)?, month + 9) };
    let leap_days = (year / 4).checked_sub(year / 100)?.checked_add(year / 400)?;
    let before_month = month.checked_mul(153)?.checked_add(2)? / 5;
    let from_year_0 = year.checked_mul(365)?.checked_add(leap_days)?.checked_add(before_month)?.checked_add(day)?;
    // 1970-01-01 is day 719,469 by this count.
    from_year_0.checked_sub(719_469)
}

/// Year, month and day of the Gregorian calendar, from days since 1970-01-01.
const fn date(days: u64) -> (u64, u64, u64) {
    // Counted from 0000-03-01, since a year that begins in March has its leap day at its end.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    if from_march < 10 { (era * 400 + year, from_march + 3, day) } else { (era * 400 + year + 1, from_march - 9, day) }
}
