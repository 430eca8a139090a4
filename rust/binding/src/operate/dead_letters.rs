//! Dead letters in Python: made, listed, redriven.

use std::borrow::Cow;

use delaymq_core::wire::extension::administration::{GroupName, Listing, Redrive};
use delaymq_core::wire::extension::consume::PayloadForm;
use delaymq_core::wire::extension::dead_letters::{DeadLetters, Letter, Letters};
use delaymq_core::wire::extension::{DEAD_LETTERS, REDRIVE};
use delaymq_engine::DeadLetter;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::convert::{errors, qmq, text};
use crate::embedded::store::Store;
use crate::remote::reading::{Reader, number, read, rows};
use crate::remote::requests::{LISTING, Request};

/// Adds the functions of this file to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(dead_letters_request, module)?)?;
    module.add_function(wrap_pyfunction!(redrive_request, module)?)?;
    module.add_function(wrap_pyfunction!(dead_letters, module)?)?;
    module.add_function(wrap_pyfunction!(redrive, module)?)
}

/// The answers to the requests of this file.
pub(crate) const ANSWERS: &[(i16, Reader)] = &[
    (DEAD_LETTERS, |py, body| {
        read(Letters::read(body), |told| {
            rows(py, told.next, told.letters.iter().map(|letter| letter_fields(py, letter)))
        })
    }),
    (REDRIVE, number),
];

fn letter_fields<'py>(py: Python<'py>, letter: &Letter<'_>) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    let body = letter.payload.map_or_else(Vec::new, |payload| {
        let (meta, body) = payload.bytes.split_at_checked(payload.meta_length as usize).unwrap_or((&[], payload.bytes));
        qmq::parts_of(payload.form == PayloadForm::Opaque, meta, body).1.into_owned()
    });
    fields.set_item("number", letter.number.0)?;
    fields.set_item("sequence", letter.sequence.0)?;
    fields.set_item("died_ms", letter.died.0)?;
    fields.set_item("attempt", letter.attempt)?;
    fields.set_item("reason", letter.reason)?;
    fields.set_item("published_ms", letter.payload.map(|payload| payload.published.0))?;
    fields.set_item("body", PyBytes::new(py, &body))?;
    fields.set_item("damage", letter.damage)?;
    Ok(fields)
}

/// Fields of `delaymq.DeadLetter` for each dead letter.
#[pyfunction]
#[pyo3(signature = (store, subject, group, limit, /))]
fn dead_letters<'py>(
    store: &Bound<'py, Store>,
    subject: &Bound<'py, PyAny>,
    group: &Bound<'py, PyAny>,
    limit: usize,
) -> PyResult<Bound<'py, PyList>> {
    let (py, engine) = (subject.py(), &store.get().engine);
    let (subject, group) = (text::of("subject", subject)?, text::of("group", group)?);
    let found = py.detach(|| engine.dead_letters(&subject, &group, limit));
    let found = found.map_err(|error| errors::raised(py, error))?;
    let rows = found.iter().map(|letter| fields(py, letter)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, rows)
}

fn fields<'py>(py: Python<'py>, letter: &DeadLetter) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    let body = letter.payload.as_ref().map_or(Cow::Borrowed(b"".as_slice()), |payload| qmq::parts(payload).1);
    fields.set_item("number", letter.number.0)?;
    fields.set_item("sequence", letter.sequence.0)?;
    fields.set_item("died_ms", letter.died.0)?;
    fields.set_item("attempt", letter.attempt)?;
    fields.set_item("reason", &letter.reason)?;
    fields.set_item("published_ms", letter.published.map(|published| published.0))?;
    fields.set_item("body", PyBytes::new(py, &body))?;
    fields.set_item("damage", letter.damage.as_deref())?;
    Ok(fields)
}

#[pyfunction]
#[pyo3(signature = (store, subject, group, limit, /))]
fn redrive(
    store: &Bound<'_, Store>,
    subject: &Bound<'_, PyAny>,
    group: &Bound<'_, PyAny>,
    limit: Option<usize>,
) -> PyResult<u64> {
    let (py, engine) = (subject.py(), &store.get().engine);
    let (subject, group) = (text::of("subject", subject)?, text::of("group", group)?);
    py.detach(|| engine.redrive(&subject, &group, limit)).map_err(|error| errors::raised(py, error))
}

#[pyfunction]
#[pyo3(signature = (subject, group, limit, after = 0, /))]
fn dead_letters_request(
    subject: &Bound<'_, PyAny>,
    group: &Bound<'_, PyAny>,
    limit: u64,
    after: u64,
) -> PyResult<Request> {
    let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
    let name = GroupName { subject: &subject_text, group: &group_text };
    let listing = Listing { after, count_max: u32::try_from(limit).unwrap_or(LISTING).min(LISTING) };
    Request::filled(subject.py(), DEAD_LETTERS, |out| DeadLetters { name, listing }.put(out))
}

#[pyfunction]
#[pyo3(signature = (subject, group, limit, /))]
fn redrive_request(subject: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>, limit: Option<u64>) -> PyResult<Request> {
    let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
    let name = GroupName { subject: &subject_text, group: &group_text };
    let count_max = limit.unwrap_or(u64::MAX);
    Request::filled(subject.py(), REDRIVE, |out| Redrive { name, count_max }.put(out))
}
