//! Pending messages for Python: look-up, lists, counts.

use std::sync::{Mutex, PoisonError};

use delaymq_core::run::run_path;
use delaymq_core::schedule_log::HiddenBlock;
use delaymq_core::store::{PendingCursor, PendingOf, PendingQuery, PendingScan, Receipt as CoreReceipt};
use delaymq_core::units::Millis;
use delaymq_core::wire::extension::pending::{
    CountsAsked, CountsTold, FateTold, HiddenRow, PendingAsked, PendingTold, read_fates,
};
use delaymq_core::wire::extension::publish::put_receipts;
use delaymq_core::wire::extension::{LOOK_UP, PENDING, PENDING_COUNTS};
use delaymq_engine::{Fate, Pending, PendingReader as EngineReader};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::convert::receipt;
use crate::convert::receipt::Receipt;
use crate::convert::{errors, text};
use crate::embedded::store::Store;
use crate::remote::reading::{Reader, any, read};
use crate::remote::requests::{LISTING, Request};

/// Adds the functions of this file to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pending, module)?)?;
    module.add_function(wrap_pyfunction!(pending_counts, module)?)?;
    module.add_function(wrap_pyfunction!(look_up_many, module)?)?;
    module.add_function(wrap_pyfunction!(cursor_behind, module)?)?;
    module.add_function(wrap_pyfunction!(pending_request, module)?)?;
    module.add_function(wrap_pyfunction!(pending_counts_request, module)?)?;
    module.add_function(wrap_pyfunction!(look_up_many_request, module)?)
}

/// The answers to the requests of this file.
pub(crate) const ANSWERS: &[(i16, Reader)] = &[
    (PENDING, |py, body| read(PendingTold::read(body), |told| page_told(py, &told))),
    (PENDING_COUNTS, |py, body| read(CountsTold::read(body), |told| any((told.next, told.rows).into_pyobject(py)))),
    (LOOK_UP, |py, body| read(read_fates(body), |told| any(PyList::new(py, told.iter().map(fate_told))))),
];

fn fate_told<'a>((fate, subject): &(FateTold, &'a str)) -> (&'static str, &'a str) {
    let fate = match fate {
        FateTold::Pending => Fate::Pending,
        FateTold::Dispatched => Fate::Dispatched,
        FateTold::Cancelled => Fate::Cancelled,
        FateTold::NotFound => Fate::NotFound,
    };
    (fate_word(fate), *subject)
}

/// A page, in the form of a listing of the embedded store.
fn page_told<'py>(py: Python<'py>, told: &PendingTold<'_>) -> PyResult<Bound<'py, PyAny>> {
    let rows = told.rows.iter().map(|row| (row.subject, row.receipt, row.attempt, row.published.0));
    let hidden = |one: &HiddenRow<'_>| (one.path.to_owned(), one.block, one.rows, one.reason.to_owned());
    let hidden = told.hidden.iter().map(hidden).collect::<Vec<_>>();
    any((rows_of(py, rows)?, told.after, told.is_done, hidden).into_pyobject(py))
}

/// A subject or None, a prefix or None, two times in milliseconds or None.
pub(crate) type Asked<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Option<u64>, Option<u64>);

/// A listing of pending messages under way.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct PendingReader(Mutex<EngineReader>);

#[pymethods]
impl PendingReader {
    #[pyo3(signature = (limit, /))]
    fn next_page<'py>(&self, py: Python<'py>, limit: usize) -> PyResult<Bound<'py, PyTuple>> {
        let read = py.detach(|| {
            let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let page = reader.next_page(limit)?.unwrap_or_default();
            Ok((page, reader.cursor().to_text(), reader.is_done()))
        });
        let (page, cursor, is_done) = read.map_err(|error| errors::raised(py, error))?;
        let rows = page.entries.iter().map(|one: &Pending| (&*one.subject, one.receipt, one.attempt, one.published.0));
        let hidden = page.hidden.iter().map(hidden_block).collect::<Vec<_>>();
        (rows_of(py, rows)?, cursor, is_done, hidden).into_pyobject(py)
    }
}

/// Path, block, its number of rows, and the reason.
fn hidden_block(hidden: &HiddenBlock) -> (String, u32, u64, String) {
    let HiddenBlock { block, rows } = hidden;
    (run_path(block.run), block.block, *rows, block.error.to_string())
}

/// Subject, receipt, attempt and published sequence of each entry. Neighbours share the text of their subject.
pub(crate) fn rows_of<'py, 'a>(
    py: Python<'py>,
    rows: impl Iterator<Item = (&'a str, CoreReceipt, u16, u64)>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let mut last: Option<(&str, Bound<'py, PyString>)> = None;
    for (name, receipt, attempt, published) in rows {
        let subject = match &last {
            Some((known, text)) if *known == name => text.clone(),
            _ => PyString::new(py, name),
        };
        last = Some((name, subject.clone()));
        list.append((subject, Receipt(receipt), attempt, published))?;
    }
    Ok(list)
}

