//! What Python asks of messages that have keys, or ids to be told by.

use delaymq_core::wire::extension::moves::Moved;
use delaymq_engine::{CancelOutcome, IfExists, MoveOutcome, PublishTerms};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::receipt::Receipt;
use crate::store::{Store, word};
use crate::{errors, message, moving};

/// A key or None, what becomes of the message where that is taken (0 replace, 1 keep, 2 refuse), and whether a
/// repetition is told by the message id; `delaymq.keys` has checked them.
pub(crate) type Terms = (Option<String>, u8, bool);

/// As the engine takes them.
pub(crate) fn of(terms: Option<&Terms>) -> PublishTerms<'_> {
    let Some((key, if_exists, deduplicates)) = terms else { return PublishTerms::NONE };
    let if_exists = match if_exists {
        0 => IfExists::Replace,
        1 => IfExists::Keep,
        _ => IfExists::Refuse,
    };
    PublishTerms { key: key.as_deref(), if_exists, deduplicates: *deduplicates }
}

/// What came of a move, as the wire has it.
pub(crate) const fn moved(outcome: MoveOutcome) -> Moved {
    match outcome {
        MoveOutcome::Done(receipt) => Moved::Done(receipt),
        MoveOutcome::AlreadyDispatched => Moved::AlreadyDispatched,
        MoveOutcome::NotFound => Moved::NotFound,
    }
}

/// Cancels the pending message that has a key.
#[pyfunction]
#[pyo3(signature = (store, subject, key, /))]
pub(crate) fn cancel_key(store: &Store, subject: &Bound<'_, PyAny>, key: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    let (py, subject, key) = (key.py(), message::text("subject", subject)?, message::text("key", key)?);
    let outcome: CancelOutcome =
        py.detach(|| store.engine.cancel_key(&subject, &key)).map_err(|error| errors::raised(py, error))?;
    Ok(word(outcome))
}

/// Moves the pending message that has a key.
#[pyfunction]
#[pyo3(signature = (store, subject, key, due_ms, absolute, /))]
pub(crate) fn move_key<'py>(
    store: &Store,
    subject: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    due_ms: u64,
    absolute: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let (py, subject, key) = (key.py(), message::text("subject", subject)?, message::text("key", key)?);
    let due = message::due_of(due_ms, absolute);
    let outcome = py.detach(|| store.engine.move_key(&subject, &key, due));
    let outcome = outcome.map_err(|error| errors::raised(py, message::named(error, due)))?;
    moving::told(py, std::iter::once(moved(outcome)))
}

/// The receipt of the pending message that has a key.
#[pyfunction]
#[pyo3(signature = (store, subject, key, /))]
pub(crate) fn look_up_key(
    store: &Store,
    subject: &Bound<'_, PyAny>,
    key: &Bound<'_, PyAny>,
) -> PyResult<Option<Receipt>> {
    let (py, subject, key) = (key.py(), message::text("subject", subject)?, message::text("key", key)?);
    let found = py.detach(|| store.engine.look_up_key(&subject, &key));
    Ok(found.map_err(|error| errors::raised(py, error))?.map(Receipt))
}
