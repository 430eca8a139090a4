//! Requests to a server. Each is encoded once, with the interpreter held, and may be sent again.

use bytes::Bytes;
use delaymq_core::error::Result;
use delaymq_core::store::{PendingScan, Receipt as CoreReceipt};
use delaymq_core::units::Millis;
use delaymq_core::wire::extension::administration::{Expire, GroupAt, GroupName, Listing, ROWS_MAX, Redrive};
use delaymq_core::wire::extension::consumers::Consumers;
use delaymq_core::wire::extension::dead_letters::DeadLetters;
use delaymq_core::wire::extension::forecast::ForecastAsked;
use delaymq_core::wire::extension::moves::put_moves;
use delaymq_core::wire::extension::pending::{CountsAsked, PendingAsked};
use delaymq_core::wire::extension::publish::{DueTime, put_receipts};
use delaymq_core::wire::extension::{
    ACCEPT_CLOCK, CANCEL, CLOCK, CONSUMERS, DEAD_LETTERS, END_CONSUMER, EXPIRE, FORECAST, GROUPS, LOOK_UP, MOVE,
    PENDING, PENDING_COUNTS, PUBLISH, PUBLISH_ON_TERMS, REDRIVE, REMOVE_GROUP, RESET_GROUP, START_GROUP, STATUS,
    SUBJECTS,
};
use delaymq_core::wire::qmq::pull::ConsumerName;
use delaymq_engine::Due;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::convert::columns::push_columns;
use crate::convert::message::Outgoing;
use crate::convert::{errors, publishes, receipt, text};
use crate::embedded::{forecast, moves, options, pending};

/// One request. Requests with the same bytes are equal.
#[derive(PartialEq, Eq)]
#[pyclass(frozen, eq, module = "delaymq._core")]
pub(crate) struct Request {
    pub(crate) command: i16,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) fn filled(
        py: Python<'_>,
        command: i16,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> PyResult<Self> {
        let mut body = Vec::new();
        fill(&mut body).map_err(|error| errors::raised(py, error))?;
        Ok(Self { command, body: body.into() })
    }

    fn published(py: Python<'_>, fill: impl FnOnce(&mut Outgoing) -> PyResult<()>) -> PyResult<Self> {
        let mut writer = Outgoing::default();
        fill(&mut writer)?;
        if writer.terms.is_empty() {
            return Self::filled(py, PUBLISH, |out| writer.batch.put(out, true));
        }
        Self::filled(py, PUBLISH_ON_TERMS, |out| writer.terms.put(out, &writer.batch, true))
    }

    fn of_group_at(
        command: i16,
        subject: &Bound<'_, PyAny>,
        group: &Bound<'_, PyAny>,
        start: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let start = options::group_start(start)?;
        let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
        let name = GroupName { subject: &subject_text, group: &group_text };
        Self::filled(subject.py(), command, |out| GroupAt { name, start }.put(out))
    }
}

/// Adds the functions of this file to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cancel_many_request, module)?)?;
    module.add_function(wrap_pyfunction!(move_many_request, module)?)?;
    module.add_function(wrap_pyfunction!(status_request, module)?)?;
    module.add_function(wrap_pyfunction!(groups_request, module)?)?;
    module.add_function(wrap_pyfunction!(subjects_request, module)?)?;
    module.add_function(wrap_pyfunction!(start_group_request, module)?)?;
    module.add_function(wrap_pyfunction!(reset_group_request, module)?)?;
    module.add_function(wrap_pyfunction!(remove_group_request, module)?)?;
    module.add_function(wrap_pyfunction!(dead_letters_request, module)?)?;
    module.add_function(wrap_pyfunction!(redrive_request, module)?)?;
    module.add_function(wrap_pyfunction!(expire_request, module)?)?;
    module.add_function(wrap_pyfunction!(consumers_request, module)?)?;
    module.add_function(wrap_pyfunction!(end_consumer_request, module)?)?;
    module.add_function(wrap_pyfunction!(clock_request, module)?)?;
    module.add_function(wrap_pyfunction!(accept_clock_request, module)?)?;
    module.add_function(wrap_pyfunction!(look_up_many_request, module)?)?;
    module.add_function(wrap_pyfunction!(pending_request, module)?)?;
    module.add_function(wrap_pyfunction!(pending_counts_request, module)?)?;
    module.add_function(wrap_pyfunction!(forecast_request, module)?)
}

/// The most rows of one piece of a list.
const LISTING: u32 = ROWS_MAX as u32;

#[pymethods]
impl Request {
    #[staticmethod]
    #[pyo3(signature = (subject, body, options, with_ids, /))]
    fn publish<'py>(
        subject: &Bound<'py, PyAny>,
        body: &Bound<'py, PyAny>,
        options: &Bound<'py, PyDict>,
        with_ids: bool,
    ) -> PyResult<Self> {
        Self::published(subject.py(), |writer| publishes::push_message(writer, subject, body, options, with_ids))
    }

    #[staticmethod]
    #[pyo3(signature = (columns, /))]
    fn publish_columns(columns: &Bound<'_, PyTuple>) -> PyResult<Self> {
        Self::published(columns.py(), |writer| push_columns(writer, columns))
    }

    #[staticmethod]
    #[pyo3(signature = (messages, with_ids, /))]
    fn publish_messages(messages: &Bound<'_, PyList>, with_ids: bool) -> PyResult<Self> {
        Self::published(messages.py(), |writer| publishes::push_messages(writer, messages, with_ids))
    }

    /// Its approximate bytes on the wire.
    fn __len__(&self) -> usize {
        self.body.len()
    }
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
    let chosen = moves::chosen(moves, stream)?;
    let timed = |(receipt, due)| match due {
        Due::After(delay_ms) => (receipt, DueTime::After(delay_ms)),
        Due::At(time) => (receipt, DueTime::At(time)),
    };
    let timed: Vec<(CoreReceipt, DueTime)> = chosen.into_iter().map(timed).collect();
    Request::filled(moves.py(), MOVE, |out| put_moves(out, &timed))
}

