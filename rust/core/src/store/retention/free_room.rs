//! Giving room back when the disk has too little of it: files go with checkpoints alone, and where messages are
//! refused no facts come that make one due.

use crate::units::Millis;

/// After checkpoints that gave nothing back so many questions are left without one, at most.
const LEFT_OUT_MAX: u32 = 64;

/// What was asked for to give room back.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Reclaiming {
    /// The trusted time of the last question: files have aged until then, though no fact says so.
    pub(super) asked_at: Millis,
    /// The next checkpoint was asked for, or the one under way.
    pub(super) is_asked: bool,
    /// A forecast had to read rows: runs are written again until none has to.
    pub(in crate::store) is_counting: bool,
    /// How many questions are left out after the last checkpoint, and how many of these are to come.
    left_out: u32,
    pub(super) to_leave_out: u32,
}

impl Reclaiming {
    /// The time by which the age of files is judged; `trusted` is that of the last fact.
    pub(in crate::store) fn aged_at(&self, trusted: Millis) -> Millis {
        trusted.max(self.asked_at)
    }

    /// The next checkpoint is to give room back, whatever it costs.
    pub(in crate::store) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// A checkpoint is there.
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
