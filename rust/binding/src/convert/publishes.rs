//! Messages to publish: `Publish` objects of a batch, and the options of a single publish, which are the same.
//!
//! Frequent options of plain types are read here. A message with any other option is given to
//! `delaymq._arguments.publishes`, which knows every type that a user may pass and raises every error, so that the rules
//! stand in one place.

use std::borrow::Cow;

use delaymq_core::units::Millis;
use delaymq_engine::{Due, IfExists, PublishTerms};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyInt, PyIterator, PyList, PyString, PyTuple};

use crate::convert::message::{About, Batch, later, plain_seconds, push, push_row};
use crate::convert::moments::{DAY_MS, days_since_1970};
use crate::convert::{errors, meta, text};

/// The options that are read here, the most frequent ones first. The other fields of `delaymq.Publish` are None unless
/// they are given.
const OPTIONS: [&str; 10] =
    ["delay", "key", "at", "message_id", "tags", "attributes", "deduplicate", "if_exists", "level", "jitter"];
/// The fields of a row that are no options.
const REQUIRED: [&str; 2] = ["subject", "body"];
/// Their values, in the order of [`OPTIONS`]; `None` for an option that is not given.
type Values<'py> = [Option<Bound<'py, PyAny>>; OPTIONS.len()];

/// Adds one message. With `with_ids`, it is deduplicated by its id, and has a new one if it has none.
pub(crate) fn push_message<'py>(
    batch: &mut impl Batch,
    subject: &Bound<'py, PyAny>,
    body: &Bound<'py, PyAny>,
    options: &Bound<'py, PyDict>,
    with_ids: bool,
) -> PyResult<()> {
    let py = subject.py();
    let mut reader = Reader { types: Types::of(py)?, ids: None, with_ids };
    let values = reader.values_of_dict(options)?;
    let plain = values.map_or(Ok(None), |values| reader.plain(values))?;
    if let Some(plain) = plain {
        return reader.push_plain(batch, subject, body, plain, 1);
    }
    let message = reader.types.publish.bind(py).call((subject, body), Some(options))?;
    push_row(batch, &reader.types.row_of.bind(py).call1((py.None(), message, with_ids))?)
}

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
    random_bytes: Py<PyAny>,
    /// The delay levels from 1 on, in seconds.
    levels_s: Vec<u64>,
    jitter_ms_max: u64,
    /// The names of [`OPTIONS`].
    options: [Py<PyString>; OPTIONS.len()],
    /// The names of the other options.
    others: Vec<Py<PyString>>,
}