#[pyfunction]
fn status_request(py: Python<'_>) -> PyResult<Request> {
    Request::filled(py, STATUS, |_| Ok(()))
}

#[pyfunction]
#[pyo3(signature = (after = 0, /))]
fn groups_request(py: Python<'_>, after: u64) -> PyResult<Request> {
    Request::filled(py, GROUPS, |out| {
        Listing { after, count_max: LISTING }.put(out);
        Ok(())
    })
}

#[pyfunction]
#[pyo3(signature = (after = 0, /))]
fn subjects_request(py: Python<'_>, after: u64) -> PyResult<Request> {
    Request::filled(py, SUBJECTS, |out| {
        Listing { after, count_max: LISTING }.put(out);
        Ok(())
    })
}

#[pyfunction]
#[pyo3(signature = (subject, group, start, /))]
fn start_group_request(
    subject: &Bound<'_, PyAny>,
    group: &Bound<'_, PyAny>,
    start: &Bound<'_, PyAny>,
) -> PyResult<Request> {
    Request::of_group_at(START_GROUP, subject, group, start)
}

#[pyfunction]
#[pyo3(signature = (subject, group, start, /))]
fn reset_group_request(
    subject: &Bound<'_, PyAny>,
    group: &Bound<'_, PyAny>,
    start: &Bound<'_, PyAny>,
) -> PyResult<Request> {
    Request::of_group_at(RESET_GROUP, subject, group, start)
}

#[pyfunction]
#[pyo3(signature = (subject, group, /))]
fn remove_group_request(subject: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>) -> PyResult<Request> {
    let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
    let name = GroupName { subject: &subject_text, group: &group_text };
    Request::filled(subject.py(), REMOVE_GROUP, |out| name.put(out))
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

#[pyfunction]
#[pyo3(signature = (subject, older_than_ms, /))]
fn expire_request(subject: &Bound<'_, PyAny>, older_than_ms: u64) -> PyResult<Request> {
    let text = text::of("subject", subject)?;
    Request::filled(subject.py(), EXPIRE, |out| Expire { subject: &text, older_than_ms }.put(out))
}

#[pyfunction]
#[pyo3(signature = (subject, group, after = 0, /))]
fn consumers_request(subject: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>, after: u64) -> PyResult<Request> {
    let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
    let name = GroupName { subject: &subject_text, group: &group_text };
    let listing = Listing { after, count_max: LISTING };
    Request::filled(subject.py(), CONSUMERS, |out| Consumers { name, listing }.put(out))
}

#[pyfunction]
#[pyo3(signature = (subject, group, consumer, /))]
fn end_consumer_request(
    subject: &Bound<'_, PyAny>,
    group: &Bound<'_, PyAny>,
    consumer: &Bound<'_, PyAny>,
) -> PyResult<Request> {
    let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
    let consumer_text = text::of("consumer", consumer)?;
    let name = ConsumerName { subject: &subject_text, group: &group_text, consumer: &consumer_text };
    Request::filled(subject.py(), END_CONSUMER, |out| name.put(out))
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

#[pyfunction]
#[pyo3(signature = (receipts, stream, /))]
fn look_up_many_request(receipts: &Bound<'_, PyList>, stream: &[u8]) -> PyResult<Request> {
    let chosen = receipt::of_stream(receipts, stream)?;
    Request::filled(receipts.py(), LOOK_UP, |out| put_receipts(out, chosen.into_iter()))
}

/// Refuses a request that a store would refuse.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (asked, after, limit, stream, /))]
fn pending_request(
    asked: pending::Asked<'_>,
    after: &Bound<'_, PyAny>,
    limit: u32,
    stream: &[u8],
) -> PyResult<Request> {
    let (py, query) = (after.py(), pending::query(&asked, after)?);
    let checked = PendingScan::new(stream.try_into().unwrap_or_default(), &query);
    checked.map_err(|error| errors::raised(py, error))?;
    let after = query.after.map(|cursor| cursor.to_text()).unwrap_or_default();
    let (due_from, due_before) = (query.due_from.unwrap_or_default(), query.due_before);
    let asked = PendingAsked { of: query.of, due_from, due_before, after: &after, count_max: limit.min(LISTING) };
    Request::filled(py, PENDING, |out| asked.put(out))
}

#[pyfunction]
#[pyo3(signature = (subject, prefix, after = "", /))]
fn pending_counts_request(subject: &Bound<'_, PyAny>, prefix: &Bound<'_, PyAny>, after: &str) -> PyResult<Request> {
    let (py, of) = (subject.py(), pending::chosen(subject, prefix)?);
    of.check().map_err(|error| errors::raised(py, error))?;
    let asked = CountsAsked { of, after, count_max: LISTING };
    Request::filled(py, PENDING_COUNTS, |out| asked.put(out))
}

#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (asked, from = 0, /))]
fn forecast_request(asked: forecast::Asked<'_>, from: u64) -> PyResult<Request> {
    let (py, query) = (asked.0.py(), forecast::query(&asked)?);
    if query.subject.as_deref() == Some("") {
        return Err(errors::refused(py, "subject", "a subject of the store", "''"));
    }
    let due_from = if from > 0 { Some(Millis(from)) } else { query.due_from };
    let subject = query.subject.as_deref().unwrap_or_default();
    let asked = ForecastAsked { subject, by_second: query.by_second, due_from, due_before: query.due_before };
    Request::filled(py, FORECAST, |out| asked.put(out))
}
