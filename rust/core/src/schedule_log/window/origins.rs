//! The runs that hold the origins of moved entries.

use std::sync::Arc;

use crate::run::{DamagedBlock, Patches, Run, ScheduleRow};
use crate::schedule_log::window::lookup::{Found, Lookups};
use crate::units::{DueKey, Sequence};

/// The runs in which entries of frozen parts have their origins, in the order of sequences.
#[derive(Clone, Debug, Default)]
pub(in crate::schedule_log) struct Origins {
    pub(super) runs: Vec<OriginRun>,
}

#[derive(Clone, Debug)]
pub(in crate::schedule_log) struct OriginRun {
    pub(super) first: Sequence,
    pub(super) end: Sequence,
    pub(super) run: Arc<Run>,
    pub(super) patches: Patches<ScheduleRow>,
}

impl Origins {
    /// The index of the run that has a sequence. Origins that are sorted by it are read run by run.
    pub(in crate::schedule_log) fn place(&self, origin: DueKey) -> Option<usize> {
        let at = self.runs.partition_point(|run| run.first <= origin.sequence).checked_sub(1)?;
        self.runs.get(at).filter(|run| origin.sequence < run.end).map(|_| at)
    }

    /// The row with this key.
    pub(in crate::schedule_log) fn find(&self, lookups: &mut Lookups, origin: DueKey) -> Found {
        match self.place(origin).and_then(|at| self.runs.get(at)) {
            Some(of) => lookups.find(&of.run, &of.patches, origin),
            None => Ok(None),
        }
    }

    /// Abandons a block that cannot be read: it has no rows from now on, and the other rows of its run are
    /// found.
    pub(in crate::schedule_log) fn give_up(&mut self, damage: &DamagedBlock) {
        for of in self.runs.iter_mut().filter(|of| of.run.number() == damage.run) {
            of.patches.insert(damage.block, Vec::new());
        }
    }
}
