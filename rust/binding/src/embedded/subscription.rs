//! A subscription in Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delaymq_engine::{DeliveryKey, Pulled, Subscription as EngineSubscription};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::convert::key::Key;
use crate::convert::receipt::Receipt;
use crate::convert::{errors, message, text};
use crate::embedded::waits::Wait;

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
    fn pull<'py>(&self, py: Python<'py>, count_max: usize, timeout_ms: Option<u64>) -> PyResult<Bound<'py, PyList>> {
        let mut wait = Wait::new(timeout_ms);
        loop {
            let (slice, last) = wait.slice();
            let pulled = py.detach(|| self.engine.pull(count_max, slice));
            let delivered = pulled.map_err(|error| errors::raised(py, error))?;
            if !delivered.is_empty() || last || self.stopped.load(Ordering::Acquire) {
                return message::list(py, &delivered);
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

    #[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
    fn acknowledge_many(&self, py: Python<'_>, keys: Vec<Key>) -> PyResult<Vec<usize>> {
        self.check_open(py)?;
        let keys: Vec<_> = keys.iter().map(|key| DeliveryKey::of_number(key.0)).collect();
        self.engine.acknowledge(&keys).map_err(|error| errors::raised(py, error))
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

    fn now_ms(&self) -> u64 {
        self.engine.now().0
    }

    /// For an event loop: returns None if the call would have to wait.
    #[pyo3(signature = (count_max, at_once, /))]
    fn try_pull<'py>(&self, py: Python<'py>, count_max: usize, at_once: bool) -> PyResult<Option<Bound<'py, PyList>>> {
        match self.engine.try_pull(count_max, at_once).map_err(|error| errors::raised(py, error))? {
            Pulled::Messages(delivered) => message::list(py, &delivered).map(Some),
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

    #[pyo3(signature = (delivery, /))]
    fn receipt(&self, delivery: &Bound<'_, PyTuple>) -> PyResult<Receipt> {
        let told = message::Told::of(delivery)?;
        let found = self.engine.receipt_of(told.key, &told.subject, told.size);
        found.map(Receipt).map_err(|error| errors::raised(delivery.py(), error))
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
