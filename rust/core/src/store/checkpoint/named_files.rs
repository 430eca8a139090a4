//! The files that a checkpoint names (parts 14 and 15 of [`super::snapshot`]), and with them all that belongs to one
//! copy of a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codec::{FieldReader, FieldWriter};
use super::forecast_codec::{read_ended, read_totals};
use super::log_codec::{read_holes, read_run_holes, read_segments};
use super::snapshot::WindowSnapshot;
use crate::error::Result;
use crate::message_log::Holes;
use crate::run::{Run, RunHoles};
use crate::store::checkpoint::file_subjects_codec::read_file_subjects;
use crate::store::checkpoint::loaded_runs::{NamedLoad, read_loads};
use crate::store::retention::kept_files::KeptFiles;
use crate::store::state::file_subjects::FileSubjects;
use crate::store::state::{KnownRun, LogPosition, SegmentStart};
use crate::units::{DueKey, Millis, Minute, RunNumber, SegmentNumber, Sequence, Tally};

/// A run that a checkpoint names, with the length and the check that prove it whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::store) struct NamedRun {
    pub(in crate::store) number: RunNumber,
    pub(in crate::store) length: u64,
    pub(in crate::store) check: u32,
    pub(in crate::store) created: Millis,
    /// The subjects of its messages. They are saved apart, as part 18.
    pub(in crate::store) subjects: FileSubjects,
}

impl NamedRun {
    pub(in crate::store) fn of(run: &Arc<Run>, created: Millis, subjects: FileSubjects) -> Self {
        Self { number: run.number(), length: run.length(), check: run.digest(), created, subjects }
    }

    /// Describes the opened run for the state.
    pub(in crate::store) fn known(&self, run: &Arc<Run>) -> KnownRun {
        KnownRun { run: Arc::clone(run), created: self.created, subjects: self.subjects.clone() }
    }
}

/// The files that a checkpoint names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::store) struct NamedFiles {
    pub(in crate::store) floor: SegmentNumber,
    pub(in crate::store) schedule_runs: Vec<NamedRun>,
    pub(in crate::store) dispatch_runs: Vec<NamedRun>,
    /// Holes of the segments, which are never read again.
    pub(in crate::store) holes: Holes,
    /// Holes in the payloads of runs.
    pub(in crate::store) run_holes: RunHoles,
    /// The loaded ones among the schedule runs.
    pub(in crate::store) loads: BTreeMap<RunNumber, NamedLoad>,
}

impl NamedFiles {
    /// The files that the checkpoint of this number needs. `next_sequence` is the next sequence after the checkpoint.
    pub(in crate::store) fn kept(&self, checkpoint: u32, next_sequence: Sequence) -> KeptFiles {
        KeptFiles {
            checkpoint,
            next_sequence,
            floor: self.floor,
            runs: self.schedule_runs.iter().chain(&self.dispatch_runs).map(|run| run.number).collect(),
            loads: self.loads.iter().map(|(number, load)| (*number, load.name)).collect(),
            holes: self.holes.clone(),
            run_holes: self.run_holes.clone(),
        }
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

/// The parts that belong to one copy of a store: 13 to 21.
pub(in crate::store) struct OfThisCopy {
    pub(in crate::store) feed_from: DueKey,
    pub(in crate::store) segments: Vec<SegmentStart>,
    pub(in crate::store) files: NamedFiles,
    pub(in crate::store) totals: Vec<(Minute, Tally)>,
}

pub(super) fn read_of_this_copy(
    from: &mut FieldReader<'_>,
    position: &LogPosition,
    windows: &mut [WindowSnapshot],
) -> Result<OfThisCopy> {
    let feed_from = DueKey { due: Millis(from.u64()?), sequence: Sequence(from.u64()?) };
    let floor = SegmentNumber(from.u32()?);
    let mut segments = read_segments(from)?;
    let mut files = NamedFiles {
        floor,
        schedule_runs: read_runs(from)?,
        dispatch_runs: read_runs(from)?,
        holes: Holes::default(),
        run_holes: RunHoles::default(),
        loads: BTreeMap::new(),
    };
    let totals = read_totals(from)?;
    read_ended(from, windows)?;
    read_file_subjects(from, &mut segments, &mut files)?;
    files.holes = read_holes(from, floor, position)?;
    files.run_holes = read_run_holes(from, &files.schedule_runs)?;
    files.loads = read_loads(from, &files.schedule_runs, position.next_sequence)?;
    Ok(OfThisCopy { feed_from, segments, files, totals })
}
