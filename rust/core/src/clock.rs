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
//! A hold ends when the wall passes the floor, when a step ahead is undone, by [`TrustedClock::release`] (the kernel
//! reports synchronised time), by [`TrustedClock::accept`] (an operator saw this step), or once the wall clock has kept
//! pace with the boot-time clock for [`TrustedClock::accepting_after`]. The last two accept one step ahead each, and a
//! time in the log is never taken back.

pub mod report;

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
        /// How far, in milliseconds, at its last step.
        by_ms: u64,
        /// True if it stepped while the store was closed.
        while_closed: bool,
    },
}

/// A hold, since when, and since when the wall clock has made no further step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    hold: Hold,
    since_boot_ns: u64,
    /// How far the wall clock was ahead of the trusted clock when the count of its pace began.
    pace_ahead_ms: u64,
    pace_since_boot_ns: u64,
}

/// Steps that were accepted although nobody but an operator or a setting says that they are right.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Accepted {
    /// How many.
    pub count: u64,
    /// By how many milliseconds the last one took the trusted clock ahead.
    pub last_ms: u64,
    /// True if the wall clock's pace decided the last one, and false if an operator did.
    pub last_by_pace: bool,
}

/// Why a step was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcceptRefused {
    /// Dispatch is not held.
    NotHeld,
    /// The wall clock is behind a time that is in the log, which cannot be taken back.
    BehindFloor {
        /// The wall clock must reach this time.
        floor: Millis,
    },
    /// Another step holds dispatch than the one that was named.
    OtherStep {
        /// How far the wall clock is ahead, in milliseconds.
        ahead_ms: u64,
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
    held: Option<Held>,
    /// Believe the next wall reading, however far ahead.
    believe_next: bool,
    /// A step ahead is accepted once the wall clock has kept its pace for so long.
    accept_after_ms: Option<u64>,
    steps: Steps,
    accepted: Accepted,
}

