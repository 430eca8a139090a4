//! Publishing. Batches are filled with the interpreter held, and stored with it released.

use std::sync::{Arc, Mutex, PoisonError};

use delaymq_engine::{PublishBatch, Receipts as EngineReceipts, Store as EngineStore, Ticket};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::convert::{columns, errors, publishes};
use crate::embedded::waits::Wait;

/// Buffers that are kept for later publishes; if more threads publish at once, they allocate their own.
const BATCHES_KEPT: usize = 8;

/// A store, and the buffers of its publishes.
pub(crate) struct Publisher {
    engine: Arc<EngineStore>,
    spare: Mutex<Vec<PublishBatch>>,
}

/// The progress of a publish without waiting.
pub(crate) enum Begun {
    /// The batch is durable.
    Stored(EngineReceipts),
    /// The batch is durable when this ticket ends.
    Accepted(Ticket),
    /// There is no room for the batch yet.
    Full(PublishBatch),
}

impl Publisher {
    pub(crate) const fn new(engine: Arc<EngineStore>) -> Self {
        Self { engine, spare: Mutex::new(Vec::new()) }
    }

    /// One message, from the options of its publish.
    pub(crate) fn one<'py>(
        &self,
        subject: &Bound<'py, PyAny>,
        body: &Bound<'py, PyAny>,
        options: &Bound<'py, PyDict>,
    ) -> PyResult<PublishBatch> {
        self.filled(|batch| publishes::push_message(batch, subject, body, options, false))
    }

    /// A message for each body.
    pub(crate) fn columns(&self, given: &Bound<'_, PyTuple>) -> PyResult<PublishBatch> {
        self.filled(|batch| columns::push_columns(batch, given))
    }

    /// `Publish` objects; with `with_ids`, all of them are deduplicated.
    pub(crate) fn messages(&self, messages: &Bound<'_, PyList>, with_ids: bool) -> PyResult<PublishBatch> {
        self.filled(|batch| publishes::push_messages(batch, messages, with_ids))
    }

    fn filled(&self, fill: impl FnOnce(&mut PublishBatch) -> PyResult<()>) -> PyResult<PublishBatch> {
        let kept = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut batch = kept.unwrap_or_else(|| self.engine.batch());
        match fill(&mut batch) {
            Ok(()) => Ok(batch),
            Err(error) => {
                self.keep(batch);
                Err(error)
            }
        }
    }

    fn keep(&self, mut batch: PublishBatch) {
        batch.clear();
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < BATCHES_KEPT {
            spare.push(batch);
        }
    }

    /// Stores a batch and waits until it is durable. A signal may end the wait: a batch that was accepted by then
    /// is stored all the same.
    pub(crate) fn stored(&self, py: Python<'_>, mut batch: PublishBatch) -> PyResult<EngineReceipts> {
        let accepted = self.accepted(py, &mut batch);
        self.keep(batch);
        let ticket = accepted?;
        let mut wait = Wait::new(None);
        while !ticket.is_done() {
            let (slice, _) = wait.slice();
            let done = py.detach(|| ticket.is_done_within(slice)).map_err(|error| errors::raised(py, error))?;
            if !done {
                wait.look_for_signals(py)?;
            }
        }
        // A batch on terms must also be applied, which waits for no disk.
        py.detach(|| ticket.receipts()).map_err(|error| errors::raised(py, error))
    }

    /// Waits until there is room for a batch, and submits it. This thread commits the batch unless another thread
    /// does.
    pub(crate) fn accepted(&self, py: Python<'_>, batch: &mut PublishBatch) -> PyResult<Ticket> {
        let mut wait = Wait::new(None);
        loop {
            let begun = py.detach(|| self.engine.begin_publish(batch));
            match begun.map_err(|error| errors::raised(py, error))? {
                Some(ticket) => return Ok(ticket),
                None => wait.look_for_signals(py)?,
            }
        }
    }

    /// Stores a batch as far as this is possible without waiting.
    pub(crate) fn begun(&self, py: Python<'_>, mut batch: PublishBatch) -> PyResult<Begun> {
        match self.engine.try_publish(&mut batch) {
            Ok(Some(ticket)) => {
                self.keep(batch);
                if ticket.is_on_terms() || !ticket.is_done() {
                    return Ok(Begun::Accepted(ticket));
                }
                ticket.receipts().map(Begun::Stored).map_err(|error| errors::raised(py, error))
            }
            Ok(None) => Ok(Begun::Full(batch)),
            Err(error) => {
                self.keep(batch);
                Err(errors::raised(py, error))
            }
        }
    }
}
