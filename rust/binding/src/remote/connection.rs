//! A client's connection in Python: it carries requests, and gives their answers as Python values.
//!
//! No Python runs between a request and its answer. The interpreter is released while a thread waits. Python values
//! are made without the lock of the connection: making them may run the garbage collector, and thereby any code.

use std::sync::Arc;
use std::time::Duration;

use delaymq_client::nodes::{Address, Nodes};
use delaymq_client::options::ClientOptions;
use delaymq_client::session::{Answer, Outcome, Report, Request as SessionRequest, Session, Ticket};
use delaymq_client::transport::{Connection as Transport, OpenError, Slot, Waiter};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::convert::errors;
use crate::embedded::options::FilterTuple;
use crate::remote::answers;
use crate::remote::requests::Request;
use crate::remote::subscription::RemoteSubscription;
use crate::remote::waiting::{await_answer, await_slot, check, check_process};

/// The number under which an event loop gets the result of the first connection.
const OPENED: u64 = 0;

/// Host, port and text of an address.
type AddressTuple = (String, u16, String);

/// The address of the first node, those of the others, and the text of all; token; timeout in milliseconds, and its
/// text; and the milliseconds of [`ClientOptions`]: hello, ping, silence, and again.
type Options = ((AddressTuple, Vec<AddressTuple>, String), Vec<u8>, (u64, String), (u64, u64, u64, u64));

fn address_of((host, port, shown): AddressTuple) -> Address {
    Address { host, port, shown }
}

/// One client.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Connection {
    transport: Arc<Transport>,
    timeout: Duration,
}

impl Connection {
    fn begun(py: Python<'_>, options: Options, opened: Waiter, report: Py<PyAny>) -> PyResult<Self> {
        let ((first, others, address), token, (timeout_ms, timeout), times_ms) = options;
        let (hello_ms, ping_ms, silence_ms, again_ms) = times_ms;
        let client = format!("delaymq-python {}", env!("CARGO_PKG_VERSION"));
        let options = ClientOptions { address, timeout, client, token, hello_ms, ping_ms, silence_ms, again_ms };
        let is_for_loop = matches!(opened, Waiter::Loop(_));
        let on_report = move |told: &Report| {
            // None while the interpreter ends, when nobody reads a log any more.
            let _logged = Python::try_attach(|py| {
                if let Err(error) = report.call1(py, (told.action, &told.text)) {
                    error.write_unraisable(py, None);
                }
            });
        };
        let nodes = Nodes::new(address_of(first), others.into_iter().map(address_of).collect());
        let transport = Transport::open(nodes, options, opened, is_for_loop, Box::new(on_report));
        let transport = Arc::new(transport.map_err(|error| match error {
            OpenError::System(error) => errors::no_client(py, &error.to_string()),
            OpenError::Argument(error) => errors::raised(py, error),
        })?);
        Ok(Self { transport, timeout: Duration::from_millis(timeout_ms) })
    }
}

