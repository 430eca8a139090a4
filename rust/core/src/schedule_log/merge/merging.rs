//! Chooses which neighbouring windows become one, so that many checkpoints leave few runs, and so that a run
//! with little left gives its disk space back.
//!
//! A window's size is its number of pending entries, and its tier is the power of eight of that size. Windows
//! of one tier are merged when enough of them are neighbours. An entry is thus written again about once for
//! each tier that it passes, as in any tiered merge tree (O'Neil et al., The Log-Structured Merge-Tree,
//! 1996). A merge rewrites rows and leaves payloads where they are, except for files that are small or mostly
//! finished: their pending payloads are copied, so that the files can be removed.
//!
//! A state that changes while a merge is written is not lost: states are in the windows' bits, which stay in
//! memory, and a row without a pending bit is ignored.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::planted::lowered::lowered;
use crate::planted::{Planted, is_on};
use crate::run::{Run, RunHoles};
use crate::schedule_log::count::ended::Ended;
use crate::schedule_log::schedule::Schedule;
use crate::schedule_log::window::bits::{EntryState, TwoBits};
use crate::schedule_log::window::{Body, Window};
use crate::units::{RunNumber, Sequence};

/// The most windows of one merge. Each of their runs is read a piece at a time.
const WINDOWS_MAX: usize = 32;
/// The power of two between two tiers.
const TIER_SHIFT: u32 = 3;

/// A run with fewer rows is not rewritten for forecasts. Few in tests, whose histories are short.
const UNCOUNTED_ROWS_MIN: u64 = if cfg!(test) { 16 } else { 16_384 };

/// The limits of a merge.
#[derive(Clone, Copy, Debug)]
pub struct MergeLimits {
    /// The number of neighbouring windows of one tier that are worth a merge. 0 means that windows are never
    /// merged.
    pub windows_min: usize,
    /// The most rows of a merged run, if it is made of more than one window.
    pub rows_max: u64,
    /// A run of at least this many bytes is rewritten if at most half of it is pending and at least half this
    /// many bytes in it are finished and not given back yet.
    pub wasted_bytes_min: u64,
}

/// The properties of a window that the choice depends on.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    pending: u64,
    /// Its entries are not frozen in memory, and can be read.
    fits: bool,
    /// At most half of its run is pending, and many bytes in it are finished and not given back.
    wasted: bool,
    /// Many entries of its run ended, and it is unknown which: a forecast must read its rows.
    uncounted: bool,
}

/// Windows that become one, as of a freeze.
#[derive(Debug)]
pub struct MergePlan {
    pub(in crate::schedule_log) inputs: Vec<(TwoBits, Option<Arc<Run>>)>,
    pub(in crate::schedule_log) pending: u64,
    /// Runs whose pending payloads are copied.
    pub(in crate::schedule_log) copied: BTreeSet<RunNumber>,
}

impl MergePlan {
    /// The number of entries of the merged run. With 0 there is no run.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// The number of windows that become one.
    pub fn windows(&self) -> usize {
        self.inputs.len()
    }

    /// The runs that are read.
    pub fn runs(&self) -> impl Iterator<Item = RunNumber> {
        self.inputs.iter().filter_map(|(_, run)| run.as_ref()).map(|run| run.number())
    }

    /// The state of each sequence, as of the freeze.
    pub fn bits(&self) -> TwoBits {
        joined(self.inputs.iter().map(|(bits, _)| bits))
    }
}

impl Schedule {
    /// Chooses the merge that is most worthwhile now, if any: first the run that wastes the most space, then
    /// many small windows. Bytes in `holes` are not wasted. If there is a plan, `copied` is called, and the
    /// pending payloads of the runs that it returns will be copied.
    pub fn plan_merge(
        &self,
        limits: MergeLimits,
        holes: &RunHoles,
        copied: impl FnOnce() -> BTreeSet<RunNumber>,
    ) -> Option<MergePlan> {
        let range = choose(&self.weights(limits, holes), limits)?;
        let windows = self.windows.get(range)?;
        let inputs = windows.iter().map(|window| {
            let run = window.run().filter(|_| window.pending > 0).cloned();
            (window.bits.clone(), run)
        });
        Some(MergePlan {
            inputs: inputs.collect(),
            pending: windows.iter().map(Window::pending).fold(0, u64::saturating_add),
            copied: copied(),
        })
    }

