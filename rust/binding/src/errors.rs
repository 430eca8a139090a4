//! Errors of the core and engine as the exceptions that `delaymq.errors` defines. They are born in
//! Python; this file only finds them and sets their attributes.

use delaymq_core::error::{Error, StorageFault};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// One attribute of an exception.
enum Detail {
    Text(String),
    Number(u64),
}

type Details = Vec<(&'static str, Detail)>;

fn text(name: &'static str, value: impl Into<String>) -> (&'static str, Detail) {
    (name, Detail::Text(value.into()))
}

fn number(name: &'static str, value: impl Into<u64>) -> (&'static str, Detail) {
    (name, Detail::Number(value.into()))
}

/// The exception for an error of the core.
pub(crate) fn raised(py: Python<'_>, error: Error) -> PyErr {
    let message = error.to_string();
    let (class, details) = described(error);
    exception(py, class, &message, details)
}

/// The exception for an argument of the wrong type.
pub(crate) fn wrong_type(argument: &str, expected: &str, found: &Bound<'_, PyAny>) -> PyErr {
    let kind = found.get_type().name().map_or_else(|_| "an unnamed type".to_owned(), |name| name.to_string());
    let message = format!("{argument}: expected {expected}, found {kind}");
    let details = vec![text("argument", argument), text("expected", expected), text("found", kind)];
    exception(found.py(), "WrongType", &message, details)
}

/// As `wrong_type`, with what to do about it.
pub(crate) fn wrong_type_advising(argument: &str, expected: &str, found: &Bound<'_, PyAny>, advice: &str) -> PyErr {
    wrong_type(argument, &format!("{expected} ({advice})"), found)
}

/// The exception for an argument whose value is refused.
pub(crate) fn refused(py: Python<'_>, argument: &str, expected: &str, found: &str) -> PyErr {
    let message = format!("{argument}: expected {expected}, found {found}");
    let details = vec![text("argument", argument), text("expected", expected), text("found", found)];
    exception(py, "InvalidArgument", &message, details)
}

/// The exception for a wait that ended first.
pub(crate) fn timed_out(py: Python<'_>, what: &str) -> PyErr {
    exception(py, "TimedOut", &format!("{what} did not happen in time"), Vec::new())
}

/// The exception for a message whose subscription is closed.
pub(crate) fn subscription_closed(py: Python<'_>) -> PyErr {
    let message = "the subscription is closed: what it had not settled went back to its group and comes again";
    exception(py, "Closed", message, Vec::new())
}

/// The exception for a system that gives no thread.
pub(crate) fn no_thread(py: Python<'_>, reason: &str) -> PyErr {
    exception(py, "StorageError", &format!("cannot start a thread: {reason}"), vec![text("reason", reason)])
}

/// Says which message of a batch was refused.
pub(crate) fn at_index(py: Python<'_>, error: PyErr, index: usize) -> PyErr {
    match error.value(py).setattr("index", index) {
        Ok(()) => error,
        Err(other) => other,
    }
}

fn exception(py: Python<'_>, class: &str, message: &str, details: Details) -> PyErr {
    match built(py, class, message, details) {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    }
}

fn built<'py>(py: Python<'py>, class: &str, message: &str, details: Details) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("delaymq.errors").map(Bound::unbind))?;
    let attributes = PyDict::new(py);
    for (name, detail) in details {
        match detail {
            Detail::Text(value) => attributes.set_item(name, value)?,
            Detail::Number(value) => attributes.set_item(name, value)?,
        }
    }
    module.bind(py).getattr(class)?.call((message,), Some(&attributes))
}

/// The class and attributes for each way to fail. A new one does not build until it has a word here.
fn described(error: Error) -> (&'static str, Details) {
    match error {
        Error::Storage { operation, path, fault, message } => {
            let (class, errno) = fault_of(fault);
            (class, vec![number("errno", errno), text("path", path), text("reason", format!("{operation}: {message}"))])
        }
        Error::Corrupt { path, offset, expected, found } => ("Corrupt", place(path, offset, expected, found)),
        Error::DamagedPayload { sequence, path, offset, expected, found } => {
            let mut details = place(path, offset, expected, found);
            details.push(number("sequence", sequence));
            ("DamagedPayload", details)
        }
        Error::MissingFile { path, reason } => (
            "MissingFile",
            vec![text("path", path), text("reason", reason), text("expected", "a file"), text("found", "none")],
        ),
        Error::NewerFormat { path, offset, found, supported } => {
            ("NewerFormat", place(path, offset, format!("format {supported} or earlier"), format!("format {found}")))
        }
        Error::NotAStore { path, found } => {
            ("NotAStore", vec![text("path", path), text("expected", "a store"), text("found", found)])
        }
        Error::Locked { path } => {
            let found = "another process has it open";
            ("Locked", vec![text("path", path), text("expected", "a store that nobody has open"), text("found", found)])
        }
        Error::Poisoned { reason } => ("Poisoned", vec![text("reason", reason)]),
        Error::DiskFull => ("DiskFull", Vec::new()),
        Error::Closed => ("Closed", Vec::new()),
        other => described_argument(other),
    }
}

