//! Reads answers of a server as plain Python values.

use delaymq_core::wire::extension::administration::read_number;
use delaymq_core::wire::extension::errors::RemoteError;
use delaymq_core::wire::malformed::Read;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A value, or the error to raise for it.
pub(crate) type Told<'py> = PyResult<Result<Bound<'py, PyAny>, RemoteError>>;

/// Makes the value of the body of an answer.
pub(crate) type Reader = for<'py> fn(Python<'py>, &[u8]) -> Told<'py>;

pub(crate) fn read<'py, T>(read: Read<T>, make: impl FnOnce(T) -> PyResult<Bound<'py, PyAny>>) -> Told<'py> {
    match read {
        Ok(told) => make(told).map(Ok),
        Err(malformed) => Ok(Err(RemoteError::from(&malformed))),
    }
}

pub(crate) fn any<T, E: Into<PyErr>>(made: Result<Bound<'_, T>, E>) -> PyResult<Bound<'_, PyAny>> {
    made.map(Bound::into_any).map_err(Into::into)
}

pub(crate) fn rows<'py>(
    py: Python<'py>,
    next: u64,
    rows: impl Iterator<Item = PyResult<Bound<'py, PyDict>>>,
) -> PyResult<Bound<'py, PyAny>> {
    any((next, rows.collect::<PyResult<Vec<_>>>()?).into_pyobject(py))
}

/// A count.
pub(crate) fn number<'py>(py: Python<'py>, body: &[u8]) -> Told<'py> {
    read(read_number(body), |number| any(number.into_pyobject(py)))
}
