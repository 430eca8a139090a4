//! Dictionaries of fields, which the Python classes are made from.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// A dictionary of fields, or the error of a conversion.
pub(crate) type Fields<'py> = PyResult<Bound<'py, PyDict>>;

/// A list with the fields of each item.
pub(crate) fn list<'py, T>(
    py: Python<'py>,
    all: &[T],
    one: impl Fn(Python<'py>, &T) -> Fields<'py>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, all.iter().map(|item| one(py, item)).collect::<PyResult<Vec<_>>>()?)
}
