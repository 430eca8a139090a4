//! Finds out for the owner whether a checkpoint would free disk space.

use std::collections::BTreeMap;

use crate::clock::Reading;
use crate::run::RunKind;
use crate::store::checkpoint::work::candidates;
use crate::store::owner::Owner;
use crate::store::retention::kept_files::{KeptFiles, needed};
use crate::store::retention::removable::Removable;
use crate::units::SegmentNumber;

/// True if `newer` needs fewer files or bytes than `older`.
fn needs_less(newer: &KeptFiles, older: &KeptFiles) -> bool {
    newer.floor > older.floor
        || older.runs.difference(&newer.runs).next().is_some()
        || newer.holes.iter().any(|hole| !older.holes.hold(hole))
        || newer.run_holes.iter().any(|hole| !older.run_holes.hold(hole))
}

impl Owner {
    /// Makes a checkpoint due if it would free files, or would be the first of two that no longer need them; returns
    /// whether it did. The caller repeats this while the disk is short of space. Entries in memory are not considered,
    /// so a checkpoint may free nothing; then some of the next calls do nothing.
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
        // An error here occurs again in the next regular checkpoint, which reports it.
        let keeping = self.keeping();
        let Ok((runs, floor)) = needed(&runs, &state.segments, (replay, state.read_again_from()), &keeping) else {
            return false;
        };
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

    /// Notes whether the newest checkpoint freed space, or will with the next one.
    pub(in crate::store) fn note_given_back(&mut self, before: Option<&KeptFiles>, removable: &Removable) {
        let is_less = match (before, self.kept.last()) {
            (Some(before), Some(newest)) => needs_less(newest, before),
            _ => true,
        };
        let gives_back = !removable.files.is_empty() || !removable.holes.is_empty() || !removable.run_holes.is_empty();
        self.reclaiming.note_installed(is_less || gives_back);
    }
}
