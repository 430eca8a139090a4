//! Messages that are published: bodies and delays.

use delaymq_core::error::{Error, Result};
use delaymq_core::units::Millis;
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter};
use delaymq_core::wire::extension::terms::{TermsAsked, TermsWriter};
use delaymq_engine::{Due, PublishBatch, PublishTerms};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyIterator, PyMemoryView, PyString};

use crate::convert::terms;
use crate::convert::terms::Terms;
use crate::convert::{errors, meta, text};

/// Relative error of a decimal literal times 1000; `delaymq.durations` has the same rule.
const FLOAT_NOISE: f64 = 2.0 * f64::EPSILON;

/// Collects messages: a publish to a store in this process, or one to a server.
pub(crate) trait Batch {
    /// Adds a message; after an error the batch is unchanged.
    fn push(&mut self, subject: &str, due: Due, parts: (&[u8], &[u8]), terms: &PublishTerms<'_>) -> Result<()>;
}

impl Batch for PublishBatch {
    fn push(&mut self, subject: &str, due: Due, parts: (&[u8], &[u8]), terms: &PublishTerms<'_>) -> Result<()> {
        if *terms == PublishTerms::NONE {
            return Self::push(self, subject, due, parts.0, parts.1);
        }
        self.push_on_terms(subject, due, parts, terms)
    }
}

/// A batch for a server, and the terms of its messages.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(crate) batch: PublishWriter,
    pub(crate) terms: TermsWriter,
}

impl Batch for Outgoing {
    fn push(&mut self, subject: &str, due: Due, (meta, body): (&[u8], &[u8]), terms: &PublishTerms<'_>) -> Result<()> {
        let due = match due {
            Due::After(delay_ms) => DueTime::After(delay_ms),
            Due::At(time) => DueTime::At(time),
        };
        let PublishTerms { key, if_exists, deduplicates, expires } = *terms;
        let place = u32::try_from(self.batch.len()).unwrap_or(u32::MAX);
        self.batch.push(subject, due, meta, body)?;
        self.terms.push(&TermsAsked { place, key, if_exists, deduplicates, expires })
    }
}

/// Subject, body, due, whether `due` counts from 1970, meta, and terms or None.
type Row<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, u64, bool, Bound<'py, PyAny>, Option<Terms>);

/// Adds the row of one message.
pub(crate) fn push_row(batch: &mut impl Batch, row: &Bound<'_, PyAny>) -> PyResult<()> {
    let (subject, body, due_ms, absolute, about, terms): Row<'_> = row.extract()?;
    let name = text::of("subject", &subject)?;
    let meta = meta::encoded(&about)?;
    push(batch, &name, &body, due_of(due_ms, absolute), About { meta: &meta, terms: terms::of(terms.as_ref()) })
}

/// The items of an argument that has a length.
pub(crate) fn sequence<'py>(argument: &str, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    value.len().and_then(|_| value.try_iter()).map_err(|_| errors::wrong_type(argument, "a sequence", value))
}

/// The data of a message in addition to its body.
#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    /// Message id, tags and attributes, encoded.
    pub(crate) meta: &'a [u8],
    /// Its terms.
    pub(crate) terms: PublishTerms<'a>,
}

/// Adds one message to a batch; the body is copied while the interpreter is held.
pub(crate) fn push(
    batch: &mut impl Batch,
    subject: &str,
    body: &Bound<'_, PyAny>,
    due: Due,
    about: About<'_>,
) -> PyResult<()> {
    let py = body.py();
    if let Ok(bytes) = body.cast::<PyBytes>() {
        return batch
            .push(subject, due, (about.meta, bytes.as_bytes()), &about.terms)
            .map_err(|error| errors::raised(py, named(error, due)));
    }
    let view = PyMemoryView::from(body).map_err(|_| no_bytes(body))?;
    let copy = view.call_method0("tobytes")?;
    let pushed = batch.push(subject, due, (about.meta, copy.cast::<PyBytes>()?.as_bytes()), &about.terms);
    pushed.map_err(|error| errors::raised(py, named(error, due)))
}

/// A copy of a body, for use while the interpreter is released.
pub(crate) fn body_of(body: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = body.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let view = PyMemoryView::from(body).map_err(|_| no_bytes(body))?;
    Ok(view.call_method0("tobytes")?.cast::<PyBytes>()?.as_bytes().to_vec())
}

fn no_bytes(body: &Bound<'_, PyAny>) -> PyErr {
    const EXPECTED: &str = "a bytes-like object";
    if body.is_instance_of::<PyString>() {
        return errors::wrong_type_advising("body", EXPECTED, body, "make bytes of text with .encode()");
    }
    errors::wrong_type("body", EXPECTED, body)
}

/// Renames an argument in an error to the name that the caller used.
pub(crate) fn named(error: Error, due: Due) -> Error {
    match error {
        Error::InvalidArgument { argument: "due", expected, found } => {
            let argument = if matches!(due, Due::At(_)) { "at" } else { "delay" };
            Error::InvalidArgument { argument, expected, found }
        }
        Error::TooLarge { argument: "meta", limit, found } => Error::TooLarge { argument: "attributes", limit, found },
        // A request to a server is one frame.
        Error::TooLarge { argument: "frame", limit, found } => Error::TooLarge { argument: "messages", limit, found },
        other => other,
    }
}

/// The due time of a message, from its form at the boundary.
pub(crate) const fn due_of(due_ms: u64, absolute: bool) -> Due {
    if absolute { Due::At(Millis(due_ms)) } else { Due::After(due_ms) }
}

/// A due time that is later by so many milliseconds.
pub(crate) const fn later(due: Due, extra_ms: u64) -> Due {
    match due {
        Due::After(delay_ms) => Due::After(delay_ms.saturating_add(extra_ms)),
        Due::At(time) => Due::At(Millis(time.0.saturating_add(extra_ms))),
    }
}

/// One of many delays. Plain numbers are converted here, all other values by `delaymq.durations`, which also raises
/// all errors.
pub(crate) fn delay_of(delay: &Bound<'_, PyAny>) -> PyResult<Due> {
    if let Some(milliseconds) = plain_seconds(delay)? {
        return Ok(Due::After(milliseconds));
    }
    let rule = delay.py().import("delaymq.durations")?.getattr("delay_ms")?;
    rule.call1((delay, "delays"))?.extract().map(Due::After)
}

/// Seconds in milliseconds, rounded up, from an int or a float that is certainly a delay.
pub(crate) fn plain_seconds(seconds: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if seconds.is_exact_instance_of::<PyFloat>() {
        let milliseconds = seconds.extract::<f64>()? * 1000.0;
        return Ok((0.0..9.0e15).contains(&milliseconds).then(|| rounded_up(milliseconds)));
    }
    if !seconds.is_exact_instance_of::<PyInt>() {
        return Ok(None);
    }
    Ok(seconds.extract::<u64>().ok().and_then(|seconds| seconds.checked_mul(1000)))
}

#[expect(clippy::cast_sign_loss, reason = "the caller checked that it is not negative")]
fn rounded_up(milliseconds: f64) -> u64 {
    let nearest = milliseconds.round();
    let noise = (milliseconds - nearest).abs() <= nearest * FLOAT_NOISE;
    (if noise { nearest } else { milliseconds.ceil() }) as u64
}
