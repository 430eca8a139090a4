//! Tables of a store through Arrow's C data interface. All reading happens with the interpreter released.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};
use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Stream;
use delaymq_core::storage::Storage;
use delaymq_core::store::read_identity;
use delaymq_core::units::{Millis, Sequence};
use delaymq_engine::{FileStorage, ReaderPin, look_pinned, pin_again};
use delaymq_tables::{
    Asked, Choice, Filter, OnDamage, Range, Reading, SharedTold, Table, TableSnapshot, open_ranges, plan, type_word,
    verify,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyTuple};

use crate::convert::errors;

/// A store as of one fact, and the pin that keeps its files.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct TableStore {
    path: PathBuf,
    storage: Arc<dyn Storage>,
    snapshot: TableSnapshot,
    pin: Mutex<Option<ReaderPin>>,
}

/// Subjects, first and end sequence, published from and before, due from and before, bytes of a split.
type Wanted = (Option<Vec<String>>, [Option<u64>; 6], u64);

#[pymethods]
impl TableStore {
    /// Stream, first and end sequence, the trusted time, and the end of its pin or None.
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let snapshot = &self.snapshot;
        let expires = self.pin.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|pin| pin.expires.0);
        let stream = PyBytes::new(py, &snapshot.stream.id);
        let (first, end) = (snapshot.first_sequence.0, snapshot.end_sequence.0);
        (stream, first, end, snapshot.trusted.0, expires).into_pyobject(py)
    }

    /// The name by which the same snapshot can be opened again.
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.snapshot.name())
    }

    /// First and end sequences of ranges that were removed from the middle of the log.
    fn retired(&self) -> Vec<(u64, u64)> {
        self.snapshot.retired().into_iter().map(|(first, end)| (first.0, end.0)).collect()
    }

    /// Whether dispatch was held when the last fact was written.
    fn dispatch_held(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.snapshot.is_dispatch_held(&self.storage)).map_err(|error| errors::raised(py, error))
    }

    /// Token, bytes, most rows, first and end sequence and files of each range.
    #[pyo3(signature = (table, wanted, /))]
    fn plan<'py>(&self, py: Python<'py>, table: &str, wanted: Wanted) -> PyResult<Bound<'py, PyList>> {
        let (subjects, [first, end, published_from, published_before, due_from, due_before], split_bytes) = wanted;
        let filter = Filter {
            only_named: false,
            first_sequence: first.map(Sequence),
            end_sequence: end.map(Sequence),
            published_from: published_from.map(Millis),
            published_before: published_before.map(Millis),
            due_from: due_from.map(Millis),
            due_before: due_before.map(Millis),
        };
        let asked = Asked { subjects, filter, split_bytes };
        let planned = py.detach(|| plan(&self.snapshot, &self.storage, table_of(table)?, &asked));
        let ranges = planned.map_err(|error| errors::raised(py, error))?;
        PyList::new(py, ranges.iter().map(|range| described(py, range)).collect::<PyResult<Vec<_>>>()?)
    }

    /// Reads ranges, given as tokens. Arguments: the table, or None for the table of the ranges; tokens; names of
    /// columns or None; whether damage is reported.
    #[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
    #[pyo3(signature = (table, tokens, columns, reports, /))]
    fn read(
        &self,
        py: Python<'_>,
        table: Option<&str>,
        tokens: Vec<Vec<u8>>,
        columns: Option<Vec<String>>,
        reports: bool,
    ) -> PyResult<TableReader> {
        let asked = Reads { table, tokens: &tokens, columns: columns.as_deref(), reports };
        TableReader::new(Arc::clone(&self.storage), &self.snapshot.stream, &asked)
            .map_err(|error| errors::raised(py, error))
    }

    /// Records, bytes and damages of a whole range.
    #[pyo3(signature = (token, /))]
    fn verify<'py>(&self, py: Python<'py>, token: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
        let verified = py.detach(|| {
            let range = Range::from_token(token)?;
            range.check_stream(&self.snapshot.stream)?;
            verify(&self.storage, &range)
        });
        let verified = verified.map_err(|error| errors::raised(py, error))?;
        (verified.records, verified.bytes, damages_of(py, &verified.damages)?).into_pyobject(py)
    }

    /// Keeps the files for this time from now on. Returns the end of the pin, or None if it can have none.
    #[pyo3(signature = (for_ms, /))]
    fn hold(&self, py: Python<'_>, for_ms: u64) -> Option<u64> {
        py.detach(|| {
            let next = pin_again(&self.path, for_ms);
            let expires = next.as_ref().map(|pin| pin.expires.0);
            *self.pin.lock().unwrap_or_else(PoisonError::into_inner) = next;
            expires
        })
    }

    /// Keeps the files until the pin expires.
    fn leave(&self) {
        if let Some(pin) = self.pin.lock().unwrap_or_else(PoisonError::into_inner).take() {
            pin.outlive();
        }
    }

    /// Releases the files.
    fn release(&self, py: Python<'_>) {
        py.detach(|| drop(self.pin.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

/// The visible content of the store in a folder, or the snapshot of that name, pinned for `for_ms` milliseconds.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (path, for_ms, name, /))]
pub(crate) fn table_store(py: Python<'_>, path: PathBuf, for_ms: u64, name: Option<Vec<u8>>) -> PyResult<TableStore> {
    let looked = py.detach(|| {
        look_pinned(&path, for_ms, |storage, identity| match name.as_deref() {
            Some(name) => TableSnapshot::take_again(storage, identity, name),
            None => TableSnapshot::take(storage, identity),
        })
    });
    let (snapshot, storage, pin) = looked.map_err(|error| errors::raised(py, error))?;
    Ok(TableStore { path, storage, snapshot, pin: Mutex::new(pin) })
}

/// Reads ranges in the store in a folder, without a snapshot.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (path, tokens, columns, reports, /))]
pub(crate) fn read_table_ranges(
    py: Python<'_>,
    path: PathBuf,
    tokens: Vec<Vec<u8>>,
    columns: Option<Vec<String>>,
    reports: bool,
) -> PyResult<TableReader> {
    let asked = Reads { table: None, tokens: &tokens, columns: columns.as_deref(), reports };
    let opened = py.detach(|| {
        let storage: Arc<dyn Storage> = Arc::new(FileStorage::read_only(&path)?);
        let stream = read_identity(storage.as_ref())?.stream;
        TableReader::new(storage, &stream, &asked)
    });
    opened.map_err(|error| errors::raised(py, error))
}

/// Name and type of each column of a table.
#[pyfunction]
#[pyo3(signature = (table, /))]
pub(crate) fn table_columns(py: Python<'_>, table: &str) -> PyResult<Vec<(&'static str, &'static str)>> {
    let table = table_of(table).map_err(|error| errors::raised(py, error))?;
    Ok(Choice::all(table).columns().iter().map(|column| (column.name(), type_word(*column))).collect())
}

fn table_of(name: &str) -> Result<Table> {
    let known: Vec<&str> = Table::ALL.iter().map(|table| table.name()).collect();
    Table::named(name).ok_or_else(|| Error::InvalidArgument {
        argument: "table",
        expected: format!("one of {}", known.join(", ")),
        found: name.to_owned(),
    })
}

fn described<'py>(py: Python<'py>, range: &Range) -> PyResult<Bound<'py, PyTuple>> {
    let files = range.files();
    let token = PyBytes::new(py, &range.to_token());
    let numbers = (range.bytes, range.rows_max(), range.first_sequence.0, range.end_sequence.0);
    (token, numbers.0, numbers.1, numbers.2, numbers.3, files).into_pyobject(py)
}

/// Reads ranges, one record batch after the other, or all as a stream.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct TableReader {
    reading: Mutex<Option<Reading>>,
    schema: arrow_schema::SchemaRef,
    told: SharedTold,
}