    /// Bytes that merges would free in runs, without those in `holes`.
    pub fn wasted_bytes(&self, limits: MergeLimits, holes: &RunHoles) -> u64 {
        let weights = self.weights(limits, holes);
        let wasted = self.windows.iter().zip(&weights).filter(|(_, weight)| weight.wasted && weight.fits);
        let bytes = wasted.filter_map(|(window, weight)| Some(finished_bytes(window.run()?, weight.pending, holes)));
        bytes.fold(0, u64::saturating_add)
    }

    /// True if a merge would rewrite a run whose ended entries are unknown.
    pub fn has_uncounted(&self, limits: MergeLimits, holes: &RunHoles) -> bool {
        self.weights(limits, holes).iter().any(|weight| weight.fits && weight.uncounted)
    }

    /// Notes that the windows from `first` to `end` were merged and that the run is durable. It is used from
    /// now on. `frozen` has the states as of the plan. Returns true if an entry in memory has its origin
    /// there: copies of that entry may still have the old location of the payload.
    pub fn install_merged(&mut self, frozen: &TwoBits, run: Option<Arc<Run>>) -> bool {
        let (first, end) = (frozen.first(), frozen.end());
        let from = self.windows.partition_point(|window| window.first() < first);
        let to = self.windows.partition_point(|window| window.end() <= end);
        let Some(merged) = self.windows.get(from..to).filter(|windows| !windows.is_empty()) else { return false };
        let had_origins = merged.iter().any(|window| self.is_origin(window));
        let live = merged.iter().map(Window::pending).fold(0, u64::saturating_add);
        let (bits, pending) = if is_on(Planted::MergedAsFrozen) {
            (frozen.clone(), frozen.count(EntryState::Pending))
        } else {
            (joined(merged.iter().map(|window| &window.bits)), live)
        };
        self.pending = self.pending.saturating_sub(live).saturating_add(pending);
        let body = run.map_or(Body::Empty, |run| Body::Run { run, patches: std::collections::BTreeMap::new() });
        // An entry that was moved since the freeze was pending at the freeze, so its row is in the merged
        // run.
        let origin_until = merged.iter().map(|window| window.origin_until).max().unwrap_or_default();
        let ended = Ended::merged(merged.iter().map(|window| &window.ended));
        let window = Window { bits, pending, body, origin_until, ended };
        let before: Vec<Window> = self.windows.splice(from..to, [window]).collect();
        self.forget_lookups(before.iter().filter_map(Window::run).map(|run| run.number()));
        had_origins
    }

    /// Notes that a block of this run could not be read. The run is not merged before the next open.
    pub fn leave_unmerged(&mut self, run: RunNumber) {
        self.unmerged.insert(run);
    }

    fn weights(&self, limits: MergeLimits, holes: &RunHoles) -> Vec<Weight> {
        let weight = |window: &Window| {
            let (fits, wasted, uncounted) = match &window.body {
                Body::Empty => (true, false, false),
                Body::Memory { .. } => (false, false, false),
                Body::Run { run, patches } => {
                    let is_half = window.pending.saturating_mul(2) <= run.row_count();
                    let is_large = run.length() >= limits.wasted_bytes_min
                        && finished_bytes(run, window.pending, holes) >= limits.wasted_bytes_min / 2;
                    let wasted = window.pending > 0 && is_half && is_large;
                    // A moved entry in memory may need a row that is no longer pending.
                    let is_whole = patches.is_empty() && !self.unmerged.contains(&run.number());
                    (is_whole && !self.is_origin(window), wasted, is_uncounted(window, run))
                }
            };
            Weight { pending: window.pending, fits, wasted, uncounted }
        };
        self.windows.iter().map(weight).collect()
    }
}

