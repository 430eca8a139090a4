//! A clock that stands still until it is turned, for tests that wait for no real time.
//!
//! The thread that turns it drives all stores on it: at each due time it does what is due, until every store is idle,
//! and only then lets time go on.

use std::sync::{Arc, TryLockError};
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::units::Millis;

use crate::clock::consumer_presence::{Activity, ConsumerState};
use crate::clock::system_clock::{Clock, ClockReading, NANOSECONDS_A_MILLISECOND};
use crate::clock::timed_store::{Timed, TimedStore};
use crate::held;
use crate::invalid;
use crate::sync::{Instant, Mutex, thread};

/// The last time of a manual clock, in the year 2500.
pub const MANUAL_TIME_MAX: Millis = Millis(16_725_225_600_000);
/// The boot clock when the wall clock stands at 1970.
const BOOT_START_MS: u64 = 1_000;
/// How often a wait checks whether to go on.
const LOOK: Duration = Duration::from_millis(5);

/// The times of the two clocks, in milliseconds.
#[derive(Clone, Copy)]
struct Hands {
    wall: Millis,
    boot_ms: u64,
}

/// See the module.
pub struct ManualClock {
    hands: Mutex<Hands>,
    stores: Mutex<Vec<TimedStore>>,
    activity: Arc<Activity>,
    turning: Mutex<()>,
}

impl ManualClock {
    /// A clock that shows `now`.
    ///
    /// # Errors
    /// `InvalidArgument` beyond [`MANUAL_TIME_MAX`].
    pub fn new(now: Millis) -> Result<Self> {
        check("now", now)?;
        let activity = Arc::default();
        let hands = Mutex::new(Hands { wall: now, boot_ms: now.0.saturating_add(BOOT_START_MS) });
        Ok(Self { hands, stores: Mutex::default(), activity, turning: Mutex::new(()) })
    }

    /// What it shows.
    pub fn now(&self) -> Millis {
        held(&self.hands).wall
    }

    /// Sets the wall clock ahead or back without time passing, as an operator of a machine may. The stores on this clock
    /// see a step.
    ///
    /// # Errors
    /// `InvalidArgument` before 1970 and beyond [`MANUAL_TIME_MAX`].
    pub fn step(&self, by_ms: i64) -> Result<()> {
        let mut hands = held(&self.hands);
        let Some(stepped) = hands.wall.0.checked_add_signed(by_ms) else {
            return Err(invalid("by", format!("at most {} ms back", hands.wall), by_ms.to_string()));
        };
        check("by", Millis(stepped))?;
        hands.wall = Millis(stepped);
        drop(hands);
        for store in self.open_stores() {
            store.raise_driver();
        }
        Ok(())
    }

    /// Lets time pass until the wall clock shows this.
    fn go_to(&self, wall: Millis) {
        let mut hands = held(&self.hands);
        hands.boot_ms = hands.boot_ms.saturating_add(wall.since(hands.wall));
        hands.wall = hands.wall.max(wall);
    }

    /// Lets time pass. Returns when every store on this clock is idle: all that became due is dispatched and visible to
    /// consumers. If other threads consume, the clock stops at each due time until they have taken their messages and
    /// come back for more. A thread that does nothing for as long as `patience` is not waited for any more. `go_on` is
    /// called often; if it returns false, the clock stays where it is.
    ///
    /// # Errors
    /// `InvalidArgument` beyond [`MANUAL_TIME_MAX`]; the error of a store that failed, and then the clock stays where
    /// it is.
    pub fn advance(&self, by_ms: u64, patience: Duration, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let _turning = loop {
            match self.turning.try_lock() {
                Ok(turning) => break turning,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if go_on() => thread::sleep(LOOK),
                Err(TryLockError::WouldBlock) => return Ok(()),
            }
        };
        let target = self.now().plus(by_ms);
        check("by", target)?;
        while let Some(rest) = self.come_to_rest(patience, go_on)? {
            let now = self.now();
            if now >= target {
                break;
            }
            let passes_all = rest == ConsumerState::Nobody && !self.is_recurring()?;
            let stop = if passes_all { None } else { self.next_due()? };
            self.go_to(stop.map_or(target, |due| due.max(now.next()).min(target)));
        }
        for store in self.open_stores() {
            store.raise_driver();
        }
        Ok(())
    }