fn described_argument(error: Error) -> (&'static str, Details) {
    match error {
        Error::ForkedProcess { owner, caller } => {
            ("ForkedProcess", vec![number("owner", owner), number("caller", caller)])
        }
        Error::InvalidArgument { argument, expected, found } => {
            ("InvalidArgument", vec![text("argument", argument), text("expected", expected), text("found", found)])
        }
        Error::TooLarge { argument, limit, found } => {
            ("TooLarge", vec![text("argument", argument), number("limit", limit), text("found", found.to_string())])
        }
        _ => ("StoreError", Vec::new()),
    }
}

fn place(path: String, offset: u64, expected: String, found: String) -> Details {
    vec![text("path", path), number("offset", offset), text("expected", expected), text("found", found)]
}

/// The class, and the number that Linux gives to such a failure.
const fn fault_of(fault: StorageFault) -> (&'static str, u32) {
    match fault {
        StorageFault::NotFound => ("StorageError", 2),
        StorageFault::Io | StorageFault::Stopped => ("StorageError", 5),
        StorageFault::PermissionDenied => ("PermissionDenied", 13),
        StorageFault::AlreadyExists => ("StorageError", 17),
        StorageFault::NoSpace => ("DiskFull", 28),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: &str = include_str!("../../../python/delaymq/errors.py");

    fn words() -> [String; 3] {
        ["one".to_owned(), "two".to_owned(), "three".to_owned()]
    }

    fn every_error() -> Vec<Error> {
        let [path, expected, found] = words();
        let (reason, message) = (path.clone(), path.clone());
        let place = (path.clone(), expected.clone(), found.clone());
        let fault = |fault| Error::Storage { operation: "open", path: path.clone(), fault, message: message.clone() };
        vec![
            fault(StorageFault::NoSpace),
            fault(StorageFault::NotFound),
            fault(StorageFault::AlreadyExists),
            fault(StorageFault::PermissionDenied),
            fault(StorageFault::Io),
            fault(StorageFault::Stopped),
            Error::corrupt(&place.0, 7, &place.1, &place.2),
            Error::DamagedPayload { sequence: 3, path: place.0, offset: 7, expected: place.1, found: place.2 },
            Error::MissingFile { path: path.clone(), reason: reason.clone() },
            Error::NewerFormat { path: path.clone(), offset: 8, found: 9, supported: 1 },
            Error::NotAStore { path: path.clone(), found: found.clone() },
            Error::Locked { path: path.clone() },
            Error::Poisoned { reason },
            Error::DiskFull,
            Error::Closed,
            Error::ForkedProcess { owner: 1, caller: 2 },
            Error::InvalidArgument { argument: "body", expected, found },
            Error::TooLarge { argument: "body", limit: 4, found: 5 },
        ]
    }

    #[test]
    fn every_error_has_a_class_of_its_own_in_python() {
        for error in every_error() {
            let (class, _) = described(error.clone());
            assert!(CLASSES.contains(&format!("class {class}(")), "{class} for {error:?}");
            assert_ne!(class, "StoreError", "{error:?}");
        }
    }

    #[test]
    fn the_place_and_the_difference_cross_as_attributes() {
        let (class, details) = described(Error::corrupt("log/1", 7, "a", "b"));
        let names: Vec<_> = details.iter().map(|(name, _)| *name).collect();
        assert_eq!((class, names), ("Corrupt", vec!["path", "offset", "expected", "found"]));
        let (class, details) = described(Error::TooLarge { argument: "body", limit: 4, found: 5 });
        let names: Vec<_> = details.iter().map(|(name, _)| *name).collect();
        assert_eq!((class, names), ("TooLarge", vec!["argument", "limit", "found"]));
    }
}
