//! The node's clock: an operator looks at it, and accepts a step.

use delaymq_core::clock::AcceptRefused;
use delaymq_core::clock::report::ClockReport;

use super::Node;

impl Node {
    /// The kernel says that the wall clock is right.
    pub fn release_clock(&mut self) {
        self.clock.release();
    }

    /// The clock by the last look.
    pub fn clock(&self) -> ClockReport {
        self.clock.report(false)
    }

    /// An operator accepts the step that was so many milliseconds ahead. Returns how far the clock went ahead.
    ///
    /// # Errors
    /// As [`delaymq_core::clock::TrustedClock::accept`].
    pub fn accept_clock(&mut self, ahead_ms: u64) -> Result<u64, AcceptRefused> {
        let accepted = self.clock.accept(ahead_ms);
        self.reading = self.clock.reading();
        accepted
    }

    /// The faults that the model of the pace found since the last call.
    pub fn take_clock_violations(&mut self) -> Vec<String> {
        self.pace.take_violations()
    }
}
