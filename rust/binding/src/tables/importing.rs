//! Record batches of another library in this process, imported through Arrow's C data interface. The compiler cannot
//! check a pointer in a capsule, so this file and the engine's `mapping.rs` have the `unsafe` code.
#![expect(unsafe_code, reason = "what a capsule points to is only known by the interface's rules; see each note")]

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::convert::errors;

const STREAM: &std::ffi::CStr = c"arrow_array_stream";
const SCHEMA: &std::ffi::CStr = c"arrow_schema";
const ARRAY: &std::ffi::CStr = c"arrow_array";

/// Record batches of another library.
pub(crate) enum Imported {
    Batch(RecordBatch),
    Stream(ArrowArrayStreamReader),
}

impl Imported {
    /// Imports from an object with `__arrow_c_array__` or `__arrow_c_stream__`.
    pub(crate) fn from_python(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        if data.hasattr("__arrow_c_array__")? {
            return Self::batch(data);
        }
        if !data.hasattr("__arrow_c_stream__")? {
            let expected = "an object of Arrow's C data interface, as tables and record batches of pyarrow are";
            return Err(errors::wrong_type("data", expected, data));
        }
        let capsule = data.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
        let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
        // SAFETY: a capsule of this name points to a stream by the rules of the interface. The stream is moved out,
        // and an empty one is left for the capsule to release, so no other code uses it.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
        let reader = ArrowArrayStreamReader::try_new(stream).map_err(|error| refused(data.py(), &error))?;
        Ok(Self::Stream(reader))
    }

    /// The schema of its columns, also if there are no rows.
    pub(crate) fn schema(&self) -> SchemaRef {
        match self {
            Self::Batch(batch) => batch.schema(),
            Self::Stream(stream) => stream.schema(),
        }
    }

    fn batch(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsules = data.call_method0("__arrow_c_array__")?.cast_into::<PyTuple>()?;
        let schema = capsules.get_item(0)?.cast_into::<PyCapsule>()?;
        let array = capsules.get_item(1)?.cast_into::<PyCapsule>()?;
        let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
        let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
        // SAFETY: capsules of these names point to a schema and an array by the rules of the interface. Both are
        // moved out, and empty ones are left for the capsules to release, so no other code uses them.
        let (schema, array) =
            unsafe { (FFI_ArrowSchema::from_raw(schema.as_ptr()), FFI_ArrowArray::from_raw(array.as_ptr())) };
        // SAFETY: both are from one object, which guarantees that the array matches the schema.
        let found = unsafe { from_ffi(array, &schema) }.map_err(|error| refused(data.py(), &error))?;
        if !matches!(found.data_type(), DataType::Struct(_)) {
            let found = found.data_type().to_string();
            return Err(errors::refused(data.py(), "data", "a record batch, which has columns", &found));
        }
        let rows = StructArray::from(found);
        if rows.null_count() > 0 {
            return Err(errors::refused(data.py(), "data", "rows that are there", "null in place of a row"));
        }
        Ok(Self::Batch(RecordBatch::from(rows)))
    }
}

impl Iterator for Imported {
    type Item = Result<RecordBatch, ArrowError>;

    /// The next batch, with ordered offsets and valid texts. The length of its buffers cannot be checked, since the
    /// interface does not contain it.
    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self {
            Self::Batch(batch) => {
                let none_left = RecordBatch::new_empty(batch.schema());
                let batch = std::mem::replace(batch, none_left);
                Ok((batch.num_rows() > 0).then_some(batch)?)
            }
            Self::Stream(stream) => stream.next()?,
        };
        Some(batch.and_then(|batch| {
            batch.columns().iter().try_for_each(|column| column.to_data().validate_full())?;
            Ok(batch)
        }))
    }
}

fn refused(py: Python<'_>, error: &ArrowError) -> PyErr {
    errors::refused(py, "data", "data of Arrow's C data interface", &error.to_string())
}
