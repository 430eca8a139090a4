//! The files that a checkpoint names, and the bytes of its runs: parts 15 and 21 of its body, see [`super::snapshot`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Result;
use crate::message_log::Holes;
use crate::run::{LoadName, Run, RunHoles, StagedRun};
use crate::storage::Storage;
use crate::store::checkpoint::codec::{FieldReader, FieldWriter};
use crate::store::retention::kept_files::KeptFiles;
use crate::store::state::KnownRun;
use crate::store::state::file_subjects::FileSubjects;
use crate::units::{Millis, RunNumber, SegmentNumber, Sequence, SubjectNumber};

/// Bytes of one loaded run in a checkpoint.
const LOAD_BYTES: usize = 44;

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

/// The fields of a loaded run in a checkpoint, in addition to its number, length, check and time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store) struct NamedLoad {
    pub(in crate::store) name: LoadName,
    /// The sequence of its first row.
    base: Sequence,
    rows: u64,
}

impl NamedLoad {
    /// The fields of a run, if it was loaded.
    pub(in crate::store) fn of(run: &Run) -> Option<Self> {
        let relation = run.relation()?;
        Some(Self { name: relation.name, base: relation.base, rows: run.row_count() })
    }

    /// Opens the named run. Its messages count as published when the run was adopted.
    ///
    /// # Errors
    /// As [`Run::open_adopted`].
    pub(in crate::store) fn open(
        &self,
        storage: &dyn Storage,
        named: &NamedRun,
        stream: &[u8; 16],
        number_of: &dyn Fn(&str) -> Option<SubjectNumber>,
    ) -> Result<Run> {
        let staged = StagedRun { name: self.name, length: named.length, digest: named.check, rows: self.rows };
        Run::open_adopted(storage, &staged, (named.number, stream), (self.base, named.created), number_of)
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

/// A count, then for each loaded run, by number, `run u32 | staged_ms u64 | nonce 16 | base u64 | rows u64`.
pub(in crate::store) fn write_loads(out: &mut FieldWriter, loads: &BTreeMap<RunNumber, NamedLoad>) {
    out.count(loads.len());
    for (number, load) in loads {
        out.u32(number.0);
        out.u64(load.name.staged.0);
        out.array(&load.name.nonce);
        out.u64(load.base.0);
        out.u64(load.rows);
    }
}

/// Reads what [`write_loads`] wrote, in a checkpoint that names these schedule runs and whose next sequence is `next`.
///
/// # Errors
/// `Corrupt` if the loaded runs are out of order, or if one is not among the schedule runs or not below `next`.
pub(in crate::store) fn read_loads(
    from: &mut FieldReader<'_>,
    runs: &[NamedRun],
    next: Sequence,
) -> Result<BTreeMap<RunNumber, NamedLoad>> {
    let mut loads: BTreeMap<RunNumber, NamedLoad> = BTreeMap::new();
    for _ in 0..from.count(LOAD_BYTES)? {
        let number = RunNumber(from.u32()?);
        let name = LoadName { staged: Millis(from.u64()?), nonce: from.array()? };
        let load = NamedLoad { name, base: Sequence(from.u64()?), rows: from.u64()? };
        let is_named = runs.iter().any(|run| run.number == number);
        let is_known = load.base.0.checked_add(load.rows).is_some_and(|end| end <= next.0);
        if !is_named || !is_known || loads.last_key_value().is_some_and(|(last, _)| *last >= number) {
            return Err(from.malformed("loaded runs among the schedule runs that it names, by number"));
        }
        loads.insert(number, load);
    }
    Ok(loads)
}
