//! Columns of a batch: the subjects, bodies, due times and keys of many messages, each as one sequence.

use delaymq_core::units::Millis;
use delaymq_engine::{Due, PublishTerms};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyIterator, PyMemoryView, PyString, PyTuple};

use crate::convert::message::{About, Batch, delay_of, later, push, sequence};
use crate::convert::publishes::Types;
use crate::convert::{errors, meta, terms, text};

/// The tuple that `_core.pyi` names: subjects, bodies, delays, moments, keys, `if_exists`, jitters and ids.
type Given<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    u8,
    Option<Vec<u64>>,
    Bound<'py, PyAny>,
);

/// Adds a message for each body.
pub(crate) fn push_columns(batch: &mut impl Batch, columns: &Bound<'_, PyTuple>) -> PyResult<()> {
    let py = columns.py();
    let (subjects, bodies, delays, moments, keys, if_exists, jitters, ids): Given<'_> = columns.extract()?;
    let (bodies_left, count) = (sequence("bodies", &bodies)?, bodies.len()?);
    let mut rows = Rows {
        subjects: Texts::of("subject", subjects, count)?,
        times: Times::of(&delays, &moments, count)?,
        keys: Texts::of("keys", keys, count)?,
        if_exists,
        jitters: jitters.unwrap_or_default(),
        ids: Texts::of("ids", ids, count)?,
    };
    let mut pushed = 0;
    for body in bodies_left {
        let body = if pushed < count { body } else { Err(changed(py, "bodies")) };
        let done = body.and_then(|body| rows.push(batch, pushed, &body));
        done.map_err(|error| errors::at_index(py, error, pushed))?;
        pushed += 1;
    }
    if pushed < count { Err(changed(py, "bodies")) } else { Ok(()) }
}

/// All columns but the bodies.
struct Rows<'py> {
    subjects: Texts<'py>,
    times: Times<'py>,
    keys: Texts<'py>,
    if_exists: u8,
    jitters: Vec<u64>,
    ids: Texts<'py>,
}

impl<'py> Rows<'py> {
    fn push(&mut self, batch: &mut impl Batch, index: usize, body: &Bound<'py, PyAny>) -> PyResult<()> {
        let py = body.py();
        let due = later(self.times.next(py, index)?, self.jitters.get(index).copied().unwrap_or_default());
        let (subject, key, id) = (self.subjects.next()?, self.keys.next()?, self.ids.next()?);
        let key = if key.is_none() { None } else { Some(text::of("keys", &key)?) };
        let (has_id, nothing) = (!id.is_none(), py.None().into_bound(py));
        let terms = match &key {
            None if !has_id => PublishTerms::NONE,
            key => terms::on(key.as_deref(), self.if_exists, has_id),
        };
        let name = text::of("subject", &subject)?;
        let meta = if has_id { meta::encoded_parts(&id, PyTuple::empty(py).as_any(), &nothing)? } else { Vec::new() };
        push(batch, &name, body, due, About { meta: &meta, terms })
    }
}

/// A column of texts, or one value for all rows.
enum Texts<'py> {
    Same(Bound<'py, PyAny>),
    Each(Bound<'py, PyIterator>, &'static str),
}

impl<'py> Texts<'py> {
    /// A str or None is the value of all rows, except that a column of keys cannot be one str.
    fn of(argument: &'static str, value: Bound<'py, PyAny>, count: usize) -> PyResult<Self> {
        let is_same = value.is_none() || (value.is_instance_of::<PyString>() && argument == "subject");
        if is_same {
            return Ok(Self::Same(value));
        }
        Ok(Self::Each(column(argument, &value, "a sequence of str", count)?, argument))
    }

    fn next(&mut self) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Same(value) => Ok(value.clone()),
            Self::Each(column, argument) => column.next().unwrap_or_else(|| Err(changed(column.py(), argument))),
        }
    }
}

/// The due times of all rows.
enum Times<'py> {
    Same(Due),
    /// Timedeltas or seconds.
    Delays(Bound<'py, PyIterator>),
    /// Datetimes.
    Moments(Bound<'py, PyIterator>),
    /// Milliseconds since 1970, where the caller has them in memory.
    Milliseconds(PyBuffer<i64>),
}

impl<'py> Times<'py> {
    fn of(delays: &Bound<'py, PyAny>, moments: &Bound<'py, PyAny>, count: usize) -> PyResult<Self> {
        if moments.is_none() {
            return Ok(match delays.cast_exact::<PyInt>() {
                Ok(same) => Self::Same(Due::After(same.extract()?)),
                Err(_) => Self::Delays(column("delays", delays, "a sequence", count)?),
            });
        }
        if let Ok(same) = moments.cast_exact::<PyInt>() {
            return Ok(Self::Same(Due::At(Millis(same.extract()?))));
        }
        if !moments.is_instance_of::<PyMemoryView>() {
            return Ok(Self::Moments(column("at", moments, "a sequence of datetimes", count)?));
        }
        let buffer = PyBuffer::<i64>::get(moments);
        let buffer = buffer.map_err(|_| errors::wrong_type("at", "milliseconds since 1970 as int64", moments))?;
        check_count(moments.py(), "at", buffer.item_count(), count)?;
        if buffer.as_slice(moments.py()).is_none() {
            return Err(errors::refused(moments.py(), "at", "an array without gaps", "one with strides"));
        }
        Ok(Self::Milliseconds(buffer))
    }

    fn next(&mut self, py: Python<'py>, index: usize) -> PyResult<Due> {
        match self {
            Self::Same(due) => Ok(*due),
            Self::Delays(column) => delay_of(&column.next().unwrap_or_else(|| Err(changed(py, "delays")))?),
            Self::Moments(column) => {
                let moment = column.next().unwrap_or_else(|| Err(changed(py, "at")))?;
                Types::of(py)?.moment_or_rule(&moment)
            }
            Self::Milliseconds(buffer) => {
                let found = buffer.as_slice(py).and_then(|all| Some(all.get(index)?.get()));
                let found = found.ok_or_else(|| changed(py, "at"))?;
                let refused = |_| errors::refused(py, "at", "a time after 1970", &found.to_string());
                u64::try_from(found).map(|since| Due::At(Millis(since))).map_err(refused)
            }
        }
    }
}

/// The items of a column, which has one for each body.
fn column<'py>(
    argument: &'static str,
    value: &Bound<'py, PyAny>,
    expected: &str,
    count: usize,
) -> PyResult<Bound<'py, PyIterator>> {
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return Err(errors::wrong_type(argument, expected, value));
    }
    let items = sequence(argument, value)?;
    check_count(value.py(), argument, value.len()?, count)?;
    Ok(items)
}

fn check_count(py: Python<'_>, argument: &str, found: usize, count: usize) -> PyResult<()> {
    if found == count {
        return Ok(());
    }
    Err(errors::refused(py, argument, &format!("{count}, one for each body"), &found.to_string()))
}

/// The error for a column that has another length than when the call began: code of the user may run while it is read.
fn changed(py: Python<'_>, argument: &str) -> PyErr {
    errors::refused(py, argument, "as many items as when the call began", "another number")
}
