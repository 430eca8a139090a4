//! How long a batch waits for records of callers that a commit has just answered. They often submit again at once. If
//! the next batch were written before they do, they would wait for the one after it, and each batch would be half as
//! large as it could be.
//!
//! `PostgreSQL` waits for a time that its user sets (`commit_delay`). Here a wait takes at most a quarter of the last
//! sync, and waits that brought nothing become rare.

use std::time::Duration;

/// No wait takes longer, however long a sync takes.
const WAIT_MAX: Duration = Duration::from_micros(200);
/// A sync that takes less time is not worth a wait.
const SYNC_MIN: Duration = Duration::from_micros(40);
/// Which part of a sync a wait takes at most.
const PART_OF_SYNC: u32 = 4;
/// After waits that brought nothing, up to two to the power of this many commits do not wait.
const VAIN_MAX: u32 = 6;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Company {
    /// The number of records that the last commit made visible.
    answered: u64,
    wait_max: Duration,
    /// How many waits in a row brought nothing.
    vain: u32,
    /// How many commits do not wait.
    skips: u32,
}

impl Company {
    /// A commit of so many records was answered, after a sync that took so long.
    pub(crate) fn answered(&mut self, records: u64, sync: Duration) {
        self.answered = records;
        let is_long = sync >= SYNC_MIN;
        self.wait_max = if is_long { (sync / PART_OF_SYNC).min(WAIT_MAX) } else { Duration::ZERO };
    }

    /// How many records the next batch should have, and how long it waits for them, with `queued` records there now;
    /// `None` if it should not wait.
    pub(crate) fn expected(&mut self, queued: u64) -> Option<(u64, Duration)> {
        let answered = std::mem::take(&mut self.answered);
        if queued == 0 || answered == 0 || self.wait_max.is_zero() {
            return None;
        }
        if self.skips > 0 {
            self.skips = self.skips.saturating_sub(1);
            return None;
        }
        Some((queued.saturating_add(answered), self.wait_max))
    }

    /// A wait for `expected` records, with `before` of them there, has ended with `found`.
    pub(crate) fn came(&mut self, before: u64, expected: u64, found: u64) {
        let (wanted, came) = (expected.saturating_sub(before), found.saturating_sub(before));
        self.vain = if came.saturating_mul(2) >= wanted { 0 } else { self.vain.saturating_add(1).min(VAIN_MAX) };
        self.skips = if self.vain == 0 { 0 } else { 1 << self.vain };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_micros(100);

    #[test]
    fn a_batch_waits_for_those_that_were_answered_and_not_for_a_lone_caller() {
        let mut company = Company::default();
        assert_eq!(company.expected(32), None);
        company.answered(32, SYNC);
        assert_eq!(company.expected(32), Some((64, SYNC / 4)));
        // Each answer is waited for once.
        assert_eq!(company.expected(32), None);
        company.answered(1, SYNC);
        assert_eq!(company.expected(0), None);
        company.answered(32, Duration::from_micros(5));
        assert_eq!(company.expected(32), None);
        company.answered(32, Duration::from_secs(1));
        assert_eq!(company.expected(1), Some((33, WAIT_MAX)));
    }

    #[test]
    fn waits_that_bring_nothing_become_rare_and_one_that_brings_half_makes_them_usual_again() {
        let mut company = Company::default();
        let mut waits = 0;
        for _ in 0..1_000 {
            company.answered(10, SYNC);
            if let Some((expected, _)) = company.expected(10) {
                waits += 1;
                company.came(10, expected, 14);
            }
        }
        assert!(waits < 25, "{waits}");
        company.came(10, 20, 15);
        company.answered(10, SYNC);
        assert!(company.expected(10).is_some());
    }
}
