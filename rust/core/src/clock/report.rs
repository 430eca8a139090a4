//! The report of a clock: whether dispatch is held, why, and how the hold ends.

use std::fmt;

use super::{Hold, NANOS_PER_MILLI, TrustedClock};
use crate::units::{Millis, Span, Utc};

/// The clock of a store at its last reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReport {
    /// The trusted time.
    pub now: Millis,
    /// The wall clock.
    pub wall: Millis,
    /// True if the kernel reports that a time service keeps the wall clock right.
    pub is_synchronised: bool,
    /// The hold, if dispatch is held.
    pub held: Option<HeldReport>,
}

/// A hold of dispatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldReport {
    /// Why.
    pub hold: Hold,
    /// The trusted time when it began.
    pub since: Millis,
    /// For how long, in milliseconds.
    pub held_ms: u64,
    /// How far the wall clock is ahead of the trusted clock, in milliseconds; less than 0 if it is behind.
    pub ahead_ms: i64,
    /// After how many milliseconds without another step it is accepted; `None` if it never is.
    pub accepted_in_ms: Option<u64>,
}

impl ClockReport {
    /// How far the wall clock is ahead of the trusted clock, in milliseconds; less than 0 if it is behind.
    pub fn ahead_ms(&self) -> i64 {
        ahead_ms(self.now, self.wall)
    }
}

impl HeldReport {
    /// A hold that began `held_ms` ago, where the clocks show `now` and `wall`.
    pub fn new(hold: Hold, now: Millis, wall: Millis, held_ms: u64, accepted_in_ms: Option<u64>) -> Self {
        let since = Millis(now.0.saturating_sub(held_ms));
        Self { hold, since, held_ms, ahead_ms: ahead_ms(now, wall), accepted_in_ms }
    }

    /// Why dispatch is held, and what ends the hold.
    pub fn reason(&self) -> String {
        let ahead_ms = self.ahead_ms;
        match self.hold {
            Hold::BehindFloor { floor } => format!(
                "the wall clock is behind {}, a time that is in the log; the hold ends when the wall clock has passed it, \
                 and no command ends it earlier",
                Utc(floor)
            ),
            Hold::SteppedAhead { while_closed, .. } => {
                let then = if while_closed { " while the store was closed" } else { "" };
                let pace = self
                    .accepted_in_ms
                    .map(|left_ms| format!("; the step is accepted in {} without another one", Span(left_ms)));
                format!(
                    "the wall clock stepped ahead by {ahead_ms} ms{then}; if it is right now, `delaymq clock accept \
                     --ahead-ms {ahead_ms}` ends the hold{}",
                    pace.unwrap_or_default()
                )
            }
        }
    }
}

impl fmt::Display for HeldReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "dispatch is held since {}: {}", Utc(self.since), self.reason())
    }
}

impl TrustedClock {
    /// The clock by its last reading. `is_synchronised` is what the kernel says of the wall clock.
    pub fn report(&self, is_synchronised: bool) -> ClockReport {
        let (now, wall) = (self.reading().now, self.wall);
        let held = self.held.map(|held| {
            let held_ms = self.boot_ns.saturating_sub(held.since_boot_ns) / NANOS_PER_MILLI;
            HeldReport::new(held.hold, now, wall, held_ms, self.accepted_in_ms())
        });
        ClockReport { now, wall, is_synchronised, held }
    }
}

fn ahead_ms(now: Millis, wall: Millis) -> i64 {
    let ahead = i128::from(wall.0).saturating_sub(i128::from(now.0));
    i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX })
}
