//! The loaded runs that a checkpoint names: part 21 of its body, see [`super::snapshot`].

use std::collections::BTreeMap;

use crate::error::Result;
use crate::run::{LoadName, Run, StagedRun};
use crate::storage::Storage;
use crate::store::checkpoint::codec::{FieldReader, FieldWriter};
use crate::store::checkpoint::named_files::NamedRun;
use crate::units::{Millis, RunNumber, Sequence, SubjectNumber};

/// Bytes of one loaded run in a checkpoint.
const SAVED_BYTES: usize = 44;

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
    for _ in 0..from.count(SAVED_BYTES)? {
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
