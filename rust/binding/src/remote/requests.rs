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
use pyo3::types::{PyList, PyTuple};

use crate::convert::columns::push_columns;
use crate::convert::message::{About, Outgoing};
use crate::convert::terms;
use crate::convert::terms::Terms;
use crate::convert::{errors, message, meta, publishes, receipt, text};
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

/// The most rows of one piece of a list.
const LISTING: u32 = ROWS_MAX as u32;

#[pymethods]
impl Request {
    #[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
    #[staticmethod]
    #[pyo3(signature = (subject, body, due_ms, absolute, meta, terms, /))]
    fn publish(
        subject: &Bound<'_, PyAny>,
        body: &Bound<'_, PyAny>,
        due_ms: u64,
        absolute: bool,
        meta: &Bound<'_, PyAny>,
        terms: Option<Terms>,
    ) -> PyResult<Self> {
        let name = text::of("subject", subject)?;
        let meta = meta::encoded(meta)?;
        let due = message::due_of(due_ms, absolute);
        let about = About { meta: &meta, terms: terms::of(terms.as_ref()) };
        Self::published(subject.py(), |writer| message::push(writer, &name, body, due, about))
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

    #[staticmethod]
    #[pyo3(signature = (receipts, stream, /))]
    fn cancel(receipts: &Bound<'_, PyList>, stream: &[u8]) -> PyResult<Self> {
        let py = receipts.py();
        let chosen = receipt::of_stream(receipts, stream)?;
        Self::filled(py, CANCEL, |out| put_receipts(out, chosen.into_iter()))
    }

    #[staticmethod]
    #[pyo3(signature = (moves, stream, /))]
    fn move_to(moves: &Bound<'_, PyList>, stream: &[u8]) -> PyResult<Self> {
        let chosen = moves::chosen(moves, stream)?;
        let timed = |(receipt, due)| match due {
            Due::After(delay_ms) => (receipt, DueTime::After(delay_ms)),
            Due::At(time) => (receipt, DueTime::At(time)),
        };
        let timed: Vec<(CoreReceipt, DueTime)> = chosen.into_iter().map(timed).collect();
        Self::filled(moves.py(), MOVE, |out| put_moves(out, &timed))
    }

    #[staticmethod]
    fn status(py: Python<'_>) -> PyResult<Self> {
        Self::filled(py, STATUS, |_| Ok(()))
    }

    #[staticmethod]
    #[pyo3(signature = (after, /))]
    fn groups(py: Python<'_>, after: u64) -> PyResult<Self> {
        Self::filled(py, GROUPS, |out| {
            Listing { after, count_max: LISTING }.put(out);
            Ok(())
        })
    }

    #[staticmethod]
    #[pyo3(signature = (after, /))]
    fn subjects(py: Python<'_>, after: u64) -> PyResult<Self> {
        Self::filled(py, SUBJECTS, |out| {
            Listing { after, count_max: LISTING }.put(out);
            Ok(())
        })
    }

    #[staticmethod]
    #[pyo3(signature = (subject, group, start, /))]
    fn start_group(subject: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>, start: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of_group_at(START_GROUP, subject, group, start)
    }

    #[staticmethod]
    #[pyo3(signature = (subject, group, start, /))]
    fn reset_group(subject: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>, start: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of_group_at(RESET_GROUP, subject, group, start)
    }

    #[staticmethod]
    #[pyo3(signature = (subject, group, /))]
    fn remove_group(subject: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
        let name = GroupName { subject: &subject_text, group: &group_text };
        Self::filled(subject.py(), REMOVE_GROUP, |out| name.put(out))
    }

    #[staticmethod]
    #[pyo3(signature = (subject, group, after, limit, /))]
    fn dead_letters(subject: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>, after: u64, limit: u64) -> PyResult<Self> {
        let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
        let name = GroupName { subject: &subject_text, group: &group_text };
        let listing = Listing { after, count_max: u32::try_from(limit).unwrap_or(LISTING).min(LISTING) };
        Self::filled(subject.py(), DEAD_LETTERS, |out| DeadLetters { name, listing }.put(out))
    }

    #[staticmethod]
    #[pyo3(signature = (subject, group, limit, /))]
    fn redrive(subject: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>, limit: Option<u64>) -> PyResult<Self> {
        let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
        let name = GroupName { subject: &subject_text, group: &group_text };
        let count_max = limit.unwrap_or(u64::MAX);
        Self::filled(subject.py(), REDRIVE, |out| Redrive { name, count_max }.put(out))
    }

    #[staticmethod]
    #[pyo3(signature = (subject, older_than_ms, /))]
    fn expire(subject: &Bound<'_, PyAny>, older_than_ms: u64) -> PyResult<Self> {
        let text = text::of("subject", subject)?;
        Self::filled(subject.py(), EXPIRE, |out| Expire { subject: &text, older_than_ms }.put(out))
    }

    #[staticmethod]
    #[pyo3(signature = (subject, group, after, /))]
    fn consumers(subject: &Bound<'_, PyAny>, group: &Bound<'_, PyAny>, after: u64) -> PyResult<Self> {
        let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
        let name = GroupName { subject: &subject_text, group: &group_text };
        let listing = Listing { after, count_max: LISTING };
        Self::filled(subject.py(), CONSUMERS, |out| Consumers { name, listing }.put(out))
    }

    #[staticmethod]
    #[pyo3(signature = (subject, group, consumer, /))]
    fn end_consumer(
        subject: &Bound<'_, PyAny>,
        group: &Bound<'_, PyAny>,
        consumer: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let (subject_text, group_text) = (text::of("subject", subject)?, text::of("group", group)?);
        let consumer_text = text::of("consumer", consumer)?;
        let name = ConsumerName { subject: &subject_text, group: &group_text, consumer: &consumer_text };
        Self::filled(subject.py(), END_CONSUMER, |out| name.put(out))
    }

    #[staticmethod]
    fn clock() -> Self {
        Self { command: CLOCK, body: Bytes::new() }
    }

    #[staticmethod]
    #[pyo3(signature = (ahead_ms, /))]
    fn accept_clock(ahead_ms: u64) -> Self {
        Self { command: ACCEPT_CLOCK, body: Bytes::copy_from_slice(&ahead_ms.to_be_bytes()) }
    }

    #[staticmethod]
    #[pyo3(signature = (receipts, stream, /))]
    fn look_up(receipts: &Bound<'_, PyList>, stream: &[u8]) -> PyResult<Self> {
        let chosen = receipt::of_stream(receipts, stream)?;
        Self::filled(receipts.py(), LOOK_UP, |out| put_receipts(out, chosen.into_iter()))
    }

    /// Refuses a request that a store would refuse.
    #[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
    #[staticmethod]
    #[pyo3(signature = (asked, after, limit, stream, /))]
    fn pending(asked: pending::Asked<'_>, after: &Bound<'_, PyAny>, limit: u32, stream: &[u8]) -> PyResult<Self> {
        let (py, query) = (after.py(), pending::query(&asked, after)?);
        let checked = PendingScan::new(stream.try_into().unwrap_or_default(), &query);
        checked.map_err(|error| errors::raised(py, error))?;
        let after = query.after.map(|cursor| cursor.to_text()).unwrap_or_default();
        let (due_from, due_before) = (query.due_from.unwrap_or_default(), query.due_before);
        let asked = PendingAsked { of: query.of, due_from, due_before, after: &after, count_max: limit.min(LISTING) };
        Self::filled(py, PENDING, |out| asked.put(out))
    }

    #[staticmethod]
    #[pyo3(signature = (subject, prefix, after, /))]
    fn pending_counts(subject: &Bound<'_, PyAny>, prefix: &Bound<'_, PyAny>, after: &str) -> PyResult<Self> {
        let (py, of) = (subject.py(), pending::chosen(subject, prefix)?);
        of.check().map_err(|error| errors::raised(py, error))?;
        let asked = CountsAsked { of, after, count_max: LISTING };
        Self::filled(py, PENDING_COUNTS, |out| asked.put(out))
    }

    #[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
    #[staticmethod]
    #[pyo3(signature = (asked, from, /))]
    fn forecast(asked: forecast::Asked<'_>, from: u64) -> PyResult<Self> {
        let (py, query) = (asked.0.py(), forecast::query(&asked)?);
        if query.subject.as_deref() == Some("") {
            return Err(errors::refused(py, "subject", "a subject of the store", "''"));
        }
        let due_from = if from > 0 { Some(Millis(from)) } else { query.due_from };
        let subject = query.subject.as_deref().unwrap_or_default();
        let asked = ForecastAsked { subject, by_second: query.by_second, due_from, due_before: query.due_before };
        Self::filled(py, FORECAST, |out| asked.put(out))
    }

    /// Its approximate bytes on the wire.
    fn __len__(&self) -> usize {
        self.body.len()
    }
}
