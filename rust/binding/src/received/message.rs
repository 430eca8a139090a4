//! The base of both kinds of messages. A message keeps the numbers that the store or the server gave, and makes values of
//! Python once they are looked at.

#![expect(clippy::doc_markdown, reason = "Python shows the documentation of what it sees, as it is")]

use std::sync::atomic::{AtomicBool, Ordering};

use delaymq_core::store::Receipt as CoreReceipt;
use delaymq_core::units::{Millis, Sequence};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::convert::key::Key;
use crate::convert::message::plain_seconds;
use crate::convert::{errors, meta, moments};

/// The contents of a message.
pub(crate) struct State {
    /// Settles it: a subscription, or `delaymq._asyncio.delivery.Settling`. It must not lead back to the message, which
    /// Python's collector of garbage does not look into.
    pub(crate) settling: Py<PyAny>,
    pub(crate) subject: Py<PyString>,
    pub(crate) body: Py<PyBytes>,
    pub(crate) meta: Box<[u8]>,
    pub(crate) key: u128,
    pub(crate) due: Millis,
    pub(crate) first_due: Millis,
    pub(crate) published: Millis,
    pub(crate) handed: Millis,
    pub(crate) sequence: Sequence,
    pub(crate) attempt: u32,
    pub(crate) redelivered: bool,
    /// As a server sent it; a store in this process computes it.
    pub(crate) receipt: Option<CoreReceipt>,
}

impl State {
    fn copied(&self, py: Python<'_>) -> Self {
        Self {
            settling: self.settling.clone_ref(py),
            subject: self.subject.clone_ref(py),
            body: self.body.clone_ref(py),
            meta: self.meta.clone(),
            ..*self
        }
    }
}

/// Message id, tags and attributes.
type Meta = (Py<PyString>, Py<PyTuple>, Py<PyDict>);

/// The base of `Message` and `AsyncMessage`.
///
/// A message is settled once: acknowledged, given back or made a dead letter.
#[pyclass(frozen, subclass, module = "delaymq.message")]
pub(crate) struct Received {
    pub(crate) state: State,
    meta: PyOnceLock<Meta>,
    settled: AtomicBool,
}

impl Received {
    pub(crate) const fn new(state: State) -> Self {
        Self { state, meta: PyOnceLock::new(), settled: AtomicBool::new(false) }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    fn meta(&self, py: Python<'_>) -> PyResult<&Meta> {
        self.meta.get_or_try_init(py, || {
            let (message_id, tags, attributes) = meta::decoded_parts(py, &self.state.meta)?;
            Ok((message_id.unbind(), tags.unbind(), attributes.unbind()))
        })
    }

    pub(crate) fn copied(&self, py: Python<'_>) -> Self {
        let meta = self
            .meta
            .get(py)
            .map(|(id, tags, attributes)| (id.clone_ref(py), tags.clone_ref(py), attributes.clone_ref(py)));
        let copy = Self { settled: AtomicBool::new(self.is_settled()), ..Self::new(self.state.copied(py)) };
        if let Some(meta) = meta {
            let _: Result<(), Meta> = copy.meta.set(py, meta);
        }
        copy
    }
}

/// Calls of the object that settles a message.
struct Settling<'a, 'py>(&'a Bound<'py, Received>);

impl<'py> Settling<'_, 'py> {
    fn check(&self) -> PyResult<()> {
        let py = self.0.py();
        if self.0.get().is_settled() {
            return Err(errors::made_by(py, "delaymq.message", intern!(py, "already_settled"), (self.0,)));
        }
        Ok(())
    }

    /// The answer to the call of a method with the key of the message: false if it was held for too long.
    fn call(
        &self,
        name: &Bound<'py, PyString>,
        arguments: impl FnOnce(Key) -> PyResult<Bound<'py, PyTuple>>,
    ) -> PyResult<()> {
        self.check()?;
        let (py, state) = (self.0.py(), &self.0.get().state);
        let is_held = state.settling.bind(py).call_method1(name, arguments(Key(state.key))?)?;
        if is_held.is_truthy()? {
            return Ok(());
        }
        Err(errors::made_by(py, "delaymq.message", intern!(py, "hold_expired"), (self.0,)))
    }