/// An answer as a Python value.
fn value_of(py: Python<'_>, outcome: Outcome) -> PyResult<Bound<'_, PyAny>> {
    let Answer { command, body } = outcome.map_err(|failure| errors::failed(py, failure))?;
    answers::value(py, command, &body)?.map_err(|error| errors::told(py, error))
}

/// A request as a session takes it.
fn of_python(request: &Request, reads: bool, retry: bool, retry_for_ms: Option<u64>) -> SessionRequest {
    SessionRequest {
        command: request.command,
        body: request.body.clone(),
        reads,
        retry: reads || retry,
        retry_for_ms: retry_for_ms.unwrap_or(u64::MAX),
    }
}

#[pymethods]
impl Connection {
    /// Connects, for threads.
    #[staticmethod]
    #[pyo3(signature = (options, report, /))]
    fn open(py: Python<'_>, options: Options, report: Py<PyAny>) -> PyResult<Self> {
        let slot = Slot::new();
        let opened = Self::begun(py, options, Waiter::Thread(Arc::clone(&slot)), report)?;
        let answered = await_slot(py, &opened.transport, &slot, Duration::MAX, || None);
        match answered.and_then(|outcome| outcome.map_err(|failure| errors::failed(py, failure))) {
            Ok(_) => Ok(opened),
            Err(error) => {
                py.detach(|| opened.transport.end());
                Err(error)
            }
        }
    }

    /// Begins to connect, for an event loop.
    #[staticmethod]
    #[pyo3(signature = (options, report, /))]
    fn begin_open(py: Python<'_>, options: Options, report: Py<PyAny>) -> PyResult<Self> {
        Self::begun(py, options, Waiter::Loop(OPENED), report)
    }

    #[pyo3(signature = (request, reads, retry, retry_for_ms, /))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        request: &Request,
        reads: bool,
        retry: bool,
        retry_for_ms: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        check_process(py, &self.transport)?;
        let (slot, request) = (Slot::new(), of_python(request, reads, retry, retry_for_ms));
        let waiter = Waiter::Thread(Arc::clone(&slot));
        let asked = py.detach(|| self.transport.with(|session, now_ms| session.ask(request, waiter, now_ms)));
        let ticket = asked.map_err(|failure| errors::failed(py, failure))?;
        let outcome = await_answer(py, &self.transport, &slot, ticket, self.timeout)?;
        value_of(py, outcome)
    }

    #[pyo3(signature = (request, reads, retry, retry_for_ms, token, /))]
    fn begin(
        &self,
        py: Python<'_>,
        request: &Request,
        reads: bool,
        retry: bool,
        retry_for_ms: Option<u64>,
        token: u64,
    ) -> PyResult<u64> {
        check_process(py, &self.transport)?;
        let request = of_python(request, reads, retry, retry_for_ms);
        let ask = |session: &mut Session<Waiter>, now_ms| session.ask(request, Waiter::Loop(token), now_ms);
        self.transport.with_later(ask).map(|ticket| ticket.0).map_err(|failure| errors::failed(py, failure))
    }

    /// Sends what `begin` has queued.
    fn send(&self) {
        self.transport.with(|_, _| ());
    }

    #[pyo3(signature = (ticket, /))]
    fn withdraw(&self, py: Python<'_>, ticket: u64) -> Option<PyErr> {
        let withdrawn = self.transport.with(|session, _| session.withdraw(Ticket(ticket)));
        withdrawn.map(|failure| errors::failed(py, failure))
    }

    /// The answers since the last call, as token, value and error, and the subscriptions with news.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Vec<u64>)> {
        let (answers, news) = self.transport.drain();
        let told = PyList::empty(py);
        for (token, outcome) in answers {
            told.append(match value_of(py, outcome) {
                Ok(value) => (token, value, py.None()).into_pyobject(py)?,
                Err(error) => (token, py.None(), error).into_pyobject(py)?,
            } as Bound<'py, PyTuple>)?;
        }
        Ok((told, news.into_iter().map(|id| id.0).collect()))
    }

    fn fileno(&self) -> Option<i32> {
        self.transport.descriptor()
    }

    /// Raises for a forked child, and for a closed client.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        check(py, &self.transport)
    }

    #[getter]
    fn is_here(&self) -> bool {
        self.transport.opened_by() == std::process::id()
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.transport.with(|session, _| session.check().is_err())
    }

    /// The number of connections that were lost, or could not be made.
    #[getter]
    fn lost_count(&self) -> u64 {
        self.transport.lost_count()
    }

    /// The stream of the server's store.
    #[getter]
    fn stream<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.transport.with(|session, _| session.stream()))
    }

    /// Creates a subscription at the server. With a token it only begins to, and an event loop gets the answer.
    #[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
    #[pyo3(signature = (names, start, in_flight_max, filters, handle_within_ms = None, token = None, /))]
    fn subscribe(
        &self,
        names: (Vec<Bound<'_, PyAny>>, Bound<'_, PyAny>),
        start: &Bound<'_, PyAny>,
        in_flight_max: &Bound<'_, PyAny>,
        filters: FilterTuple,
        handle_within_ms: Option<u64>,
        token: Option<u64>,
    ) -> PyResult<RemoteSubscription> {
        let (py, timeout) = (start.py(), self.timeout);
        check_process(py, &self.transport)?;
        let wanted = RemoteSubscription::wanted(&names, start, in_flight_max, filters, handle_within_ms)?;
        match token.map(Waiter::Loop) {
            None => RemoteSubscription::open(py, &self.transport, timeout, wanted),
            Some(opened) => RemoteSubscription::begun(py, &self.transport, timeout, wanted, opened),
        }
    }

    /// Ends the client, and waits until its thread has closed the socket.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        check_process(py, &self.transport)?;
        py.detach(|| self.transport.end());
        Ok(())
    }
}