impl Types {
    pub(crate) fn of(py: Python<'_>) -> PyResult<&Self> {
        static TYPES: PyOnceLock<Types> = PyOnceLock::new();
        TYPES.get_or_try_init(py, || {
            let of = |module: &str, name: &str| Ok::<_, PyErr>(py.import(module)?.getattr(name)?.unbind());
            let publish = of("delaymq.message", "Publish")?;
            let fields: Vec<String> = publish.getattr(py, "__match_args__")?.extract(py)?;
            let others = fields.iter().map(String::as_str).filter(|name| !OPTIONS.contains(name));
            let others = others.filter(|name| !REQUIRED.contains(name));
            Ok(Self {
                others: others.map(|name| PyString::intern(py, name).unbind()).collect(),
                publish,
                datetime: of("datetime", "datetime")?,
                timedelta: of("datetime", "timedelta")?,
                utc: of("datetime", "UTC")?,
                row_of: of("delaymq._arguments.publishes", "row_of")?,
                due_ms: of("delaymq.durations", "due_ms")?,
                new_ids: of("delaymq._arguments.publishes", "new_ids")?,
                random_bytes: of("os", "urandom")?,
                levels_s: of("delaymq.durations", "LEVELS_S")?.extract(py)?,
                jitter_ms_max: of("delaymq.durations", "JITTER_MS_MAX")?.extract(py)?,
                options: OPTIONS.map(|name| PyString::intern(py, name).unbind()),
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

/// The options of a message, of plain types.
struct Plain<'py> {
    due: Due,
    key: Option<Bound<'py, PyString>>,
    if_exists: IfExists,
    deduplicates: bool,
    message_id: Option<Bound<'py, PyAny>>,
    tags: Option<Bound<'py, PyAny>>,
    attributes: Option<Bound<'py, PyAny>>,
}

impl<'py> Reader<'_, 'py> {
    fn push(
        &mut self,
        batch: &mut impl Batch,
        message: &Bound<'py, PyAny>,
        (index, left): (usize, usize),
    ) -> PyResult<()> {
        let py = message.py();
        let is_plain = message.get_type().is(self.types.publish.bind(py));
        let values = if is_plain { self.values_of(message)? } else { None };
        let plain = values.map_or(Ok(None), |values| self.plain(values))?;
        let Some(plain) = plain else {
            return push_row(batch, &self.types.row_of.bind(py).call1((index, message, self.with_ids))?);
        };
        let (subject, body) = (message.getattr(intern!(py, "subject"))?, message.getattr(intern!(py, "body"))?);
        self.push_plain(batch, &subject, &body, plain, left)
    }

    fn push_plain(
        &mut self,
        batch: &mut impl Batch,
        subject: &Bound<'py, PyAny>,
        body: &Bound<'py, PyAny>,
        plain: Plain<'py>,
        left: usize,
    ) -> PyResult<()> {
        let py = subject.py();
        let Plain { due, key, if_exists, deduplicates, mut message_id, tags, attributes } = plain;
        let key: Option<Cow<'_, str>> = key.as_ref().map(PyStringMethods::to_cow).transpose()?;
        let name = text::of("subject", subject)?;
        if deduplicates && message_id.is_none() {
            message_id = Some(self.new_id(py, left)?);
        }
        let tags = tags.filter(|tags| !is_empty_tuple(tags));
        let has_meta = message_id.is_some() || attributes.is_some() || tags.is_some();
        let meta = if has_meta {
            let or_none = |value: Option<Bound<'py, PyAny>>| value.unwrap_or_else(|| py.None().into_bound(py));
            let tags = tags.unwrap_or_else(|| PyTuple::empty(py).into_any());
            meta::encoded_parts(&or_none(message_id), &tags, &or_none(attributes))?
        } else {
            Vec::new()
        };
        let terms = match &key {
            None if !deduplicates => PublishTerms::NONE,
            key => PublishTerms { key: key.as_deref(), if_exists, deduplicates, expires: None },
        };
        push(batch, &name, body, due, About { meta: &meta, terms })
    }

    /// The values of fields; `None` if another one is given.
    fn values_of(&self, message: &Bound<'py, PyAny>) -> PyResult<Option<Values<'py>>> {
        let py = message.py();
        for other in &self.types.others {
            if !message.getattr(other.bind(py))?.is_none() {
                return Ok(None);
            }
        }
        let mut values = Values::default();
        for (value, name) in values.iter_mut().zip(&self.types.options) {
            *value = Some(message.getattr(name.bind(py))?);
        }
        Ok(Some(values))
    }

    /// The values of keyword arguments; `None` if another one is given.
    fn values_of_dict(&self, options: &Bound<'py, PyDict>) -> PyResult<Option<Values<'py>>> {
        let (mut values, mut left) = (Values::default(), options.len());
        for (value, name) in values.iter_mut().zip(&self.types.options) {
            if left == 0 {
                break;
            }
            *value = options.get_item(name.bind(options.py()))?;
            left = left.saturating_sub(usize::from(value.is_some()));
        }
        Ok((left == 0).then_some(values))
    }

    /// The options, if their types are plain and their values are certainly accepted.
    fn plain(&self, values: Values<'py>) -> PyResult<Option<Plain<'py>>> {
        let given = |value: Option<Bound<'py, PyAny>>| value.filter(|value| !value.is_none());
        let [delay, key, at, message_id, tags, attributes, deduplicate, if_exists, level, jitter] = values;
        let times = [given(delay), given(at), given(level)];
        let Some(due) = self.due(times.each_ref().map(Option::as_ref))? else { return Ok(None) };
        let Some(due) = self.jittered(due, given(jitter).as_ref())? else { return Ok(None) };
        let key = match given(key).map(Bound::cast_into::<PyString>) {
            Some(Ok(key)) if key.to_cow().is_ok() => Some(key),
            None => None,
            _ => return Ok(None),
        };
        let if_exists = match given(if_exists).map(Bound::cast_into_exact::<PyString>) {
            None => IfExists::Refuse,
            Some(Ok(word)) if key.is_some() && word == "replace" => IfExists::Replace,
            Some(Ok(word)) if key.is_some() && word == "keep" => IfExists::Keep,
            Some(Ok(word)) if key.is_some() && word == "error" => IfExists::Refuse,
            _ => return Ok(None),
        };
        let deduplicate = match deduplicate.map(Bound::cast_into::<PyBool>) {
            None => false,
            Some(Ok(choice)) => choice.is_true(),
            Some(Err(_)) => return Ok(None),
        };
        let (deduplicates, message_id, attributes) =
            (self.with_ids || deduplicate, given(message_id), given(attributes));
        Ok(Some(Plain { due, key, if_exists, deduplicates, message_id, tags, attributes }))
    }

    /// The due time by a delay, a moment or a level.
    fn due(&self, times: [Option<&Bound<'py, PyAny>>; 3]) -> PyResult<Option<Due>> {
        match times {
            [None, None, None] => Ok(Some(Due::After(0))),
            [Some(delay), None, None] => Ok(self.delay_of(delay)?.map(Due::After)),
            [None, Some(at), None] => self.types.moment_of(at),
            [None, None, Some(level)] => Ok(self.level_of(level).map(Due::After)),
            _ => Ok(None),
        }
    }

    fn level_of(&self, level: &Bound<'py, PyAny>) -> Option<u64> {
        let number = level.cast_exact::<PyInt>().ok()?.extract::<usize>().ok()?;
        self.types.levels_s.get(number.checked_sub(1)?).map(|seconds| seconds.saturating_mul(1_000))
    }

    /// The due time and a random part of the jitter, as `delaymq.durations.jittered` draws it.
    fn jittered(&self, due: Due, jitter: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Due>> {
        let Some(jitter) = jitter else { return Ok(Some(due)) };
        let Some(most) = self.delay_of(jitter)?.filter(|most| *most <= self.types.jitter_ms_max) else {
            return Ok(None);
        };
        if most == 0 {
            return Ok(Some(due));
        }
        // So many bytes that the modulus favours no number by more than one in 2^64.
        let drawn = self.types.random_bytes.bind(jitter.py()).call1((16,))?.extract::<[u8; 16]>()?;
        let part = u128::from_be_bytes(drawn) % (u128::from(most) + 1);
        Ok(Some(later(due, u64::try_from(part)?)))
    }

    /// Milliseconds, rounded up.
    fn delay_of(&self, delay: &Bound<'py, PyAny>) -> PyResult<Option<u64>> {
        let py = delay.py();
        if !delay.get_type().is(self.types.timedelta.bind(py)) {
            return plain_seconds(delay);
        }
        let days: i64 = delay.getattr(intern!(py, "days"))?.extract()?;
        let Ok(days) = u64::try_from(days) else { return Ok(None) };
        let seconds: u64 = delay.getattr(intern!(py, "seconds"))?.extract()?;
        let microseconds: u64 = delay.getattr(intern!(py, "microseconds"))?.extract()?;
        let whole = days.saturating_mul(DAY_MS).saturating_add(seconds.saturating_mul(1_000));
        Ok(Some(whole.saturating_add(microseconds.div_ceil(1_000))))
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
