//! Receipts, as Python holds them.

use delaymq_core::store::Receipt as CoreReceipt;
use delaymq_engine::Receipts as EngineReceipts;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyString};

use crate::errors;

/// One receipt.
#[pyclass(frozen, eq, hash, module = "delaymq._core")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Receipt(pub(crate) CoreReceipt);

#[pymethods]
impl Receipt {
    #[staticmethod]
    fn parse(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(string) = text.cast::<PyString>() else {
            return Err(errors::wrong_type("text", "str", text));
        };
        let parsed = CoreReceipt::parse(&string.to_string_lossy());
        parsed.map(Self).map_err(|error| errors::raised(text.py(), error))
    }

    #[getter]
    fn due<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("delaymq.durations")?.call_method1("moment", (self.0.key.due.0,))
    }

    #[getter]
    fn sequence(&self) -> u64 {
        self.0.key.sequence.0
    }

    fn __str__(&self) -> String {
        self.0.to_text()
    }

    fn __repr__(&self) -> String {
        format!("Receipt({:?})", self.0.to_text())
    }
}

/// The exception for what was given instead of a receipt.
pub(crate) fn no_receipt(found: &Bound<'_, PyAny>) -> PyErr {
    if found.is_instance_of::<PyString>() {
        return errors::wrong_type_advising("receipt", "Receipt", found, "read one from text with Receipt.parse(text)");
    }
    errors::wrong_type("receipt", "Receipt", found)
}

/// The receipts of one publish.
#[pyclass(frozen, sequence, module = "delaymq._core")]
pub(crate) struct Receipts(pub(crate) EngineReceipts);

#[pymethods]
impl Receipts {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let length = isize::try_from(self.0.len())?;
        if let Ok(slice) = index.cast::<PySlice>() {
            let range = slice.indices(length)?;
            let chosen =
                (0..isize::try_from(range.slicelength)?).map(|step| range.start.saturating_add(step * range.step));
            return Ok(PyList::new(py, chosen.map(|at| self.at(at)).collect::<PyResult<Vec<_>>>()?)?.into_any());
        }
        let at: isize = index.extract()?;
        Ok(self.at(if at < 0 { at.saturating_add(length) } else { at })?.into_pyobject(py)?.into_any())
    }
}

impl Receipts {
    fn at(&self, index: isize) -> PyResult<Receipt> {
        let index = usize::try_from(index).map_err(|_| PyIndexError::new_err("no such receipt"))?;
        Self::one(&self.0, index)
    }

    /// One of an engine's receipts.
    pub(crate) fn one(receipts: &EngineReceipts, index: usize) -> PyResult<Receipt> {
        receipts.get(index).map(Receipt).ok_or_else(|| PyIndexError::new_err("no such receipt"))
    }
}
