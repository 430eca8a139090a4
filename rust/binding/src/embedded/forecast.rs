//! Forecasts for Python: the due messages of each minute or second.

use delaymq_core::store::{Forecast, ForecastQuery};
use delaymq_core::units::Millis;
use delaymq_core::wire::extension::FORECAST;
use delaymq_core::wire::extension::forecast::{ForecastAsked, ForecastTold};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::{errors, text};
use crate::embedded::store::Store;
use crate::remote::reading::{Reader, any, read};
use crate::remote::requests::Request;

/// Adds the functions of this file to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(forecast, module)?)?;
    module.add_function(wrap_pyfunction!(forecast_request, module)?)
}

/// The answers to the requests of this file.
pub(crate) const ANSWERS: &[(i16, Reader)] = &[(FORECAST, |py, body| {
    read(ForecastTold::read(body), |told| any((told.next.0, [piece(py, &told.forecast)]).into_pyobject(py)))
})];

/// A subject or None, two times in milliseconds or None, and whether by the second.
pub(crate) type Asked<'py> = (Bound<'py, PyAny>, Option<u64>, Option<u64>, bool);

/// The query of a forecast.
pub(crate) fn query(asked: &Asked<'_>) -> PyResult<ForecastQuery> {
    let (subject, due_from, due_before, by_second) = asked;
    let named = if subject.is_none() { None } else { Some(text::of("subject", subject)?.into_owned()) };
    Ok(ForecastQuery {
        subject: named,
        due_from: due_from.map(Millis),
        due_before: due_before.map(Millis),
        by_second: *by_second,
    })
}

/// A part of a forecast: its slots, and the rows of damaged blocks.
pub(crate) type Piece<'py> = (Bound<'py, PyBytes>, u64);

/// Start, messages and bytes of each slot are native 64-bit numbers: an answer may have tens of thousands of slots.
pub(crate) fn piece<'py>(py: Python<'py>, told: &Forecast) -> Piece<'py> {
    let numbers = told.slots.iter().flat_map(|slot| [slot.start.0, slot.tally.messages, slot.tally.bytes]);
    let bytes: Vec<u8> = numbers.flat_map(u64::to_ne_bytes).collect();
    (PyBytes::new(py, &bytes), told.hidden_rows)
}

/// The slots of a forecast, 24 bytes each (start, messages and bytes), and the rows of damaged blocks: one piece.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (store, asked, /))]
fn forecast<'py>(store: &Bound<'py, Store>, asked: Asked<'py>) -> PyResult<[Piece<'py>; 1]> {
    let (py, engine) = (store.py(), &store.get().engine);
    let query = query(&asked)?;
    let told = py.detach(|| engine.forecast(&query)).map_err(|error| errors::raised(py, error))?;
    Ok([piece(py, &told)])
}

/// Asks a server for a piece, from a moment on unless that is 0.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (asked, from = 0, /))]
fn forecast_request(asked: Asked<'_>, from: u64) -> PyResult<Request> {
    let (py, query) = (asked.0.py(), query(&asked)?);
    if query.subject.as_deref() == Some("") {
        return Err(errors::refused(py, "subject", "a subject of the store", "''"));
    }
    let due_from = if from > 0 { Some(Millis(from)) } else { query.due_from };
    let subject = query.subject.as_deref().unwrap_or_default();
    let asked = ForecastAsked { subject, by_second: query.by_second, due_from, due_before: query.due_before };
    Request::filled(py, FORECAST, |out| asked.put(out))
}
