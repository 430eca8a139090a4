//! The runs of a store that were loaded, for whoever reads payloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::run::Run;
use crate::units::{LocationFile, RunNumber};

/// Loaded runs by number: payloads in them are read by them, since their files say other sequences and subjects.
#[derive(Clone, Debug, Default)]
pub struct LoadedRuns(Arc<BTreeMap<RunNumber, Arc<Run>>>);

impl LoadedRuns {
    /// Those among some runs.
    pub fn among<'a>(runs: impl Iterator<Item = &'a Arc<Run>>) -> Self {
        let loaded = runs.filter(|run| run.relation().is_some());
        Self(Arc::new(loaded.map(|run| (run.number(), Arc::clone(run))).collect()))
    }

    /// The loaded run in which a payload lies, if it is in one.
    #[inline]
    pub fn get(&self, file: LocationFile) -> Option<&Arc<Run>> {
        match file {
            LocationFile::Run(number) => self.0.get(&number),
            LocationFile::Segment(_) => None,
        }
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.0.values()
    }
}
