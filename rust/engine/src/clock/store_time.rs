//! The store's time: the readings of the trusted clock, the reports about it, the acceptance of a step, and what the
//! next opening must know of it.

use std::sync::Arc;
use std::time::Duration;

use delaymq_core::clock::report::ClockReport;
use delaymq_core::clock::{AcceptRefused, Accepted, Hold, Reading, Remembered, Steps, TrustedClock};
use delaymq_core::error::{Error, Result};
use delaymq_core::storage::Storage;
use delaymq_core::units::{Millis, Utc};

use crate::clock::consumer_presence::Activity;
use crate::clock::remembered_clock;
use crate::clock::system_clock::{Boot, Clock, ClockReading, NANOSECONDS_A_MILLISECOND};
use crate::held;
use crate::invalid;
use crate::query::report::Report;
use crate::shared::Shared;
use crate::sync::{Instant, Mutex};

/// How often the time is written for the next opening.
const REMEMBER_EVERY: Duration = Duration::from_secs(60);

/// The time, as far as it is known when a store begins.
#[derive(Clone, Copy)]
pub(crate) struct KnownTime {
    /// The last time in the log.
    pub(crate) floor: Millis,
    /// How far the wall clock is at least ahead of that of the other nodes, as they say. It counts as a step that happened
    /// while the store was closed.
    pub(crate) ahead_ms: Option<i64>,
}

/// The store's time: the core's trusted clock over a source of readings.
pub(crate) struct Time {
    source: Arc<dyn Clock>,
    /// The boot, if the next opening can use what is known now.
    boot: Option<Boot>,
    trusted: Mutex<TrustedClock>,
    /// The last reported state. Its lock makes reports and acceptances take turns, so that each acceptance is reported.
    reported: Mutex<ReportedTime>,
    /// Held while the file for the next opening is written.
    remembering: Mutex<()>,
}

impl Time {
    /// The clock of a store, which accepts a step by itself after `accept_after_ms`.
    pub(crate) fn new(
        source: Arc<dyn Clock>,
        storage: &dyn Storage,
        known: KnownTime,
        accept_after_ms: Option<u64>,
    ) -> Self {
        let boot = source.boot();
        let remembered = boot.as_ref().and_then(|boot| remembered_clock::read(storage, boot));
        let reading = source.read();
        let (wall, boot_ns) = (reading.wall(), reading.boot_ns);
        let KnownTime { floor, ahead_ms } = known;
        let ahead_ms = ahead_ms.and_then(|ahead_ms| u64::try_from(ahead_ms).ok()).filter(|ahead_ms| *ahead_ms > 0);
        let of_others =
            ahead_ms.map(|ahead_ms| Remembered { trusted: Millis(wall.0.saturating_sub(ahead_ms)), boot_ns });
        let remembered = of_others.or(remembered);
        let trusted = match remembered {
            Some(remembered) => TrustedClock::resumed(floor, wall, boot_ns, remembered),
            None => TrustedClock::new(floor, wall, boot_ns),
        };
        let trusted = Mutex::new(trusted.accepting_after(accept_after_ms));
        Self { source, boot, trusted, reported: Mutex::default(), remembering: Mutex::default() }
    }

    /// Reads the clocks under the lock, so that readings enter the trusted clock in order.
    pub(crate) fn read(&self) -> Reading {
        self.read_with_wall().0
    }

    /// As `read`, with the reading of the clocks that it was computed from.
    pub(crate) fn read_with_wall(&self) -> (Reading, ClockReading) {
        self.read_into(&mut held(&self.trusted))
    }

    /// The time since the machine started, in milliseconds. No step of the wall clock changes it.
    pub(crate) fn running_ms(&self) -> u64 {
        self.source.read().boot_ns / NANOSECONDS_A_MILLISECOND
    }

    fn read_into(&self, trusted: &mut TrustedClock) -> (Reading, ClockReading) {
        let reading = self.source.read();
        let mut read = trusted.read(reading.wall(), reading.boot_ns);
        if read.held && self.source.is_synchronised() {
            trusted.release();
            read = trusted.read(reading.wall(), reading.boot_ns);
        }
        (read, reading)
    }

    /// Reads the clocks and reports them.
    pub(crate) fn report(&self) -> ClockReport {
        let mut trusted = held(&self.trusted);
        self.read_into(&mut trusted);
        trusted.report(self.source.is_synchronised())
    }

    /// Reads the clocks, and accepts the step that holds dispatch now, if it is the one that is `ahead_ms` ahead.
    /// Fails with `InvalidArgument` naming `ahead_ms`.
    fn accept(&self, ahead_ms: u64) -> Result<u64> {
        let mut trusted = held(&self.trusted);
        self.read_into(&mut trusted);
        trusted.accept(ahead_ms).map_err(|refused| refusal(refused, ahead_ms))
    }

