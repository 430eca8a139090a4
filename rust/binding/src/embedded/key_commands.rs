//! Commands by one key: cancel, move, look up.

use delaymq_core::units::Millis;
use delaymq_core::wire::extension::key_fate::KeyFate;
use delaymq_core::wire::extension::publish::DueTime;
use delaymq_core::wire::extension::terms::{KeyAsked, put_command_id, put_key_move};
use delaymq_core::wire::extension::{CANCEL_KEY, LOOK_UP_KEY, MOVE_KEY};
use delaymq_engine::{CancelOutcome, Fate, LookedUpKey};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::convert::receipt::Receipt;
use crate::convert::terms::moved;
use crate::convert::{errors, message, text};
use crate::embedded::moves;
use crate::embedded::pending::fate_word;
use crate::embedded::store::{Store, word};
use crate::remote::reading::{Reader, any, read};
use crate::remote::requests::Request;

/// Adds the functions of this file to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cancel_key, module)?)?;
    module.add_function(wrap_pyfunction!(move_key, module)?)?;
    module.add_function(wrap_pyfunction!(look_up_key, module)?)?;
    module.add_function(wrap_pyfunction!(cancel_key_request, module)?)?;
    module.add_function(wrap_pyfunction!(move_key_request, module)?)?;
    module.add_function(wrap_pyfunction!(look_up_key_request, module)?)
}

/// The answers to the requests of this file.
pub(crate) const ANSWERS: &[(i16, Reader)] = &[
    (CANCEL_KEY, moves::outcomes),
    (MOVE_KEY, moves::moved),
    (LOOK_UP_KEY, |py, body| read(KeyFate::read(body), |told| any(key_fate(looked_up_key(told)).into_pyobject(py)))),
];

const fn looked_up_key(told: KeyFate) -> LookedUpKey {
    match told {
        KeyFate::Pending(receipt) => LookedUpKey::Pending(receipt),
        KeyFate::Dispatched(receipt) => LookedUpKey::Dispatched(receipt),
        KeyFate::NotFound => LookedUpKey::NotFound,
    }
}

/// The id of a command by key, or None.
pub(crate) fn id_of(given: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if given.is_none() { Ok(None) } else { text::of("command_id", given).map(|id| Some(id.to_string())) }
}

/// Cancels the pending message that has a key.
#[pyfunction]
#[pyo3(signature = (store, subject, key, command_id, /))]
fn cancel_key<'py>(
    store: &Store,
    subject: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    command_id: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (py, subject, key) = (key.py(), text::of("subject", subject)?, text::of("key", key)?);
    let id = id_of(command_id)?;
    let outcome: CancelOutcome = py
        .detach(|| store.engine.cancel_key(&subject, &key, id.as_deref()))
        .map_err(|error| errors::raised(py, error))?;
    PyTuple::new(py, [word(outcome)])
}

/// Moves the pending message that has a key.
#[pyfunction]
#[pyo3(signature = (store, subject, key, due_ms, absolute, command_id, /))]
fn move_key<'py>(
    store: &Store,
    subject: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    due_ms: u64,
    absolute: bool,
    command_id: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (py, subject, key) = (key.py(), text::of("subject", subject)?, text::of("key", key)?);
    let (due, id) = (message::due_of(due_ms, absolute), id_of(command_id)?);
    let outcome = py.detach(|| store.engine.move_key(&subject, &key, due, id.as_deref()));
    let outcome = outcome.map_err(|error| errors::raised(py, message::named(error, due)))?;
    moves::told(py, std::iter::once(moved(outcome)))
}

/// The fate of the last message that had a key, and its receipt or None.
#[pyfunction]
#[pyo3(signature = (store, subject, key, /))]
fn look_up_key(
    store: &Store,
    subject: &Bound<'_, PyAny>,
    key: &Bound<'_, PyAny>,
) -> PyResult<(&'static str, Option<Receipt>)> {
    let (py, subject, key) = (key.py(), text::of("subject", subject)?, text::of("key", key)?);
    let found = py.detach(|| store.engine.look_up_key(&subject, &key)).map_err(|error| errors::raised(py, error))?;
    Ok(key_fate(found))
}

pub(crate) fn key_fate(found: LookedUpKey) -> (&'static str, Option<Receipt>) {
    match found {
        LookedUpKey::Pending(receipt) => (fate_word(Fate::Pending), Some(Receipt(receipt))),
        LookedUpKey::Dispatched(receipt) => (fate_word(Fate::Dispatched), Some(Receipt(receipt))),
        LookedUpKey::NotFound => (fate_word(Fate::NotFound), None),
    }
}

/// Like [`cancel_key`], for a server.
#[pyfunction]
#[pyo3(signature = (subject, key, command_id, /))]
fn cancel_key_request(
    subject: &Bound<'_, PyAny>,
    key: &Bound<'_, PyAny>,
    command_id: &Bound<'_, PyAny>,
) -> PyResult<Request> {
    let (py, subject, key) = (key.py(), text::of("subject", subject)?, text::of("key", key)?);
    let (asked, id) = (KeyAsked { subject: &subject, key: &key }, id_of(command_id)?);
    Request::filled(py, CANCEL_KEY, |out| asked.put(out).and_then(|()| put_command_id(out, id.as_deref())))
}

/// Like [`move_key`], for a server.
#[pyfunction]
#[pyo3(signature = (subject, key, due_ms, absolute, command_id, /))]
fn move_key_request(
    subject: &Bound<'_, PyAny>,
    key: &Bound<'_, PyAny>,
    due_ms: u64,
    absolute: bool,
    command_id: &Bound<'_, PyAny>,
) -> PyResult<Request> {
    let (py, subject, key) = (key.py(), text::of("subject", subject)?, text::of("key", key)?);
    let (asked, id) = (KeyAsked { subject: &subject, key: &key }, id_of(command_id)?);
    let due = if absolute { DueTime::At(Millis(due_ms)) } else { DueTime::After(due_ms) };
    Request::filled(py, MOVE_KEY, |out| {
        put_key_move(out, &asked, due).and_then(|()| put_command_id(out, id.as_deref()))
    })
}

/// Like [`look_up_key`], for a server.
#[pyfunction]
#[pyo3(signature = (subject, key, /))]
fn look_up_key_request(subject: &Bound<'_, PyAny>, key: &Bound<'_, PyAny>) -> PyResult<Request> {
    let (py, subject, key) = (key.py(), text::of("subject", subject)?, text::of("key", key)?);
    Request::filled(py, LOOK_UP_KEY, |out| KeyAsked { subject: &subject, key: &key }.put(out))
}
