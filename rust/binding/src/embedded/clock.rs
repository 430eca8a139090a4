//! The manual clock of Python's tests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delaymq_core::error::Error;
use delaymq_core::units::Millis;
use delaymq_engine::{Clock as EngineClock, ManualClock, SystemClock};
use pyo3::prelude::*;

use crate::convert::errors;

/// How often a turn of the clock checks for signals.
const SIGNALS: Duration = Duration::from_millis(50);

/// Stands still until it is turned.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Clock(Arc<ManualClock>);

#[pymethods]
impl Clock {
    #[new]
    #[pyo3(signature = (now_ms, /))]
    fn new(py: Python<'_>, now_ms: u64) -> PyResult<Self> {
        let clock = ManualClock::new(Millis(now_ms)).map_err(|error| errors::raised(py, error))?;
        Ok(Self(Arc::new(clock)))
    }

    #[getter]
    fn now_ms(&self) -> u64 {
        self.0.now().0
    }

    #[pyo3(signature = (by_ms, patience_ms, /))]
    fn advance(&self, py: Python<'_>, by_ms: u64, patience_ms: u64) -> PyResult<()> {
        let mut signals = Signals::new();
        let patience = Duration::from_millis(patience_ms);
        let turned: Result<(), Error> = py.detach(|| self.0.advance(by_ms, patience, &mut || signals.go_on()));
        signals.raised.map_or(Ok(()), Err)?;
        turned.map_err(|error| errors::raised(py, error))
    }

    #[pyo3(signature = (by_ms, /))]
    fn step(&self, py: Python<'_>, by_ms: i64) -> PyResult<()> {
        py.detach(|| self.0.step(by_ms)).map_err(|error| errors::raised(py, error))
    }

    #[pyo3(signature = (count, timeout_ms, /))]
    fn await_consumers(&self, py: Python<'_>, count: usize, timeout_ms: u64) -> PyResult<()> {
        let mut signals = Signals::new();
        let timeout = Duration::from_millis(timeout_ms);
        let there = py.detach(|| self.0.await_consumers(count, timeout, &mut || signals.go_on()));
        signals.raised.map_or(Ok(()), Err)?;
        if there { Ok(()) } else { Err(errors::timed_out(py, &format!("{count} threads asking for messages"))) }
    }
}

/// The clock of a `clock` option: the system's clock for None, else the one in its `_core`.
pub(crate) fn chosen(value: &Bound<'_, PyAny>) -> PyResult<Arc<dyn EngineClock>> {
    if value.is_none() {
        return Ok(Arc::new(SystemClock));
    }
    let refused = || errors::wrong_type("clock", "a delaymq.testing.Clock", value);
    let held = value.getattr("_core").map_err(|_| refused())?;
    let clock = held.cast::<Clock>().map_err(|_| refused())?;
    Ok(Arc::clone(&clock.get().0) as Arc<dyn EngineClock>)
}

/// Checks for signals at intervals, and keeps the exception that one raised.
struct Signals {
    looked: Instant,
    raised: Option<PyErr>,
}

impl Signals {
    fn new() -> Self {
        Self { looked: Instant::now(), raised: None }
    }

    fn go_on(&mut self) -> bool {
        if self.raised.is_none() && self.looked.elapsed() >= SIGNALS {
            self.looked = Instant::now();
            self.raised = Python::attach(|py| py.check_signals().err());
        }
        self.raised.is_none()
    }
}
