//! The owner freezes its state for a checkpoint, and takes over the finished checkpoint.

use std::sync::Arc;

use crate::error::Result;
use crate::store::checkpoint::work::{CheckpointWork, FeedPlace, FinishedCheckpoint};
use crate::store::owner::Owner;
use crate::store::retention::removable::Removable;
use crate::store::retention::stale_loads::Sweep;
use crate::store::state::KnownRun;
use crate::store::state::file_subjects::subjects_of;
use crate::units::RunNumber;

impl Owner {
    /// Freezes the state as of now, and returns the work that writes a checkpoint of it without the owner. `None` if a
    /// checkpoint is under way, or if the numbers of runs, a thousand million, are used up.
    pub fn freeze(&mut self) -> Option<CheckpointWork> {
        let windows = u32::try_from(self.state.schedule.windows().len()).unwrap_or(u32::MAX);
        if self.freezing || self.state.next_run.plus(windows.saturating_add(2)) > RunNumber::END {
            return None;
        }
        self.freezing = true;
        self.effects.was_counted = false;
        self.bytes_at_freeze = self.bytes_applied;
        self.sequence_at_freeze = self.state.position.next_sequence;
        self.deciding.forget_ended(&self.state);
        if self.effects.feed.admit(&mut self.state.schedule).is_err() {
            // The next step finds the damaged block again and reports it.
            self.effects.feed.give_back_unresolved();
        }
        let number = self.next_checkpoint;
        self.next_checkpoint = number.saturating_add(1);
        let feed = FeedPlace {
            loaded_until: self.effects.known_until(),
            resume_from: self.effects.feed.resume_from(self.effects.least_in_flight()),
        };
        let keeping = self.keeping();
        let holes = self.plan_holes(&keeping);
        let frozen = (keeping, self.opened_from(), holes);
        Some(CheckpointWork::freeze(&mut self.state, &self.options, number, feed, frozen))
    }

    /// Abandons a checkpoint that could not be finished. The next one contains all that it would have contained.
    pub fn abandon(&mut self, work: CheckpointWork) {
        drop(work);
        self.freezing = false;
    }

    /// Takes over a finished checkpoint: its runs are used from now on. Returns what neither kept checkpoint needs.
    ///
    /// # Errors
    /// `InvalidArgument` if the checkpoint belongs to another owner.
    pub fn install(&mut self, finished: FinishedCheckpoint) -> Result<Removable> {
        self.freezing = false;
        // Files that are open for the sizes of bodies may be removed now.
        self.open_payloads_anew();
        let FinishedCheckpoint {
            schedule_runs,
            dispatch_run,
            subjects,
            merged,
            merge_failure,
            kept,
            holes,
            left,
            ended,
            created,
            copy_after,
        } = finished;
        for run in schedule_runs.iter().map(|(_, run)| run).chain(&dispatch_run) {
            let subjects = subjects_of(&subjects, run.number());
            self.state.runs.insert(run.number(), KnownRun { run: Arc::clone(run), created, subjects });
        }
        for (first, run) in schedule_runs {
            self.state.schedule.install(first, run)?;
        }
        self.state.schedule.take_joined_ended(&ended);
        // The feed may have an entry that was moved out of a merged run, with the old place of its payload, however
        // early the run's row was due.
        let had_origins = self.install_merge(merged, &subjects, merge_failure.as_deref());
        if had_origins || self.effects.known_until() > copy_after {
            self.effects.payloads_moved(self.state.position.trusted);
        }
        self.state.dispatch.install(dispatch_run, self.options.ready_entries_max);
        let before = self.kept.last().cloned();
        let kept = (*kept).holding(self.state.schedule.left_files());
        self.kept.push(kept.holding_loads(&self.state));
        let first = self.state.segments.first().map(|start| start.segment);
        (self.state.holes, self.state.run_holes) = (holes.log, holes.runs);
        self.hollowing.note_left(left, first);
        let mut removable = crate::store::retention::removable::removable(&mut self.kept, first);
        (removable.holes, removable.run_holes) = self.hollowing.take_punches(&self.kept);
        crate::store::retention::kept_files::forget(&mut self.state, &self.kept);
        self.loads_changed = self.loads_changed.saturating_add(1);
        removable.sweep = Some(Sweep::of(&self.state, &self.kept));
        self.note_given_back(before.as_ref(), &removable);
        self.look_for_room();
        Ok(removable)
    }
}
