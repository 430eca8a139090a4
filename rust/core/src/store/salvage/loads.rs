//! Loaded runs of a damaged store: those of the certain state, and those that facts behind the first lost one adopt. Whether
//! the latter were adopted is not known for certain, and so their messages are kept in doubt.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::base::{Base, Gap};
use crate::error::{Error, Result};
use crate::message_log::Stream;
use crate::record::adopt::Adopt;
use crate::run::{LoadedRuns, Run, StagedRun};
use crate::storage::Storage;
use crate::store::apply::loads::staged;
use crate::units::{Millis, Sequence, SubjectNumber};

/// Staged runs that facts behind the first lost one adopt.
#[derive(Debug, Default)]
pub(in crate::store) struct LateLoads {
    /// The sequence of the first message of each, when it counts as published, and what the fact says of it.
    runs: Vec<(Sequence, Millis, StagedRun)>,
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

/// The loaded runs that a salvage reads. What cannot be read of them is told as damage of the base, and the messages of
/// those that only late facts name as a gap: nothing else knows of them.
///
/// # Errors
/// `Storage`, `NewerFormat`.
pub(in crate::store) fn loaded_runs(storage: &dyn Storage, stream: Stream, base: &mut Base) -> Result<LoadedRuns> {
    let mut number = base.owner.state().next_run;
    let mut runs: Vec<Arc<Run>> = base.owner.state().loaded_runs().iter().cloned().collect();
    for (first, published, named) in std::mem::take(&mut base.late.loads.runs) {
        let names = RefCell::new(std::mem::take(&mut base.late.names));
        let number_of = |name: &str| Some(number_of(base, &mut names.borrow_mut(), name));
        let opened = Run::open_adopted(storage, &named, (number, &stream.id), (first, published), &number_of);
        base.late.names = names.into_inner();
        match opened {
            Ok(run) => runs.push(Arc::new(run)),
            Err(error @ Error::NewerFormat { .. }) => return Err(error),
            Err(error @ Error::Storage { .. }) if !error.is_not_found() => return Err(error),
            Err(error) => {
                base.damage.push(error);
                base.gaps.push(Gap { first, count: named.rows });
            }
        }
        number = number.next();
    }
    Ok(LoadedRuns::among(runs.iter()))
}

/// The number of a subject, which gets one where the fact that named it is lost.
fn number_of(base: &Base, names: &mut BTreeMap<SubjectNumber, String>, name: &str) -> SubjectNumber {
    let subjects = &base.owner.state().subjects;
    let late = || names.iter().find(|(_, late)| *late == name).map(|(number, _)| *number);
    if let Some(number) = subjects.number(name).or_else(late) {
        return number;
    }
    let last = subjects.iter().map(|(number, _)| number).chain(names.keys().copied()).max().unwrap_or_default();
    let number = SubjectNumber(last.0.saturating_add(1));
    names.insert(number, name.to_owned());
    number
}
