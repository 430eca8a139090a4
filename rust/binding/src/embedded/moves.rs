//! Cancels, and moves to other times, by receipts.

use delaymq_core::store::Receipt as CoreReceipt;
use delaymq_core::wire::extension::moves::{Moved, put_moves, read_moved};
use delaymq_core::wire::extension::publish::{Cancelled, DueTime, put_receipts, read_outcomes};
use delaymq_core::wire::extension::{CANCEL, MOVE};
use delaymq_engine::Due;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::convert::receipt::Receipt;
use crate::convert::terms;
use crate::convert::{errors, message, receipt};
use crate::embedded::store::{Store, word};
use crate::remote::reading::{Reader, Told, any, read};
use crate::remote::requests::Request;

/// Adds the functions of this file to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cancel_many, module)?)?;
    module.add_function(wrap_pyfunction!(move_many, module)?)?;
    module.add_function(wrap_pyfunction!(cancel_many_request, module)?)?;
    module.add_function(wrap_pyfunction!(move_many_request, module)?)
}

/// The answers to the requests of this file.
pub(crate) const ANSWERS: &[(i16, Reader)] = &[(CANCEL, outcomes), (MOVE, moved)];

/// The outcomes of cancels.
pub(crate) fn outcomes<'py>(py: Python<'py>, body: &[u8]) -> Told<'py> {
    let word = |outcome| match outcome {
        Cancelled::Done => "done",
        Cancelled::AlreadyDispatched => "already_dispatched",
        Cancelled::NotFound => "not_found",
    };
    read(read_outcomes(body), |outcomes| any(PyTuple::new(py, outcomes.into_iter().map(word))))
}

/// The outcomes of moves.
pub(crate) fn moved<'py>(py: Python<'py>, body: &[u8]) -> Told<'py> {
    read(read_moved(body), |moved| any(told(py, moved.into_iter())))
}

/// The moves from `delaymq._verbs.receipt_commands`: (receipt, `due_ms`, absolute) each; the receipts are of this stream.
pub(crate) fn chosen(moves: &Bound<'_, PyList>, stream: &[u8]) -> PyResult<Vec<(CoreReceipt, Due)>> {
    let py = moves.py();
    let mut chosen = Vec::with_capacity(moves.len());
    for (index, item) in moves.iter().enumerate() {
        let (named, due_ms, absolute): (Bound<'_, PyAny>, u64, bool) = item.extract()?;
        let found = named.cast::<Receipt>().map_err(|_| receipt::no_receipt(&named))?.get().0;
        if found.stream != stream {
            return Err(errors::at_index(py, errors::foreign_receipt(py, &found.to_text()), index));
        }
        chosen.push((found, message::due_of(due_ms, absolute)));
    }
    Ok(chosen)
}

/// The outcomes of moves: the value of `delaymq.Outcome`, and the new receipt or None, each.
pub(crate) fn told(py: Python<'_>, moved: impl Iterator<Item = Moved>) -> PyResult<Bound<'_, PyTuple>> {
    let word = |one| match one {
        Moved::Done(receipt) => ("done", Some(Receipt(receipt))),
        Moved::AlreadyDispatched => ("already_dispatched", None),
        Moved::NotFound => ("not_found", None),
    };
    PyTuple::new(py, moved.map(word).collect::<Vec<_>>())
}

/// Cancels messages by their receipts.
#[pyfunction]
#[pyo3(signature = (store, receipts, /))]
fn cancel_many<'py>(store: &Store, receipts: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyTuple>> {
    let (py, engine) = (receipts.py(), &store.engine);
    let chosen = receipt::of_stream(receipts, &engine.stream())?;
    let outcomes = py.detach(|| engine.cancel_many(&chosen)).map_err(|error| errors::raised(py, error))?;
    PyTuple::new(py, outcomes.into_iter().map(word))
}

/// Moves messages by their receipts.
#[pyfunction]
#[pyo3(signature = (store, moves, /))]
fn move_many<'py>(store: &Store, moves: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyTuple>> {
    let (py, engine) = (moves.py(), &store.engine);
    let chosen = chosen(moves, &engine.stream())?;
    for (index, (_, due)) in chosen.iter().enumerate() {
        let refused = |error| errors::at_index(py, errors::raised(py, message::named(error, *due)), index);
        engine.check_due(*due).map_err(refused)?;
    }
    let moved = py.detach(|| engine.move_many(&chosen)).map_err(|error| errors::raised(py, error))?;
    told(py, moved.into_iter().map(terms::moved))
}

#[pyfunction]
#[pyo3(signature = (receipts, stream, /))]
fn cancel_many_request(receipts: &Bound<'_, PyList>, stream: &[u8]) -> PyResult<Request> {
    let py = receipts.py();
    let chosen = receipt::of_stream(receipts, stream)?;
    Request::filled(py, CANCEL, |out| put_receipts(out, chosen.into_iter()))
}

#[pyfunction]
#[pyo3(signature = (moves, stream, /))]
fn move_many_request(moves: &Bound<'_, PyList>, stream: &[u8]) -> PyResult<Request> {
    let chosen = chosen(moves, stream)?;
    let timed = |(receipt, due)| match due {
        Due::After(delay_ms) => (receipt, DueTime::After(delay_ms)),
        Due::At(time) => (receipt, DueTime::At(time)),
    };
    let timed: Vec<(CoreReceipt, DueTime)> = chosen.into_iter().map(timed).collect();
    Request::filled(moves.py(), MOVE, |out| put_moves(out, &timed))
}
