//! Where time comes from: the operating system, or a test that turns the clock itself.

use std::sync::Arc;
use std::time::Duration;

use delaymq_core::units::Millis;
use rustix::time::{ClockId, clock_gettime};

use crate::attendance::Activity;
use crate::manual_clock::TimedStore;

const NANOSECONDS_A_SECOND: u64 = 1_000_000_000;
pub(crate) const NANOSECONDS_A_MILLISECOND: u64 = 1_000_000;

/// One look at both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// The wall clock, in nanoseconds since 1970-01-01T00:00:00Z; 0 where it stands before.
    pub wall_ns: u64,
    /// Time since the machine started, its sleep included, in nanoseconds.
    pub boot_ns: u64,
}

impl ClockReading {
    /// The wall clock in whole milliseconds, rounded down.
    pub const fn wall(self) -> Millis {
        Millis(self.wall_ns / NANOSECONDS_A_MILLISECOND)
    }

    /// True where the wall clock stands within a millisecond rather than at its start.
    pub const fn is_within(self) -> bool {
        !self.wall_ns.is_multiple_of(NANOSECONDS_A_MILLISECOND)
    }
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// Reads wall and boot clock.
    fn read(&self) -> ClockReading;

    /// The longest that a sleeper may sleep before it reads the clock again: where the clock can
    /// be turned, nobody is woken by it.
    fn sleep_max(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// A store lives by this clock from now on.
    fn serve(&self, _store: TimedStore) {}

    /// What consumers tell a clock that waits for them before it moves; most do not wait.
    fn activity(&self) -> Option<Arc<Activity>> {
        None
    }
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn read(&self) -> ClockReading {
        ClockReading { wall_ns: nanoseconds(ClockId::Realtime), boot_ns: nanoseconds(boot_clock()) }
    }
}

#[cfg(target_os = "linux")]
fn boot_clock() -> ClockId {
    ClockId::Boottime
}

// Elsewhere the monotonic clock is the nearest there is.
#[cfg(not(target_os = "linux"))]
fn boot_clock() -> ClockId {
    ClockId::Monotonic
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(NANOSECONDS_A_SECOND).saturating_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_system_clocks_run() {
        let first = SystemClock.read();
        std::thread::sleep(Duration::from_millis(2));
        let second = SystemClock.read();
        assert!(first.wall() > Millis(1_600_000_000_000));
        assert!(second.boot_ns >= first.boot_ns + 1_000_000);
    }
}
