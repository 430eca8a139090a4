//! The loaded runs of a store, for readers of payloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::run::Run;
use crate::units::{LocationFile, RunNumber};

/// Loaded runs by number. Payloads in them must be read through the run, since their files have other
/// sequences and subjects.
#[derive(Clone, Debug, Default)]
pub struct LoadedRuns(Arc<BTreeMap<RunNumber, Arc<Run>>>);

impl LoadedRuns {
    /// The loaded runs among `runs`.
    pub fn among<'a>(runs: impl Iterator<Item = &'a Arc<Run>>) -> Self {
        let loaded = runs.filter(|run| run.relation().is_some());
        Self(Arc::new(loaded.map(|run| (run.number(), Arc::clone(run))).collect()))
    }

    /// The loaded run that has a payload, if it is in one.
    #[inline]
    pub fn get(&self, file: LocationFile) -> Option<&Arc<Run>> {
        match file {
            LocationFile::Run(number) => self.0.get(&number),
            LocationFile::Segment(_) => None,
        }
    }

    /// All loaded runs, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.0.values()
    }
}
