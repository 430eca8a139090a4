//! Moves to other times, across the boundary.

use delaymq_core::store::Receipt as CoreReceipt;
use delaymq_core::wire::extension::moves::Moved;
use delaymq_engine::Due;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::convert::receipt::Receipt;
use crate::convert::{errors, message, receipt};

/// The moves from `delaymq._verbs.pending`: (receipt, `due_ms`, absolute) each; the receipts are of this stream.
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
