//! Finds what reads the answer of a command: it stands next to the function that makes the request.

use pyo3::prelude::*;

use crate::embedded::{by_key, forecast, key_commands, moves, pending, recurring};
use crate::operate::{administration, clock, dead_letters};
use crate::remote::reading::{Reader, Told};
use crate::remote::requests;
use crate::tables::loads;

const FILES: [&[(i16, Reader)]; 11] = [
    requests::ANSWERS,
    moves::ANSWERS,
    key_commands::ANSWERS,
    by_key::ANSWERS,
    pending::ANSWERS,
    forecast::ANSWERS,
    recurring::ANSWERS,
    administration::ANSWERS,
    clock::ANSWERS,
    dead_letters::ANSWERS,
    loads::ANSWERS,
];

/// The value of an answer, or the error of one that cannot be read. None for a command that answers nothing.
pub(crate) fn value<'py>(py: Python<'py>, command: i16, body: &[u8]) -> Told<'py> {
    let reader = FILES.iter().copied().flatten().find(|(known, _)| *known == command);
    reader.map_or_else(|| Ok(Ok(py.None().into_bound(py))), |(_, reader)| reader(py, body))
}
