//! Requests to a server. Each is encoded once, with the interpreter held, and may be sent again. Those that publish stand
//! here; each other stands beside the function that does the same in a store of this process.

use bytes::Bytes;
use delaymq_core::error::Result;
use delaymq_core::store::Receipt;
use delaymq_core::wire::extension::administration::ROWS_MAX;
use delaymq_core::wire::extension::publish::read_receipts;
use delaymq_core::wire::extension::{PUBLISH, PUBLISH_ON_TERMS};
use delaymq_core::wire::malformed::Read;
use delaymq_core::wire::reader::Reader as BodyReader;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::convert::columns::push_columns;
use crate::convert::message::Outgoing;
use crate::convert::receipt::Receipts;
use crate::convert::{errors, publishes};
use crate::remote::reading::{Reader, Told, any, read};

/// The answers to the requests of this file.
pub(crate) const ANSWERS: &[(i16, Reader)] = &[(PUBLISH, stored), (PUBLISH_ON_TERMS, stored)];

/// The receipts of what was stored.
fn stored<'py>(py: Python<'py>, body: &[u8]) -> Told<'py> {
    read(receipts(body), |receipts| any(Receipts::told(receipts).into_pyobject(py)))
}

fn receipts(body: &[u8]) -> Read<Vec<Receipt>> {
    let mut reader = BodyReader::new(body);
    let receipts = read_receipts(&mut reader)?;
    reader.finish("receipts").map(|()| receipts)
}

/// One request. Requests with the same bytes are equal.
#[derive(PartialEq, Eq)]
#[pyclass(frozen, eq, module = "delaymq._core")]
pub(crate) struct Request {
    pub(crate) command: i16,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) fn filled(
        py: Python<'_>,
        command: i16,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> PyResult<Self> {
        let mut body = Vec::new();
        fill(&mut body).map_err(|error| errors::raised(py, error))?;
        Ok(Self { command, body: body.into() })
    }

    fn published(py: Python<'_>, fill: impl FnOnce(&mut Outgoing) -> PyResult<()>) -> PyResult<Self> {
        let mut writer = Outgoing::default();
        fill(&mut writer)?;
        if writer.terms.is_empty() {
            return Self::filled(py, PUBLISH, |out| writer.batch.put(out, true));
        }
        Self::filled(py, PUBLISH_ON_TERMS, |out| writer.terms.put(out, &writer.batch, true))
    }
}

/// The most rows of one piece of a list.
pub(crate) const LISTING: u32 = ROWS_MAX as u32;

#[pymethods]
impl Request {
    #[staticmethod]
    #[pyo3(signature = (subject, body, options, with_ids, /))]
    fn publish<'py>(
        subject: &Bound<'py, PyAny>,
        body: &Bound<'py, PyAny>,
        options: &Bound<'py, PyDict>,
        with_ids: bool,
    ) -> PyResult<Self> {
        Self::published(subject.py(), |writer| publishes::push_message(writer, subject, body, options, with_ids))
    }

    #[staticmethod]
    #[pyo3(signature = (columns, /))]
    fn publish_columns(columns: &Bound<'_, PyTuple>) -> PyResult<Self> {
        Self::published(columns.py(), |writer| push_columns(writer, columns))
    }

    #[staticmethod]
    #[pyo3(signature = (messages, with_ids, /))]
    fn publish_messages(messages: &Bound<'_, PyList>, with_ids: bool) -> PyResult<Self> {
        Self::published(messages.py(), |writer| publishes::push_messages(writer, messages, with_ids))
    }

    /// Its approximate bytes on the wire.
    fn __len__(&self) -> usize {
        self.body.len()
    }
}
