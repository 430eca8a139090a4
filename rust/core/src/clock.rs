//! The trusted clock turns readings of the wall clock and the boot-time clock into a time that never goes back.
//! Pure.
//!
//! Between two readings it follows the machine's boot-time clock, which runs evenly, also during sleep. The wall
//! clock decides which time is the right one:
//!
//! | the wall clock | the trusted clock |
//! |---|---|
//! | agrees, or is ahead by at most [`STEP_AHEAD_MS_MAX`] | takes the wall's time |
//! | is further ahead, while running | goes on by boot time; dispatch is held |
//! | at open, is further ahead of a time that an earlier opening saved since the machine started | the same |
//! | is behind the floor, at open | goes on from the floor by boot time; dispatch is held |
//! | is behind, while running | goes on a sixteenth slower until they meet |
//!
//! A hold ends when the wall passes the floor, when a step ahead is undone, or by [`TrustedClock::release`]
//! (the kernel reports synchronised time, or an operator decides).

use crate::planted::{Planted, is_on};
use crate::units::Millis;

/// How far the wall clock may jump ahead between two readings and still be believed.
pub const STEP_AHEAD_MS_MAX: u64 = 5_000;
/// Steps of the wall clock of at least this size, ahead or back, are counted and reported.
pub const STEP_TOLD_MS_MIN: u64 = 1_000;
/// While no process reads the wall clock, the kernel may slew it ahead by at most one part in this many.
const SLEWED_BY: u64 = 2_000;
/// While the wall clock is behind, the trusted clock leaves out one in this many nanoseconds until they meet.
const SLOWER_BY: u64 = 16;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// One reading of the trusted clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The trusted time; never less than any reading before.
    pub now: Millis,
    /// True while nothing may be dispatched, because the wall clock is not believed.
    pub held: bool,
}

/// Why dispatch is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// The wall clock is behind the last time that the log knows.
    BehindFloor {
        /// The wall clock must reach this time.
        floor: Millis,
    },
    /// The wall clock stepped ahead by more than [`STEP_AHEAD_MS_MAX`].
    SteppedAhead {
        /// How far, in milliseconds, when it was first seen.
        by_ms: u64,
    },
}

/// The time that an earlier opening saved. Valid only while the machine has not been restarted since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// The trusted time then.
    pub trusted: Millis,
    /// The boot-time clock then, in nanoseconds.
    pub boot_ns: u64,
}

/// The steps of the wall clock of at least [`STEP_TOLD_MS_MIN`] that were seen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Steps {
    /// How many.
    pub count: u64,
    /// By how many milliseconds the last one went ahead; less than 0 if it went back.
    pub last_ms: i64,
}

/// The clock of one open store.
#[derive(Clone, Debug)]
pub struct TrustedClock {
    /// The trusted time, in nanoseconds since the epoch, as of `boot_ns`.
    now_ns: u128,
    boot_ns: u64,
    /// The wall clock when last read.
    wall: Millis,
    hold: Option<Hold>,
    /// Believe the next wall reading, however far ahead.
    believe_next: bool,
    steps: Steps,
}

impl TrustedClock {
    /// A clock that is not before `floor`, the last trusted time in the log. `wall` and `boot_ns`
    /// are readings of the wall clock and of the boot-time clock, taken together.
    pub fn new(floor: Millis, wall: Millis, boot_ns: u64) -> Self {
        let hold = (wall < floor).then_some(Hold::BehindFloor { floor });
        Self { now_ns: nanos(wall.max(floor)), boot_ns, wall, hold, believe_next: false, steps: Steps::default() }
    }

    /// Like [`Self::new`], on a machine that has run since `remembered`. A step ahead that happened in between, or
    /// that was not believed before, is not believed at this open either.
    pub fn resumed(floor: Millis, wall: Millis, boot_ns: u64, remembered: Remembered) -> Self {
        let mut clock = Self::new(floor, wall, boot_ns);
        let Some(elapsed) = boot_ns.checked_sub(remembered.boot_ns) else { return clock };
        let straight = nanos(remembered.trusted).saturating_add(u128::from(elapsed));
        let ahead_ms = millis(nanos(wall).saturating_sub(straight));
        if ahead_ms > STEP_AHEAD_MS_MAX.saturating_add(elapsed / SLEWED_BY / NANOS_PER_MILLI) {
            clock.now_ns = straight.max(nanos(floor));
            clock.hold = Some(Hold::SteppedAhead { by_ms: ahead_ms });
        }
        clock
    }

