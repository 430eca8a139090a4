//! A subscription in Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delaymq_core::units::DueKey;
use delaymq_engine::{Delivered, DeliveryKey, Pulled, Subscription as EngineSubscription};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::convert::key::Key;
use crate::convert::receipt::Receipt;
use crate::convert::{errors, qmq, text};
use crate::embedded::waits::Wait;
use crate::received::many::{Described, Recipient, acknowledged};
use crate::received::message::Received;

/// One consumer of a group.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Subscription {
    pub(crate) engine: Arc<EngineSubscription>,
    stopped: AtomicBool,
    closed: AtomicBool,
}

impl Subscription {
    pub(crate) fn new(engine: Arc<EngineSubscription>) -> Self {
        Self { engine, stopped: AtomicBool::new(false), closed: AtomicBool::new(false) }
    }

    /// A closed subscription holds no messages: they went back to its group.
    fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        if self.closed.load(Ordering::Acquire) { Err(errors::subscription_closed(py)) } else { Ok(()) }
    }
}

#[pymethods]
impl Subscription {
    #[pyo3(signature = (count_max, timeout_ms, settling = None, /))]
    fn pull<'py>(
        slf: &Bound<'py, Self>,
        count_max: usize,
        timeout_ms: Option<u64>,
        settling: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (py, this, mut wait) = (slf.py(), slf.get(), Wait::new(timeout_ms));
        loop {
            let (slice, last) = wait.slice();
            let pulled = py.detach(|| this.engine.pull(count_max, slice));
            let delivered = pulled.map_err(|error| errors::raised(py, error))?;
            if !delivered.is_empty() || last || this.stopped.load(Ordering::Acquire) {
                return list(slf, &delivered, settling);
            }
            wait.look_for_signals(py)?;
        }
    }

    /// Only queues, so the interpreter stays held: to release it could cost a busy process 5 ms.
    /// False if the message was passed on before.
    fn acknowledge(&self, py: Python<'_>, key: Key) -> PyResult<bool> {
        self.check_open(py)?;
        let late = self.engine.acknowledge(&[DeliveryKey::of_number(key.0)]);
        late.map(|late| late.is_empty()).map_err(|error| errors::raised(py, error))
    }

    #[pyo3(signature = (messages, /))]
    fn acknowledge_many(&self, messages: &Bound<'_, PyList>) -> PyResult<Vec<usize>> {
        let py = messages.py();
        self.check_open(py)?;
        acknowledged(messages, |keys| {
            let keys: Vec<_> = keys.iter().map(|key| DeliveryKey::of_number(*key)).collect();
            self.engine.acknowledge(&keys).map_err(|error| errors::raised(py, error))
        })
    }

    /// Like `acknowledge`, this does not wait.
    fn give_back(&self, py: Python<'_>, key: Key, delay_ms: u64) -> PyResult<bool> {
        self.check_open(py)?;
        self.engine.give_back(DeliveryKey::of_number(key.0), delay_ms).map_err(|error| errors::raised(py, error))
    }

    #[pyo3(signature = (key, reason, /))]
    fn dead_letter(&self, key: Key, reason: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = reason.py();
        self.check_open(py)?;
        let reason = text::of("reason", reason)?;
        self.engine.dead_letter(DeliveryKey::of_number(key.0), &reason).map_err(|error| errors::raised(py, error))
    }

    /// Like `acknowledge`, this does not wait.
    #[pyo3(signature = (key, duration_ms, /))]
    fn extend(&self, py: Python<'_>, key: Key, duration_ms: Option<u64>) -> PyResult<bool> {
        self.check_open(py)?;
        let extended = self.engine.extend(DeliveryKey::of_number(key.0), duration_ms);
        extended.map_err(|error| errors::raised(py, error))
    }

    fn flush(&self, py: Python<'_>, timeout_ms: Option<u64>) -> PyResult<()> {
        let mut wait = Wait::new(timeout_ms);
        loop {
            let (slice, last) = wait.slice();
            if py.detach(|| self.engine.flush(slice)).map_err(|error| errors::raised(py, error))? {
                return Ok(());
            }
            if last {
                return Err(errors::timed_out(py, "making the acknowledgements durable"));
            }
            wait.look_for_signals(py)?;
        }
    }

    /// For an event loop: returns None if the call would have to wait.
    #[pyo3(signature = (count_max, at_once, settling, /))]
    fn try_pull<'py>(
        slf: &Bound<'py, Self>,
        count_max: usize,
        at_once: bool,
        settling: Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let py = slf.py();
        match slf.get().engine.try_pull(count_max, at_once).map_err(|error| errors::raised(py, error))? {
            Pulled::Messages(delivered) => list(slf, &delivered, Some(settling)).map(Some),
            Pulled::Nothing => Ok(Some(PyList::empty(py))),
            Pulled::WouldWait => Ok(None),
        }
    }

    #[pyo3(signature = (token, /))]
    fn watch(&self, py: Python<'_>, token: u64) -> PyResult<()> {
        self.engine.watch(token).map_err(|error| errors::raised(py, error))
    }

    fn begin_flush(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let end = self.engine.begin_flush().map_err(|error| errors::raised(py, error))?;
        Ok(end.map(|end| end.0))
    }

    #[pyo3(signature = (message, /))]
    fn receipt(&self, message: &Bound<'_, Received>) -> PyResult<Receipt> {
        let (py, state) = (message.py(), &message.get().state);
        let key = DueKey { due: state.first_due, sequence: state.sequence };
        let size = u32::try_from(state.body.as_bytes(py).len())?;
        let found = self.engine.receipt_of(key, &state.subject.bind(py).to_cow()?, size);
        found.map(Receipt).map_err(|error| errors::raised(py, error))
    }

    fn stop(&self, py: Python<'_>) {
        self.stopped.store(true, Ordering::Release);
        py.detach(|| self.engine.stop());
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.stopped.store(true, Ordering::Release);
        self.closed.store(true, Ordering::Release);
        py.detach(|| self.engine.close()).map_err(|error| errors::raised(py, error))
    }
}

fn list<'py>(
    subscription: &Bound<'py, Subscription>,
    delivered: &[Delivered],
    settling: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let now = || subscription.get().engine.now();
    Recipient::of(subscription, settling).list(delivered, now, |message, writer| {
        let (meta, body) = qmq::parts(&message.payload);
        writer.push(&Described {
            key: message.key.number(),
            subject: &message.subject,
            meta: &meta,
            body: &body,
            due: message.due,
            first_due: message.first_due,
            published: message.published,
            attempt: message.attempt,
            redelivered: message.redelivered,
            sequence: message.sequence,
            receipt: None,
        })
    })
}
