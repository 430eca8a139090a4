//! Errors of the core and engine as the exceptions of `delaymq.errors`. Python defines them; this file finds them and
//! sets their attributes.

use delaymq_client::failure::Failure;
use delaymq_core::error::Error;
use delaymq_core::wire::extension::errors::{RemoteError, Value};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

type Details = Vec<(&'static str, Value)>;

fn text(name: &'static str, value: &str) -> (&'static str, Value) {
    (name, Value::from(value))
}

/// The exception for an error of the core. It has the class and attributes that a server reports for the same
/// error, so a client raises the same exception as the embedded store.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` has")]
pub(crate) fn raised(py: Python<'_>, error: Error) -> PyErr {
    told(py, RemoteError::from(&error))
}

/// The exception for an error that a server reported.
pub(crate) fn told(py: Python<'_>, error: RemoteError) -> PyErr {
    let RemoteError { code, words, details } = error;
    let details = details.into_iter().map(|(attribute, value)| (attribute.name(), value)).collect();
    exception(py, code.class(), &words, details)
}

/// The exception for an error of a client.
pub(crate) fn failed(py: Python<'_>, failure: Failure) -> PyErr {
    let (kind, words, reason, cause) = match failure {
        Failure::Remote(error) => return told(py, error),
        Failure::Local { kind, words, reason, cause } => (kind, words, reason, cause),
    };
    let details = reason.iter().map(|reason| text("reason", reason)).collect();
    let raised = exception(py, kind.class(), &words, details);
    if let Some(cause) = cause {
        raised.set_cause(py, Some(told(py, cause)));
    }
    raised
}

/// The exception for a client in a forked child.
pub(crate) fn forked_client(py: Python<'_>, owner: u32, caller: u32) -> PyErr {
    let words = format!("the client belongs to process {owner}, this is process {caller}");
    let details = vec![("owner", Value::Number(owner.into())), ("caller", Value::Number(caller.into()))];
    exception(py, "ForkedProcess", &words, details)
}

/// The exception for an argument of the wrong type.
pub(crate) fn wrong_type(argument: &str, expected: &str, found: &Bound<'_, PyAny>) -> PyErr {
    let kind = found.get_type().name().map_or_else(|_| "an unnamed type".to_owned(), |name| name.to_string());
    let message = format!("{argument}: expected {expected}, found {kind}");
    let details = vec![text("argument", argument), text("expected", expected), text("found", &kind)];
    exception(found.py(), "WrongType", &message, details)
}

/// Like `wrong_type`, with advice for the caller.
pub(crate) fn wrong_type_advising(argument: &str, expected: &str, found: &Bound<'_, PyAny>, advice: &str) -> PyErr {
    wrong_type(argument, &format!("{expected} ({advice})"), found)
}

/// The exception for an argument whose value is refused.
pub(crate) fn refused(py: Python<'_>, argument: &str, expected: &str, found: &str) -> PyErr {
    let message = format!("{argument}: expected {expected}, found {found}");
    let details = vec![text("argument", argument), text("expected", expected), text("found", found)];
    exception(py, "InvalidArgument", &message, details)
}

/// The exception for an argument that is refused for this reason.
pub(crate) fn invalid(py: Python<'_>, argument: &str, reason: &str) -> PyErr {
    let details = vec![text("argument", argument), text("reason", reason)];
    exception(py, "InvalidArgument", &format!("{argument}: {reason}"), details)
}

/// The exception for a coordinator that does not answer.
pub(crate) fn unreachable(py: Python<'_>, words: &str, reason: &str) -> PyErr {
    exception(py, "Unreachable", words, vec![text("reason", reason)])
}

/// The exception for a receipt of another store.
pub(crate) fn foreign_receipt(py: Python<'_>, receipt: &str) -> PyErr {
    let expected = "a receipt that this store gave out";
    let message = format!("receipt: expected {expected}, found one of another store; cancel it in the store it is of");
    let details = vec![text("argument", "receipt"), text("expected", expected), text("found", receipt)];
    exception(py, "ForeignReceipt", &message, details)
}

/// The exception for a wait that timed out.
pub(crate) fn timed_out(py: Python<'_>, what: &str) -> PyErr {
    exception(py, "TimedOut", &format!("{what} did not happen in time"), Vec::new())
}

/// The exception for a message whose subscription is closed.
pub(crate) fn subscription_closed(py: Python<'_>) -> PyErr {
    let message = "the subscription is closed: what it had not settled went back to its group and comes again";
    exception(py, "Closed", message, Vec::new())
}

/// The exception for a thread that the system refused to start.
pub(crate) fn no_thread(py: Python<'_>, reason: &str) -> PyErr {
    exception(py, "StorageError", &format!("cannot start a thread: {reason}"), vec![text("reason", reason)])
}

/// The exception for a client that the system gives no descriptors or thread.
pub(crate) fn no_client(py: Python<'_>, reason: &str) -> PyErr {
    exception(py, "StorageError", &format!("cannot open a client: {reason}"), vec![text("reason", reason)])
}

/// Adds the index of the refused message in its batch.
pub(crate) fn at_index(py: Python<'_>, error: PyErr, index: usize) -> PyErr {
    match error.value(py).setattr("index", index) {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// The exception that a function of the Python package makes.
pub(crate) fn made_by<'py>(
    py: Python<'py>,
    module: &str,
    function: &Bound<'py, PyString>,
    arguments: impl PyCallArgs<'py>,
) -> PyErr {
    let made = py.import(module).and_then(|module| module.getattr(function)?.call1(arguments));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// True if an exception is of one of these classes.
pub(crate) fn is_any(py: Python<'_>, error: &PyErr, classes: &[&str]) -> PyResult<bool> {
    let module = module(py)?;
    for class in classes {
        if error.is_instance(py, &module.getattr(*class)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn exception(py: Python<'_>, class: &str, message: &str, details: Details) -> PyErr {
    match built(py, class, message, details) {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    }
}

fn built<'py>(py: Python<'py>, class: &str, message: &str, details: Details) -> PyResult<Bound<'py, PyAny>> {
    let attributes = PyDict::new(py);
    for (name, detail) in details {
        match detail {
            Value::Text(value) => attributes.set_item(name, value)?,
            Value::Number(value) => attributes.set_item(name, value)?,
        }
    }
    module(py)?.getattr(class)?.call((message,), Some(&attributes))
}

fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    MODULE.get_or_try_init(py, || py.import("delaymq.errors").map(Bound::unbind)).map(|module| module.bind(py))
}
