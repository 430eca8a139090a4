//! The clocks of the simulated machine, which a history turns.

use delaymq_core::units::Millis;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// One look at both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// The wall clock.
    pub wall: Millis,
    /// Time since the machine started, in nanoseconds.
    pub boot_ns: u64,
}

/// A wall clock that can be set, and a boot-time clock that cannot.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedClock {
    wall_ns: u64,
    boot_ns: u64,
    /// The right time.
    true_ns: u64,
    /// The rate of the wall clock; a million is right.
    wall_rate: u64,
}

/// The right rate.
const RIGHT_RATE: u64 = 1_000_000;

impl SimulatedClock {
    /// A machine that starts now, its wall clock showing `wall`.
    pub fn new(wall: Millis) -> Self {
        Self::at_rate(wall, RIGHT_RATE)
    }

    /// As [`Self::new`], with a wall clock that runs at this rate; a million is right.
    pub fn at_rate(wall: Millis, wall_rate: u64) -> Self {
        let wall_ns = wall.0.saturating_mul(NANOS_PER_MILLI);
        Self { wall_ns, boot_ns: NANOS_PER_MILLI, true_ns: wall_ns, wall_rate }
    }

    /// Both clocks as they stand.
    pub fn read(&self) -> ClockReading {
        ClockReading { wall: Millis(self.wall_ns / NANOS_PER_MILLI), boot_ns: self.boot_ns }
    }

    /// Lets time pass, in milliseconds.
    pub fn advance(&mut self, by_ms: u64) {
        self.advance_ns(by_ms.saturating_mul(NANOS_PER_MILLI));
    }

    /// Lets time pass, in nanoseconds.
    pub fn advance_ns(&mut self, by_ns: u64) {
        let shown = u128::from(by_ns).saturating_mul(u128::from(self.wall_rate)) / u128::from(RIGHT_RATE);
        self.wall_ns = self.wall_ns.saturating_add(u64::try_from(shown).unwrap_or(u64::MAX));
        self.boot_ns = self.boot_ns.saturating_add(by_ns);
        self.true_ns = self.true_ns.saturating_add(by_ns);
    }

    /// Puts the wall clock right.
    pub fn correct(&mut self) {
        self.wall_ns = self.true_ns;
    }

    /// Turns the wall clock ahead without time passing, in milliseconds.
    pub fn step_ahead(&mut self, by_ms: u64) {
        self.wall_ns = self.wall_ns.saturating_add(by_ms.saturating_mul(NANOS_PER_MILLI));
    }

    /// Turns the wall clock back without time passing, in milliseconds.
    pub fn step_back(&mut self, by_ms: u64) {
        self.wall_ns = self.wall_ns.saturating_sub(by_ms.saturating_mul(NANOS_PER_MILLI));
    }

    /// The machine was off for this long, in milliseconds: the wall clock went on, and the boot-time clock starts
    /// again.
    pub fn restart_after(&mut self, off_ms: u64) {
        self.step_ahead(off_ms);
        self.true_ns = self.true_ns.saturating_add(off_ms.saturating_mul(NANOS_PER_MILLI));
        self.boot_ns = NANOS_PER_MILLI;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_runs_fast_is_put_right() {
        let mut clock = SimulatedClock::at_rate(Millis(1_000), 1_500_000);
        clock.advance(10);
        assert_eq!(clock.read(), ClockReading { wall: Millis(1_015), boot_ns: 11_000_000 });
        clock.step_back(500);
        clock.correct();
        assert_eq!(clock.read().wall, Millis(1_010));
    }

    #[test]
    fn time_that_passes_moves_both_clocks_and_a_step_only_the_wall() {
        let mut clock = SimulatedClock::new(Millis(1_000));
        let before = clock.read();
        clock.advance(5);
        assert_eq!(clock.read().wall, Millis(1_005));
        assert_eq!(clock.read().boot_ns, before.boot_ns + 5_000_000);
        clock.step_back(10);
        clock.step_ahead(1);
        assert_eq!(clock.read(), ClockReading { wall: Millis(996), boot_ns: before.boot_ns + 5_000_000 });
    }
}
