//! The owner freezes its state for a checkpoint, and takes the finished one over.

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
    /// Freezes the state as of now: the work that makes a checkpoint of it, to be done elsewhere.
    /// `None` where one is under way, and where runs have no numbers left, a thousand million of them.
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
            // The next step meets the damaged block again, and says so.
            self.effects.feed.give_back_unresolved();
        }
        let number = self.next_checkpoint;
        self.next_checkpoint = number.saturating_add(1);
        let feed = FeedPlace {
            loaded_until: self.effects.feed.position().due,
            resume_from: self.effects.feed.resume_from(self.effects.least_in_flight()),
        };
        let keeping = self.keeping();
        let holes = self.plan_holes(&keeping);
        let frozen = (keeping, self.opened_from(), holes);
        Some(CheckpointWork::freeze(&mut self.state, &self.options, number, feed, frozen))
    }

    /// Gives up a checkpoint that could not be finished; the next one has all that it would have had.
    pub fn abandon(&mut self, work: CheckpointWork) {
        drop(work);
        self.freezing = false;
    }

    /// Takes over a finished checkpoint: its runs serve from now on, and what neither kept
    /// checkpoint needs may go.
    ///
    /// # Errors
    /// `InvalidArgument` where the checkpoint is not one of this owner.
    pub fn install(&mut self, finished: FinishedCheckpoint) -> Result<Removable> {
        self.freezing = false;
        // What it kept open may be removed now.
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
        // What was moved out of a merged run may be in hand, however soon its row was due, and say where its payload was.
        let had_origins = self.install_merge(merged, &subjects, merge_failure.as_deref());
        if had_origins || self.effects.feed.position().due > copy_after {
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
