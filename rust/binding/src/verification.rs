//! The check of a closed store.

use std::path::PathBuf;

use delaymq_engine::Store;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;

/// Reads everything in a store's folder and says what it found.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
pub(crate) fn verify(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let report = py.detach(|| Store::verify(&path)).map_err(|error| errors::raised(py, error))?;
    let fields = PyDict::new(py);
    fields.set_item("batches", report.batches)?;
    fields.set_item("records", report.records)?;
    fields.set_item("runs", report.runs)?;
    fields.set_item("checkpoints", report.checkpoints)?;
    fields.set_item("aside", report.set_aside)?;
    fields.set_item("voided", report.voided)?;
    fields.set_item("problems", report.findings)?;
    Ok(fields)
}
