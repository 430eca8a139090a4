//! The clock of a store, for operators in Python: the report of a hold, and the acceptance of a step.

use bytes::Bytes;
use delaymq_core::clock::Hold;
use delaymq_core::clock::report::ClockReport;
use delaymq_core::wire::extension::clock::ClockTold;
use delaymq_core::wire::extension::{ACCEPT_CLOCK, CLOCK};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::errors;
use crate::embedded::store::Store;
use crate::remote::reading::{Reader, any, number, read};
use crate::remote::requests::Request;

/// The answers to the requests of this file.
pub(crate) const ANSWERS: &[(i16, Reader)] =
    &[(CLOCK, |py, body| read(ClockTold::read(body), |told| any(clock_fields(py, &told.0)))), (ACCEPT_CLOCK, number)];

/// Fields of `delaymq.ClockStatus`.
#[pyfunction]
pub(crate) fn clock<'py>(py: Python<'py>, store: &Bound<'py, Store>) -> PyResult<Bound<'py, PyDict>> {
    let engine = &store.get().engine;
    let report = py.detach(|| engine.clock()).map_err(|error| errors::raised(py, error))?;
    clock_fields(py, &report)
}

pub(crate) fn clock_fields<'py>(py: Python<'py>, report: &ClockReport) -> PyResult<Bound<'py, PyDict>> {
    let (fields, held) = (PyDict::new(py), report.held);
    fields.set_item("now_ms", report.now.0)?;
    fields.set_item("wall_ms", report.wall.0)?;
    fields.set_item("ahead_ms", report.ahead_ms())?;
    fields.set_item("is_synchronised", report.is_synchronised)?;
    fields.set_item("held", held.is_some())?;
    fields.set_item("reason", held.map(|held| reason(held.hold)))?;
    fields.set_item("held_since_ms", held.map(|held| held.since.0))?;
    fields.set_item("held_ms", held.map(|held| held.held_ms))?;
    fields.set_item("accepted_in_ms", held.and_then(|held| held.accepted_in_ms))?;
    fields.set_item("words", held.map(|held| held.to_string()))?;
    Ok(fields)
}

const fn reason(hold: Hold) -> &'static str {
    match hold {
        Hold::BehindFloor { .. } => "behind_log",
        Hold::SteppedAhead { while_closed: false, .. } => "stepped_ahead",
        Hold::SteppedAhead { while_closed: true, .. } => "stepped_ahead_while_closed",
    }
}

/// Accepts the step that holds dispatch, if it is so many milliseconds ahead.
#[pyfunction]
#[pyo3(signature = (store, ahead_ms, /))]
pub(crate) fn accept_clock(py: Python<'_>, store: &Bound<'_, Store>, ahead_ms: u64) -> PyResult<u64> {
    let engine = &store.get().engine;
    py.detach(|| engine.accept_clock(ahead_ms)).map_err(|error| errors::raised(py, error))
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(clock_request, module)?)?;
    module.add_function(wrap_pyfunction!(accept_clock_request, module)?)?;
    module.add_function(wrap_pyfunction!(clock, module)?)?;
    module.add_function(wrap_pyfunction!(accept_clock, module)?)
}

#[pyfunction]
fn clock_request() -> Request {
    Request { command: CLOCK, body: Bytes::new() }
}

#[pyfunction]
#[pyo3(signature = (ahead_ms, /))]
fn accept_clock_request(ahead_ms: u64) -> Request {
    Request { command: ACCEPT_CLOCK, body: Bytes::copy_from_slice(&ahead_ms.to_be_bytes()) }
}
