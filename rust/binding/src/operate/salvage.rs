//! Salvage of a damaged store.

use std::path::PathBuf;

use delaymq_core::error::Error;
use delaymq_engine::{Gap, LostMessage, Salvage, SalvageProgress, SalvagedGroup, SalvagedSeries, SalvagedSubject};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::errors;
use crate::convert::fields::{Fields, list};

/// Messages between two calls of `progress`.
const TELL_EVERY: u64 = 10_000;

/// Reads what can be saved, and writes it into a new store if `into` names one.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (path, into, progress, /))]
pub(crate) fn salvage(
    py: Python<'_>,
    path: PathBuf,
    into: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyDict>> {
    let mut told = Ok(());
    let found = py.detach(|| match into {
        None => delaymq_engine::preview_salvage(&path),
        Some(into) => delaymq_engine::salvage_into(&path, &into, &mut |at| tell(progress.as_ref(), at, &mut told)),
    });
    told?;
    fields(py, &found.map_err(|error| errors::raised(py, error))?)
}

/// Reports the progress; false, which ends the writing, if the callback raised an exception.
fn tell(progress: Option<&Py<PyAny>>, at: SalvageProgress, told: &mut PyResult<()>) -> bool {
    let Some(progress) = progress else { return true };
    if at.written.is_multiple_of(TELL_EVERY) || at.written == at.whole {
        *told = Python::attach(|py| progress.call1(py, (at.written, at.whole)).map(drop));
    }
    told.is_ok()
}

fn fields<'py>(py: Python<'py>, found: &Salvage) -> Fields<'py> {
    let fields = PyDict::new(py);
    fields.set_item("saved", found.saved())?;
    fields.set_item("lost", list(py, &found.lost, lost)?)?;
    fields.set_item("lost_count", found.lost_count())?;
    fields.set_item("is_blind", found.is_blind)?;
    fields.set_item("damage", list(py, &found.damage, damage)?)?;
    fields.set_item("damage_unlisted", found.damage_unlisted)?;
    fields.set_item("gaps", list(py, &found.gaps, gap)?)?;
    fields.set_item("subjects", list(py, &found.subjects, subject)?)?;
    fields.set_item("groups", list(py, &found.groups, group)?)?;
    fields.set_item("series", list(py, &found.series, series)?)?;
    Ok(fields)
}

fn damage<'py>(py: Python<'py>, error: &Error) -> Fields<'py> {
    let fields = PyDict::new(py);
    let (path, offset, expected, found) = match error {
        Error::Corrupt { path, offset, expected, found }
        | Error::DamagedPayload { path, offset, expected, found, .. } => {
            (path.as_str(), Some(*offset), expected.clone(), found.clone())
        }
        Error::MissingFile { path, .. } => (path.as_str(), None, "a file".to_owned(), "none".to_owned()),
        other => ("", None, "a readable file".to_owned(), other.to_string()),
    };
    fields.set_item("path", path)?;
    fields.set_item("offset", offset)?;
    fields.set_item("expected", expected)?;
    fields.set_item("found", found)?;
    fields.set_item("words", error.to_string())?;
    Ok(fields)
}

fn lost<'py>(py: Python<'py>, lost: &LostMessage) -> Fields<'py> {
    let fields = damage(py, &lost.error)?;
    fields.set_item("subject", &lost.subject)?;
    fields.set_item("sequence", lost.sequence.0)?;
    fields.set_item("due_ms", lost.due.map(|due| due.0))?;
    Ok(fields)
}

fn gap<'py>(py: Python<'py>, gap: &Gap) -> Fields<'py> {
    let fields = PyDict::new(py);
    fields.set_item("first", gap.first.0)?;
    fields.set_item("count", gap.count)?;
    Ok(fields)
}

fn subject<'py>(py: Python<'py>, subject: &SalvagedSubject) -> Fields<'py> {
    let fields = PyDict::new(py);
    fields.set_item("name", &subject.name)?;
    fields.set_item("pending", subject.pending)?;
    fields.set_item("ready", subject.ready)?;
    fields.set_item("doubtful", subject.doubtful)?;
    fields.set_item("lost", subject.lost)?;
    Ok(fields)
}

fn series<'py>(py: Python<'py>, series: &SalvagedSeries) -> Fields<'py> {
    let fields = PyDict::new(py);
    fields.set_item("name", &series.recurs.name)?;
    fields.set_item("subject", &series.subject)?;
    fields.set_item("rule", &series.recurs.rule)?;
    fields.set_item("zone", &series.recurs.zone)?;
    Ok(fields)
}

fn group<'py>(py: Python<'py>, group: &SalvagedGroup) -> Fields<'py> {
    let fields = PyDict::new(py);
    fields.set_item("subject", &group.subject)?;
    fields.set_item("name", &group.name)?;
    fields.set_item("unfinished", group.unfinished)?;
    Ok(fields)
}
