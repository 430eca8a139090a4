//! Operations on a store that only tests need.

use delaymq_engine::Ready;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::convert::{errors, qmq, text};
use crate::embedded::store::Store;

/// Abandons the store, as a killed process does.
#[pyfunction]
#[pyo3(signature = (store, /))]
pub(crate) fn abandon(py: Python<'_>, store: &Store) -> PyResult<()> {
    py.detach(|| store.engine.abandon()).map_err(|error| errors::raised(py, error))
}

/// Opens an abandoned store again, with the same options.
#[pyfunction]
#[pyo3(signature = (store, /))]
pub(crate) fn reopen(py: Python<'_>, store: &Store) -> PyResult<Store> {
    let opened = py.detach(|| store.engine.reopen()).map_err(|error| errors::raised(py, error))?;
    Ok(Store::holding(opened))
}

/// The ready messages, as tuples like those of a delivery, without the key.
#[pyfunction]
#[pyo3(signature = (store, subject, group, /))]
pub(crate) fn ready<'py>(
    py: Python<'py>,
    store: &Store,
    subject: &Bound<'py, PyAny>,
    group: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let name = text::of("subject", subject)?;
    let group = group.map(|group| text::of("group", group)).transpose()?;
    let found = py.detach(|| store.engine.ready(&name, group.as_deref()));
    let found = found.map_err(|error| errors::raised(py, error))?;
    let tuples = found.iter().map(|one| tuple(py, one)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, tuples)
}

fn tuple<'py>(py: Python<'py>, ready: &Ready) -> PyResult<Bound<'py, PyTuple>> {
    let (meta, body) = qmq::parts(&ready.payload);
    let (meta, body) = (PyBytes::new(py, &meta), PyBytes::new(py, &body));
    let redelivered = ready.attempt >= 2;
    let (due, published, sequence) = (ready.due.0, ready.published.0, ready.sequence.0);
    let fields = (&*ready.subject, body, due, published, ready.attempt, redelivered, sequence, meta);
    fields.into_pyobject(py)
}