/// The ranges to read, and how.
struct Reads<'a> {
    table: Option<&'a str>,
    tokens: &'a [Vec<u8>],
    columns: Option<&'a [String]>,
    reports: bool,
}

impl TableReader {
    fn new(storage: Arc<dyn Storage>, stream: &Stream, asked: &Reads<'_>) -> Result<Self> {
        let ranges = asked.tokens.iter().map(|token| Range::from_token(token)).collect::<Result<Vec<_>>>()?;
        ranges.iter().try_for_each(|range| range.check_stream(stream))?;
        let table = match asked.table {
            Some(name) => table_of(name)?,
            None => ranges.first().map_or(Table::Message, |range| range.table),
        };
        let choice = asked.columns.map_or_else(|| Ok(Choice::all(table)), |names| Choice::named(table, names))?;
        let on_damage = if asked.reports { OnDamage::Report } else { OnDamage::Raise };
        let reading = open_ranges(storage, table, ranges, choice, on_damage);
        let (schema, told) = (reading.schema(), reading.told());
        Ok(Self { reading: Mutex::new(Some(reading)), schema, told })
    }
}

#[pymethods]
impl TableReader {
    /// The next record batch; None at the end.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<TableBatch>> {
        let next = py.detach(|| {
            let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            reading.as_mut().map_or(Ok(None), Reading::next_batch)
        });
        Ok(next.map_err(|error| errors::raised(py, error))?.map(TableBatch))
    }

    /// The remaining batches, as a capsule of an `ArrowArrayStream`.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let reading = py.detach(|| self.reading.lock().unwrap_or_else(PoisonError::into_inner).take());
        let reading = reading.ok_or_else(|| PyRuntimeError::new_err("the reading was handed out already"))?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reading)), c"arrow_array_stream")
    }

    /// The schema of its rows, as a capsule of an `ArrowSchema`.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(|error| refused_by_arrow(&error))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The damage found so far: file, offset, expected content, found content, sequence. All but the first and the
    /// third are None if unknown.
    fn damages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).damages.clone();
        damages_of(py, &told)
    }

    /// Raises the error that ended the reading, if there is one.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let error = self.told.lock().unwrap_or_else(PoisonError::into_inner).error.clone();
        error.map_or(Ok(()), |error| Err(errors::raised(py, error)))
    }
}

