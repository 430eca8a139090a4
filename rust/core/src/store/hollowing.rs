//! When holes are looked for, and when they are punched: a hole is given back to the disk once both kept checkpoints
//! name it, so that whichever an opening uses knows that it is not to be read.

use std::collections::BTreeMap;

use super::hole_plan::HolePlan;
use super::hole_search::{HoleSizes, Target};
use super::keeping::Keeping;
use super::options::OwnerOptions;
use super::owner::Owner;
use super::retention::{CHECKPOINTS_KEPT, KeptFiles};
use crate::dispatch_log::DispatchRun;
use crate::error::Result;
use crate::message_log::{Hole, Holes, segment_path};
use crate::planted::{Planted, is_on};
use crate::run::Run;
use crate::storage::Storage;
use crate::units::{ReadyNumber, SegmentNumber, SubjectNumber};

/// Segments that are looked at in one checkpoint at most, in turn.
const TARGETS_MAX: usize = 64;
/// A segment is read again where this share of it more may be given back.
const GAIN_SHARE: u64 = 16;
/// Bytes of one row.
const ROW_BYTES: u64 = 48;

/// What is remembered between two searches.
#[derive(Debug, Default)]
pub(super) struct Hollowing {
    /// How many facts were finished at the last one; `None` before the first.
    finished_at: Option<u64>,
    /// The segment with which the next one begins.
    next: SegmentNumber,
    /// What could be given back of segments that were read and was not, in bytes.
    left: BTreeMap<SegmentNumber, u64>,
    /// What was to be punched since the store was opened. Before that, nobody knows how far one came.
    punched: Holes,
}

impl Hollowing {
    /// A checkpoint has looked at these segments.
    pub(super) fn note_left(&mut self, left: BTreeMap<SegmentNumber, u64>, floor: Option<SegmentNumber>) {
        self.left.extend(left);
        self.left.retain(|segment, _| floor.is_none_or(|floor| *segment >= floor));
    }

    /// What both kept checkpoints name and was not punched yet.
    pub(super) fn take_punches(&mut self, kept: &[KeptFiles]) -> Vec<Hole> {
        let named = match kept {
            [.., newest] if is_on(Planted::HolePunchedBeforeBothCheckpoints) => newest.holes.clone(),
            [.., older, newest] if kept.len() >= CHECKPOINTS_KEPT => {
                let both = older.holes.iter().filter(|hole| newest.holes.hold(hole)).copied().collect();
                Holes::of(both).unwrap_or_default()
            }
            _ => return Vec::new(),
        };
        let punches = named.iter().filter(|hole| !self.punched.hold(hole)).copied().collect();
        self.punched = named;
        punches
    }
}

impl Owner {
    /// A search for holes, where one is due with the checkpoint that is being frozen.
    pub(super) fn plan_holes(&mut self, keeping: &Keeping) -> Option<HolePlan> {
        let gain = self.hollow_gain(keeping);
        let gain = if self.reclaiming.is_asked() && gain > 0 { u64::MAX } else { gain };
        if gain < self.options.reclaim_bytes.max(1) {
            return None;
        }
        self.hollowing.finished_at = Some(self.finished_facts());
        let targets = self.targets(keeping);
        let state = &self.state;
        let finished_below: BTreeMap<SubjectNumber, ReadyNumber> =
            state.subjects.iter().map(|(subject, _)| (subject, state.dispatch.finished_below(subject))).collect();
        Some(HolePlan::new(targets, hole_sizes(&self.options), state.stream, finished_below, state.holes.clone()))
    }

    /// About how many bytes of sealed segments were finished since the last search; 0 where they are fewer than the
    /// rows that one has to read.
    pub(super) fn hollow_gain(&self, keeping: &Keeping) -> u64 {
        if self.options.hole_bytes_min == u64::MAX {
            return 0;
        }
        let targets = self.sealed(keeping);
        let room = (targets.len() as u64).saturating_mul(self.options.records_bytes_max);
        let facts = targets.iter().map(Target::facts).fold(0, u64::saturating_add);
        let finished = self.finished_facts().saturating_sub(self.hollowing.finished_at.unwrap_or_default());
        let gain = u128::from(room) * u128::from(finished.min(facts)) / u128::from(facts.max(1));
        let gain = u64::try_from(gain).unwrap_or(u64::MAX);
        if gain < self.unfinished_rows_bytes() { 0 } else { gain }
    }

    /// How many facts there were of which nothing waits or is owed to anybody.
    fn finished_facts(&self) -> u64 {
        let state = &self.state;
        let unfinished = state.schedule.pending().saturating_add(state.dispatch.unfinished());
        state.position.next_sequence.0.saturating_sub(unfinished)
    }

    /// Bytes of the rows of all runs with something unfinished.
    fn unfinished_rows_bytes(&self) -> u64 {
        let state = &self.state;
        let schedule = state.schedule.windows().iter().filter(|window| state.schedule.is_needed(window));
        let ready = state.dispatch.runs().iter().filter(|run| !state.dispatch.is_run_finished(run));
        let runs = schedule.filter_map(|window| window.run()).chain(ready.map(DispatchRun::run));
        runs.map(|run: &std::sync::Arc<Run>| run.row_count().saturating_mul(ROW_BYTES)).fold(0, u64::saturating_add)
    }

    /// Sealed segments that are old enough and that the newest checkpoint keeps.
    fn sealed(&self, keeping: &Keeping) -> Vec<Target> {
        let floor = self.kept.last().map_or(SegmentNumber(0), |newest| newest.floor);
        let replay = self.state.position.end.segment().unwrap_or_default();
        let mut targets = Vec::new();
        for pair in self.state.segments.windows(2) {
            let [start, next] = pair else { continue };
            let is_sealed = start.segment < replay;
            let is_kept = start.segment >= floor && start.position.next_sequence < next.position.next_sequence;
            if is_sealed && is_kept && !keeping.is_young(next.position.trusted, &start.subjects) {
                let left = self.hollowing.left.get(&start.segment).copied().unwrap_or_default();
                targets.push(Target::new(start.position, next.position, left));
            }
        }
        targets
    }

    /// Those that are searched now, beginning where the last search ended.
    fn targets(&mut self, keeping: &Keeping) -> Vec<Target> {
        let mut targets = self.sealed(keeping);
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
}

fn hole_sizes(options: &OwnerOptions) -> HoleSizes {
    let gain_min = (options.records_bytes_max / GAIN_SHARE).min(options.reclaim_bytes).max(options.hole_bytes_min);
    HoleSizes { bytes_min: options.hole_bytes_min, block_bytes: options.hole_block_bytes, gain_min }
}

/// Punches holes, those of one segment after the other; the bytes that were given back. `None` where the disk has no
/// holes. One whose segment is gone already is fine, so it can be done again after an error.
///
/// # Errors
/// Those of the storage.
pub fn punch(storage: &dyn Storage, holes: &[Hole], block_bytes: u32) -> Result<Option<u64>> {
    let mut bytes = 0_u64;
    for of_segment in holes.chunk_by(|one, other| one.segment() == other.segment()) {
        let Some(segment) = of_segment.first().map(Hole::segment) else { continue };
        let file = match storage.open(&segment_path(segment)) {
            Err(error) if error.is_not_found() => continue,
            other => other?,
        };
        for (offset, length) in of_segment.iter().filter_map(|hole| hole.whole_blocks(block_bytes)) {
            if !file.punch(offset, length)? {
                return Ok(None);
            }
            bytes = bytes.saturating_add(length);
        }
    }
    Ok(Some(bytes))
}
