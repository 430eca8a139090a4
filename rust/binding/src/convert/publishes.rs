//! `Publish` objects of a batch.
//!
//! Fields of plain types are read here. A message with any other field is given to `delaymq._arguments.publishes`, which
//! knows every type that a user may pass and raises every error, so that the rules stand in one place.

use std::borrow::Cow;

use delaymq_core::units::Millis;
use delaymq_engine::{Due, IfExists, PublishTerms};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyIterator, PyList, PyString, PyTuple};

use crate::convert::message::{About, Batch, plain_seconds, push, push_row};
use crate::convert::{errors, meta, text};

const DAY_MS: u64 = 86_400_000;

/// Adds messages. With `with_ids`, each one is deduplicated by its id, and has a new one if it has none.
pub(crate) fn push_messages(batch: &mut impl Batch, messages: &Bound<'_, PyList>, with_ids: bool) -> PyResult<()> {
    let mut reader = Reader { types: Types::of(messages.py())?, ids: None, with_ids };
    for (index, message) in messages.iter().enumerate() {
        let left = messages.len().saturating_sub(index);
        let pushed = reader.push(batch, &message, (index, left));
        pushed.map_err(|error| errors::at_index(messages.py(), error, index))?;
    }
    Ok(())
}

/// The types that fields are compared with, and the rules of the Python package.
pub(crate) struct Types {
    publish: Py<PyAny>,
    datetime: Py<PyAny>,
    timedelta: Py<PyAny>,
    utc: Py<PyAny>,
    row_of: Py<PyAny>,
    due_ms: Py<PyAny>,
    new_ids: Py<PyAny>,
}

impl Types {
    pub(crate) fn of(py: Python<'_>) -> PyResult<&Self> {
        static TYPES: PyOnceLock<Types> = PyOnceLock::new();
        TYPES.get_or_try_init(py, || {
            let of = |module: &str, name: &str| Ok::<_, PyErr>(py.import(module)?.getattr(name)?.unbind());
            Ok(Self {
                publish: of("delaymq.message", "Publish")?,
                datetime: of("datetime", "datetime")?,
                timedelta: of("datetime", "timedelta")?,
                utc: of("datetime", "UTC")?,
                row_of: of("delaymq._arguments.publishes", "row_of")?,
                due_ms: of("delaymq.durations", "due_ms")?,
                new_ids: of("delaymq.keys", "new_ids")?,
            })
        })
    }

    /// The due time of a datetime.
    pub(crate) fn moment_or_rule(&self, at: &Bound<'_, PyAny>) -> PyResult<Due> {
        match self.moment_of(at)? {
            Some(due) => Ok(due),
            None => self.due_ms.bind(at.py()).call1((at,))?.extract().map(|since| Due::At(Millis(since))),
        }
    }

    /// The due time of a datetime whose zone is `datetime.UTC`, from 1970 on.
    fn moment_of(&self, at: &Bound<'_, PyAny>) -> PyResult<Option<Due>> {
        let py = at.py();
        if !at.get_type().is(self.datetime.bind(py)) || !at.getattr(intern!(py, "tzinfo"))?.is(self.utc.bind(py)) {
            return Ok(None);
        }
        let number = |name: &Bound<'_, PyString>| at.getattr(name)?.extract::<u64>();
        let (month, day) = (number(intern!(py, "month"))?, number(intern!(py, "day"))?);
        let Some(days) = days_since_1970(number(intern!(py, "year"))?, month, day) else { return Ok(None) };
        let minutes = number(intern!(py, "hour"))?.saturating_mul(60).saturating_add(number(intern!(py, "minute"))?);
        let seconds = minutes.saturating_mul(60).saturating_add(number(intern!(py, "second"))?);
        let whole = days.saturating_mul(DAY_MS).saturating_add(seconds.saturating_mul(1_000));
        let part = number(intern!(py, "microsecond"))?.div_ceil(1_000);
        Ok(Some(Due::At(Millis(whole.saturating_add(part)))))
    }
}

/// Reads the messages of one batch.
struct Reader<'a, 'py> {
    types: &'a Types,
    /// New ids, once a message needs one.
    ids: Option<Bound<'py, PyIterator>>,
    with_ids: bool,
}

/// The fields of a message that decide when and on which terms it is published.
struct Plain<'py> {
    due: Due,
    key: Option<Bound<'py, PyString>>,
    if_exists: IfExists,
    deduplicates: bool,
}

