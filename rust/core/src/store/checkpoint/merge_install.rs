//! The owner takes over a merged run, and decides whether a checkpoint would free disk space.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::merging::{FinishedMerge, MergeFailure};
use crate::error::Error;
use crate::run::RunHole;
use crate::store::checkpoint::work::FinishedCheckpoint;
use crate::store::owner::Owner;
use crate::store::state::file_subjects::{FileSubjects, subjects_of};
use crate::units::RunNumber;

/// How often wasted disk space is looked for while the facts of one checkpoint (`checkpoint_facts`) arrive.
const LOOKS_A_CHECKPOINT: u64 = 16;
/// Files that only the older checkpoint needs are left to the next ordinary checkpoint if at least this share of its
/// facts or bytes has arrived.
const NEAR_SHARE: u64 = 2;

impl Owner {
    /// Takes over the merge of a finished checkpoint. True if an entry in memory has its origin in a merged window.
    pub(in crate::store) fn install_merge(
        &mut self,
        merge: Option<Box<FinishedMerge>>,
        subjects: &BTreeMap<RunNumber, FileSubjects>,
        failure: Option<&MergeFailure>,
    ) -> bool {
        let mut had_origins = false;
        if let Some(FinishedMerge { bits, run, created, .. }) = merge.map(|merge| *merge) {
            if let Some(run) = &run {
                let subjects = subjects_of(subjects, run.number());
                let known = crate::store::state::KnownRun { run: Arc::clone(run), created, subjects };
                self.state.runs.insert(run.number(), known);
            }
            had_origins = self.state.schedule.install_merged(&bits, run);
        }
        self.merging_rests = failure.is_some();
        if let Some(damaged) = failure.and_then(|failure| failure.damaged) {
            self.state.schedule.leave_unmerged(damaged);
        }
        had_origins
    }

    /// Checks whether another checkpoint would free disk space: by a merge, by holes, or because the older checkpoint
    /// holds files that the newer one does not need. While many facts arrive, the next checkpoint comes anyway.
    pub(in crate::store) fn look_for_room(&mut self) {
        self.looked_at = self.state.position.next_sequence;
        let room = self.options.reclaim_bytes;
        let wasted = || self.state.schedule.wasted_bytes(self.options.merge_limits(), &self.state.run_holes);
        let held = || if self.share_of_checkpoint(NEAR_SHARE) { 0 } else { self.held_by_older() };
        let hollow = || self.hollow_gain(&self.keeping());
        let gives_back = || wasted() >= room || held() >= room || hollow() >= room.max(1);
        let uncounted = || self.state.schedule.has_uncounted(self.options.merge_limits(), &self.state.run_holes);
        let is_allowed = !self.merging_rests && self.options.merge_windows_min > 0;
        let is_counting = is_allowed && self.reclaiming.is_counting && uncounted();
        self.reclaims = is_allowed && (is_counting || gives_back());
        self.reclaiming.is_counting = is_counting;
    }

    /// Notes that a forecast had to read rows of runs that are not damaged. If much of such a run has ended, a
    /// checkpoint that writes the run again is due, and then another one, until no such run is left or a merge fails.
    pub fn count_again(&mut self) {
        if !self.reclaiming.is_counting && !self.freezing {
            self.reclaiming.is_counting = true;
            self.look_for_room();
        }
    }

    /// Checks again when enough facts have arrived since the last check.
    pub(in crate::store) fn look_again(&mut self) {
        let every = (self.options.checkpoint_facts / LOOKS_A_CHECKPOINT).max(1);
        if self.state.position.next_sequence.since(self.looked_at) >= every {
            self.merging_rests = false;
            self.look_for_room();
        }
    }

    /// Bytes of files and holes that the older of the two kept checkpoints needs and the newer does not.
    fn held_by_older(&self) -> u64 {
        let [older, newer] = self.kept.as_slice() else { return 0 };
        let runs = older.runs.difference(&newer.runs).filter_map(|run| self.state.runs.get(run));
        let segments = u64::from(newer.floor.0.saturating_sub(older.floor.0));
        let bytes = segments.saturating_mul(self.options.records_bytes_max);
        let bytes = newer.holes.bytes().saturating_sub(older.holes.bytes()).saturating_add(bytes);
        let fresh = newer.run_holes.iter().filter(|hole| !older.run_holes.hold(hole));
        let bytes = fresh.map(RunHole::bytes).fold(bytes, u64::saturating_add);
        // A run that the newer checkpoint does not name counts whole: its holes are not punched any more, but freed
        // with it.
        runs.map(|known| known.run.length()).fold(bytes, u64::saturating_add)
    }
}

impl FinishedCheckpoint {
    /// The error that prevented a planned merge. All its windows are used as before.
    pub fn merge_failure(&self) -> Option<&Error> {
        self.merge_failure.as_ref().map(|failure| &failure.error)
    }

    /// How many windows of the schedule were merged into one; 0 if none were.
    pub fn merged_windows(&self) -> usize {
        self.merged.as_ref().map_or(0, |merged| merged.windows)
    }
}
