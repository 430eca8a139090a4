//! Receipts in Python.

use std::hash::{Hash, Hasher};

use delaymq_core::store::Receipt as CoreReceipt;
use delaymq_engine::Receipts as EngineReceipts;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyString};

use crate::convert::{errors, moments};

/// One receipt.
#[pyclass(frozen, eq, hash, module = "delaymq._core")]
pub(crate) struct Receipt(pub(crate) CoreReceipt);

/// Compares the named messages: a receipt from a list has no size, and equals the receipt of its publish.
impl PartialEq for Receipt {
    fn eq(&self, other: &Self) -> bool {
        (self.0.stream, self.0.epoch, self.0.key) == (other.0.stream, other.0.epoch, other.0.key)
    }
}

impl Eq for Receipt {}

impl Hash for Receipt {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.stream, self.0.epoch, self.0.key.sequence).hash(state);
    }
}

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
        moments::moment(py, self.0.key.due)
    }

    #[getter]
    fn sequence(&self) -> u64 {
        self.0.key.sequence.0
    }

    #[getter]
    fn size(&self) -> Option<u32> {
        self.0.known_size()
    }

    fn __str__(&self) -> String {
        self.0.to_text()
    }

    fn __repr__(&self) -> String {
        format!("Receipt({:?})", self.0.to_text())
    }
}

/// Receipts that a caller gave, each of this stream.
pub(crate) fn of_stream(receipts: &Bound<'_, PyList>, stream: &[u8]) -> PyResult<Vec<CoreReceipt>> {
    let py = receipts.py();
    let mut chosen = Vec::with_capacity(receipts.len());
    for (index, item) in receipts.iter().enumerate() {
        let receipt = item.cast::<Receipt>().map_err(|_| no_receipt(&item))?.get().0;
        if receipt.stream.as_slice() != stream {
            return Err(errors::at_index(py, errors::foreign_receipt(py, &receipt.to_text()), index));
        }
        chosen.push(receipt);
    }
    Ok(chosen)
}

/// The exception for an argument that is no receipt.
pub(crate) fn no_receipt(found: &Bound<'_, PyAny>) -> PyErr {
    if found.is_instance_of::<PyString>() {
        return errors::wrong_type_advising("receipt", "Receipt", found, "read one from text with Receipt.parse(text)");
    }
    errors::wrong_type("receipt", "Receipt", found)
}

/// The receipts of one publish.
#[pyclass(frozen, sequence, module = "delaymq._core")]
pub(crate) struct Receipts(Kept);

/// The storage of receipts.
enum Kept {
    /// From a store in this process; each is computed on access.
    Engine(EngineReceipts),
    /// From a server's answer.
    Told(Vec<CoreReceipt>),
}

#[pymethods]
impl Receipts {
    fn __len__(&self) -> usize {
        self.count()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let length = isize::try_from(self.count())?;
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
        let found = match &self.0 {
            Kept::Engine(receipts) => receipts.get(index),
            Kept::Told(receipts) => receipts.get(index).copied(),
        };
        found.map(Receipt).ok_or_else(|| PyIndexError::new_err("no such receipt"))
    }

    /// The receipts of a publish into a store of this process.
    pub(crate) const fn of(receipts: EngineReceipts) -> Self {
        Self(Kept::Engine(receipts))
    }

    /// The receipts that a server returned.
    pub(crate) const fn told(receipts: Vec<CoreReceipt>) -> Self {
        Self(Kept::Told(receipts))
    }

    fn count(&self) -> usize {
        match &self.0 {
            Kept::Engine(receipts) => receipts.len(),
            Kept::Told(receipts) => receipts.len(),
        }
    }

    /// One of an engine's receipts.
    pub(crate) fn one(receipts: &EngineReceipts, index: usize) -> PyResult<Receipt> {
        receipts.get(index).map(Receipt).ok_or_else(|| PyIndexError::new_err("no such receipt"))
    }
}
