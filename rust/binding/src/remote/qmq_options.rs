//! Options of a server for QMQ's consumers. Options that are not given have their defaults.

use delaymq_server::ServerOptions;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyDictMethods};

fn chosen<'py, T: FromPyObjectOwned<'py>>(choices: &Bound<'py, PyDict>, name: &str, usual: T) -> PyResult<T> {
    match choices.get_item(name)? {
        Some(value) => value.extract().map_err(Into::into),
        None => Ok(usual),
    }
}

/// These options, changed by the choices.
///
/// # Errors
/// If a value is no whole number, or too large.
pub(crate) fn with_consuming(choices: &Bound<'_, PyDict>, options: ServerOptions) -> PyResult<ServerOptions> {
    Ok(ServerOptions {
        lease_ms: chosen(choices, "lease_ms", options.lease_ms)?,
        broadcast_lease_ms: chosen(choices, "broadcast_lease_ms", options.broadcast_lease_ms)?,
        retry_delay_ms: chosen(choices, "retry_delay_ms", options.retry_delay_ms)?,
        undelayed_ms: chosen(choices, "undelayed_ms", options.undelayed_ms)?,
        attempts_max: chosen(choices, "attempts_max", options.attempts_max)?,
        held_pulls_max: chosen(choices, "held_pulls_max", options.held_pulls_max)?,
        consumers_max: chosen(choices, "consumers_max", options.consumers_max)?,
        groups_max: chosen(choices, "groups_max", options.groups_max)?,
        subjects_max: chosen(choices, "subjects_max", options.subjects_max)?,
        ..options
    })
}
