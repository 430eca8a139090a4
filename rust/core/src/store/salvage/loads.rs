//! Loaded runs that facts after the first lost one adopt. It is uncertain whether these adoptions took effect, so their
//! messages are kept as doubtful.

use crate::record::adopt::Adopt;
use crate::run::StagedRun;
use crate::store::apply::loads::staged;
use crate::units::{Millis, Sequence};

/// Staged runs that facts after the first lost one adopt.
#[derive(Debug, Default)]
pub(in crate::store) struct LateLoads {
    /// For each run: the sequence of its first message, its time of publication, and the run as the fact names it.
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