/// True if the ended entries are unknown and at least a sixteenth of the rows have ended. Fewer are not worth
/// a new run, and small runs are read quickly.
fn is_uncounted(window: &Window, run: &Run) -> bool {
    let rows = run.row_count();
    let is_worth_it = rows >= lowered(UNCOUNTED_ROWS_MIN) && window.pending <= rows.saturating_sub(rows / 16);
    window.ended.is_forgotten() && window.pending > 0 && is_worth_it
}

/// The approximate number of bytes of a run that are finished and not given back as holes.
fn finished_bytes(run: &Run, pending: u64, holes: &RunHoles) -> u64 {
    let finished = run.row_count().saturating_sub(pending);
    let bytes = u128::from(run.length()) * u128::from(finished) / u128::from(run.row_count().max(1));
    u64::try_from(bytes).unwrap_or(u64::MAX).saturating_sub(holes.bytes_in(run.number()))
}

/// Joins ranges that follow each other.
fn joined<'a>(all: impl IntoIterator<Item = &'a TwoBits>) -> TwoBits {
    let mut all = all.into_iter();
    let mut joined = all.next().cloned().unwrap_or_else(|| TwoBits::new(Sequence(0)));
    all.for_each(|bits| joined.append(bits));
    joined
}

fn tier(pending: u64) -> u32 {
    pending.saturating_add(1).ilog2() / TIER_SHIFT
}

/// The windows to merge, if any.
fn choose(weights: &[Weight], limits: MergeLimits) -> Option<Range<usize>> {
    if limits.windows_min == 0 {
        return None;
    }
    let wasted = |weight: &Weight| weight.fits && weight.wasted;
    if let Some(first) = weights.iter().position(wasted) {
        return Some(first..grown(weights, first, limits, wasted).end);
    }
    let highest = weights.iter().map(|weight| tier(weight.pending)).max()?;
    let of_tiers = (0..=highest).find_map(|highest| choose_of_tier(weights, highest, limits));
    // Runs rewritten for forecasts come last, so that they do not delay other merges.
    let uncounted = || weights.iter().position(|weight| weight.fits && weight.uncounted);
    of_tiers.or_else(|| uncounted().map(|first| first..first.saturating_add(1)))
}

/// The first neighbours of this tier and below that are worth a merge: enough of them, or enough for a full
/// run.
fn choose_of_tier(weights: &[Weight], highest: u32, limits: MergeLimits) -> Option<Range<usize>> {
    let takes_part =
        |weight: &Weight| weight.fits && tier(weight.pending) <= highest && weight.pending <= limits.rows_max / 2;
    let mut first = 0;
    while let Some(next) = weights.iter().skip(first).position(takes_part) {
        first = first.saturating_add(next);
        let Grown { end, pending, is_full } = grown(weights, first, limits, takes_part);
        let count = end.saturating_sub(first);
        let chosen = weights.get(first..end).unwrap_or_default();
        let of_tier = chosen.iter().filter(|weight| tier(weight.pending) == highest).count();
        let largest = chosen.iter().map(|weight| weight.pending).max().unwrap_or_default();
        // A large window is not rewritten for a few small ones next to it.
        let are_alike = of_tier >= limits.windows_min
            || (count >= limits.windows_min.saturating_mul(2) && largest.saturating_mul(2) <= pending);
        if are_alike || (is_full && count > 1 && pending >= limits.rows_max / 2) {
            return Some(first..end);
        }
        first = end;
    }
    None
}

/// A row of neighbours.
struct Grown {
    end: usize,
    pending: u64,
    /// The next neighbour would exceed the limit of rows.
    is_full: bool,
}

