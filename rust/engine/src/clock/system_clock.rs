//! The trait of clocks, and the clocks of the operating system.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use delaymq_core::units::Millis;
use rustix::time::{ClockId, clock_gettime};

use crate::clock::consumer_presence::Activity;
use crate::clock::timed_store::TimedStore;
use crate::files::mapping::kernel_keeps_time;

const NANOSECONDS_A_SECOND: u64 = 1_000_000_000;
pub(crate) const NANOSECONDS_A_MILLISECOND: u64 = 1_000_000;

/// One reading of both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// The wall clock, in nanoseconds since 1970-01-01T00:00:00Z; 0 for earlier times.
    pub wall_ns: u64,
    /// Time since the machine started, including sleep, in nanoseconds.
    pub boot_ns: u64,
}

impl ClockReading {
    /// The wall clock in whole milliseconds, rounded down.
    pub const fn wall(self) -> Millis {
        Millis(self.wall_ns / NANOSECONDS_A_MILLISECOND)
    }

    /// True if the wall clock is within a millisecond, and not at its start.
    pub const fn is_within(self) -> bool {
        !self.wall_ns.is_multiple_of(NANOSECONDS_A_MILLISECOND)
    }
}

/// The range in which readings of the boot-time clock can be compared: one start of the machine, and one time
/// namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Boot {
    /// The kernel's name for this start of the machine.
    pub id: String,
    /// The time namespace, as `/proc/self/ns/time` names it; empty if there is none.
    pub namespace: String,
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// Reads wall and boot clock.
    fn read(&self) -> ClockReading;

    /// The boot, if the boot-time clock can be compared with readings of an earlier process.
    fn boot(&self) -> Option<Boot> {
        None
    }

    /// True if the kernel reports that a time service keeps the wall clock right. After a manual step it reports false
    /// until the time service has corrected the clock.
    fn is_synchronised(&self) -> bool {
        false
    }

    /// The longest sleep before the clock must be read again: turning a manual clock wakes no sleeper.
    fn sleep_max(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// From now on, a store uses this clock.
    fn serve(&self, _store: TimedStore) {}

    /// How consumers tell the clock that they have done something, if the clock waits for them; most do not.
    fn activity(&self) -> Option<Arc<Activity>> {
        None
    }
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn read(&self) -> ClockReading {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ns = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        ClockReading { wall_ns, boot_ns: nanoseconds(boot_clock()) }
    }

    #[cfg(target_os = "linux")]
    fn boot(&self) -> Option<Boot> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
        Some(Boot { id, namespace: namespace.to_string_lossy().into_owned() })
    }

    fn is_synchronised(&self) -> bool {
        kernel_keeps_time()
    }
}

#[cfg(target_os = "linux")]
fn boot_clock() -> ClockId {
    ClockId::Boottime
}

// Elsewhere the monotonic clock is the closest there is.
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

    #[test]
    #[cfg(target_os = "linux")]
    fn the_boot_is_the_same_each_time_it_is_asked_for() {
        let boot = SystemClock.boot().expect("Linux names its starts");
        assert_eq!(boot.id.len(), 36);
        assert_eq!(Some(boot), SystemClock.boot());
    }
}
