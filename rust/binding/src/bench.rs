//! The benches in Rust, as Python runs them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use delaymq_benches::Case;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Runs one measurement by its name and returns its figures.
#[pyfunction]
pub(crate) fn measure(
    py: Python<'_>,
    name: &str,
    folder: PathBuf,
    numbers: BTreeMap<String, f64>,
) -> PyResult<BTreeMap<&'static str, f64>> {
    let case = Case { folder, numbers };
    py.detach(|| delaymq_benches::measure(name, &case)).map_err(|failure| PyRuntimeError::new_err(failure.to_string()))
}
