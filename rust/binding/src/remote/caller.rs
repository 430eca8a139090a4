//! A connection to a server, without its socket: bytes in, answers and deliveries out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use delaymq_core::units::Millis;
use delaymq_core::wire::client::caller::{CallId, Caller as CoreCaller, CallerLimits, Heard};
use delaymq_core::wire::client::delivery_keys;
use delaymq_core::wire::extension::errors::RemoteError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::convert::errors;
use crate::convert::key::Key;
use crate::remote::answers;
use crate::remote::requests::Request;

/// A fixed time: the age of waiting output is not used here, since the caller watches the socket.
const NOW: Millis = Millis(0);

/// One connection.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Caller(Mutex<CoreCaller>);

impl Caller {
    fn core(&self) -> MutexGuard<'_, CoreCaller> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Caller {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(CoreCaller::new(CallerLimits::default())))
    }

    #[pyo3(signature = (request, /))]
    fn ask(&self, py: Python<'_>, request: &Request) -> PyResult<Option<i32>> {
        let asked = self.core().ask(request.command, NOW, |out| {
            out.extend_from_slice(&request.body);
            Ok(())
        });
        Ok(asked.map_err(|error| errors::raised(py, error))?.map(|call| call.0))
    }

    #[pyo3(signature = (request, /))]
    fn tell(&self, py: Python<'_>, request: &Request) -> PyResult<bool> {
        let told = self.core().tell(request.command, NOW, |out| {
            out.extend_from_slice(&request.body);
            Ok(())
        });
        told.map_err(|error| errors::raised(py, error))
    }

    #[pyo3(signature = (call, /))]
    fn forget(&self, call: i32) -> bool {
        self.core().forget(CallId(call))
    }

    /// All answers and deliveries in these bytes, in order, and the error of the bytes, if any.
    #[pyo3(signature = (stream, data, /))]
    fn receive<'py>(&self, stream: &Bound<'py, PyBytes>, data: &[u8]) -> PyResult<(Bound<'py, PyList>, Option<PyErr>)> {
        let py = stream.py();
        let (mut rest, events, mut core) = (data, PyList::empty(py), self.core());
        loop {
            let taken = core.receive(rest);
            rest = rest.get(taken..).unwrap_or_default();
            loop {
                let event = match core.hear() {
                    Err(malformed) => return Ok((events, Some(errors::told(py, RemoteError::from(&malformed))))),
                    Ok(None) => break,
                    Ok(Some(Heard::Deliver(body))) => answers::deliver(py, stream.as_bytes(), &body),
                    Ok(Some(Heard::Answer { call, command, code, body })) => {
                        answers::answer(py, call.0, command, code, &body)
                    }
                };
                match event {
                    Ok(event) => events.append(event)?,
                    Err(fault) => return Ok((events, Some(fault))),
                }
            }
            if rest.is_empty() {
                return Ok((events, None));
            }
        }
    }

    /// The first bytes that wait to be written, at most `bytes_max`.
    #[pyo3(signature = (bytes_max, /))]
    fn output<'py>(&self, py: Python<'py>, bytes_max: usize) -> Bound<'py, PyBytes> {
        let core = self.core();
        let mut out: Vec<u8> = Vec::with_capacity(bytes_max.min(core.output_bytes()));
        for slice in core.output() {
            let room = bytes_max.saturating_sub(out.len());
            if room == 0 {
                break;
            }
            out.extend_from_slice(slice.get(..room).unwrap_or(slice));
        }
        PyBytes::new(py, &out)
    }

    #[getter]
    fn output_bytes(&self) -> usize {
        self.core().output_bytes()
    }

    #[pyo3(signature = (count, /))]
    fn sent(&self, count: usize) {
        self.core().sent(count);
    }

    /// The connection is lost: returns the requests with unknown outcome.
    fn lost(&self) -> Vec<i32> {
        self.core().lost().into_iter().map(|(call, _)| call.0).collect()
    }

    #[staticmethod]
    #[pyo3(signature = (key, number, /))]
    const fn delivered_to(key: Key, number: u32) -> bool {
        delivery_keys::is_of(key.0, number)
    }
}