fn grown(weights: &[Weight], first: usize, limits: MergeLimits, takes_part: impl Fn(&Weight) -> bool) -> Grown {
    let mut grown = Grown { end: first, pending: 0, is_full: false };
    for weight in weights.iter().skip(first).take(WINDOWS_MAX).take_while(|weight| takes_part(weight)) {
        let pending = grown.pending.saturating_add(weight.pending);
        if pending > limits.rows_max && grown.end > first {
            grown.is_full = true;
            break;
        }
        (grown.pending, grown.end) = (pending, grown.end.saturating_add(1));
    }
    grown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: MergeLimits = MergeLimits { windows_min: 8, rows_max: 1 << 20, wasted_bytes_min: 1 << 20 };

    fn of(pending: &[u64]) -> Vec<Weight> {
        pending.iter().map(|pending| Weight { pending: *pending, fits: true, ..Weight::default() }).collect()
    }

    #[test]
    fn eight_small_neighbours_are_merged_and_seven_are_not() {
        assert_eq!(choose(&of(&[5; 8]), LIMITS), Some(0..8));
        assert_eq!(choose(&of(&[5; 7]), LIMITS), None);
        assert_eq!(choose(&of(&[5; 8]), MergeLimits { windows_min: 0, ..LIMITS }), None);
    }

    #[test]
    fn what_cannot_be_read_parts_neighbours() {
        let mut weights = of(&[5; 12]);
        weights[6].fits = false;
        assert_eq!(choose(&weights, LIMITS), None);
        weights.extend(of(&[5; 3]));
        assert_eq!(choose(&weights, LIMITS), Some(7..15));
    }

    #[test]
    fn a_merged_run_holds_no_more_than_it_may() {
        assert_eq!(choose(&of(&[300_000; 4]), LIMITS), Some(0..3), "a fourth would be too many");
        assert_eq!(choose(&of(&[600_000; 40]), LIMITS), None, "each is more than half");
    }

    #[test]
    fn what_is_mostly_finished_is_written_again_alone_or_with_its_like() {
        let mut weights = of(&[900_000, 400_000, 400_000, 400_000, 5]);
        weights[1].wasted = true;
        assert_eq!(choose(&weights, LIMITS), Some(1..2));
        weights[2].wasted = true;
        weights[3].wasted = true;
        assert_eq!(choose(&weights, LIMITS), Some(1..3));
    }

    #[test]
    fn of_what_nobody_knows_what_ended_is_written_again_alone() {
        let mut weights = of(&[900_000, 800_000, 700_000]);
        weights[1].uncounted = true;
        weights[2].uncounted = true;
        assert_eq!(choose(&weights, LIMITS), Some(1..2));
        weights[1].fits = false;
        assert_eq!(choose(&weights, LIMITS), Some(2..3));
        weights[0].wasted = true;
        assert_eq!(choose(&weights, LIMITS), Some(0..1), "room comes first");
        weights[0].wasted = false;
        weights.extend(of(&[5; 8]));
        assert_eq!(choose(&weights, LIMITS), Some(3..11), "and what becomes few runs");
    }

    proptest! {
        /// After any number of checkpoints of any size, few windows are left, and an entry is written again
        /// about once for each tier.
        #[test]
        fn many_checkpoints_leave_few_runs(sizes in prop::collection::vec(0_u64..3_000, 1..4), count in 1_usize..6_000) {
            let mut weights: Vec<Weight> = Vec::new();
            let (mut written, mut arrived) = (0_u64, 0_u64);
            for size in sizes.iter().cycle().take(count) {
                weights.extend(of(&[*size]));
                arrived += size;
                if let Some(range) = choose(&weights, LIMITS) {
                    let pending = weights[range.clone()].iter().map(|weight| weight.pending).sum();
                    prop_assert!(pending <= LIMITS.rows_max);
                    written += pending;
                    weights.splice(range, of(&[pending]));
                }
            }
            let full = arrived / (LIMITS.rows_max / 2);
            prop_assert!(weights.len() as u64 <= 7 * 7 + 2 * full, "{} windows of {arrived} entries", weights.len());
            prop_assert!(written <= arrived * 8, "{written} rows written again of {arrived}");
        }
    }
}
