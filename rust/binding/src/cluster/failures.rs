//! Errors of a node as exceptions of `delaymq.errors`.

use delaymq_coordinator::CoordinatorError;
use delaymq_core::wire::extension::errors::{Attribute, ErrorCode, RemoteError, Value};
use delaymq_node::NodeError;
use delaymq_peers::PeersError;
use pyo3::prelude::*;

use crate::convert::errors;
use crate::remote::server;

/// The exception for an error of a node.
pub(crate) fn raised(py: Python<'_>, error: NodeError) -> PyErr {
    match error {
        NodeError::Store(error) => errors::raised(py, error),
        NodeError::Server(error) => server::raised(py, error),
        NodeError::Peers(error) => peers(py, &error),
        NodeError::Coordinator(error) => coordinator(py, &error),
        NodeError::Thread { reason } => errors::no_thread(py, &reason),
        NodeError::NoGroup { .. }
        | NodeError::GroupExists { .. }
        | NodeError::OtherGroup { .. }
        | NodeError::Superseded { .. }
        | NodeError::Refused(_) => errors::told(py, RemoteError::new(ErrorCode::Other, &error.to_string())),
    }
}

fn peers(py: Python<'_>, error: &PeersError) -> PyErr {
    match error {
        PeersError::InvalidOption { option, message } => {
            let name = match *option {
                "authorities" => "ca",
                "peer_address" => "advertised_address",
                option => option,
            };
            errors::invalid(py, &format!("cluster.{name}"), message)
        }
        PeersError::Listen { address, source } => {
            let found = format!("{address}: {source}");
            errors::refused(py, "cluster.listen", "an address that can be listened on", &found)
        }
        PeersError::System(source) => system(py, error, source),
    }
}

fn coordinator(py: Python<'_>, error: &CoordinatorError) -> PyErr {
    let words = error.to_string();
    let told = |code, details| errors::told(py, RemoteError { code, words: words.clone(), details });
    let text = |attribute, text: &str| (attribute, Value::from(text));
    match error {
        CoordinatorError::Unreachable { reasons } => errors::unreachable(py, &words, &reasons.join("; ")),
        CoordinatorError::Refused { .. } => told(ErrorCode::Other, Vec::new()),
        CoordinatorError::Malformed { place, expected, found } => {
            let details = [(Attribute::Path, place), (Attribute::Expected, expected), (Attribute::Found, found)];
            told(ErrorCode::Corrupt, details.map(|(attribute, value)| text(attribute, value)).to_vec())
        }
        CoordinatorError::Missing { key } => told(ErrorCode::MissingFile, vec![text(Attribute::Path, key)]),
        CoordinatorError::InvalidOption { option, message } => {
            let name = match *option {
                "endpoints" => "etcd",
                "authorities" => "etcd_ca",
                "client" => "etcd_certificate",
                _ => "register",
            };
            errors::invalid(py, &format!("cluster.{name}"), message)
        }
        CoordinatorError::File { source, .. } => system(py, error, source),
    }
}

fn system(py: Python<'_>, error: &dyn std::error::Error, source: &std::io::Error) -> PyErr {
    let code = match source.kind() {
        std::io::ErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
        std::io::ErrorKind::StorageFull => ErrorCode::DiskFull,
        _ => ErrorCode::Storage,
    };
    let number = source.raw_os_error().and_then(|number| u64::try_from(number).ok());
    let details = number.map(|number| (Attribute::Errno, Value::from(number))).into_iter().collect();
    errors::told(py, RemoteError { code, words: error.to_string(), details })
}
