//! The check of a closed store.

use std::path::PathBuf;

use delaymq_engine::Store;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::errors;

/// Bytes of the log between two calls of `progress`.
const TELL_EVERY_BYTES: u64 = 4 << 20;

/// Reads everything in a store's folder and returns its findings.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (path, progress = None))]
pub(crate) fn verify(py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<Bound<'_, PyDict>> {
    let mut told = Ok(());
    let mut last = 0;
    let report = py.detach(|| {
        Store::verify_telling(&path, &mut |at| {
            let is_time = at.bytes.saturating_sub(last) >= TELL_EVERY_BYTES || at.bytes == at.bytes_whole;
            if let Some(progress) = progress.as_ref().filter(|_| is_time && told.is_ok()) {
                last = at.bytes;
                told = Python::attach(|py| progress.call1(py, (at.bytes, at.bytes_whole)).map(drop));
            }
        })
    });
    told?;
    let report = report.map_err(|error| errors::raised(py, error))?;
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
