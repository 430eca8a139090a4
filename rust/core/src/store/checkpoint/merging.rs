//! Merges windows of the schedule as part of a checkpoint. The merge is planned at the freeze, and its run is written
//! with the checkpoint's other runs. The checkpoint that names the merged run is the first one that does not name the
//! inputs for their rows.
//!
//! So every merged run is named by a checkpoint, retention removes an input like any other run, and a crash before the
//! checkpoint changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::run::{Run, RunKind};
use crate::schedule_log::{MergeProgress, MergeWriter, TwoBits};
use crate::storage::Storage;
use crate::store::options::OwnerOptions;
use crate::store::retention::hole_punching::own_rows;
use crate::store::retention::kept_files::Candidate;
use crate::store::state::State;
use crate::store::state::file_subjects::{FileSubjects, subjects_of};
use crate::units::{LocationFile, Millis, RunNumber};

/// A merge that is under way or done.
#[derive(Debug)]
pub(in crate::store) struct MergeWork {
    writer: MergeWriter,
    created: Millis,
    stage: MergeStage,
}

#[derive(Debug)]
enum MergeStage {
    UnderWay,
    Done(Option<Arc<Run>>),
    GivenUp(MergeFailure),
}

/// The reason why a planned merge was not done.
#[derive(Clone, Debug)]
pub(in crate::store) struct MergeFailure {
    pub(in crate::store) error: Error,
    pub(super) damaged: Option<RunNumber>,
}

/// A merge whose run the checkpoint names.
#[derive(Clone, Debug)]
pub(in crate::store) struct FinishedMerge {
    /// The states of its sequences, as of the freeze.
    pub(in crate::store) bits: TwoBits,
    pub(in crate::store) run: Option<Arc<Run>>,
    /// How many windows were merged.
    pub(super) windows: usize,
    /// The creation time of the oldest input. Messages that are finished in the inputs are kept there.
    pub(in crate::store) created: Millis,
}

impl MergeWork {
    /// Plans the merge that is worth most now, if any.
    pub(in crate::store) fn plan(state: &mut State, options: &OwnerOptions, copy_after: Millis) -> Option<Self> {
        let plan = state.schedule.plan_merge(options.merge_limits(), &state.run_holes, || emptied(state, options))?;
        let number = state.next_run;
        state.next_run = number.next();
        let created = plan.runs().filter_map(|run| state.runs.get(&run)).map(|known| known.created).min();
        let stage = if plan.pending() > 0 { MergeStage::UnderWay } else { MergeStage::Done(None) };
        let writer = plan.into_writer(number, state.stream.id, copy_after).knowing(state.loaded_runs());
        Some(Self { writer, created: created.unwrap_or(state.position.trusted), stage })
    }

    /// Writes the next piece. True when the merge has ended.
    ///
    /// # Errors
    /// `Storage` with `Stopped`. Any other error leaves the windows unmerged.
    pub(in crate::store) fn write_piece(&mut self, storage: &dyn Storage, budget_bytes: u64) -> Result<bool> {
        if matches!(self.stage, MergeStage::UnderWay) {
            let budget = usize::try_from(budget_bytes).unwrap_or(usize::MAX);
            match self.writer.write_piece(storage, budget)? {
                MergeProgress::More => return Ok(false),
                MergeProgress::Written(run) => self.stage = MergeStage::Done(Some(run)),
                MergeProgress::GivenUp { error, damaged } => {
                    self.stage = MergeStage::GivenUp(MergeFailure { error, damaged });
                }
            }
        }
        Ok(true)
    }

    /// The finished merge, if there is one for the checkpoint to name.
    pub(in crate::store) fn finished(&self) -> Option<FinishedMerge> {
        match &self.stage {
            MergeStage::Done(run) => {
                let plan = self.writer.plan();
                let (bits, windows) = (plan.bits(), plan.windows());
                Some(FinishedMerge { bits, run: run.clone(), windows, created: self.created })
            }
            MergeStage::UnderWay | MergeStage::GivenUp(_) => None,
        }
    }

    /// The failure, if the merge failed.
    pub(in crate::store) fn failure(&self) -> Option<MergeFailure> {
        match &self.stage {
            MergeStage::GivenUp(failure) => Some(failure.clone()),
            MergeStage::UnderWay | MergeStage::Done(_) => None,
        }
    }

    /// Adds the merged run to the candidates and marks its inputs as finished: they are needed for their payloads
    /// alone.
    pub(super) fn stand_in(
        &self,
        merge: &FinishedMerge,
        subjects: &BTreeMap<RunNumber, FileSubjects>,
        candidates: &mut Vec<Candidate>,
    ) {
        let inputs: BTreeSet<RunNumber> = self.writer.plan().runs().collect();
        for candidate in candidates.iter_mut().filter(|candidate| inputs.contains(&candidate.run.number())) {
            candidate.unfinished = false;
        }
        let run = merge.run.iter().map(Arc::clone);
        candidates.extend(run.map(|run| {
            let subjects = subjects_of(subjects, run.number());
            Candidate { run, unfinished: true, adopted_since: false, created: merge.created, subjects }
        }));
    }
}

/// Returns the schedule runs whose pending payloads a merge copies, so that these runs can be removed: those with a
/// small payload area, or with one that is mostly finished. How much of an area is pending is estimated from the runs
/// that point into it.
fn emptied(state: &State, options: &OwnerOptions) -> BTreeSet<RunNumber> {
    let mut pending: BTreeMap<RunNumber, u64> = BTreeMap::new();
    let mut count = |run: &Run, pending_rows: u64| {
        for reference in run.references() {
            let LocationFile::Run(number) = reference.file else { continue };
            let share = u128::from(reference.rows) * u128::from(pending_rows) / u128::from(run.row_count().max(1));
            let rows = pending.entry(number).or_default();
            *rows = rows.saturating_add(u64::try_from(share).unwrap_or(u64::MAX));
        }
    };
    for window in state.schedule.windows() {
        if let Some(run) = window.run() {
            count(run, window.pending());
        }
    }
    state.dispatch.runs().iter().for_each(|ready| count(ready.run(), ready.run().row_count()));
    let schedule = state.runs.values().map(|known| &known.run).filter(|run| run.kind() == RunKind::Schedule);
    let with_payloads = schedule.filter(|run| run.payload_bytes() > 0);
    let emptied = with_payloads.filter(|run| {
        let rows = own_rows(run);
        let left = pending.get(&run.number()).copied().unwrap_or_default();
        run.payload_bytes() <= options.merge_payload_bytes || left.saturating_mul(2) <= rows
    });
    emptied.map(|run| run.number()).collect()
}
