//! A server over an open store, as the command line runs it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use delaymq_server::{Server as EngineServer, ServerError, ServerOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::consuming::with_consuming;
use crate::errors;
use crate::store::Store;

/// A server that runs until it is stopped.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Server(EngineServer);

#[pymethods]
impl Server {
    #[staticmethod]
    #[pyo3(signature = (store, host, port, http_port, advertised_address, consuming, /))]
    fn start(
        store: &Bound<'_, Store>,
        host: &str,
        port: u16,
        http_port: u16,
        advertised_address: Option<String>,
        consuming: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let py = store.py();
        let refused = |_| errors::refused(py, "server.host", "an IP address, such as 127.0.0.1", &format!("{host:?}"));
        let host: IpAddr = host.parse().map_err(refused)?;
        let options = ServerOptions {
            listen: SocketAddr::new(host, port),
            http: Some(SocketAddr::new(host, http_port)),
            advertised_address,
            ..ServerOptions::default()
        };
        let options = with_consuming(consuming, options)?;
        let engine = Arc::clone(&store.get().engine);
        py.detach(|| EngineServer::start(engine, options)).map(Self).map_err(|error| raised(py, error))
    }

    fn addresses(&self) -> (String, Option<String>) {
        (self.0.address().to_string(), self.0.http_address().map(|address| address.to_string()))
    }

    #[pyo3(signature = (patience_ms, /))]
    fn stop(&self, patience_ms: u64) {
        self.0.stop(Duration::from_millis(patience_ms));
    }

    #[pyo3(signature = (wait_ms_max, /))]
    fn wait(&self, py: Python<'_>, wait_ms_max: u64) -> Option<usize> {
        py.detach(|| self.0.wait(Duration::from_millis(wait_ms_max))).map(|stopped| stopped.cut_off)
    }
}

fn raised(py: Python<'_>, error: ServerError) -> PyErr {
    match error {
        ServerError::Listen { address, reason } => {
            let found = format!("{address}: {reason}");
            errors::refused(py, "server.port", "an address that can be listened on", &found)
        }
        ServerError::Thread { reason } => errors::no_thread(py, &reason),
        ServerError::Store(error) => errors::raised(py, error),
    }
}
