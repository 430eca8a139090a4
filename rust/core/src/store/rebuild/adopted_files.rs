//! The content of the checkpoint that adopts rebuilt runs: that of the previous checkpoint, with the windows cut into
//! the pieces of the plan, with the rebuilt runs, and with those previous runs that can be opened and that rows may
//! still point into.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::adopted_ready::{Rewriting, rewritings};
use super::basis::Basis;
use super::plan::{RebuildPiece, RebuildPlan};
use super::staged::CheckedRun;
use crate::error::{Error, Result};
use crate::message_log::Stream;
use crate::run::{Run, ScheduleRow};
use crate::schedule_log::{EntryState, SavedEnded, TwoBits};
use crate::storage::Storage;
use crate::store::checkpoint::file::write_checkpoint;
use crate::store::checkpoint::named_files::{NamedFiles, NamedRun};
use crate::store::checkpoint::snapshot::{Frozen, Snapshot};
use crate::store::checkpoint::window_codec::WindowSnapshot;
use crate::store::recovery::restoration::{check_postings, check_windows, state_of};
use crate::store::state::State;
use crate::store::state::file_subjects::FileSubjects;
use crate::units::{LocationFile, Millis, Minute, RunNumber, Sequence};

/// The content of an adopting checkpoint: see the module.
pub(super) struct AdoptedFiles {
    snapshot: Snapshot,
    files: NamedFiles,
    /// All runs that the checkpoint names, opened.
    runs: BTreeMap<RunNumber, Arc<Run>>,
    rewritings: Vec<Rewriting>,
}

impl AdoptedFiles {
    /// Checks that everything that the new checkpoint names exists and suffices.
    ///
    /// # Errors
    /// The error of a needed run that cannot be opened; `MissingFile` if only such a run has the payload of a ready
    /// message; `Corrupt`, `NewerFormat`, `Storage`.
    pub(super) fn of(basis: &Basis, plan: &RebuildPlan, checked: &[CheckedRun]) -> Result<Self> {
        let mut runs = basis.runs.clone();
        for run in checked {
            runs.insert(run.piece.run, Arc::clone(&run.run));
        }
        drop_damaged(basis, plan, &mut runs);
        let files = files_of(basis, checked, &runs)?;
        let windows = windows_of(basis, plan, &runs)?;
        let last = plan.pieces().iter().map(|piece| piece.run.next()).max();
        let next_run = basis.read.snapshot.next_run.max(last.unwrap_or_default());
        let snapshot = Snapshot { next_run, windows, ..basis.read.snapshot.clone() };
        let mut adopted = Self { snapshot, files, runs, rewritings: Vec::new() };
        let state = adopted.checked_state(basis)?;
        for run in checked {
            refuse_lost(&run.run, basis, &adopted.runs)?;
        }
        adopted.rewritings = rewritings(basis, &state, next_run)?;
        adopted.snapshot.next_run =
            next_run.plus(u32::try_from(adopted.rewritings.len()).unwrap_or(u32::MAX)).max(next_run);
        Ok(adopted)
    }

    /// The state that the new checkpoint gives, checked as an open checks it.
    fn checked_state(&self, basis: &Basis) -> Result<State> {
        let state = state_of(basis.stream, &self.snapshot, &self.files, &self.runs)?;
        check_windows(&state)?;
        let lost = basis.read.files.dispatch_runs.iter().find_map(|run| basis.lost.get(&run.number));
        check_postings(&state).map_err(|error| lost.cloned().unwrap_or(error))?;
        Ok(state)
    }

    /// Writes the new runs of ready messages, and the checkpoint.
    ///
    /// # Errors
    /// The errors of the storage.
    pub(super) fn save(mut self, storage: &dyn Storage, stream: Stream, number: u32) -> Result<()> {
        for rewriting in std::mem::take(&mut self.rewritings) {
            let old = rewriting.run.number();
            let run = Arc::new(rewriting.write(storage, &stream.id)?);
            self.runs.remove(&old);
            for named in self.files.dispatch_runs.iter_mut().filter(|named| named.number == old) {
                *named = NamedRun::of(&run, named.created, named.subjects.clone());
            }
            self.runs.insert(run.number(), run);
        }
        let state = state_of(stream, &self.snapshot, &self.files, &self.runs)?;
        check_windows(&state)?;
        check_postings(&state)?;
        let frozen = Frozen::of(&state, &BTreeMap::new(), self.snapshot.feed_from);
        write_checkpoint(storage, &stream, number, &frozen, &self.files)
    }
}