    fn settle(
        &self,
        name: &Bound<'py, PyString>,
        arguments: impl FnOnce(Key) -> PyResult<Bound<'py, PyTuple>>,
    ) -> PyResult<()> {
        self.call(name, arguments)?;
        self.0.get().settle();
        Ok(())
    }

    fn acknowledge(&self) -> PyResult<()> {
        let py = self.0.py();
        self.settle(intern!(py, "acknowledge"), |key| (key,).into_pyobject(py))
    }

    fn give_back(&self, delay_ms: u64) -> PyResult<()> {
        let py = self.0.py();
        self.settle(intern!(py, "give_back"), |key| (key, delay_ms).into_pyobject(py))
    }
}

/// A delay in milliseconds, as `delaymq.durations.delay_ms` reads it.
struct Delay(u64);

impl<'a, 'py> FromPyObject<'a, 'py> for Delay {
    type Error = PyErr;

    fn extract(delay: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        static RULE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if let Some(milliseconds) = plain_seconds(&delay)? {
            return Ok(Self(milliseconds));
        }
        RULE.import(delay.py(), "delaymq.durations", "delay_ms")?.call1((delay,))?.extract().map(Self)
    }
}

#[pymethods]
impl Received {
    /// The number of this delivery within its subscription; not the `key` of a publish.
    #[getter]
    const fn key(&self) -> Key {
        Key(self.state.key)
    }

    /// The subject that the message was published on.
    #[getter]
    const fn subject(&self) -> &Py<PyString> {
        &self.state.subject
    }

    /// The bytes that were published.
    #[getter]
    const fn body(&self) -> &Py<PyBytes> {
        &self.state.body
    }

