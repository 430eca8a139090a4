//! Staging of record batches, and loads of staged runs. Reading, encoding and writing happens with the interpreter
//! released.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use delaymq_core::error::Error;
use delaymq_core::run::{LoadName, StagedRun, StagingLimits};
use delaymq_core::units::Millis;
use delaymq_core::wire::extension::LOAD;
use delaymq_core::wire::extension::load::{LoadAsked, LoadTold};
use delaymq_engine::stager_at;
use delaymq_tables::{BadRow, Loader, LoadingRules};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::convert::{errors, text};
use crate::embedded::store::Store;
use crate::embedded::waits;
use crate::remote::reading::{Reader, any, read};
use crate::remote::requests::Request;
use crate::tables::importing::Imported;

/// The answers to the requests of this file.
pub(crate) const ANSWERS: &[(i16, Reader)] = &[(LOAD, |py, body| {
    read(LoadTold::read(body), |told| any((told.first.0, told.count, told.again).into_pyobject(py)))
})];

/// The most rows of a file, and the most bytes of its records.
type Sizes = (u32, u32);

/// Takes record batches and writes staged runs.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Stager {
    loader: Mutex<Option<Loader>>,
}

/// The result of some batches.
struct Added {
    rows: u64,
    bad: Vec<(u64, Error)>,
}

#[pymethods]
impl Stager {
    /// Stages next to the store in a folder. Arguments: the latest due time in milliseconds since 1970; the most
    /// rows and bytes of a file; whether other columns are ignored; whether staging continues after a bad row.
    #[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
    #[new]
    #[pyo3(signature = (path, due_max_ms, sizes, ignores_others, goes_on, /))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        due_max_ms: u64,
        sizes: Sizes,
        ignores_others: bool,
        goes_on: bool,
    ) -> PyResult<Self> {
        let limits =
            StagingLimits { rows_max: sizes.0, record_bytes_max: sizes.1, ..StagingLimits::until(Millis(due_max_ms)) };
        let stager = py.detach(|| stager_at(&path, limits)).map_err(|error| errors::raised(py, error))?;
        let loader = Loader::new(stager, LoadingRules { ignores_others, goes_on });
        Ok(Self { loader: Mutex::new(Some(loader)) })
    }

    /// The number of rows read, and for each bad row its index, the reason, the column, the expected value, the
    /// found value, and the exceeded limit or None.
    #[pyo3(signature = (data, /))]
    fn add<'py>(&self, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let py = data.py();
        let imported = Imported::from_python(data)?;
        let added = py.detach(|| self.add_all(imported)).map_err(|refused| refused.raised(py))?;
        let bad: Vec<_> =
            added.bad.into_iter().map(|(place, error)| told(py, place, &error)).collect::<PyResult<_>>()?;
        (added.rows, PyList::new(py, bad)?).into_pyobject(py)
    }

    /// Name, bytes, digest and rows of each file that was written.
    fn finish(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, u32, u64)>> {
        let runs = py.detach(|| {
            let mut held = self.lock();
            let runs = held.as_mut().ok_or(Error::Closed)?.finish()?;
            *held = None;
            Ok(runs)
        });
        Ok(runs.map_err(|error| errors::raised(py, error))?.iter().map(described).collect())
    }

    /// Removes the written files. A second call does nothing.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        let discarded = py.detach(|| self.lock().take().map_or(Ok(()), Loader::abandon));
        discarded.map_err(|error| errors::raised(py, error))
    }
}

/// The error that ends staging.
enum Refused {
    Ours(Error),
    /// The error of the other library.
    Arrow(String),
}

impl Refused {
    fn raised(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Ours(error) => errors::raised(py, error),
            Self::Arrow(words) => errors::refused(py, "data", "batches that can be read", &words),
        }
    }
}

impl Stager {
    fn lock(&self) -> MutexGuard<'_, Option<Loader>> {
        self.loader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_all(&self, batches: Imported) -> Result<Added, Refused> {
        let mut added = Added { rows: 0, bad: Vec::new() };
        self.add_one(&RecordBatch::new_empty(batches.schema()))?; // checks the columns even if there are no rows
        for batch in batches {
            let batch = batch.map_err(|error| Refused::Arrow(error.to_string()))?;
            let bad = self.add_one(&batch)?;
            let before = added.rows;
            let told = |row: BadRow| (before.saturating_add(row.place as u64), row.error);
            let was_good = bad.is_empty();
            added.bad.extend(bad.into_iter().map(told));
            added.rows = before.saturating_add(batch.num_rows() as u64);
            if !was_good && !self.goes_on() {
                break;
            }
        }
        Ok(added)
    }

    fn add_one(&self, batch: &RecordBatch) -> Result<Vec<BadRow>, Refused> {
        let mut held = self.lock();
        held.as_mut().ok_or(Error::Closed).and_then(|loader| loader.add(batch)).map_err(Refused::Ours)
    }

    fn goes_on(&self) -> bool {
        self.lock().as_ref().is_some_and(Loader::goes_on)
    }
}

fn described(run: &StagedRun) -> (String, u64, u32, u64) {
    let path = run.name.path();
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    (name, run.length, run.digest, run.rows)
}

/// Name, bytes, digest and rows of a staged run; `delaymq.loading` has checked them.
type Described = (String, u64, u32, u64);

fn named(py: Python<'_>, runs: Vec<Described>) -> PyResult<Vec<StagedRun>> {
    let named = runs.into_iter().map(|(text, length, digest, rows)| {
        let name = LoadName::parse(&text).ok_or_else(|| errors::refused(py, "runs", "the name of a staged run", &text));
        name.map(|name| StagedRun { name, length, digest, rows })
    });
    named.collect()
}

/// Stores all messages of staged runs, or none: the first sequence, their number, and whether an earlier load had
/// stored them.
#[pyfunction]
#[pyo3(signature = (store, job, runs, /))]
pub(crate) fn load(store: &Store, job: &Bound<'_, PyAny>, runs: Vec<Described>) -> PyResult<(u64, u64, bool)> {
    let (py, job) = (job.py(), text::of("job", job)?);
    let (engine, job, runs) = (Arc::clone(&store.engine), job.into_owned(), named(py, runs)?);
    let loaded = waits::interruptible(py, move || engine.load(&job, &runs))?;
    Ok((loaded.base.0, loaded.count, loaded.again))
}

/// Asks a server for the same.
#[pyfunction]
#[pyo3(signature = (job, runs, /))]
pub(crate) fn load_request(job: &Bound<'_, PyAny>, runs: Vec<Described>) -> PyResult<Request> {
    let (py, job) = (job.py(), text::of("job", job)?);
    let runs = named(py, runs)?;
    Request::filled(py, LOAD, |out| LoadAsked { job: &job, runs }.put(out))
}

fn told<'py>(py: Python<'py>, place: u64, error: &Error) -> PyResult<Bound<'py, PyTuple>> {
    let words = error.to_string();
    match error {
        Error::InvalidArgument { argument, expected, found } => {
            (place, words, *argument, expected, found, None::<u64>).into_pyobject(py)
        }
        Error::TooLarge { argument, limit, found } => {
            (place, words, *argument, format!("at most {limit}"), found.to_string(), Some(*limit)).into_pyobject(py)
        }
        other => Err(errors::raised(py, other.clone())),
    }
}
