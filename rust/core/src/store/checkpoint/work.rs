//! Makes a checkpoint. The state is frozen between two steps. The checkpoint is then written in pieces, without the
//! owner, while facts are applied. Everything in the file is as of one position. Later changes are only in the live
//! state, and go into the next checkpoint.
//!
//! The file is written only after all that it names is durable: the runs, and the log up to its position.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::file::write_checkpoint;
use super::merging::{FinishedMerge, MergeFailure, MergeWork};
use super::named_files::{NamedFiles, NamedLoad, NamedRun};
use super::ready_runs::DispatchRunWork;
use super::snapshot::Frozen;
use crate::dispatch_log::FrozenReady;
use crate::error::Result;
use crate::message_log::Stream;
use crate::planted::failpoint::{Failpoint, reached};
use crate::planted::{self, Planted};
use crate::run::{LoadedRuns, Run, RunHead, RunKind, RunWriter};
use crate::schedule_log::{FrozenPart, JoinedEnded, PartWriter};
use crate::storage::Storage;
use crate::store::options::OwnerOptions;
use crate::store::query::dead_letters::segments_of_reasons;
use crate::store::retention::finished_age::Keeping;
use crate::store::retention::hole_plan::{HolePlan, Hollows, Left};
use crate::store::retention::kept_files::{Candidate, KeptFiles, needed};
use crate::store::state::file_subjects::{FileSubjects, subjects_of};
use crate::store::state::{KnownRun, State};
use crate::units::{DueKey, Location, LocationFile, Millis, RunNumber, SegmentNumber, Sequence};

/// The place of the feed at the freeze.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct FeedPlace {
    /// Messages due until then are loaded already, so their payloads must not move.
    pub(in crate::store) loaded_until: Millis,
    /// Where a new feed must begin to find all pending messages.
    pub(in crate::store) resume_from: DueKey,
}

/// The result of a piece of work.
#[derive(Debug)]
pub enum CheckpointProgress {
    /// There is more to do.
    More,
    /// The log must be synced up to this position before the work can go on.
    WaitForSync(Location),
    /// The checkpoint is durable; hand it to [`crate::store::Owner::install`].
    Finished(FinishedCheckpoint),
}

/// A checkpoint that is durable, with its runs.
#[derive(Debug)]
pub struct FinishedCheckpoint {
    /// The new schedule runs, each with the first sequence of its part.
    pub(in crate::store) schedule_runs: Vec<(Sequence, Arc<Run>)>,
    pub(in crate::store) dispatch_run: Option<Arc<Run>>,
    /// The subjects of each of its runs, including the merged one.
    pub(in crate::store) subjects: BTreeMap<RunNumber, FileSubjects>,
    pub(in crate::store) merged: Option<Box<FinishedMerge>>,
    pub(in crate::store) merge_failure: Option<Box<MergeFailure>>,
    pub(in crate::store) kept: Box<KeptFiles>,
    /// The holes of segments and runs, which are never read again, and the bytes that could still be freed in the files
    /// that were searched for holes.
    pub(in crate::store) holes: Hollows,
    pub(in crate::store) left: Left,
    /// The ended entries of windows, as they were and as joined, by the first sequence of each window.
    pub(in crate::store) ended: Vec<(Sequence, JoinedEnded)>,
    pub(in crate::store) created: Millis,
    /// Payloads due later than this were copied.
    pub(in crate::store) copy_after: Millis,
}

/// A frozen state that is being written. After an error the same piece may be tried again: a full disk delays a
/// checkpoint and loses nothing.
#[derive(Debug)]
pub struct CheckpointWork {
    number: u32,
    stream: Stream,
    frozen: Frozen,
    dispatch_number: RunNumber,
    schedule_candidates: Vec<Candidate>,
    dispatch_candidates: Vec<Candidate>,
    /// Which files are too young to be removed.
    keeping: Keeping,
    /// The first segment that a group needs which reads finished messages again.
    read_again_from: Option<SegmentNumber>,
    copy_after: Millis,
    parts: Vec<(RunNumber, FrozenPart)>,
    ready: Vec<FrozenReady>,
    /// Segments with the facts that made the dead letters in `ready`.
    dead_letter_segments: BTreeSet<SegmentNumber>,
    merge: Option<MergeWork>,
    loaded: LoadedRuns,
    holes: Option<HolePlan>,
    stage: Stage,
    schedule_runs: Vec<(Sequence, Arc<Run>)>,
    /// Places in older runs whose payloads were copied into the new runs.
    copied_from: Vec<Location>,
    dispatch_run: Option<Arc<Run>>,
    /// The subjects of each of these runs, including the merged one.
    subjects: BTreeMap<RunNumber, FileSubjects>,
    /// As in [`FinishedCheckpoint`]. They are kept here in case the file must be written again.
    ended: Vec<(Sequence, JoinedEnded)>,
}

