//! The store's time: the readings of the trusted clock, the reports about it, and what the next opening must know of
//! it.

use std::sync::Arc;
use std::time::Duration;

use delaymq_core::clock::{Hold, Reading, Remembered, Steps, TrustedClock};
use delaymq_core::storage::Storage;
use delaymq_core::units::Millis;

use crate::clock::consumer_presence::Activity;
use crate::clock::remembered_clock;
use crate::clock::remembered_clock::FILE_NAME;
use crate::clock::system_clock::{Boot, Clock, ClockReading};
use crate::held;
use crate::query::report::Report;
use crate::shared::Shared;
use crate::sync::{Instant, Mutex};

/// How often the time is written for the next opening.
const REMEMBER_EVERY: Duration = Duration::from_secs(60);

/// The store's time: the core's trusted clock over a source of readings.
pub(crate) struct Time {
    source: Arc<dyn Clock>,
    /// The boot, if the next opening can use what is known now.
    boot: Option<Boot>,
    trusted: Mutex<TrustedClock>,
}

impl Time {
    /// The clock of a store whose log knows `floor`.
    pub(crate) fn new(source: Arc<dyn Clock>, storage: &dyn Storage, floor: Millis) -> Self {
        let boot = source.boot();
        let remembered = boot.as_ref().and_then(|boot| remembered_clock::read(storage, boot));
        let reading = source.read();
        let (wall, boot_ns) = (reading.wall(), reading.boot_ns);
        let trusted = match remembered {
            Some(remembered) => TrustedClock::resumed(floor, wall, boot_ns, remembered),
            None => TrustedClock::new(floor, wall, boot_ns),
        };
        Self { source, boot, trusted: Mutex::new(trusted) }
    }

    /// Reads the clocks under the lock, so that readings enter the trusted clock in order.
    pub(crate) fn read(&self) -> Reading {
        self.read_with_wall().0
    }

    /// As `read`, with the reading of the clocks that it was computed from.
    pub(crate) fn read_with_wall(&self) -> (Reading, ClockReading) {
        let mut trusted = held(&self.trusted);
        let reading = self.source.read();
        let mut read = trusted.read(reading.wall(), reading.boot_ns);
        if read.held && self.source.is_synchronised() {
            trusted.release();
            read = trusted.read(reading.wall(), reading.boot_ns);
        }
        (read, reading)
    }

    /// Writes what is known now for the next opening of the store.
    pub(crate) fn remember(&self, storage: &dyn Storage) {
        let Some(boot) = &self.boot else { return };
        let (reading, clock) = self.read_with_wall();
        let known = Remembered { trusted: reading.now, boot_ns: clock.boot_ns };
        // If that fails, the next opening knows less, nothing else.
        let _kept = remembered_clock::write(storage, boot, known);
    }

    pub(crate) fn steps(&self) -> Steps {
        held(&self.trusted).steps()
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
pub(crate) struct ReportedTime {
    hold: Option<Hold>,
    steps: u64,
}

/// When the time was written last, whether dispatch was held then, and the number of clock steps so far.
pub(crate) struct RememberedTime {
    at: Instant,
    held: bool,
    steps: u64,
}

impl Shared {
    /// Reports steps of the wall clock, and when dispatch is held or goes on.
    pub(crate) fn report_time(&self, news: &mut ReportedTime) {
        let (hold, steps) = (self.time.hold(), self.time.steps());
        if steps.count > news.steps {
            self.reports.add(Report::ClockStepped { by_ms: steps.last_ms });
        }
        match (news.hold, hold) {
            (None, Some(hold)) => {
                let reason = match hold {
                    Hold::BehindFloor { floor } => format!("the wall clock is behind {floor} ms, which the log knows"),
                    Hold::SteppedAhead { by_ms } => format!(
                        "the wall clock stepped ahead by {by_ms} ms; where that is right and no time service says so, close \
                         the store, remove its file {FILE_NAME} and open it again"
                    ),
                };
                self.reports.add(Report::DispatchHeld { reason });
            }
            (Some(_), None) => self.reports.add(Report::DispatchResumed),
            _ => {}
        }
        if news.hold.is_some() != hold.is_some() || steps.count > news.steps {
            self.helper.raise();
        }
        *news = ReportedTime { hold, steps: steps.count };
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