/// The query of a listing, and its cursor.
pub(crate) fn query(asked: &Asked<'_>, after: &Bound<'_, PyAny>) -> PyResult<PendingQuery> {
    let (subject, prefix, due_from, due_before) = asked;
    let after = if after.is_none() {
        None
    } else {
        let text = text::of("after", after)?;
        Some(PendingCursor::parse(&text).map_err(|error| errors::raised(after.py(), error))?)
    };
    Ok(PendingQuery {
        of: chosen(subject, prefix)?,
        due_from: due_from.map(Millis),
        due_before: due_before.map(Millis),
        after,
    })
}

/// The subjects: one, those of a prefix, or all subjects of users.
pub(crate) fn chosen(subject: &Bound<'_, PyAny>, prefix: &Bound<'_, PyAny>) -> PyResult<PendingOf> {
    let py = subject.py();
    match (subject.is_none(), prefix.is_none()) {
        (true, true) => Ok(PendingOf::Users),
        (false, true) => Ok(PendingOf::Subject(text::of("subject", subject)?.into_owned())),
        (true, false) => Ok(PendingOf::Prefix(text::of("prefix", prefix)?.into_owned())),
        (false, false) => Err(errors::refused(py, "prefix", "None where a subject is named", "both")),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (store, asked, after, /))]
fn pending(store: &Bound<'_, Store>, asked: Asked<'_>, after: &Bound<'_, PyAny>) -> PyResult<PendingReader> {
    let (py, engine) = (store.py(), &store.get().engine);
    let query = query(&asked, after)?;
    let reader = py.detach(|| engine.pending(&query)).map_err(|error| errors::raised(py, error))?;
    Ok(PendingReader(Mutex::new(reader)))
}

/// Subjects, and the numbers of their pending messages.
#[pyfunction]
#[pyo3(signature = (store, subject, prefix, /))]
fn pending_counts<'py>(
    store: &Bound<'py, Store>,
    subject: &Bound<'py, PyAny>,
    prefix: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let (py, engine) = (store.py(), &store.get().engine);
    let chosen = chosen(subject, prefix)?;
    let counts = py.detach(|| engine.pending_counts(&chosen)).map_err(|error| errors::raised(py, error))?;
    PyList::new(py, counts)
}

/// Fate and subject of each message, in the order of the receipts.
#[pyfunction]
#[pyo3(signature = (store, receipts, /))]
fn look_up_many<'py>(store: &Bound<'py, Store>, receipts: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
    let (py, engine) = (store.py(), &store.get().engine);
    let chosen = receipt::of_stream(receipts, &engine.stream())?;
    let found = py.detach(|| engine.look_up_many(&chosen)).map_err(|error| errors::raised(py, error))?;
    PyList::new(py, found.iter().map(|one| (fate_word(one.fate), &*one.subject)))
}

pub(crate) const fn fate_word(fate: Fate) -> &'static str {
    match fate {
        Fate::Pending => "pending",
        Fate::Dispatched => "dispatched",
        Fate::Cancelled => "cancelled",
        Fate::NotFound => "not_found",
    }
}

/// The cursor of a list that ended after the entry of this receipt.
#[pyfunction]
#[pyo3(signature = (receipt, /))]
fn cursor_behind(receipt: &Bound<'_, Receipt>) -> String {
    let receipt = &receipt.get().0;
    PendingCursor { stream: receipt.stream, key: receipt.key }.to_text()
}

/// Refuses a request that a store would refuse.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (asked, after, limit, stream, /))]
fn pending_request(asked: Asked<'_>, after: &Bound<'_, PyAny>, limit: u32, stream: &[u8]) -> PyResult<Request> {
    let (py, query) = (after.py(), query(&asked, after)?);
    let checked = PendingScan::new(stream.try_into().unwrap_or_default(), &query);
    checked.map_err(|error| errors::raised(py, error))?;
    let after = query.after.map(|cursor| cursor.to_text()).unwrap_or_default();
    let (due_from, due_before) = (query.due_from.unwrap_or_default(), query.due_before);
    let asked = PendingAsked { of: query.of, due_from, due_before, after: &after, count_max: limit.min(LISTING) };
    Request::filled(py, PENDING, |out| asked.put(out))
}

/// Asks a server for a piece of the counts, behind a subject.
#[pyfunction]
#[pyo3(signature = (subject, prefix, after = "", /))]
fn pending_counts_request(subject: &Bound<'_, PyAny>, prefix: &Bound<'_, PyAny>, after: &str) -> PyResult<Request> {
    let (py, of) = (subject.py(), chosen(subject, prefix)?);
    of.check().map_err(|error| errors::raised(py, error))?;
    let asked = CountsAsked { of, after, count_max: LISTING };
    Request::filled(py, PENDING_COUNTS, |out| asked.put(out))
}

#[pyfunction]
#[pyo3(signature = (receipts, stream, /))]
fn look_up_many_request(receipts: &Bound<'_, PyList>, stream: &[u8]) -> PyResult<Request> {
    let chosen = receipt::of_stream(receipts, stream)?;
    Request::filled(receipts.py(), LOOK_UP, |out| put_receipts(out, chosen.into_iter()))
}
