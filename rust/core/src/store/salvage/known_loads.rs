//! Opens the loaded runs for a salvage.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message_log::Stream;
use crate::run::{LoadedRuns, Run};
use crate::storage::Storage;
use crate::store::salvage::base::{Base, Gap};
use crate::units::SubjectNumber;

/// Opens the loaded runs for a salvage. Runs that cannot be opened are added to the damage of the base. If only late
/// facts name such a run, its messages are added as a gap, since no other file shows them.
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

/// Returns the number of a subject, and assigns one if the fact that named the subject is lost.
pub(in crate::store) fn number_of(
    base: &Base,
    names: &mut BTreeMap<SubjectNumber, String>,
    name: &str,
) -> SubjectNumber {
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
