//! A store for event loops: no call here waits, so each call holds the interpreter.

use std::sync::{Arc, Mutex, PoisonError};

use delaymq_core::units::Sequence;
use delaymq_engine::{PublishBatch, Store as EngineStore, Ticket};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyList, PyTuple};

use crate::convert::errors;
use crate::convert::receipt::Receipts;
use crate::embedded::publishing::{Begun, Publisher};

/// The calls of an event loop to a store.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Unblocked {
    engine: Arc<EngineStore>,
    publisher: Arc<Publisher>,
}

impl Unblocked {
    pub(crate) const fn new(engine: Arc<EngineStore>, publisher: Arc<Publisher>) -> Self {
        Self { engine, publisher }
    }

    fn answer<'py>(&self, py: Python<'py>, batch: PublishBatch) -> PyResult<Bound<'py, PyAny>> {
        let state = match self.publisher.begun(py, batch)? {
            Begun::Stored(receipts) => return Ok(Receipts::of(receipts).into_pyobject(py)?.into_any()),
            Begun::Accepted(ticket) => State::Accepted(Arc::new(ticket)),
            Begun::Full(batch) => State::Full(Box::new(batch)),
        };
        let publisher = Arc::clone(&self.publisher);
        Ok(Publishing { publisher, state: Mutex::new(Some(state)) }.into_pyobject(py)?.into_any())
    }
}

#[pymethods]
impl Unblocked {
    #[pyo3(signature = (subject, body, options, /))]
    fn publish<'py>(
        &self,
        subject: &Bound<'py, PyAny>,
        body: &Bound<'py, PyAny>,
        options: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answer(subject.py(), self.publisher.one(subject, body, options)?)
    }

    #[pyo3(signature = (columns, /))]
    fn publish_columns<'py>(&self, columns: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.answer(columns.py(), self.publisher.columns(columns)?)
    }

    #[pyo3(signature = (messages, with_ids, /))]
    fn publish_messages<'py>(&self, messages: &Bound<'py, PyList>, with_ids: bool) -> PyResult<Bound<'py, PyAny>> {
        self.answer(messages.py(), self.publisher.messages(messages, with_ids)?)
    }

    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.engine.listen().map_err(|error| errors::raised(py, error))
    }

    fn drain(&self, py: Python<'_>) -> PyResult<(u64, Vec<u64>, bool)> {
        let (wakeup, visible) = self.engine.drain().map_err(|error| errors::raised(py, error))?;
        Ok((visible.0, wakeup.tokens, wakeup.reports))
    }

    #[pyo3(signature = (position, /))]
    fn want(&self, py: Python<'_>, position: u64) -> PyResult<bool> {
        self.engine.want(Sequence(position)).map_err(|error| errors::raised(py, error))
    }
}

enum State {
    /// There was no room for the batch.
    Full(Box<PublishBatch>),
    /// The batch is in the log's queue.
    Accepted(Arc<Ticket>),
}

/// A publish under way.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Publishing {
    publisher: Arc<Publisher>,
    /// None while a thread waits for room for the batch, and if the batch was refused.
    state: Mutex<Option<State>>,
}

impl Publishing {
    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    fn ticket(&self) -> Option<Arc<Ticket>> {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(State::Accepted(ticket)) => Some(Arc::clone(ticket)),
            _ => None,
        }
    }
}

#[pymethods]
impl Publishing {
    /// The publish is durable when all facts below this position are visible.
    #[getter]
    fn position(&self) -> Option<u64> {
        self.ticket().map(|ticket| ticket.end().0)
    }

    /// True if a thread that may block must wait for its receipts.
    #[getter]
    fn is_on_terms(&self) -> bool {
        self.ticket().is_some_and(|ticket| ticket.is_on_terms())
    }

    fn receipts(&self, py: Python<'_>) -> PyResult<Receipts> {
        let Some(ticket) = self.ticket() else {
            return Err(errors::refused(py, "receipts", "a publish that was accepted", "one that was not"));
        };
        py.detach(|| ticket.receipts()).map(Receipts::of).map_err(|error| errors::raised(py, error))
    }

    /// Waits for room, on a thread that may block; no batch is submitted twice.
    fn submit(&self, py: Python<'_>) -> PyResult<()> {
        let taken = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        match taken {
            Some(State::Full(mut batch)) => {
                let ticket = self.publisher.accepted(py, &mut batch)?;
                self.set(State::Accepted(Arc::new(ticket)));
            }
            Some(accepted) => self.set(accepted),
            None => {}
        }
        Ok(())
    }
}