    /// Waits until at least `count` other threads have asked one of the stores for messages; before that, the clock
    /// does not know them and waits for none. Returns false at the timeout, or if `go_on` returns false.
    pub fn await_consumers(&self, count: usize, timeout: Duration, go_on: &mut dyn FnMut() -> bool) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let seen = self.activity.0.count();
            let there: usize = self.open_stores().iter().map(|store| store.consuming_threads()).sum();
            if there >= count {
                return true;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) || !go_on() {
                return false;
            }
            self.activity.0.wait_beyond(seen, LOOK);
        }
    }

    /// Drives all stores until nothing is left to do at this time, and every consumer has seen everything; `None` if
    /// `go_on` returned false before.
    fn come_to_rest(&self, patience: Duration, go_on: &mut dyn FnMut() -> bool) -> Result<Option<ConsumerState>> {
        let mut rested_at = None;
        loop {
            if !go_on() {
                return Ok(None);
            }
            let seen = self.activity.0.count();
            let stores = self.open_stores();
            let mut moved = false;
            for store in &stores {
                moved |= unless_closed(store.settle())?.unwrap_or(false);
            }
            let rest = stores.iter().map(|store| store.consumer_state(patience)).max().unwrap_or(ConsumerState::Nobody);
            if rest == ConsumerState::Busy {
                rested_at = None;
                self.activity.0.wait_beyond(seen, LOOK);
            } else if moved || rested_at != Some(seen) {
                // One consumer may have given work to another that was checked before: check again.
                rested_at = Some(seen);
            } else {
                return Ok(Some(rest));
            }
        }
    }

    /// True if a store has a series: then the clock must stop at each of its times.
    fn is_recurring(&self) -> Result<bool> {
        for store in self.open_stores() {
            if unless_closed(store.is_recurring())?.unwrap_or(false) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn next_due(&self) -> Result<Option<Millis>> {
        let mut next: Option<Millis> = None;
        for store in self.open_stores() {
            let due = unless_closed(store.next_due())?.flatten();
            next = next.into_iter().chain(due).min();
        }
        Ok(next)
    }

    fn open_stores(&self) -> Vec<Arc<dyn Timed>> {
        let mut stores = held(&self.stores);
        stores.retain(|store| !store.is_gone());
        stores.iter().filter_map(TimedStore::open).collect()
    }
}

impl Clock for ManualClock {
    fn read(&self) -> ClockReading {
        let hands = *held(&self.hands);
        let nanoseconds = |milliseconds: u64| milliseconds.saturating_mul(NANOSECONDS_A_MILLISECOND);
        ClockReading { wall_ns: nanoseconds(hands.wall.0), boot_ns: nanoseconds(hands.boot_ms) }
    }

    fn serve(&self, store: TimedStore) {
        held(&self.stores).push(store);
    }

    fn activity(&self) -> Option<Arc<Activity>> {
        Some(Arc::clone(&self.activity))
    }
}

fn check(argument: &'static str, time: Millis) -> Result<()> {
    if time <= MANUAL_TIME_MAX {
        return Ok(());
    }
    Err(invalid(argument, "a time before the year 2500", format!("{time} ms after 1970")))
}

/// A store that closes meanwhile needs nothing any more.
fn unless_closed<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Closed) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_when_it_is_turned_and_only_then() {
        let clock = ManualClock::new(Millis(5)).unwrap();
        assert_eq!(clock.read(), clock.read());
        clock.advance(7, Duration::ZERO, &mut || true).unwrap();
        assert_eq!(clock.now(), Millis(12));
        let reading = clock.read();
        assert_eq!((reading.wall(), reading.boot_ns), (Millis(12), 1_012_000_000));
        clock.advance(1, Duration::ZERO, &mut || false).unwrap();
        assert_eq!(clock.now(), Millis(12), "it was told not to go on");
    }

    #[test]
    fn it_ends_in_the_year_2500() {
        assert!(ManualClock::new(MANUAL_TIME_MAX.next()).is_err());
        let clock = ManualClock::new(MANUAL_TIME_MAX).unwrap();
        let refused = clock.advance(1, Duration::ZERO, &mut || true);
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "by", .. })), "{refused:?}");
        assert_eq!(clock.now(), MANUAL_TIME_MAX);
    }
}