enum Stage {
    ScheduleStart,
    Schedule(Box<PartWriter>),
    DispatchStart,
    Dispatch(Box<DispatchRunWork>),
    Merge,
    Holes,
    File,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::ScheduleStart | Self::Schedule(_) => "schedule run",
            Self::DispatchStart | Self::Dispatch(_) => "dispatch run",
            Self::Merge => "merge",
            Self::Holes => "holes",
            Self::File => "file",
        })
    }
}

impl CheckpointWork {
    /// Keeps the facts from `from` on, which are not archived yet.
    pub fn await_archives(&mut self, from: Option<Sequence>) {
        self.keeping.await_archives(from);
        if let Some(holes) = &mut self.holes {
            holes.spare_awaited(&self.keeping);
        }
    }

    pub(in crate::store) fn freeze(
        state: &mut State,
        options: &OwnerOptions,
        number: u32,
        feed: FeedPlace,
        (keeping, opened_from, holes): (Keeping, Sequence, Option<HolePlan>),
    ) -> Self {
        let schedule_candidates = candidates(state, RunKind::Schedule, opened_from);
        let dispatch_candidates = candidates(state, RunKind::Dispatch, opened_from);
        let mut take_number = || {
            let number = state.next_run;
            state.next_run = number.next();
            number
        };
        let dispatch_number = take_number();
        // This comes before the freeze, so that dispatched entries do not count when it is decided how much has ended.
        state.schedule.prune_ended(feed.resume_from);
        let pending = state.schedule.freeze(state.position.trusted);
        let parts: Vec<_> = pending.into_iter().map(|part| (take_number(), part)).collect();
        let copy_after = state.position.trusted.max(feed.loaded_until).plus(options.copy_after_ms);
        let ready = state.dispatch.freeze();
        let dead_letter_segments = segments_of_reasons(state, &ready);
        let merge = MergeWork::plan(state, options, copy_after);
        let planned: BTreeMap<Sequence, RunNumber> =
            parts.iter().map(|(number, part)| (part.first(), *number)).collect();
        Self {
            number,
            stream: state.stream,
            frozen: Frozen::of(state, &planned, feed.resume_from),
            dispatch_number,
            schedule_candidates,
            dispatch_candidates,
            keeping,
            read_again_from: state.read_again_from(),
            copy_after,
            parts,
            ready,
            dead_letter_segments,
            merge,
            loaded: state.loaded_runs(),
            holes,
            stage: Stage::ScheduleStart,
            schedule_runs: Vec::new(),
            copied_from: Vec::new(),
            dispatch_run: None,
            subjects: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// Returns the position of the checkpoint. The log must be synced up to there.
    pub fn position(&self) -> Location {
        self.frozen.position.end
    }

    /// Returns how many of the entries that leave memory are written.
    pub fn entries_written(&self) -> u64 {
        let whole = self.schedule_runs.iter().map(|(_, run)| run.row_count());
        let part = if let Stage::Schedule(work) = &self.stage { work.entries_written() } else { 0 };
        whole.fold(part, u64::saturating_add)
    }

    /// Writes the next piece, of about `budget_bytes`. The log is synced up to `synced`.
    ///
    /// # Errors
    /// Those of the storage; the piece may be tried again.
    pub fn write_piece(
        &mut self,
        storage: &Arc<dyn Storage>,
        budget_bytes: u64,
        synced: Location,
    ) -> Result<CheckpointProgress> {
        match std::mem::replace(&mut self.stage, Stage::ScheduleStart) {
            Stage::ScheduleStart => self.start_schedule(),
            Stage::Schedule(mut work) => match work.write_piece(storage.as_ref(), budget_bytes as usize) {
                Ok(None) => self.stage = Stage::Schedule(work),
                Ok(Some(run)) => {
                    self.copied_from.append(&mut work.take_copied_from());
                    self.schedule_runs.push((work.first(), run));
                }
                Err(error) => {
                    // The next try replaces the file that is left under a temporary name.
                    drop(work.abandon(storage.as_ref()));
                    return Err(error);
                }
            },
            Stage::DispatchStart => self.start_dispatch(storage.as_ref())?,
            Stage::Dispatch(work) => self.go_on_with_dispatch(storage.as_ref(), work, budget_bytes)?,
            Stage::Merge => {
                self.stage = Stage::Merge;
                let merge = self.merge.as_mut();
                if merge.map_or(Ok(true), |merge| merge.write_piece(storage.as_ref(), budget_bytes))? {
                    self.stage = Stage::Holes;
                }
            }
            Stage::Holes => {
                self.stage = Stage::Holes;
                if self.look_for_holes(storage, budget_bytes)? {
                    self.stage = Stage::File;
                }
            }
            Stage::File => {
                self.stage = Stage::File;
                if synced < self.position() && !planted::is_on(Planted::CheckpointBeforeRuns) {
                    return Ok(CheckpointProgress::WaitForSync(self.position()));
                }
                return self.finish(storage.as_ref()).map(CheckpointProgress::Finished);
            }
        }
        Ok(CheckpointProgress::More)
    }

    /// Starts the next part that is not written; after the last one, the dispatch run.
    fn start_schedule(&mut self) {
        let next = self.parts.get(self.schedule_runs.len());
        self.stage = next.map_or(Stage::DispatchStart, |(number, part)| {
            let writer = part.clone().into_writer(*number, self.stream.id, self.copy_after);
            Stage::Schedule(Box::new(writer.knowing(self.loaded.clone())))
        });
    }

    fn start_dispatch(&mut self, storage: &dyn Storage) -> Result<()> {
        self.stage = Stage::DispatchStart;
        let row_count: usize = self.ready.iter().map(|ready| ready.entries.len()).sum();
        if row_count == 0 {
            self.stage = Stage::Merge;
            return Ok(());
        }
        let head = RunHead { number: self.dispatch_number, stream: self.stream.id, row_count: row_count as u64 };
        let mut writer = RunWriter::create(storage, head)?;
        self.dead_letter_segments.iter().for_each(|segment| writer.hold(LocationFile::Segment(*segment)));
        self.stage = Stage::Dispatch(Box::new(DispatchRunWork { writer, subject: 0, entry: 0 }));
        Ok(())
    }

    fn go_on_with_dispatch(
        &mut self,
        storage: &dyn Storage,
        mut work: Box<DispatchRunWork>,
        budget_bytes: u64,
    ) -> Result<()> {
        // Until the piece is done, an error restarts this run.
        self.stage = Stage::DispatchStart;
        if work.write_piece(&self.ready, budget_bytes)? {
            self.dispatch_run = Some(Arc::new(work.writer.finish(storage)?));
            self.stage = Stage::Merge;
        } else {
            self.stage = Stage::Dispatch(work);
        }
        Ok(())
    }

    /// Looks for holes in the runs that were unfinished at the freeze and in the new runs. The merged run is left out,
    /// since its inputs have all its rows. True when the search is done.
    fn look_for_holes(&mut self, storage: &Arc<dyn Storage>, budget_bytes: u64) -> Result<bool> {
        let Some(plan) = self.holes.as_mut() else { return Ok(true) };
        plan.note_copied(&std::mem::take(&mut self.copied_from));
        let runs = || {
            let candidates = self.schedule_candidates.iter().chain(&self.dispatch_candidates);
            let before = candidates.filter(|candidate| candidate.unfinished).map(|candidate| &candidate.run);
            let written = self.schedule_runs.iter().map(|(_, run)| run).chain(&self.dispatch_run);
            before.chain(written).cloned().collect()
        };
        plan.write_piece(storage, runs, &self.frozen, budget_bytes)
    }

    /// Finds the subjects of the new runs.
    fn tell_subjects(&mut self) -> Result<()> {
        let merged = self.merge.as_ref().and_then(MergeWork::finished).and_then(|merged| merged.run);
        for run in self.schedule_runs.iter().map(|(_, run)| run).chain(&self.dispatch_run).chain(&merged) {
            if let Entry::Vacant(place) = self.subjects.entry(run.number()) {
                place.insert(FileSubjects::of_run(run)?);
            }
        }
        Ok(())
    }

    /// Writes the checkpoint file, which names all files that it needs.
    fn finish(&mut self, storage: &dyn Storage) -> Result<FinishedCheckpoint> {
        self.tell_subjects()?;
        let created = self.frozen.position.trusted;
        let fresh = |run: &Arc<Run>| {
            let subjects = subjects_of(&self.subjects, run.number());
            Candidate { run: Arc::clone(run), unfinished: true, adopted_since: false, created, subjects }
        };
        let mut schedule = self.schedule_candidates.clone();
        schedule.extend(self.schedule_runs.iter().map(|(_, run)| fresh(run)));
        let merged = self.merge.as_ref().and_then(|merge| {
            let finished = merge.finished()?;
            merge.stand_in(&finished, &self.subjects, &mut schedule);
            self.frozen.merge_windows(&finished.bits, finished.run.as_ref().map(|run| run.number()));
            Some(Box::new(finished))
        });
        let mut dispatch = self.dispatch_candidates.clone();
        dispatch.extend(self.dispatch_run.iter().map(fresh));
        let all: Vec<Candidate> = schedule.iter().chain(&dispatch).cloned().collect();
        let replay = self.position().segment().unwrap_or(SegmentNumber(1));
        let (runs, floor) = needed(&all, &self.frozen.segments, (replay, self.read_again_from), &self.keeping)?;
        let named = |candidates: &[Candidate]| -> Vec<NamedRun> {
            let kept = candidates.iter().filter(|candidate| runs.contains(&candidate.run.number()));
            kept.map(|candidate| NamedRun::of(&candidate.run, candidate.created, candidate.subjects.clone())).collect()
        };
        let (holes, left) = match &mut self.holes {
            Some(plan) => plan.finish(),
            None => (Hollows { log: self.frozen.holes.clone(), runs: self.frozen.run_holes.clone() }, Left::default()),
        };
        self.holes = None;
        (self.frozen.holes, self.frozen.run_holes) = (holes.log.clone(), holes.runs.clone());
        let files = NamedFiles {
            floor,
            schedule_runs: named(&schedule),
            dispatch_runs: named(&dispatch),
            holes: holes.log.from_segment(floor),
            run_holes: holes.runs.of_runs(&runs),
            loads: loads_among(&all, &runs),
        };
        self.ended.extend(self.frozen.join_ended());
        reached(Failpoint::CheckpointBegins);
        write_checkpoint(storage, &self.stream, self.number, &self.frozen, &files)?;
        Ok(FinishedCheckpoint {
            schedule_runs: std::mem::take(&mut self.schedule_runs),
            dispatch_run: self.dispatch_run.take(),
            subjects: std::mem::take(&mut self.subjects),
            merge_failure: self.merge.as_ref().and_then(MergeWork::failure).map(Box::new),
            merged,
            kept: Box::new(files.kept(self.number, self.frozen.position.next_sequence)),
            holes,
            left,
            ended: std::mem::take(&mut self.ended),
            created,
            copy_after: self.copy_after,
        })
    }
}

/// Returns the loaded runs among those that a checkpoint names.
fn loads_among(candidates: &[Candidate], named: &BTreeSet<RunNumber>) -> BTreeMap<RunNumber, NamedLoad> {
    let runs = candidates.iter().map(|candidate| &candidate.run).filter(|run| named.contains(&run.number()));
    runs.filter_map(|run| NamedLoad::of(run).map(|load| (run.number(), load))).collect()
}

/// Returns all runs of one kind, and whether anything in each is unfinished now. An opening from the checkpoint before
/// this one applies the facts from `opened_from` on.
pub(in crate::store) fn candidates(state: &State, kind: RunKind, opened_from: Sequence) -> Vec<Candidate> {
    let windows = state.schedule.windows().iter().filter(|window| state.schedule.is_needed(window));
    let pending = windows.filter_map(|window| window.run()).map(|run| run.number());
    let ready = state.dispatch.runs().iter().filter(|run| !state.dispatch.is_run_finished(run));
    let unfinished: BTreeSet<RunNumber> = pending.chain(ready.map(|run| run.run().number())).collect();
    let known = state.runs.values().filter(|known| known.run.kind() == kind);
    let candidate = |known: &KnownRun| Candidate {
        run: Arc::clone(&known.run),
        unfinished: unfinished.contains(&known.run.number()),
        adopted_since: known.run.relation().is_some_and(|relation| relation.base >= opened_from),
        created: known.created,
        subjects: known.subjects.clone(),
    };
    known.map(candidate).collect()
}
