//! Loaded runs of a damaged store: those of the certain state, and those that facts behind the first lost one adopt. Whether
//! the latter were adopted is not known for certain, and so their messages are kept in doubt.

use crate::record::adopt::Adopt;
use crate::run::StagedRun;
use crate::store::apply::loads::staged;
use crate::units::{Millis, Sequence};

/// Staged runs that facts behind the first lost one adopt.
#[derive(Debug, Default)]
pub(in crate::store) struct LateLoads {
    /// The sequence of the first message of each, when it counts as published, and what the fact says of it.
    pub(super) runs: Vec<(Sequence, Millis, StagedRun)>,
}

impl LateLoads {
    pub(in crate::store) fn take(&mut self, sequence: Sequence, trusted: Option<Millis>, adopt: &Adopt<'_>) {
        let mut base = sequence;
        for named in adopt.runs().map(staged) {
            self.runs.push((base, trusted.unwrap_or_default(), named));
            base = base.plus(named.rows);
        }
    }
}