    /// The clock by its last reading, with the steps that were seen and those that were accepted.
    fn news(&self) -> (ClockReport, Steps, Accepted) {
        let trusted = held(&self.trusted);
        (trusted.report(false), trusted.steps(), trusted.accepted())
    }

    /// Writes what is known now for the next opening of the store.
    pub(crate) fn remember(&self, storage: &dyn Storage) {
        let Some(boot) = &self.boot else { return };
        let _writing = held(&self.remembering);
        let (reading, clock) = self.read_with_wall();
        let known = Remembered { trusted: reading.now, boot_ns: clock.boot_ns };
        // If that fails, the next opening knows less, nothing else.
        let _kept = remembered_clock::write(storage, boot, known);
    }

    pub(crate) fn steps(&self) -> Steps {
        held(&self.trusted).steps()
    }

    /// How many steps were accepted while dispatch was held.
    pub(crate) fn accepts(&self) -> u64 {
        held(&self.trusted).accepted().count
    }

    pub(crate) fn hold(&self) -> Option<Hold> {
        held(&self.trusted).hold()
    }

    /// How consumers tell the clock that they have done something, if it waits for them.
    pub(crate) fn activity(&self) -> Option<Arc<Activity>> {
        self.source.activity()
    }

    pub(crate) fn sleep_max(&self) -> Duration {
        self.source.sleep_max()
    }
}

/// The state of the time that was reported last.
#[derive(Default)]
struct ReportedTime {
    hold: Option<Hold>,
    steps: u64,
    accepts: u64,
}

/// Why a step is not accepted, as an error.
fn refusal(refused: AcceptRefused, ahead_ms: u64) -> Error {
    let (expected, found) = match refused {
        AcceptRefused::NotHeld => ("a step ahead that holds dispatch".to_owned(), "dispatch is not held".to_owned()),
        AcceptRefused::BehindFloor { floor } => (
            "a step ahead that holds dispatch".to_owned(),
            format!(
                "the wall clock is behind {}, a time that is in the log and cannot be taken back; dispatch goes on when \
                 the wall clock has passed it",
                Utc(floor)
            ),
        ),
        AcceptRefused::OtherStep { ahead_ms: now_ms } => {
            (format!("{now_ms}, the step that holds dispatch now"), ahead_ms.to_string())
        }
    };
    invalid("ahead_ms", expected, found)
}

/// When the time was written last, whether dispatch was held then, and the number of clock steps so far.
pub(crate) struct RememberedTime {
    at: Instant,
    held: bool,
    steps: u64,
}

impl Shared {
    /// Reports steps of the wall clock, those that were accepted, and when dispatch is held or goes on.
    pub(crate) fn report_time(&self) {
        self.report_changes(&mut held(&self.time.reported));
    }

    /// As [`crate::Store::accept_clock`].
    pub(crate) fn accept_clock(&self, ahead_ms: u64) -> Result<u64> {
        let accepted_ms = {
            let mut reported = held(&self.time.reported);
            // The hold is reported before its end, also where this call is the first to see it.
            self.time.read();
            self.report_changes(&mut reported);
            let accepted_ms = self.time.accept(ahead_ms)?;
            self.report_changes(&mut reported);
            accepted_ms
        };
        self.time.remember(self.storage.as_ref());
        self.driver.raise();
        Ok(accepted_ms)
    }

    fn report_changes(&self, news: &mut ReportedTime) {
        let (report, steps, accepted) = self.time.news();
        let hold = report.held.map(|held| held.hold);
        if steps.count > news.steps {
            self.reports.add(Report::ClockStepped { by_ms: steps.last_ms });
        }
        if accepted.count > news.accepts {
            self.reports.add(Report::ClockAccepted { by_ms: accepted.last_ms, by_pace: accepted.last_by_pace });
        }
        match report.held {
            // Also after a further step, which needs another command.
            Some(held) if news.hold != hold => self.reports.add(Report::DispatchHeld { reason: held.reason() }),
            None if news.hold.is_some() || accepted.count > news.accepts => self.reports.add(Report::DispatchResumed),
            _ => {}
        }
        if news.hold.is_some() != hold.is_some() || steps.count > news.steps {
            self.helper.raise();
        }
        *news = ReportedTime { hold, steps: steps.count, accepts: accepted.count };
    }

    /// Writes what is known of the time for the next opening: each minute, when a hold begins or ends, and after a step
    /// of the wall clock that is trusted.
    pub(crate) fn keep_time(&self, kept: &mut Option<RememberedTime>) {
        let (is_held, steps) = (self.time.hold().is_some(), self.time.steps().count);
        let is_same = |kept: &RememberedTime| kept.held == is_held && kept.steps == steps;
        if kept.as_ref().is_some_and(|kept| is_same(kept) && kept.at.elapsed() < REMEMBER_EVERY) {
            return;
        }
        self.time.remember(self.storage.as_ref());
        *kept = Some(RememberedTime { at: Instant::now(), held: is_held, steps });
    }
}

#[cfg(test)]
#[path = "store_time_tests.rs"]
mod tests;
