//! Where time comes from: the operating system, or a test that turns the clock itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use delaymq_core::units::Millis;
use rustix::time::{ClockId, clock_gettime};

const NANOSECONDS_A_SECOND: u64 = 1_000_000_000;
const NANOSECONDS_A_MILLISECOND: u64 = 1_000_000;

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

/// A clock that stands still until it is turned; for tests, which then wait for no real time.
#[derive(Debug)]
pub struct ManualClock {
    wall_ns: AtomicU64,
    boot_ns: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `wall`.
    pub fn new(wall: Millis) -> Self {
        let wall_ns = wall.0.saturating_mul(NANOSECONDS_A_MILLISECOND);
        Self { wall_ns: AtomicU64::new(wall_ns), boot_ns: AtomicU64::new(NANOSECONDS_A_SECOND) }
    }

    /// Lets time pass.
    pub fn advance(&self, milliseconds: u64) {
        let nanoseconds = milliseconds.saturating_mul(NANOSECONDS_A_MILLISECOND);
        self.boot_ns.fetch_add(nanoseconds, Ordering::SeqCst);
        self.wall_ns.fetch_add(nanoseconds, Ordering::SeqCst);
    }

    /// Turns the wall clock alone, as an operator or a time server does.
    pub fn set_wall(&self, wall: Millis) {
        self.wall_ns.store(wall.0.saturating_mul(NANOSECONDS_A_MILLISECOND), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn read(&self) -> ClockReading {
        ClockReading { wall_ns: self.wall_ns.load(Ordering::SeqCst), boot_ns: self.boot_ns.load(Ordering::SeqCst) }
    }

    fn sleep_max(&self) -> Duration {
        Duration::from_millis(1)
    }
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

    #[test]
    fn a_manual_clock_moves_when_it_is_turned() {
        let clock = ManualClock::new(Millis(5));
        clock.advance(7);
        assert_eq!(clock.read().wall(), Millis(12));
        clock.set_wall(Millis(3));
        assert_eq!(clock.read().wall(), Millis(3));
    }
}