impl<'py> Reader<'_, 'py> {
    fn push(
        &mut self,
        batch: &mut impl Batch,
        message: &Bound<'py, PyAny>,
        (index, left): (usize, usize),
    ) -> PyResult<()> {
        let py = message.py();
        let plain = if message.get_type().is(self.types.publish.bind(py)) { self.plain(message)? } else { None };
        let Some(Plain { due, key, if_exists, deduplicates }) = plain else {
            let row = self.types.row_of.bind(py).call1((index, message, self.with_ids))?;
            return push_row(batch, &row);
        };
        let key: Option<Cow<'_, str>> = key.as_ref().map(PyStringMethods::to_cow).transpose()?;
        let subject = message.getattr(intern!(py, "subject"))?;
        let name = text::of("subject", &subject)?;
        let mut message_id = message.getattr(intern!(py, "message_id"))?;
        if deduplicates && message_id.is_none() {
            message_id = self.new_id(py, left)?;
        }
        let tags = message.getattr(intern!(py, "tags"))?;
        let attributes = message.getattr(intern!(py, "attributes"))?;
        let has_meta = !(message_id.is_none() && attributes.is_none() && is_empty_tuple(&tags));
        let meta = if has_meta { meta::encoded_parts(&message_id, &tags, &attributes)? } else { Vec::new() };
        let terms = match &key {
            None if !deduplicates => PublishTerms::NONE,
            key => PublishTerms { key: key.as_deref(), if_exists, deduplicates, expires: None },
        };
        push(batch, &name, &message.getattr(intern!(py, "body"))?, due, About { meta: &meta, terms })
    }

    /// The fields, if their types are plain and their values are certainly accepted.
    fn plain(&self, message: &Bound<'py, PyAny>) -> PyResult<Option<Plain<'py>>> {
        let py = message.py();
        for name in [intern!(py, "level"), intern!(py, "jitter"), intern!(py, "expires"), intern!(py, "on_expiry")] {
            if !message.getattr(name)?.is_none() {
                return Ok(None);
            }
        }
        let Some(due) = self.due(message)? else { return Ok(None) };
        let key = message.getattr(intern!(py, "key"))?;
        let key = match key.cast::<PyString>() {
            Ok(key) if key.to_cow().is_ok() => Some(key.clone()),
            Err(_) if key.is_none() => None,
            _ => return Ok(None),
        };
        let if_exists = message.getattr(intern!(py, "if_exists"))?;
        let if_exists = match if_exists.cast_exact::<PyString>() {
            Err(_) if if_exists.is_none() => IfExists::Refuse,
            Ok(word) if key.is_some() && word == "replace" => IfExists::Replace,
            Ok(word) if key.is_some() && word == "keep" => IfExists::Keep,
            Ok(word) if key.is_some() && word == "error" => IfExists::Refuse,
            _ => return Ok(None),
        };
        let deduplicate = message.getattr(intern!(py, "deduplicate"))?;
        let Ok(deduplicate) = deduplicate.cast::<PyBool>() else { return Ok(None) };
        Ok(Some(Plain { due, key, if_exists, deduplicates: self.with_ids || deduplicate.is_true() }))
    }

    fn due(&self, message: &Bound<'py, PyAny>) -> PyResult<Option<Due>> {
        let py = message.py();
        let (delay, at) = (message.getattr(intern!(py, "delay"))?, message.getattr(intern!(py, "at"))?);
        if at.is_none() {
            return if delay.is_none() { Ok(Some(Due::After(0))) } else { self.delay_of(&delay) };
        }
        if !delay.is_none() {
            return Ok(None);
        }
        self.types.moment_of(&at)
    }

    fn delay_of(&self, delay: &Bound<'py, PyAny>) -> PyResult<Option<Due>> {
        let py = delay.py();
        if !delay.get_type().is(self.types.timedelta.bind(py)) {
            return Ok(plain_seconds(delay)?.map(Due::After));
        }
        let days: i64 = delay.getattr(intern!(py, "days"))?.extract()?;
        let Ok(days) = u64::try_from(days) else { return Ok(None) };
        let seconds: u64 = delay.getattr(intern!(py, "seconds"))?.extract()?;
        let microseconds: u64 = delay.getattr(intern!(py, "microseconds"))?.extract()?;
        let whole = days.saturating_mul(DAY_MS).saturating_add(seconds.saturating_mul(1_000));
        Ok(Some(Due::After(whole.saturating_add(microseconds.div_ceil(1_000)))))
    }

    /// The next of as many new ids as messages are left.
    fn new_id(&mut self, py: Python<'py>, left: usize) -> PyResult<Bound<'py, PyAny>> {
        let ids = match &mut self.ids {
            Some(ids) => ids,
            none => none.insert(self.types.new_ids.bind(py).call1((left,))?.try_iter()?),
        };
        ids.next().unwrap_or_else(|| Err(errors::refused(py, "message_id", "a new id for each message", "fewer")))
    }
}

fn is_empty_tuple(value: &Bound<'_, PyAny>) -> bool {
    value.cast_exact::<PyTuple>().is_ok_and(PyTupleMethods::is_empty)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar; `None` before 1970.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    // A year that begins in March has its leap day at its end.
    let (year, month) = if month > 2 { (year, month.checked_sub(3)?) } else { (year.checked_sub(1)?, month + 9) };
    let leap_days = (year / 4).checked_sub(year / 100)?.checked_add(year / 400)?;
    let before_month = month.checked_mul(153)?.checked_add(2)? / 5;
    let from_year_0 = year.checked_mul(365)?.checked_add(leap_days)?.checked_add(before_month)?.checked_add(day)?;
    // 1970-01-01 is day 719,469 by this count.
    from_year_0.checked_sub(719_469)
}