/// Removes a replaced run from `runs` if the run is damaged and no other run points into it. Other replaced runs are
/// removed like the inputs of a merge, when they are old enough.
fn drop_damaged(basis: &Basis, plan: &RebuildPlan, runs: &mut BTreeMap<RunNumber, Arc<Run>>) {
    let replaced: BTreeSet<RunNumber> = plan.pieces().iter().map(|piece| piece.old_run).collect();
    let pointed: BTreeSet<RunNumber> = runs
        .values()
        .filter(|run| !replaced.contains(&run.number()))
        .flat_map(|run| run_references(run).collect::<Vec<_>>())
        .collect();
    for number in replaced.difference(&pointed) {
        let mut is_damaged = false;
        if let Some(run) = runs.get(number) {
            run.verify_past::<ScheduleRow>(&basis.read.files.run_holes, &mut |_| is_damaged = true);
        }
        if is_damaged {
            runs.remove(number);
        }
    }
}

fn run_references(run: &Run) -> impl Iterator<Item = RunNumber> {
    run.references().iter().filter_map(|reference| match reference.file {
        LocationFile::Run(number) => Some(number),
        LocationFile::Segment(_) => None,
    })
}

/// Returns an error if a rebuilt run points into a run that the checkpoint does not name.
fn refuse_lost(run: &Run, basis: &Basis, named: &BTreeMap<RunNumber, Arc<Run>>) -> Result<()> {
    let Some(number) = run_references(run).find(|number| !named.contains_key(number)) else { return Ok(()) };
    let unknown = || Error::corrupt(run.file().path(), 0, "payloads in runs that are named", format!("run {number}"));
    Err(basis.lost.get(&number).cloned().unwrap_or_else(unknown))
}

fn files_of(basis: &Basis, checked: &[CheckedRun], runs: &BTreeMap<RunNumber, Arc<Run>>) -> Result<NamedFiles> {
    let before = &basis.read.files;
    let stays = |named: &&NamedRun| runs.contains_key(&named.number);
    let mut schedule_runs: Vec<NamedRun> = before.schedule_runs.iter().filter(stays).cloned().collect();
    let created_of = |number: RunNumber| {
        let replaced = before.schedule_runs.iter().find(|named| named.number == number);
        replaced.map_or(Millis(0), |named| named.created)
    };
    for CheckedRun { piece, run, .. } in checked {
        schedule_runs.push(NamedRun::of(run, created_of(piece.old_run), FileSubjects::of_run(run)?));
    }
    schedule_runs.sort_by_key(|named| named.number);
    let named: BTreeSet<RunNumber> = schedule_runs.iter().map(|named| named.number).collect();
    let loads = before.loads.iter().filter(|(number, _)| named.contains(number));
    Ok(NamedFiles {
        floor: before.floor,
        dispatch_runs: before.dispatch_runs.iter().filter(stays).cloned().collect(),
        holes: before.holes.clone(),
        run_holes: before.run_holes.of_runs(&named),
        loads: loads.map(|(number, load)| (*number, *load)).collect(),
        schedule_runs,
    })
}

/// Makes the windows, and cuts those of the plan into its pieces.
fn windows_of(basis: &Basis, plan: &RebuildPlan, runs: &BTreeMap<RunNumber, Arc<Run>>) -> Result<Vec<WindowSnapshot>> {
    let mut windows = Vec::new();
    for window in &basis.read.snapshot.windows {
        let within = |piece: &&RebuildPiece| {
            window.bits.first() <= piece.first && piece.end() <= window.bits.end() && window.run == Some(piece.old_run)
        };
        let pieces: Vec<&RebuildPiece> = plan.pieces().iter().filter(within).collect();
        if !pieces.is_empty() {
            cut(&window.bits, &pieces, &mut windows)?;
            continue;
        }
        let run = window.run.filter(|run| runs.contains_key(run));
        let is_pending = window.bits.count(EntryState::Pending) > 0;
        if is_pending && let Some(error) = window.run.and_then(|run| basis.lost.get(&run)) {
            return Err(error.clone());
        }
        windows.push(WindowSnapshot { run, ..window.clone() });
    }
    Ok(windows)
}

/// Cuts a window into its pieces and the ranges between them, which have no pending messages.
fn cut(bits: &TwoBits, pieces: &[&RebuildPiece], windows: &mut Vec<WindowSnapshot>) -> Result<()> {
    let mut from = bits.first();
    let mut push = |from: Sequence, end: Sequence, run: Option<RunNumber>| {
        if from >= end {
            return Ok(());
        }
        let part = bits.part(from, end.since(from)).ok_or_else(|| {
            super::plan::refused_plan("pieces of whole words, in their order", format!("one from {from} on"))
        })?;
        if run.is_none() && part.pending().next().is_some() {
            return Err(super::plan::refused_plan("a piece for all that is pending", format!("none from {from} on")));
        }
        // The cells of a rebuilt run count only pending messages.
        let ended = SavedEnded::none(Minute(0));
        windows.push(WindowSnapshot { bits: part, run, ended });
        Ok(())
    };
    for piece in pieces {
        push(from, piece.first, None)?;
        push(piece.first, piece.end(), Some(piece.run))?;
        from = piece.end();
    }
    push(from, bits.end(), None)
}