impl TrustedClock {
    /// A clock that is not before `floor`, the last trusted time in the log. `wall` and `boot_ns`
    /// are readings of the wall clock and of the boot-time clock, taken together.
    pub fn new(floor: Millis, wall: Millis, boot_ns: u64) -> Self {
        let mut clock = Self {
            now_ns: nanos(wall.max(floor)),
            boot_ns,
            wall,
            held: None,
            believe_next: false,
            accept_after_ms: None,
            steps: Steps::default(),
            accepted: Accepted::default(),
        };
        clock.held = (wall < floor).then(|| clock.held_by(Hold::BehindFloor { floor }, 0));
        clock
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
            let by_ms = clock.ahead_ms();
            clock.held = Some(clock.held_by(Hold::SteppedAhead { by_ms, while_closed: true }, by_ms));
        }
        clock
    }

    /// The same clock, which accepts a step ahead once the wall clock has kept pace with the boot-time clock for so many
    /// milliseconds, without another step. `None`: it never does.
    #[must_use]
    pub fn accepting_after(self, accept_after_ms: Option<u64>) -> Self {
        Self { accept_after_ms, ..self }
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
        self.held = match self.held {
            _ if believe => None,
            Some(Held { hold: Hold::BehindFloor { floor }, .. }) if wall < floor => self.held,
            // The wall clock passed the floor: its time is accepted, however far it jumped.
            Some(Held { hold: Hold::BehindFloor { .. }, .. }) => None,
            Some(held) if ahead_ms > STEP_AHEAD_MS_MAX => Some(self.held_on(held, ahead_ms)),
            None if ahead_ms > STEP_AHEAD_MS_MAX => {
                Some(self.held_by(Hold::SteppedAhead { by_ms: ahead_ms, while_closed: false }, ahead_ms))
            }
            _ => None,
        };
        self.now_ns = if self.held.is_some() {
            straight
        } else if wall_ns >= straight {
            wall_ns
        } else {
            let behind = straight.saturating_sub(wall_ns);
            straight.saturating_sub(behind.min(u128::from(elapsed / SLOWER_BY)))
        };
        if self.accepted_in_ms() == Some(0) {
            self.accept_step(true);
        }
        self.reading()
    }

    /// A hold that begins now.
    fn held_by(&self, hold: Hold, ahead_ms: u64) -> Held {
        Held { hold, since_boot_ns: self.boot_ns, pace_ahead_ms: ahead_ms, pace_since_boot_ns: self.boot_ns }
    }

    /// A step ahead that goes on to hold dispatch. After a further step, the count of the pace begins anew.
    fn held_on(&self, held: Held, ahead_ms: u64) -> Held {
        let Hold::SteppedAhead { while_closed, .. } = held.hold else { return held };
        if held.pace_ahead_ms.abs_diff(ahead_ms) < STEP_TOLD_MS_MIN || is_on(Planted::PaceOverSteps) {
            return held;
        }
        let stepped = self.held_by(Hold::SteppedAhead { by_ms: ahead_ms, while_closed }, ahead_ms);
        Held { since_boot_ns: held.since_boot_ns, ..stepped }
    }

    /// How long the wall clock must keep its pace until the step that holds dispatch is accepted; `None` if it never is.
    fn accepted_in_ms(&self) -> Option<u64> {
        let held = self.held.filter(|held| matches!(held.hold, Hold::SteppedAhead { .. }))?;
        let kept_ms = self.boot_ns.saturating_sub(held.pace_since_boot_ns) / NANOS_PER_MILLI;
        Some(self.accept_after_ms?.saturating_sub(kept_ms))
    }

    /// The wall clock's time of the last reading is the trusted one from now on.
    fn accept_step(&mut self, by_pace: bool) {
        let last_ms = self.ahead_ms();
        self.held = None;
        self.now_ns = self.now_ns.max(nanos(self.wall));
        self.accepted = Accepted { count: self.accepted.count.saturating_add(1), last_ms, last_by_pace: by_pace };
    }

    /// How far the wall clock is ahead by the last reading, in milliseconds.
    fn ahead_ms(&self) -> u64 {
        self.wall.since(self.reading().now)
    }

    /// Accepts the step ahead that holds dispatch by the last reading, if it is the one that `ahead_ms` names: within
    /// [`STEP_TOLD_MS_MIN`]. A step that happened since the operator looked is not accepted. Returns how far the trusted
    /// clock went ahead, in milliseconds.
    ///
    /// # Errors
    /// See [`AcceptRefused`]; then nothing has changed.
    pub fn accept(&mut self, ahead_ms: u64) -> Result<u64, AcceptRefused> {
        let found_ms = self.ahead_ms();
        match self.hold() {
            None => Err(AcceptRefused::NotHeld),
            Some(Hold::BehindFloor { floor }) => Err(AcceptRefused::BehindFloor { floor }),
            Some(Hold::SteppedAhead { .. })
                if found_ms.abs_diff(ahead_ms) >= STEP_TOLD_MS_MIN && !is_on(Planted::OtherStepAccepted) =>
            {
                Err(AcceptRefused::OtherStep { ahead_ms: found_ms })
            }
            Some(Hold::SteppedAhead { .. }) => {
                self.accept_step(false);
                Ok(found_ms)
            }
        }
    }

    /// The steps that were accepted since the open.
    pub fn accepted(&self) -> Accepted {
        self.accepted
    }

    /// The result of the last reading.
    pub fn reading(&self) -> Reading {
        Reading { now: Millis(millis(self.now_ns)), held: self.held.is_some() }
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
        self.held.map(|held| held.hold)
    }

    /// Moves the clock up to a later time that was found in the log. Dispatch is held if the wall clock is behind
    /// that time.
    pub fn raise_floor(&mut self, floor: Millis) {
        if nanos(floor) <= self.now_ns {
            return;
        }
        self.now_ns = nanos(floor);
        if self.wall < floor {
            self.held = Some(self.held_by(Hold::BehindFloor { floor }, 0));
        }
    }

    /// Ends a hold: the next reading of the wall clock is believed, whatever it is.
    pub fn release(&mut self) {
        if self.held.take().is_some() {
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
#[path = "clock/tests.rs"]
mod tests;
