//! The files that a checkpoint needs, as it names them: parts 13 and 14 of [`super::snapshot`].

use std::sync::Arc;

use super::codec::{FieldReader, FieldWriter};
use super::file_subjects::FileSubjects;
use super::retention::KeptFiles;
use super::state::KnownRun;
use crate::error::Result;
use crate::run::Run;
use crate::units::{Millis, RunNumber, SegmentNumber};

/// A file that a checkpoint names, with what proves it whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NamedRun {
    pub(super) number: RunNumber,
    pub(super) length: u64,
    pub(super) check: u32,
    pub(super) created: Millis,
    /// Whose messages it has; they stand apart from the rest.
    pub(super) subjects: FileSubjects,
}

impl NamedRun {
    pub(super) fn of(run: &Arc<Run>, created: Millis, subjects: FileSubjects) -> Self {
        Self { number: run.number(), length: run.length(), check: run.digest(), created, subjects }
    }

    /// The run that it names, opened.
    pub(super) fn known(&self, run: &Arc<Run>) -> KnownRun {
        KnownRun { run: Arc::clone(run), created: self.created, subjects: self.subjects.clone() }
    }
}

/// The files that a checkpoint names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NamedFiles {
    pub(super) floor: SegmentNumber,
    pub(super) schedule_runs: Vec<NamedRun>,
    pub(super) dispatch_runs: Vec<NamedRun>,
}

impl NamedFiles {
    pub(super) fn kept(&self, checkpoint: u32) -> KeptFiles {
        let runs = self.schedule_runs.iter().chain(&self.dispatch_runs).map(|run| run.number).collect();
        KeptFiles { checkpoint, floor: self.floor, runs }
    }
}

pub(super) fn write_runs(out: &mut FieldWriter, runs: &[NamedRun]) {
    out.count(runs.len());
    for run in runs {
        out.u32(run.number.0);
        out.u64(run.length);
        out.u32(run.check);
        out.u64(run.created.0);
    }
}

pub(super) fn read_runs(from: &mut FieldReader<'_>) -> Result<Vec<NamedRun>> {
    let mut runs = Vec::new();
    for _ in 0..from.count(24)? {
        runs.push(NamedRun {
            number: RunNumber(from.u32()?),
            length: from.u64()?,
            check: from.u32()?,
            created: Millis(from.u64()?),
            subjects: FileSubjects::unknown(),
        });
    }
    Ok(runs)
}
