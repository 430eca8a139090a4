//! The clock, for operators: why dispatch is held, and the acceptance of a step.

use delaymq_core::clock::report::ClockReport;
use delaymq_core::error::Result;

use crate::store::Store;

impl Store {
    /// Reads the clock, and reports whether dispatch is held, why, and since when. Also of a store that is poisoned or
    /// closed. Waits for neither the owner nor the disk.
    ///
    /// # Errors
    /// `ForkedProcess`.
    pub fn clock(&self) -> Result<ClockReport> {
        self.shared.guard.check()?;
        Ok(self.shared.time.report())
    }

    /// Accepts the step ahead of the wall clock that holds dispatch: its time is the trusted one from now on, and the
    /// next open goes on with it. `ahead_ms` names the step, as a report does, within a second. Returns by how many
    /// milliseconds the trusted clock went ahead.
    ///
    /// # Errors
    /// `InvalidArgument` naming `ahead_ms` if dispatch is not held, another step holds it, or the wall clock is behind
    /// the log; `Poisoned`, `Closed`, `ForkedProcess`. Nothing has changed then.
    pub fn accept_clock(&self, ahead_ms: u64) -> Result<u64> {
        self.shared.check()?;
        self.shared.accept_clock(ahead_ms)
    }
}
