//! A consumer, as Python holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use delaymq_engine::Subscription as EngineSubscription;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::{errors, message};

/// A wait is cut into slices of this length, so that a signal is seen.
pub(crate) const SLICE: Duration = Duration::from_millis(200);

/// One consumer of a group.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Subscription {
    pub(crate) engine: Arc<EngineSubscription>,
    stopped: AtomicBool,
}

impl Subscription {
    pub(crate) fn new(engine: Arc<EngineSubscription>) -> Self {
        Self { engine, stopped: AtomicBool::new(false) }
    }
}

/// How much of a wait is left: None for a wait without end.
pub(crate) struct Wait(Option<Instant>);

impl Wait {
    pub(crate) fn new(timeout_ms: Option<u64>) -> Self {
        Self(timeout_ms.and_then(|timeout| Instant::now().checked_add(Duration::from_millis(timeout))))
    }

    /// The next slice, and whether it is the last.
    pub(crate) fn slice(&self) -> (Duration, bool) {
        let left = self.0.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        (left.min(SLICE), left <= SLICE)
    }
}

#[pymethods]
impl Subscription {
    fn pull<'py>(&self, py: Python<'py>, count_max: usize, timeout_ms: Option<u64>) -> PyResult<Bound<'py, PyList>> {
        let wait = Wait::new(timeout_ms);
        loop {
            let (slice, last) = wait.slice();
            let pulled = py.detach(|| self.engine.pull(count_max, slice));
            let delivered = pulled.map_err(|error| errors::raised(py, error))?;
            if !delivered.is_empty() || last || self.stopped.load(Ordering::Acquire) {
                return message::list(py, &delivered);
            }
            py.check_signals()?;
        }
    }

    /// Queues only, so the interpreter stays held: letting it go could cost a busy process 5 ms.
    fn acknowledge(&self, py: Python<'_>, key: u64) -> PyResult<()> {
        self.engine.acknowledge(&[message::key_of(key)]).map_err(|error| errors::raised(py, error))
    }

    #[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
    fn acknowledge_many(&self, py: Python<'_>, keys: Vec<u64>) -> PyResult<()> {
        let keys: Vec<_> = keys.iter().map(|key| message::key_of(*key)).collect();
        self.engine.acknowledge(&keys).map_err(|error| errors::raised(py, error))
    }

    fn give_back(&self, py: Python<'_>, key: u64, delay_ms: u64) -> PyResult<()> {
        py.detach(|| self.engine.give_back(message::key_of(key), delay_ms)).map_err(|error| errors::raised(py, error))
    }

    fn flush(&self, py: Python<'_>, timeout_ms: Option<u64>) -> PyResult<()> {
        let wait = Wait::new(timeout_ms);
        loop {
            let (slice, last) = wait.slice();
            if py.detach(|| self.engine.flush(slice)).map_err(|error| errors::raised(py, error))? {
                return Ok(());
            }
            if last {
                return Err(errors::timed_out(py, "making the acknowledgements durable"));
            }
            py.check_signals()?;
        }
    }

    fn stop(&self, py: Python<'_>) {
        self.stopped.store(true, Ordering::Release);
        py.detach(|| self.engine.stop());
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.stopped.store(true, Ordering::Release);
        py.detach(|| self.engine.close()).map_err(|error| errors::raised(py, error))
    }
}
