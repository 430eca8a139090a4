//! The times of a recurring series as a user expects them, computed without the rules of `rust/recurrence`.

use delaymq_core::record::recurring::CatchUp;
use delaymq_core::units::Millis;

/// A series that happens at its start, and so many milliseconds after each time before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhythm {
    pub(crate) start: Millis,
    pub(crate) step_ms: u64,
    pub(crate) catch_up: CatchUp,
}

impl Rhythm {
    pub(crate) fn has(&self, due: Millis) -> bool {
        due >= self.start && due.since(self.start).is_multiple_of(self.step_ms)
    }

    /// The last time that is not after `now`.
    pub(crate) fn last(&self, now: Millis) -> Option<Millis> {
        let since = now.0.checked_sub(self.start.0)?;
        Some(self.start.plus(since - since % self.step_ms))
    }

    /// The time behind `after` that is proposed at `now`, by the catch-up policy.
    pub(crate) fn expected(&self, after: Millis, now: Millis) -> Millis {
        let behind = |time: Millis| self.last(time).map_or(self.start, |last| last.plus(self.step_ms));
        let next = behind(after);
        match self.catch_up {
            CatchUp::One => self.last(now).map_or(next, |last| next.max(last)),
            CatchUp::Skip if next <= now => behind(now),
            CatchUp::Skip | CatchUp::All => next,
        }
    }

    /// The times up to the last one that is not after `now`.
    pub(crate) fn times(self, now: Millis) -> impl Iterator<Item = Millis> {
        let step = usize::try_from(self.step_ms).unwrap_or(usize::MAX);
        (self.start.0..=now.0).step_by(step).map(Millis)
    }
}
