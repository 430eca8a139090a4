//! Commands of Python by many keys at once.

use delaymq_core::record::limits::check_name;
use delaymq_core::wire::extension::by_key::{CancelKeys, MoveKeys};
use delaymq_core::wire::extension::publish::DueTime;
use delaymq_core::wire::extension::{CANCEL_KEYS, MOVE_KEYS};
use delaymq_engine::Due;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::convert::terms::moved;
use crate::convert::{errors, message, text};
use crate::embedded::key_commands::id_of;
use crate::embedded::moves;
use crate::embedded::store::{Store, word};
use crate::remote::reading::Reader;
use crate::remote::requests::Request;

/// Adds the functions of this file to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cancel_keys, module)?)?;
    module.add_function(wrap_pyfunction!(move_keys, module)?)?;
    module.add_function(wrap_pyfunction!(cancel_keys_request, module)?)?;
    module.add_function(wrap_pyfunction!(move_keys_request, module)?)
}

/// The answers to the requests of this file.
pub(crate) const ANSWERS: &[(i16, Reader)] = &[(CANCEL_KEYS, moves::outcomes), (MOVE_KEYS, moves::moved)];

/// The text of a key, checked; `index` is its place.
fn key_of(key: &Bound<'_, PyAny>, index: usize) -> PyResult<String> {
    let py = key.py();
    let text = text::of("key", key).map_err(|error| errors::at_index(py, error, index))?;
    check_name("key", &text).map_err(|error| errors::at_index(py, errors::raised(py, error), index))?;
    Ok(text.into_owned())
}

fn keys_of(keys: &Bound<'_, PyList>) -> PyResult<Vec<String>> {
    keys.iter().enumerate().map(|(index, key)| key_of(&key, index)).collect()
}

/// The moves from `delaymq._verbs.key_commands`: (key, `due_ms`, absolute) each.
fn moves_of(moves: &Bound<'_, PyList>) -> PyResult<Vec<(String, Due)>> {
    let of = |(index, item): (usize, Bound<'_, PyAny>)| {
        let (key, due_ms, absolute): (Bound<'_, PyAny>, u64, bool) = item.extract()?;
        Ok((key_of(&key, index)?, message::due_of(due_ms, absolute)))
    };
    moves.iter().enumerate().map(of).collect()
}

/// Cancels the pending messages that have these keys.
#[pyfunction]
#[pyo3(signature = (store, subject, keys, command_id, /))]
pub(crate) fn cancel_keys<'py>(
    store: &Store,
    subject: &Bound<'py, PyAny>,
    keys: &Bound<'py, PyList>,
    command_id: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (py, subject, id) = (keys.py(), text::of("subject", subject)?, id_of(command_id)?);
    let keys = keys_of(keys)?;
    let outcomes = py.detach(|| store.engine.cancel_keys(&subject, &keys, id.as_deref()));
    PyTuple::new(py, outcomes.map_err(|error| errors::raised(py, error))?.into_iter().map(word))
}

/// Moves the pending messages that have these keys.
#[pyfunction]
#[pyo3(signature = (store, subject, moves, command_id, /))]
pub(crate) fn move_keys<'py>(
    store: &Store,
    subject: &Bound<'py, PyAny>,
    moves: &Bound<'py, PyList>,
    command_id: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (py, subject, id) = (moves.py(), text::of("subject", subject)?, id_of(command_id)?);
    let moves = moves_of(moves)?;
    for (index, (_, due)) in moves.iter().enumerate() {
        let refused = |error| errors::at_index(py, errors::raised(py, message::named(error, *due)), index);
        store.engine.check_due(*due).map_err(refused)?;
    }
    let outcomes = py.detach(|| store.engine.move_keys(&subject, &moves, id.as_deref()));
    moves::told(py, outcomes.map_err(|error| errors::raised(py, error))?.into_iter().map(moved))
}

/// Like [`cancel_keys`], for a server.
#[pyfunction]
#[pyo3(signature = (subject, keys, command_id, /))]
pub(crate) fn cancel_keys_request(
    subject: &Bound<'_, PyAny>,
    keys: &Bound<'_, PyList>,
    command_id: &Bound<'_, PyAny>,
) -> PyResult<Request> {
    let (py, subject, id) = (keys.py(), text::of("subject", subject)?, id_of(command_id)?);
    let keys = keys_of(keys)?;
    let keys = keys.iter().map(String::as_str).collect();
    let asked = CancelKeys { subject: &subject, keys, id: id.as_deref() };
    Request::filled(py, CANCEL_KEYS, |out| asked.put(out))
}

/// Like [`move_keys`], for a server.
#[pyfunction]
#[pyo3(signature = (subject, moves, command_id, /))]
pub(crate) fn move_keys_request(
    subject: &Bound<'_, PyAny>,
    moves: &Bound<'_, PyList>,
    command_id: &Bound<'_, PyAny>,
) -> PyResult<Request> {
    let (py, subject, id) = (moves.py(), text::of("subject", subject)?, id_of(command_id)?);
    let moves = moves_of(moves)?;
    let time = |due: &Due| match due {
        Due::After(delay_ms) => DueTime::After(*delay_ms),
        Due::At(time) => DueTime::At(*time),
    };
    let moves = moves.iter().map(|(key, due)| (key.as_str(), time(due))).collect();
    let asked = MoveKeys { subject: &subject, moves, id: id.as_deref() };
    Request::filled(py, MOVE_KEYS, |out| asked.put(out))
}
