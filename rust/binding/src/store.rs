//! The open store, as Python holds it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delaymq_core::store::Receipt as CoreReceipt;
use delaymq_engine::{CancelOutcome, PublishBatch, Receipts as EngineReceipts, Store as EngineStore};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyTuple};

use crate::receipt::{Receipt, Receipts};
use crate::subscription::Subscription;
use crate::{errors, message, options, status};

/// Buffers kept for the next publishes; where more threads publish at once they make their own.
const BATCHES_KEPT: usize = 8;

/// A store that this process has open.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Store {
    pub(crate) engine: Arc<EngineStore>,
    batches: Mutex<Vec<PublishBatch>>,
}

impl Store {
    pub(crate) fn holding(engine: Arc<EngineStore>) -> Self {
        Self { engine, batches: Mutex::new(Vec::new()) }
    }

    /// Fills a batch while the interpreter is held, and publishes it while it is not.
    fn stored(&self, py: Python<'_>, fill: impl FnOnce(&mut PublishBatch) -> PyResult<()>) -> PyResult<EngineReceipts> {
        let kept = self.batches.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut batch = kept.unwrap_or_else(|| self.engine.batch());
        let receipts = fill(&mut batch).and_then(|()| {
            let published = py.detach(|| self.engine.publish(&mut batch));
            published.map_err(|error| errors::raised(py, error))
        });
        batch.clear();
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        if batches.len() < BATCHES_KEPT {
            batches.push(batch);
        }
        receipts
    }
}

#[pymethods]
impl Store {
    #[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
    #[staticmethod]
    #[pyo3(signature = (path, *, progress, **chosen))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        progress: Option<Py<PyAny>>,
        chosen: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let chosen = options::from_python(py, chosen)?;
        let mut telling = options::Telling::new(progress);
        let opened = py.detach(|| EngineStore::open(&path, chosen, &mut |progress| telling.tell(progress)));
        telling.outcome()?;
        let engine = opened.map_err(|error| errors::raised(py, error))?;
        Ok(Self::holding(engine))
    }

    #[pyo3(signature = (subject, body, due_ms, absolute, /))]
    fn publish(
        &self,
        subject: &Bound<'_, PyAny>,
        body: &Bound<'_, PyAny>,
        due_ms: u64,
        absolute: bool,
    ) -> PyResult<Receipt> {
        let name = message::text("subject", subject)?;
        let due = message::due_of(due_ms, absolute);
        let receipts = self.stored(subject.py(), |batch| message::push(batch, &name, body, due))?;
        Receipts::one(&receipts, 0)
    }

    #[pyo3(signature = (subject, bodies, delays, /))]
    fn publish_many(
        &self,
        subject: &Bound<'_, PyAny>,
        bodies: &Bound<'_, PyAny>,
        delays: &Bound<'_, PyAny>,
    ) -> PyResult<Receipts> {
        let name = message::text("subject", subject)?;
        let receipts = match delays.cast_exact::<PyInt>() {
            Ok(same) => {
                let due = message::due_of(same.extract()?, false);
                self.stored(subject.py(), |batch| message::push_all(batch, &name, bodies, due))?
            }
            Err(_) => self.stored(subject.py(), |batch| message::push_each(batch, &name, bodies, delays))?,
        };
        Ok(Receipts(receipts))
    }

    #[pyo3(signature = (rows, /))]
    fn publish_mixed(&self, rows: &Bound<'_, PyList>) -> PyResult<Receipts> {
        self.stored(rows.py(), |batch| message::push_rows(batch, rows)).map(Receipts)
    }

    #[pyo3(signature = (receipts, /))]
    fn cancel_many<'py>(&self, receipts: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyTuple>> {
        let py = receipts.py();
        let mut chosen: Vec<CoreReceipt> = Vec::with_capacity(receipts.len());
        for item in receipts {
            let receipt = item.cast::<Receipt>().map_err(|_| errors::wrong_type("receipt", "Receipt", &item))?;
            chosen.push(receipt.get().0);
        }
        let outcomes = py.detach(|| self.engine.cancel_many(&chosen)).map_err(|error| errors::raised(py, error))?;
        PyTuple::new(py, outcomes.into_iter().map(word))
    }

    #[pyo3(signature = (subject, group, start, in_flight_max, /))]
    fn subscribe(
        &self,
        subject: &Bound<'_, PyAny>,
        group: &Bound<'_, PyAny>,
        start: &Bound<'_, PyAny>,
        in_flight_max: &Bound<'_, PyAny>,
    ) -> PyResult<Subscription> {
        let py = subject.py();
        let (name, group) = (message::text("subject", subject)?, message::text("group", group)?);
        let chosen = options::subscription(start, in_flight_max)?;
        let opened = py.detach(|| self.engine.subscribe(&name, &group, chosen));
        opened.map(Subscription::new).map_err(|error| errors::raised(py, error))
    }

    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let status = py.detach(|| self.engine.status()).map_err(|error| errors::raised(py, error))?;
        status::fields(py, &status)
    }

    #[pyo3(signature = (wait_ms_max, /))]
    fn next_report(&self, py: Python<'_>, wait_ms_max: u64) -> PyResult<Option<status::ReportTuple>> {
        let next = py.detach(|| self.engine.next_report(Duration::from_millis(wait_ms_max)));
        Ok(next.map_err(|error| errors::raised(py, error))?.map(|report| status::report(&report)))
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.engine.checkpoint()).map_err(|error| errors::raised(py, error))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.engine.close()).map_err(|error| errors::raised(py, error))
    }
}

/// The value of `delaymq.Outcome`.
const fn word(outcome: CancelOutcome) -> &'static str {
    match outcome {
        CancelOutcome::Done => "done",
        CancelOutcome::AlreadyDispatched => "already_dispatched",
        CancelOutcome::NotFound => "not_found",
    }
}
