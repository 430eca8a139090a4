//! A model of the wall clock's pace, which knows nothing of the trusted clock and judges what that accepts.

use delaymq_core::clock::Accepted;

use crate::clock::ClockReading;

/// Surely a step to the trusted clock, whatever the wall clock drifted since the count of its pace began.
const STEP_MS: u64 = 2_000;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// When the wall clock stepped last, computed without the trusted clock.
pub(super) struct PaceModel {
    last: ClockReading,
    stepped_boot_ns: u64,
    accepts: u64,
    violations: Vec<String>,
}

impl PaceModel {
    /// The faults since the last call.
    pub(super) fn take_violations(&mut self) -> Vec<String> {
        std::mem::take(&mut self.violations)
    }

    pub(super) fn new(now: ClockReading) -> Self {
        Self { last: now, stepped_boot_ns: now.boot_ns, accepts: 0, violations: Vec::new() }
    }

    /// Judges a look: no step may be accepted by its pace that is more recent than the option says.
    pub(super) fn look(&mut self, now: ClockReading, accepted: Accepted, accept_after_ms: u64) {
        let passed_ms = now.boot_ns.saturating_sub(self.last.boot_ns) / NANOS_PER_MILLI;
        if now.wall.0.abs_diff(self.last.wall.0.saturating_add(passed_ms)) >= STEP_MS {
            self.stepped_boot_ns = now.boot_ns;
        }
        self.last = now;
        let is_new = accepted.count > self.accepts;
        self.accepts = accepted.count;
        let kept_ms = now.boot_ns.saturating_sub(self.stepped_boot_ns) / NANOS_PER_MILLI;
        if is_new && accepted.last_by_pace && (accept_after_ms == 0 || kept_ms < accept_after_ms) {
            let step_ms = accepted.last_ms;
            self.violations.push(format!("early: a step of {step_ms} ms was accepted {kept_ms} ms after another one"));
        }
    }
}
