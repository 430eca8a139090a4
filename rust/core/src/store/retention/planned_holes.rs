//! Plans the holes of a checkpoint for the owner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::hole_punching::own_rows;
use crate::dispatch_log::DispatchRun;
use crate::run::{ROW_BYTES, Run, RunKind};
use crate::store::options::OwnerOptions;
use crate::store::owner::Owner;
use crate::store::retention::finished_age::Keeping;
use crate::store::retention::hole_plan::{HolePlan, Hollows};
use crate::store::retention::kept_files::held_by_ready;
use crate::store::retention::run_hole_search::RunTarget;
use crate::store::retention::segment_hole_search::{HoleSizes, Target};
use crate::units::{LocationFile, ReadyNumber, RunNumber, SegmentNumber, SubjectNumber};

/// A segment is read again once this share more of it can be freed.
const GAIN_SHARE: u64 = 16;
/// The maximum number of segments, and of runs, that one checkpoint searches, in turn.
const TARGETS_MAX: usize = 64;
/// Limit of the payload bytes of the runs that one checkpoint searches; the last run may exceed it. Each 64 bytes take
/// one bit of memory.
const PAYLOAD_BYTES_MAX: u64 = 8 << 30;

impl Owner {
    /// Plans a search for holes if one is due with the checkpoint that is being frozen.
    pub(in crate::store) fn plan_holes(&mut self, keeping: &Keeping) -> Option<HolePlan> {
        if self.options.hole_bytes_min == u64::MAX {
            return None;
        }
        let (segments, runs) = self.hollow(keeping);
        let gain = self.gain_of(&segments, &runs);
        let gain = if self.reclaiming.is_asked() && gain > 0 { u64::MAX } else { gain };
        if gain < self.options.reclaim_bytes.max(1) {
            return None;
        }
        self.hollowing.finished_at = Some(self.finished_facts());
        let targets = (self.targets(segments), self.run_targets(runs));
        let state = &self.state;
        let listed_from: BTreeMap<SubjectNumber, ReadyNumber> =
            state.subjects.iter().map(|(subject, _)| (subject, state.dispatch.listed_from(subject))).collect();
        let known = Hollows { log: state.holes.clone(), runs: state.run_holes.clone() };
        Some(HolePlan::new(targets, hole_sizes(&self.options), state.stream, listed_from, known))
    }

    /// Estimates how many bytes of sealed segments and of payloads in runs were finished since the last search; 0 if
    /// these are fewer than the bytes of rows that a search must read.
    pub(in crate::store) fn hollow_gain(&self, keeping: &Keeping) -> u64 {
        if self.options.hole_bytes_min == u64::MAX {
            return 0;
        }
        let (segments, runs) = self.hollow(keeping);
        self.gain_of(&segments, &runs)
    }

    fn gain_of(&self, segments: &[Target], runs: &[Arc<Run>]) -> u64 {
        let room = (segments.len() as u64).saturating_mul(self.options.records_bytes_max);
        let room = runs.iter().map(|run| run.payload_bytes()).fold(room, u64::saturating_add);
        let facts = segments.iter().map(Target::facts).fold(0, u64::saturating_add);
        let facts = runs.iter().map(|run| own_rows(run)).fold(facts, u64::saturating_add);
        let finished = self.finished_facts().saturating_sub(self.hollowing.finished_at.unwrap_or_default());
        let gain = u128::from(room) * u128::from(finished.min(facts)) / u128::from(facts.max(1));
        let gain = u64::try_from(gain).unwrap_or(u64::MAX);
        if gain < self.unfinished_rows_bytes() { 0 } else { gain }
    }

    /// The number of facts without a pending or unfinished message.
    fn finished_facts(&self) -> u64 {
        let state = &self.state;
        let unfinished = state.schedule.pending().saturating_add(state.dispatch.unfinished());
        state.position.next_sequence.0.saturating_sub(unfinished)
    }

    /// Bytes of the rows of all runs with an unfinished row.
    fn unfinished_rows_bytes(&self) -> u64 {
        let state = &self.state;
        let schedule = state.schedule.windows().iter().filter(|window| state.schedule.is_needed(window));
        let ready = state.dispatch.runs().iter().filter(|run| !state.dispatch.is_run_finished(run));
        let runs = schedule.filter_map(|window| window.run()).chain(ready.map(DispatchRun::run));
        runs.map(|run: &Arc<Run>| run.row_count().saturating_mul(ROW_BYTES as u64)).fold(0, u64::saturating_add)
    }