    /// Takes in two readings made together and returns the trusted time.
    pub fn read(&mut self, wall: Millis, boot_ns: u64) -> Reading {
        let elapsed = boot_ns.saturating_sub(self.boot_ns);
        self.boot_ns = self.boot_ns.max(boot_ns);
        self.count_step(wall, elapsed);
        self.wall = wall;
        let wall_ns = nanos(wall);
        let straight = self.now_ns.saturating_add(u128::from(elapsed));
        let is_credulous = is_on(Planted::StepBelieved);
        let ahead_ms = if is_credulous { 0 } else { millis(wall_ns.saturating_sub(straight)) };
        let believe = std::mem::take(&mut self.believe_next);
        self.hold = match self.hold {
            _ if believe => None,
            Some(Hold::BehindFloor { floor }) if wall < floor => self.hold,
            Some(Hold::SteppedAhead { .. }) if ahead_ms > STEP_AHEAD_MS_MAX => self.hold,
            // The wall clock passed the floor: its time is accepted, however far it jumped.
            Some(Hold::BehindFloor { .. }) => None,
            _ if ahead_ms > STEP_AHEAD_MS_MAX => Some(Hold::SteppedAhead { by_ms: ahead_ms }),
            _ => None,
        };
        self.now_ns = if self.hold.is_some() {
            straight
        } else if wall_ns >= straight {
            wall_ns
        } else {
            let behind = straight.saturating_sub(wall_ns);
            straight.saturating_sub(behind.min(u128::from(elapsed / SLOWER_BY)))
        };
        self.reading()
    }

    /// The result of the last reading.
    pub fn reading(&self) -> Reading {
        Reading { now: Millis(millis(self.now_ns)), held: self.hold.is_some() }
    }

    fn count_step(&mut self, wall: Millis, elapsed_ns: u64) {
        let expected = self.wall.plus(elapsed_ns / NANOS_PER_MILLI);
        if wall.0.abs_diff(expected.0) >= STEP_TOLD_MS_MIN {
            let ahead = i128::from(wall.0).saturating_sub(i128::from(expected.0));
            let last_ms = i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX });
            self.steps = Steps { count: self.steps.count.saturating_add(1), last_ms };
        }
    }

    /// The steps of the wall clock since the open.
    pub fn steps(&self) -> Steps {
        self.steps
    }

    /// Why dispatch is held; `None` if it is not.
    pub fn hold(&self) -> Option<Hold> {
        self.hold
    }

    /// Moves the clock up to a later time that was found in the log. Dispatch is held if the wall clock is behind
    /// that time.
    pub fn raise_floor(&mut self, floor: Millis) {
        if nanos(floor) <= self.now_ns {
            return;
        }
        self.now_ns = nanos(floor);
        if self.wall < floor {
            self.hold = Some(Hold::BehindFloor { floor });
        }
    }

    /// Ends a hold: the next reading of the wall clock is believed, whatever it is.
    pub fn release(&mut self) {
        if self.hold.take().is_some() {
            self.believe_next = true;
        }
    }
}

fn nanos(time: Millis) -> u128 {
    u128::from(time.0).saturating_mul(u128::from(NANOS_PER_MILLI))
}

