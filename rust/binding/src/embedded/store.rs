//! The open store in Python.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use delaymq_engine::{CancelOutcome, Store as EngineStore};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::convert::receipt::{Receipt, Receipts};
use crate::convert::{errors, text};
use crate::embedded::nonblocking::Unblocked;
use crate::embedded::publishing::Publisher;
use crate::embedded::subscription::Subscription;
use crate::embedded::{options, status, waits};

/// A store that this process has open.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Store {
    pub(crate) engine: Arc<EngineStore>,
    publisher: Arc<Publisher>,
}

impl Store {
    pub(crate) fn holding(engine: Arc<EngineStore>) -> Self {
        let publisher = Arc::new(Publisher::new(Arc::clone(&engine)));
        Self { engine, publisher }
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

    #[pyo3(signature = (subject, body, options, /))]
    fn publish<'py>(
        &self,
        subject: &Bound<'py, PyAny>,
        body: &Bound<'py, PyAny>,
        options: &Bound<'py, PyDict>,
    ) -> PyResult<Receipt> {
        let batch = self.publisher.one(subject, body, options)?;
        Receipts::one(&self.publisher.stored(subject.py(), batch)?, 0)
    }

    #[pyo3(signature = (columns, /))]
    fn publish_columns(&self, columns: &Bound<'_, PyTuple>) -> PyResult<Receipts> {
        self.publisher.stored(columns.py(), self.publisher.columns(columns)?).map(Receipts::of)
    }

    #[pyo3(signature = (messages, with_ids, /))]
    fn publish_messages(&self, messages: &Bound<'_, PyList>, with_ids: bool) -> PyResult<Receipts> {
        self.publisher.stored(messages.py(), self.publisher.messages(messages, with_ids)?).map(Receipts::of)
    }

    fn unblocked(&self) -> Unblocked {
        Unblocked::new(Arc::clone(&self.engine), Arc::clone(&self.publisher))
    }

    #[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
    #[pyo3(signature = (subjects, group, start, in_flight_max, filters, handle_within_ms = None, /))]
    fn subscribe(
        &self,
        subjects: Vec<Bound<'_, PyAny>>,
        group: &Bound<'_, PyAny>,
        start: &Bound<'_, PyAny>,
        in_flight_max: &Bound<'_, PyAny>,
        filters: options::FilterTuple,
        handle_within_ms: Option<u64>,
    ) -> PyResult<Subscription> {
        let py = group.py();
        let (selection, group) = (options::selection(py, &subjects)?, text::of("group", group)?);
        let chosen = options::subscription(start, in_flight_max, filters, handle_within_ms)?;
        let opened = py.detach(|| self.engine.subscribe_to(selection, &group, chosen));
        opened.map(Subscription::new).map_err(|error| errors::raised(py, error))
    }

    #[pyo3(signature = (wait_ms_max, /))]
    fn next_report(&self, py: Python<'_>, wait_ms_max: u64) -> PyResult<Option<status::ReportTuple>> {
        let next = py.detach(|| self.engine.next_report(Duration::from_millis(wait_ms_max)));
        Ok(next.map_err(|error| errors::raised(py, error))?.map(|report| status::report(&report)))
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        let engine = Arc::clone(&self.engine);
        waits::interruptible(py, move || engine.checkpoint())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.engine.close()).map_err(|error| errors::raised(py, error))
    }
}

/// The value of `delaymq.Outcome`.
pub(crate) const fn word(outcome: CancelOutcome) -> &'static str {
    match outcome {
        CancelOutcome::Done => "done",
        CancelOutcome::AlreadyDispatched => "already_dispatched",
        CancelOutcome::NotFound => "not_found",
    }
}
