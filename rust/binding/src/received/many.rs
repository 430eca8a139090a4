//! Lists of messages: those of one delivery, and those that a call settles.

use std::collections::HashSet;
use std::sync::Arc;

use delaymq_core::store::Receipt as CoreReceipt;
use delaymq_core::units::{Millis, Sequence};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyType};

use crate::convert::errors;
use crate::received::faces::{AsyncMessage, Message};
use crate::received::message::{Received, State};

/// The receiver of messages.
pub(crate) struct Recipient<'py> {
    /// Settles them.
    settling: Bound<'py, PyAny>,
    is_on_event_loop: bool,
}

/// A message as its store or its server described it.
pub(crate) struct Described<'a> {
    pub(crate) key: u128,
    pub(crate) subject: &'a Arc<str>,
    pub(crate) meta: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) due: Millis,
    pub(crate) first_due: Millis,
    pub(crate) published: Millis,
    pub(crate) attempt: u32,
    pub(crate) redelivered: bool,
    pub(crate) sequence: Sequence,
    /// As a server sent it.
    pub(crate) receipt: Option<CoreReceipt>,
}

impl<'py> Recipient<'py> {
    /// A consumer on an event loop gives an object that settles; any other settles with its subscription.
    pub(crate) fn of<T>(subscription: &Bound<'py, T>, settling: Option<Bound<'py, PyAny>>) -> Self {
        match settling {
            Some(settling) => Self { settling, is_on_event_loop: true },
            None => Self { settling: subscription.clone().into_any(), is_on_event_loop: false },
        }
    }

    /// A list of messages, which this process has received now.
    pub(crate) fn list<T>(
        &self,
        found: &[T],
        now: impl FnOnce() -> Millis,
        add: impl Fn(&T, &mut Writer<'_, 'py>) -> PyResult<()>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = self.settling.py();
        if found.is_empty() {
            return Ok(PyList::empty(py));
        }
        let subject = (Arc::from(""), PyString::new(py, ""));
        let messages = Vec::with_capacity(found.len());
        let mut writer = Writer { recipient: self, handed: now(), subject, messages };
        found.iter().try_for_each(|one| add(one, &mut writer))?;
        PyList::new(py, writer.messages)
    }
}

/// Makes the messages of one list.
pub(crate) struct Writer<'a, 'py> {
    recipient: &'a Recipient<'py>,
    handed: Millis,
    /// The last one, and as Python has it: neighbours mostly have the same.
    subject: (Arc<str>, Bound<'py, PyString>),
    messages: Vec<Bound<'py, PyAny>>,
}

impl Writer<'_, '_> {
    /// Adds one. Its body is copied here, so that it holds neither a segment of the log nor a frame of the connection.
    pub(crate) fn push(&mut self, one: &Described<'_>) -> PyResult<()> {
        let Recipient { settling, is_on_event_loop } = self.recipient;
        let py = settling.py();
        if !Arc::ptr_eq(&self.subject.0, one.subject) && self.subject.0 != *one.subject {
            self.subject = (Arc::clone(one.subject), PyString::new(py, one.subject));
        }
        let received = PyClassInitializer::from(Received::new(State {
            settling: settling.clone().unbind(),
            subject: self.subject.1.clone().unbind(),
            body: PyBytes::new(py, one.body).unbind(),
            meta: one.meta.into(),
            key: one.key,
            due: one.due,
            first_due: one.first_due,
            published: one.published,
            handed: self.handed,
            sequence: one.sequence,
            attempt: one.attempt,
            redelivered: one.redelivered,
            receipt: one.receipt,
        }));
        let message = if *is_on_event_loop {
            Bound::new(py, received.add_subclass(AsyncMessage))?.into_any()
        } else {
            Bound::new(py, received.add_subclass(Message))?.into_any()
        };
        self.messages.push(message);
        Ok(())
    }
}

/// The unsettled ones of many messages, each once. All of them must be of the kind, and be settled by `settling`.
///
/// A key is unique within one subscription only: with a message of another subscription, the same key would settle a
/// message that no consumer has handled.
#[pyfunction]
#[pyo3(signature = (messages, kind, settling, /))]
pub(crate) fn unsettled<'py>(
    messages: &Bound<'py, PyList>,
    kind: &Bound<'py, PyType>,
    settling: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let mut found: Vec<Bound<'py, Received>> = Vec::with_capacity(messages.len());
    let (mut last, mut seen) = (None, None::<HashSet<u128>>);
    for (index, item) in messages.iter().enumerate() {
        if !item.is_instance(kind)? {
            return Err(refused(index, kind, &item, false));
        }
        let message = item.cast_into::<Received>()?;
        if !message.get().state.settling.is(settling) {
            return Err(refused(index, kind, &message, true));
        }
        if message.get().is_settled() {
            continue;
        }
        let key = message.get().state.key;
        // Mostly they come in order, and then no key comes twice.
        let is_new = if seen.is_none() && last.is_none_or(|last| last < key) {
            last = Some(key);
            true
        } else {
            seen.get_or_insert_with(|| found.iter().map(|one| one.get().state.key).collect()).insert(key)
        };
        if is_new {
            found.push(message);
        }
    }
    PyList::new(messages.py(), found)
}

/// The error for an item that is no message of the kind, or a foreign one: of another subscription.
fn refused(index: usize, kind: &Bound<'_, PyType>, item: &Bound<'_, PyAny>, is_foreign: bool) -> PyErr {
    let py = kind.py();
    errors::made_by(py, "delaymq._arguments.batches", intern!(py, "refused_message"), (index, kind, item, is_foreign))
}

/// Acknowledges messages by their keys, and marks them as settled, but for those at the places that `acknowledge`
/// returns.
pub(crate) fn acknowledged(
    messages: &Bound<'_, PyList>,
    acknowledge: impl FnOnce(&[u128]) -> PyResult<Vec<usize>>,
) -> PyResult<Vec<usize>> {
    let taken = messages.iter().map(Bound::cast_into::<Received>).collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<u128> = taken.iter().map(|message| message.get().state.key).collect();
    let late = acknowledge(&keys)?;
    let places: HashSet<usize> = late.iter().copied().collect();
    for (place, message) in taken.iter().enumerate() {
        if places.is_empty() || !places.contains(&place) {
            message.get().settle();
        }
    }
    Ok(late)
}