fn millis(nanos: u128) -> u64 {
    u64::try_from(nanos / u128::from(NANOS_PER_MILLI)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = NANOS_PER_MILLI;

    #[test]
    fn it_takes_the_walls_time_and_follows_small_steps_ahead() {
        let mut clock = TrustedClock::new(Millis(0), Millis(1_000), 0);
        assert_eq!(clock.read(Millis(1_010), 10 * MS), Reading { now: Millis(1_010), held: false });
        assert_eq!(clock.read(Millis(6_000), 11 * MS), Reading { now: Millis(6_000), held: false });
    }

    #[test]
    fn a_wall_behind_the_floor_at_open_holds_until_it_passes_the_floor() {
        let mut clock = TrustedClock::new(Millis(10_000), Millis(9_000), 0);
        assert_eq!(clock.reading(), Reading { now: Millis(10_000), held: true });
        assert_eq!(clock.hold(), Some(Hold::BehindFloor { floor: Millis(10_000) }));
        assert_eq!(clock.read(Millis(9_500), 500 * MS), Reading { now: Millis(10_500), held: true });
        let released = clock.read(Millis(10_000), 1_000 * MS);
        assert!(!released.held);
        assert!(released.now >= Millis(10_500), "it never goes back: {released:?}");
    }

    #[test]
    fn a_wall_that_jumps_past_the_floor_is_where_it_belongs() {
        let mut clock = TrustedClock::new(Millis(10_000), Millis(5), 0);
        assert!(clock.read(Millis(10), 5 * MS).held);
        assert_eq!(clock.read(Millis(3_600_000), 6 * MS), Reading { now: Millis(3_600_000), held: false });
    }

    #[test]
    fn a_step_ahead_holds_until_it_is_undone_or_released() {
        let mut clock = TrustedClock::new(Millis(0), Millis(1_000), 0);
        assert_eq!(clock.read(Millis(90_000), 10 * MS), Reading { now: Millis(1_010), held: true });
        assert_eq!(clock.read(Millis(1_020), 20 * MS), Reading { now: Millis(1_020), held: false });
        assert!(clock.read(Millis(90_000), 30 * MS).held);
        clock.release();
        assert_eq!(clock.read(Millis(90_010), 40 * MS), Reading { now: Millis(90_010), held: false });
        assert!(clock.read(Millis(190_010), 50 * MS).held, "only one reading is believed");
    }

    #[test]
    fn release_without_a_hold_believes_nothing() {
        let mut clock = TrustedClock::new(Millis(0), Millis(1_000), 0);
        clock.release();
        assert!(clock.read(Millis(90_000), 10 * MS).held);
    }

    #[test]
    fn a_wall_that_fell_behind_is_met_slowly() {
        let mut clock = TrustedClock::new(Millis(0), Millis(10_000), 0);
        let first = clock.read(Millis(9_100), 100 * MS);
        assert!(!first.held && first.now > Millis(10_090), "{first:?}");
        let mut last = first.now;
        for step in 2..400_u64 {
            let reading = clock.read(Millis(9_000 + step * 100), step * 100 * MS);
            assert!(reading.now >= last);
            last = reading.now;
        }
        assert_eq!(last, Millis(9_000 + 39_900));
    }

    #[test]
    fn a_floor_found_in_the_log_moves_it_up() {
        let mut clock = TrustedClock::new(Millis(0), Millis(1_000), 0);
        clock.raise_floor(Millis(900));
        assert_eq!(clock.reading(), Reading { now: Millis(1_000), held: false });
        clock.raise_floor(Millis(1_500));
        assert_eq!(clock.reading(), Reading { now: Millis(1_500), held: true });
        assert!(clock.read(Millis(1_499), 499 * MS).held);
        assert!(!clock.read(Millis(1_500), 500 * MS).held);
    }

    #[test]
    fn an_open_holds_where_the_wall_is_ahead_of_what_was_known_since_the_machine_started() {
        let remembered = Remembered { trusted: Millis(1_000), boot_ns: 10 * MS };
        let clock = TrustedClock::resumed(Millis(900), Millis(90_000), 510 * MS, remembered);
        assert_eq!(clock.reading(), Reading { now: Millis(1_500), held: true });
        assert_eq!(clock.hold(), Some(Hold::SteppedAhead { by_ms: 88_500 }));
        let mut undone = clock.clone();
        assert_eq!(undone.read(Millis(1_520), 530 * MS), Reading { now: Millis(1_520), held: false });
        let mut released = clock;
        released.release();
        assert_eq!(released.read(Millis(90_010), 530 * MS), Reading { now: Millis(90_010), held: false });
    }

    #[test]
    fn an_open_that_holds_is_not_before_the_floor() {
        let remembered = Remembered { trusted: Millis(1_000), boot_ns: 0 };
        let clock = TrustedClock::resumed(Millis(2_000), Millis(90_000), 500 * MS, remembered);
        assert_eq!(clock.reading(), Reading { now: Millis(2_000), held: true });
    }

    #[test]
    fn an_open_believes_a_wall_that_may_have_been_slewed_to_where_it_is() {
        let (day_ms, slewed_ms) = (86_400_000, 43_200);
        let remembered = Remembered { trusted: Millis(1_000), boot_ns: 0 };
        for (ahead_ms, held) in
            [(0, false), (STEP_AHEAD_MS_MAX + slewed_ms, false), (STEP_AHEAD_MS_MAX + slewed_ms + 1, true)]
        {
            let clock = TrustedClock::resumed(Millis(0), Millis(1_000 + day_ms + ahead_ms), day_ms * MS, remembered);
            assert_eq!(clock.reading().held, held, "{ahead_ms} ms ahead");
        }
    }

    #[test]
    fn an_open_knows_nothing_of_a_boot_clock_that_began_anew() {
        let remembered = Remembered { trusted: Millis(1_000), boot_ns: 10 * MS };
        let clock = TrustedClock::resumed(Millis(0), Millis(90_000), 9 * MS, remembered);
        assert_eq!(clock.reading(), Reading { now: Millis(90_000), held: false });
    }

    #[test]
    fn steps_are_counted_and_slewing_is_none() {
        let mut clock = TrustedClock::new(Millis(0), Millis(10_000), 0);
        clock.read(Millis(10_999), 0);
        clock.read(Millis(11_100), 100 * MS);
        assert_eq!(clock.steps(), Steps::default());
        clock.read(Millis(10_100), 100 * MS);
        assert_eq!(clock.steps(), Steps { count: 1, last_ms: -1_000 });
        clock.read(Millis(99_200), 200 * MS);
        assert_eq!(clock.steps(), Steps { count: 2, last_ms: 89_000 });
    }

    proptest! {
        #[test]
        fn it_never_goes_back_and_is_never_ahead_of_both_its_sources(
            floor in 0_u64..20_000,
            start in 0_u64..20_000,
            steps in prop::collection::vec((0_u64..3_000, 0_u64..40_000, any::<bool>()), 1..60),
        ) {
            let mut clock = TrustedClock::new(Millis(floor), Millis(start), 0);
            let mut last = clock.reading().now;
            let mut boot = 0;
            for (passed, wall, release) in steps {
                boot += passed;
                if release { clock.release(); }
                let reading = clock.read(Millis(wall), boot * MS);
                prop_assert!(reading.now >= last);
                prop_assert!(reading.now <= Millis(wall.max(last.0 + passed)));
                last = reading.now;
            }
        }
    }
}