fn damages_of<'py>(py: Python<'py>, errors: &[Error]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, errors.iter().map(|error| damage(py, error)).collect::<PyResult<Vec<_>>>()?)
}

fn damage<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    let (path, offset, expected, found, sequence) = match error {
        Error::Corrupt { path, offset, expected, found } => (path, Some(*offset), expected.as_str(), Some(found), None),
        Error::DamagedPayload { sequence, path, offset, expected, found } => {
            (path, Some(*offset), expected.as_str(), Some(found), Some(*sequence))
        }
        Error::MissingFile { path, reason } => (path, None, reason.as_str(), None, None),
        other => (&other.to_string(), None, "bytes that can be read", None, None),
    };
    fields.set_item("path", path)?;
    fields.set_item("offset", offset)?;
    fields.set_item("expected", expected)?;
    fields.set_item("found", found)?;
    fields.set_item("sequence", sequence)?;
    Ok(fields)
}

fn refused_by_arrow(error: &arrow_schema::ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// One record batch.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct TableBatch(RecordBatch);

#[pymethods]
impl TableBatch {
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The capsules of an `ArrowSchema` and an `ArrowArray`.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // A reader may request other types, but gets these: the interface says that the reader must check.
        let _ = requested_schema;
        let schema =
            FFI_ArrowSchema::try_from(self.0.schema_ref().as_ref()).map_err(|error| refused_by_arrow(&error))?;
        let array = FFI_ArrowArray::new(&StructArray::from(self.0.clone()).into_data());
        let schema = PyCapsule::new_with_value(py, schema, c"arrow_schema")?;
        Ok((schema, PyCapsule::new_with_value(py, array, c"arrow_array")?))
    }
}