    /// When the message was due, UTC, to the millisecond; for a retry, when the retry was due.
    #[getter]
    fn due<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moments::moment(py, self.state.due)
    }

    /// When the store received the message, UTC, to the millisecond.
    #[getter]
    fn published<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moments::moment(py, self.state.published)
    }

    /// The number of this delivery to the group: 1 for the first, then 2, 3, …
    #[getter]
    const fn attempt(&self) -> u32 {
        self.state.attempt
    }

    /// True if a consumer of this group may have received the message before.
    #[getter]
    const fn redelivered(&self) -> bool {
        self.state.redelivered
    }

    /// The message's place in the store's order of facts.
    #[getter]
    const fn sequence(&self) -> u64 {
        self.state.sequence.0
    }

    /// The receipt that the message was published with, also if it was moved and has a newer receipt.
    ///
    /// Raises:
    ///     ForkedProcess: The store was opened by the parent process.
    #[getter]
    fn receipt<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        slf.get().state.settling.bind(py).call_method1(intern!(py, "receipt"), (slf,))
    }

    /// The id that the message was published with, or the text of its receipt; the same for every attempt.
    #[getter]
    fn message_id<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyString>> {
        let chosen = slf.get().meta(slf.py())?.0.bind(slf.py());
        if chosen.len()? > 0 { Ok(chosen.clone()) } else { Self::receipt(slf)?.str() }
    }

    /// The tags that the message was published with.
    #[getter]
    fn tags(&self, py: Python<'_>) -> PyResult<&Py<PyTuple>> {
        Ok(&self.meta(py)?.1)
    }

    /// The attributes that the message was published with.
    #[getter]
    fn attributes(&self, py: Python<'_>) -> PyResult<&Py<PyDict>> {
        Ok(&self.meta(py)?.2)
    }

    /// How long after its due time this process received the message, by the store's clock.
    #[getter]
    fn lateness<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moments::duration(py, self.state.handed.0.cast_signed().saturating_sub_unsigned(self.state.due.0))
    }

    /// True once the message is acknowledged, given back or made a dead letter.
    #[getter]
    fn settled(&self) -> bool {
        self.is_settled()
    }

    /// Marks the message as settled, for a subscription that has settled it.
    fn _settle(&self) {
        self.settle();
    }

    /// Acknowledges the message. Returns at once; the subscription's `flush` waits until that is durable.
    ///
    /// Raises:
    ///     AlreadySettled: The message was settled before.
    ///     Closed: The subscription is closed: the message went back to its group and is delivered again.
    ///     HoldExpired: The message was held for longer than `handle_within`, and went back to its group.
    ///     Poisoned: The store stopped after a failed write.
    fn ack(slf: &Bound<'_, Self>) -> PyResult<()> {
        Settling(slf).acknowledge()
    }

    /// Gives the message back, to be delivered again after `delay` (a timedelta or seconds) with `attempt` + 1.
    ///
    /// Raises:
    ///     WrongType: `delay` is neither a timedelta nor a number.
    ///     InvalidArgument: `delay` is negative, not finite, or longer than the store's `delay_max`.
    ///     AlreadySettled: The message was settled before.
    ///     Closed: The subscription is closed: the message went back to its group and is delivered again.
    ///     HoldExpired: The message was held for longer than `handle_within`, and went back to its group.
    #[pyo3(signature = (delay = Delay(0)), text_signature = "($self, delay=0)")]
    #[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
    fn nack(slf: &Bound<'_, Self>, delay: Delay) -> PyResult<()> {
        Settling(slf).give_back(delay.0)
    }

    /// Makes the message a dead letter of the group, which does not get it again.
    ///
    /// Returns at once; the subscription's `flush` waits until that is durable. `Store.dead_letters`
    /// lists it with the reason, `Store.redrive` delivers it again.
    ///
    /// Raises:
    ///     WrongType: `reason` is not a str.
    ///     TooLarge: `reason` takes more than 1,024 bytes as UTF-8.
    ///     AlreadySettled: The message was settled before.
    ///     Closed: The subscription is closed: the message went back to its group and is delivered again.
    ///     HoldExpired: The message was held for longer than `handle_within`, and went back to its group.
    ///     Poisoned: The store stopped after a failed write.
    fn dead_letter(slf: &Bound<'_, Self>, reason: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        Settling(slf).settle(intern!(py, "dead_letter"), |key| (key, reason).into_pyobject(py))
    }

    /// Holds the message for longer: for `duration` from now, or for the subscription's `handle_within` once more.
    ///
    /// The time that is left is never shortened. A subscription without `handle_within` has no limit: nothing changes.
    ///
    /// Args:
    ///     duration: A timedelta or seconds, at least a millisecond; or None.
    ///
    /// Raises:
    ///     WrongType: `duration` is neither a timedelta nor a number.
    ///     InvalidArgument: `duration` is zero, negative or not finite.
    ///     AlreadySettled: The message was settled before.
    ///     Closed: The subscription is closed: the message went back to its group and is delivered again.
    ///     HoldExpired: The message was held for longer than `handle_within`, and went back to its group.
    ///     Poisoned: The store stopped after a failed write.
    #[pyo3(signature = (duration = None))]
    fn extend(slf: &Bound<'_, Self>, duration: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        static RULE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = slf.py();
        let rule = |duration| RULE.import(py, "delaymq.durations", "hold_ms")?.call1((duration, "duration"));
        let milliseconds = duration.map(rule).transpose()?;
        Settling(slf).call(intern!(py, "extend"), |key| (key, milliseconds).into_pyobject(py))
    }

    /// Settles the message at the end of a `with` block, unless the block did.
    pub(crate) fn _leave(slf: &Bound<'_, Self>, failed: bool) -> PyResult<()> {
        if slf.get().is_settled() {
            return Ok(());
        }
        if !failed {
            return Settling(slf).acknowledge();
        }
        match Settling(slf).give_back(0) {
            // Its group has the message already; the error of the block matters more.
            Err(error) if errors::is_any(slf.py(), &error, &["Closed", "HoldExpired"])? => Ok(()),
            given => given,
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (py, state) = (slf.py(), &slf.get().state);
        let due = moments::moment(py, state.due)?.call_method0(intern!(py, "isoformat"))?;
        let (name, subject) = (slf.get_type().name()?, state.subject.bind(py).repr()?);
        let (sequence, attempt, size) = (state.sequence.0, state.attempt, state.body.as_bytes(py).len());
        Ok(format!("{name}(subject={subject}, sequence={sequence}, due={due}, attempt={attempt}, {size} bytes)"))
    }
}
