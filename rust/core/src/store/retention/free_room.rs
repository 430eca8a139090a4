//! Giving room back when the disk has too little of it: files go with checkpoints alone, and where messages are
//! refused no facts come that make one due.

use std::collections::BTreeMap;

use super::kept_files::{KeptFiles, Removable, needed};
use crate::clock::Reading;
use crate::run::RunKind;
use crate::store::checkpoint::work::candidates;
use crate::store::owner::Owner;
use crate::units::{Millis, SegmentNumber};

/// After checkpoints that gave nothing back so many questions are left without one, at most.
const LEFT_OUT_MAX: u32 = 64;

/// What was asked for to give room back.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Reclaiming {
    /// The trusted time of the last question: files have aged until then, though no fact says so.
    asked_at: Millis,
    /// The next checkpoint was asked for, or the one under way.
    is_asked: bool,
    /// A forecast had to read rows: runs are written again until none has to.
    pub(in crate::store) is_counting: bool,
    /// How many questions are left out after the last checkpoint, and how many of these are to come.
    left_out: u32,
    to_leave_out: u32,
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

impl Owner {
    /// Makes a checkpoint due where one would let files go, or would be the first of two without them. To be asked now
    /// and then while the disk has little room. What lies in memory alone is not weighed, so a checkpoint may give
    /// nothing back: then some of the questions that follow are left out. True where one is due by this.
    pub fn reclaim(&mut self, reading: Reading) -> bool {
        if self.freezing {
            return false;
        }
        if !reading.held {
            self.reclaiming.asked_at = self.reclaiming.asked_at.max(reading.now);
        }
        if self.reclaiming.to_leave_out > 0 {
            self.reclaiming.to_leave_out -= 1;
            return false;
        }
        if !self.would_give_back() {
            return false;
        }
        self.reclaims = true;
        self.reclaiming.is_asked = true;
        true
    }

    fn would_give_back(&self) -> bool {
        let state = &self.state;
        let opened_from = self.opened_from();
        let mut runs = candidates(state, RunKind::Schedule, opened_from);
        runs.extend(candidates(state, RunKind::Dispatch, opened_from));
        let replay = state.position.end.segment().unwrap_or(SegmentNumber(1));
        // What cannot be told is met again, and said, by the checkpoint that comes anyway.
        let keeping = self.keeping();
        let Ok((runs, floor)) = needed(&runs, &state.segments, replay, &keeping) else { return false };
        if self.hollow_gain(&keeping) > 0 {
            return true;
        }
        let next = KeptFiles {
            checkpoint: self.next_checkpoint,
            next_sequence: state.position.next_sequence,
            floor,
            runs,
            loads: BTreeMap::new(),
            holes: state.holes.clone(),
            run_holes: state.run_holes.clone(),
        };
        let next = next.holding(state.schedule.left_files());
        let is_above_first =
            |files: &KeptFiles| state.segments.first().is_some_and(|first| first.segment < files.floor);
        match self.kept.as_slice() {
            [.., older, newest] => needs_less(newest, older) || needs_less(&next, newest),
            [newest] => is_above_first(newest) || needs_less(&next, newest),
            [] => is_above_first(&next),
        }
    }

    /// Notes whether the checkpoint that is newest now has led to more room, at once or with the next.
    pub(in crate::store) fn note_given_back(&mut self, before: Option<&KeptFiles>, removable: &Removable) {
        let is_less = match (before, self.kept.last()) {
            (Some(before), Some(newest)) => needs_less(newest, before),
            _ => true,
        };
        let gives_back = !removable.files.is_empty() || !removable.holes.is_empty() || !removable.run_holes.is_empty();
        self.reclaiming.note_installed(is_less || gives_back);
    }
}

/// True where `newer` does without files that `older` needs.
fn needs_less(newer: &KeptFiles, older: &KeptFiles) -> bool {
    newer.floor > older.floor
        || older.runs.difference(&newer.runs).next().is_some()
        || newer.holes.iter().any(|hole| !older.holes.hold(hole))
        || newer.run_holes.iter().any(|hole| !older.run_holes.hold(hole))
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
