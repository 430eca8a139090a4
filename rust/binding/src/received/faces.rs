//! The two kinds of messages that users see: for threads, and for an event loop.

#![expect(clippy::doc_markdown, reason = "Python shows the documentation of what it sees, as it is")]

use delaymq_core::units::{Millis, Sequence};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};

use crate::convert::key::Key;
use crate::received::message::{Received, State};

/// A delivery as the boundary's manual names it.
type Delivery = (Key, Py<PyString>, Py<PyBytes>, u64, u64, u32, bool, u64, u64, Py<PyBytes>);

fn received(py: Python<'_>, settling: Py<PyAny>, delivery: Delivery, handed_ms: u64) -> Received {
    let (key, subject, body, due, published, attempt, redelivered, sequence, first_due, meta) = delivery;
    Received::new(State {
        settling,
        subject,
        body,
        meta: meta.as_bytes(py).into(),
        key: key.0,
        due: Millis(due),
        first_due: Millis(first_due),
        published: Millis(published),
        handed: Millis(handed_ms),
        sequence: Sequence(sequence),
        attempt,
        redelivered,
        receipt: None,
    })
}

/// A message that is due, delivered to a consumer.
///
/// Used as a context manager, the message is acknowledged at the end of the block, and given back if
/// the block raises. The end of the block raises HoldExpired if the message was held for too long::
///
///     with message:
///         handle(message.body)
#[pyclass(frozen, extends = Received, subclass, module = "delaymq.message")]
pub(crate) struct Message;

#[pymethods]
impl Message {
    #[new]
    fn new(py: Python<'_>, subscription: Py<PyAny>, delivery: Delivery, handed_ms: u64) -> PyClassInitializer<Self> {
        PyClassInitializer::from(received(py, subscription, delivery, handed_ms)).add_subclass(Self)
    }

    fn __copy__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        Bound::new(slf.py(), PyClassInitializer::from(slf.as_super().get().copied(slf.py())).add_subclass(Self))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[expect(unused_variables, reason = "the names are those of the protocol")]
    fn __exit__(
        slf: &Bound<'_, Self>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        Received::_leave(slf.as_super(), !kind.is_none())
    }
}

/// A message that is due, delivered to a consumer on an event loop.
///
/// Used with `async with`, the message is acknowledged at the end of the block, and given back if the block
/// raises or is cancelled. The end of the block raises HoldExpired if the message was held for too long::
///
///     async with message:
///         await handle(message.body)
#[pyclass(frozen, extends = Received, subclass, module = "delaymq._asyncio.message")]
pub(crate) struct AsyncMessage;

#[pymethods]
impl AsyncMessage {
    #[new]
    fn new(py: Python<'_>, subscription: Py<PyAny>, delivery: Delivery, handed_ms: u64) -> PyClassInitializer<Self> {
        PyClassInitializer::from(received(py, subscription, delivery, handed_ms)).add_subclass(Self)
    }

    fn __copy__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        Bound::new(slf.py(), PyClassInitializer::from(slf.as_super().get().copied(slf.py())).add_subclass(Self))
    }

    /// Only Python makes a coroutine with a result.
    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        static ENTERED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        ENTERED.import(slf.py(), "delaymq._asyncio.message", "entered")?.call1((slf,))
    }

    #[expect(unused_variables, reason = "the names are those of the protocol")]
    fn __aexit__(
        slf: Py<Self>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> Leaving {
        Leaving { message: slf, failed: !kind.is_none() }
    }
}

/// The end of an `async with` block: it settles the message once it is awaited.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Leaving {
    message: Py<AsyncMessage>,
    failed: bool,
}

#[pymethods]
impl Leaving {
    const fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    const fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Received::_leave(self.message.bind(py).as_super(), self.failed).map(|()| None)
    }
}