    /// The segments and the runs that may have holes. No file that a group can read again is among them.
    fn hollow(&self, keeping: &Keeping) -> (Vec<Target>, Vec<Arc<Run>>) {
        let (readable_from, files) = self.readable(keeping);
        (self.sealed(keeping, (readable_from, &files)), self.hollow_runs(keeping, &files))
    }

    /// The first segment with messages that a group can read again, and the files of these messages.
    fn readable(&self, keeping: &Keeping) -> (Option<SegmentNumber>, BTreeSet<LocationFile>) {
        let of_run = |run: RunNumber| self.state.runs.get(&run).map(|known| &known.subjects);
        held_by_ready(&self.state.segments, self.state.read_again_from(), keeping, &of_run)
    }

    /// The sealed segments that are old enough and that the newest checkpoint keeps.
    fn sealed(
        &self,
        keeping: &Keeping,
        (readable_from, files): (Option<SegmentNumber>, &BTreeSet<LocationFile>),
    ) -> Vec<Target> {
        let floor = self.kept.last().map_or(SegmentNumber(0), |newest| newest.floor);
        let replay = self.state.position.end.segment().unwrap_or_default();
        let is_readable = |segment: SegmentNumber| {
            readable_from.is_some_and(|from| segment >= from) || files.contains(&LocationFile::Segment(segment))
        };
        let mut targets = Vec::new();
        for pair in self.state.segments.windows(2) {
            let [start, next] = pair else { continue };
            let is_sealed = start.segment < replay;
            let is_kept = start.segment >= floor && start.position.next_sequence < next.position.next_sequence;
            if is_sealed
                && is_kept
                && !keeping.is_young(next.position.trusted, &start.subjects)
                && !is_readable(start.segment)
            {
                let left = self.hollowing.left.segments.get(&start.segment).copied().unwrap_or_default();
                targets.push(Target::new(start.position, next.position, left));
            }
        }
        targets
    }

    /// Selects the segments of this search, starting where the last search ended.
    fn targets(&mut self, sealed: Vec<Target>) -> Vec<Target> {
        let mut targets = sealed;
        let count = targets.len();
        if count > TARGETS_MAX {
            let first = targets.partition_point(|target| target.number() < self.hollowing.next);
            targets.rotate_left(first % count);
            targets.truncate(TARGETS_MAX);
            self.hollowing.next = targets.last().map(|target| target.number().next()).unwrap_or_default();
            targets.sort_unstable_by_key(Target::number);
        }
        targets
    }

    /// The runs with payloads that are old enough and that the newest checkpoint names.
    fn hollow_runs(&self, keeping: &Keeping, files: &BTreeSet<LocationFile>) -> Vec<Arc<Run>> {
        let Some(newest) = self.kept.last() else { return Vec::new() };
        let known = self.state.runs.values().filter(|known| {
            // Loaded runs are left out: their digest covers the records, and the process that staged them may still
            // read them.
            known.run.kind() == RunKind::Schedule
                && known.run.relation().is_none()
                && known.run.payload_bytes() > 0
                && newest.runs.contains(&known.run.number())
                && !keeping.is_young(known.created, &known.subjects)
                && !files.contains(&LocationFile::Run(known.run.number()))
        });
        known.map(|known| Arc::clone(&known.run)).collect()
    }

    /// Selects the runs of this search, starting where the last search ended.
    fn run_targets(&mut self, mut runs: Vec<Arc<Run>>) -> Vec<RunTarget> {
        let first = runs.partition_point(|run| run.number() < self.hollowing.next_run);
        let count = runs.len().max(1);
        runs.rotate_left(first % count);
        let mut bytes = 0_u64;
        let within = runs.iter().take(TARGETS_MAX).take_while(|run| {
            let is_within = bytes < PAYLOAD_BYTES_MAX;
            bytes = bytes.saturating_add(run.payload_bytes());
            is_within
        });
        let taken = within.count();
        if taken < runs.len() {
            runs.truncate(taken);
            self.hollowing.next_run = runs.last().map(|run| run.number().next()).unwrap_or_default();
        }
        runs.sort_unstable_by_key(|run| run.number());
        let left = |run: &Run| self.hollowing.left.runs.get(&run.number()).copied().unwrap_or_default();
        runs.into_iter().map(|run| RunTarget::new(Arc::clone(&run), left(&run))).collect()
    }
}

fn hole_sizes(options: &OwnerOptions) -> HoleSizes {
    let gain_min = (options.records_bytes_max / GAIN_SHARE).min(options.reclaim_bytes).max(options.hole_bytes_min);
    HoleSizes { bytes_min: options.hole_bytes_min, block_bytes: options.hole_block_bytes, gain_min }
}
