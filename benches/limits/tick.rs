//! Limit of `lateness`: a bare `clock_nanosleep` until each millisecond in which something is due,
//! then one bare `pwrite` and `fdatasync` of the fact that says so. Beside it, as `plain`, the timer alone:
//! how late it woke, of the ticks to which it could sleep.

use std::os::unix::fs::FileExt;

use rustix::thread::{ClockId, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::Timespec;

use super::prepared::zeroed;
use crate::case::{Case, Failure, Figures, now_us, percentiles};

const FACT_BYTES: u64 = 192;

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (rate, milliseconds) = (case.count("rate_per_s")?, case.count("milliseconds")?);
    let ticks = (rate * milliseconds / 1_000).min(milliseconds);
    let file = zeroed(&case.folder.join("limit"), ticks * FACT_BYTES)?;
    set_current_timer_slack(Some(std::num::NonZeroU64::MIN)).map_err(std::io::Error::from)?;
    let first_us = (now_us() / 1_000 + 50) * 1_000;
    let (mut late, mut woken) = (Vec::new(), Vec::new());
    for tick in 0..ticks {
        let due_us = first_us + tick * milliseconds * 1_000 / ticks;
        let until = Timespec {
            tv_sec: i64::try_from(due_us / 1_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(due_us % 1_000_000 * 1_000).unwrap_or(0),
        };
        let is_ahead = now_us() < due_us;
        while clock_nanosleep_absolute(ClockId::Realtime, &until).is_err() {}
        if is_ahead {
            woken.push(late_ms(due_us));
        }
        file.write_all_at(&[0xA5; FACT_BYTES as usize], tick * FACT_BYTES)?;
        file.sync_data()?;
        late.push(late_ms(due_us));
    }
    set_current_timer_slack(None).map_err(std::io::Error::from)?;
    let mut figures = percentiles(&mut late);
    figures.insert("value", figures.get("p99_ms").copied().unwrap_or(0.0));
    figures.insert("plain", percentiles(&mut woken).get("p99_ms").copied().unwrap_or(0.0));
    Ok(figures)
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of our time fit into 2^52")]
fn late_ms(due_us: u64) -> f64 {
    (now_us() as f64 - due_us as f64) / 1e3
}
