//! Frees disk space when the disk has too little. Files are removed only with a checkpoint, and while publishes are
//! refused, no new facts make a checkpoint due.

use crate::units::Millis;

/// The maximum number of requests that are skipped after checkpoints that freed nothing.
const LEFT_OUT_MAX: u32 = 64;

/// The state of the requests to free disk space.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Reclaiming {
    /// The trusted time of the last request. Files age up to this time, even without new facts.
    pub(super) asked_at: Millis,
    /// True if the next checkpoint, or the one under way, was requested.
    pub(super) is_asked: bool,
    /// True if a forecast had to read rows. Runs are then rewritten until no forecast has to.
    pub(in crate::store) is_counting: bool,
    /// The number of requests to skip after the last checkpoint, and how many of these are still to come.
    left_out: u32,
    pub(super) to_leave_out: u32,
}

impl Reclaiming {
    /// The time by which the age of files is judged; `trusted` is the time of the last fact.
    pub(in crate::store) fn aged_at(&self, trusted: Millis) -> Millis {
        trusted.max(self.asked_at)
    }

    /// True if the next checkpoint must free space, whatever it costs.
    pub(in crate::store) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Notes that a checkpoint was installed, and whether it freed space.
    pub(super) fn note_installed(&mut self, gave_back: bool) {
        if std::mem::take(&mut self.is_asked) {
            let next = self.left_out.saturating_mul(2).clamp(1, LEFT_OUT_MAX);
            self.left_out = if gave_back { 0 } else { next };
            self.to_leave_out = self.left_out;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_that_give_nothing_back_become_rare_and_one_that_does_makes_the_next_come_at_once() {
        let mut reclaiming = Reclaiming::default();
        let mut after = |gave_back| {
            reclaiming.is_asked = true;
            reclaiming.note_installed(gave_back);
            reclaiming.to_leave_out
        };
        assert_eq!([after(true), after(false), after(false), after(false)], [0, 1, 2, 4]);
        assert_eq!((0..9).map(|_| after(false)).last(), Some(LEFT_OUT_MAX));
        assert_eq!([after(true), after(false)], [0, 1]);
        reclaiming.note_installed(true);
        assert_eq!(reclaiming.to_leave_out, 1, "nobody asked for that one");
    }
}
