//! Rebuilds of the runs of a closed store. The rebuilt runs must equal the existing ones, and the store is the same
//! with them. The machine may end in the middle.

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Identity;
use delaymq_core::run::{LoadName, StagedRun};
use delaymq_core::store::{RebuildCounts, RebuildPlan, adopt_rebuilt, open_identity, plan_rebuild, rebuild_piece};

use super::World;
use super::asked::Promised;
use crate::disk::End;

/// Storage calls of an adoption after which the machine ends, at most. Some adoptions need fewer calls.
const CALLS_MAX: u64 = 60;
/// Percent of the adoptions in which the machine ends.
const ENDS_PERCENT: u64 = 40;

/// The run that was written of each piece.
type Staged = Vec<(u32, Option<StagedRun>)>;

impl World {
    /// Before an opening: now and then all runs are rebuilt, compared and adopted.
    pub(super) fn rebuild_now_and_then(&mut self, promised: &mut Promised) {
        if self.plan.rebuild_percent == 0 || !self.rebuilding.percent(self.plan.rebuild_percent) {
            return;
        }
        let Ok(identity) = open_identity(&self.disk.storage().clone(), None) else { return };
        self.note("all runs are rebuilt");
        let staged = match self.rebuild_pieces(&identity) {
            Ok(staged) => staged,
            // The end of the machine was planned for an opening that was refused before.
            Err(_) if self.disk.storage().is_stopped() => return self.end_in_rebuilding(promised),
            Err(error) if error.is_no_space() => return self.note(&format!("no room to rebuild: {error}")),
            // The fault was planned for an opening.
            Err(error @ Error::Storage { .. }) if self.a_fault_is_planned => {
                self.a_fault_is_planned = false;
                return self.note(&format!("not rebuilt for now: {error}"));
            }
            Err(error) => return self.oracle.blame(format!("runs cannot be rebuilt: {error}")),
        };
        let ends = self.rebuilding.percent(ENDS_PERCENT);
        if ends {
            self.disk.storage().stop_after_calls(self.rebuilding.below(CALLS_MAX));
        }
        let adopted = adopt_rebuilt(&self.disk.shared(), &identity, &staged.0, &staged.1);
        if self.disk.storage().is_stopped() {
            return self.end_in_rebuilding(promised);
        }
        match adopted {
            Ok(adopted) => self.note(&format!("{adopted:?}")),
            Err(error) if error.is_no_space() => self.note(&format!("no room to adopt: {error}")),
            Err(error @ Error::Storage { .. }) if self.a_fault_is_planned => {
                self.a_fault_is_planned = false;
                self.note(&format!("not adopted for now: {error}"));
            }
            Err(Error::Corrupt { path, .. }) if self.unreadable.as_ref().is_some_and(|(newer, _)| *newer == path) => {
                self.note("nothing is adopted behind a checkpoint that cannot be read");
            }
            Err(error) => self.oracle.blame(format!("what was rebuilt is not adopted: {error}")),
        }
        if ends {
            // Drops the end that was planned and has not come.
            self.end_in_rebuilding(promised);
        }
    }

    fn end_in_rebuilding(&mut self, promised: &mut Promised) {
        let end = match self.rebuilding.below(3) {
            0 => End::Kill,
            1 => End::PowerCut,
            _ => End::PowerCutLosesAll,
        };
        self.note(&format!("the machine ends while runs are rebuilt: {end:?}"));
        promised.cut |= end.cuts_power();
        self.disk.crash(end, &mut self.rebuilding);
    }

    fn rebuild_pieces(&mut self, identity: &Identity) -> Result<(RebuildPlan, Staged)> {
        let storage = self.disk.shared();
        let sequences = self.rebuilding.one_of(&[32, 64, 1 << 20]);
        let (plan, _) = plan_rebuild(&storage, identity, u32::try_from(sequences).unwrap_or(32))?;
        // A worker gets the plan as bytes.
        let plan = RebuildPlan::from_bytes(&plan.to_bytes())?;
        let mut staged = Vec::new();
        for index in (0_u32..).take(plan.pieces().len()) {
            let name = LoadName { staged: self.clock.read().wall, nonce: self.rebuilding.bytes16() };
            let rebuilt = rebuild_piece(&storage, identity, &plan, index, Some((storage.as_ref(), name)))?;
            let RebuildCounts { pending, same, kept, .. } = rebuilt.counts;
            if same + kept != pending || pending == 0 || !rebuilt.examples.is_empty() {
                let words = format!("piece {index}: {:?}, {:?}", rebuilt.counts, rebuilt.examples);
                return Err(Error::corrupt("runs", 0, "runs that say what the log says", words));
            }
            self.rebuilt.same += same;
            self.rebuilt.kept += kept;
            staged.push((index, rebuilt.staged));
        }
        Ok((plan, staged))
    }
}
