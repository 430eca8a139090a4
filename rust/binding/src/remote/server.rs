//! A server over an open store, for the command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delaymq_core::error::Error;
use delaymq_core::wire::quota::connection_limits::ConnectionLimits;
use delaymq_core::wire::quota::notices::Notice;
use delaymq_server::{
    AccessOptions, Network, Places as EnginePlaces, Server as EngineServer, ServerError, ServerOptions, TokenHash,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::errors;
use crate::embedded::store::Store;
use crate::remote::qmq_options::with_consuming;

/// Level, action, text, address, detail and count of a notice about peers.
pub(crate) type NoticeTuple = (&'static str, &'static str, &'static str, String, String, u64);

/// A server that runs until it is stopped.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Server(EngineServer);

/// The options of a server: the keys of `ServerChoices`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Choices<'py> {
    host: String,
    port: u16,
    http_host: String,
    http_port: u16,
    advertised_address: Option<String>,
    token_hash: Option<String>,
    admin_token_hash: Option<String>,
    qmq_clients_from: Vec<String>,
    switched_off: Option<PathBuf>,
    silence_ms: Option<u64>,
    consuming: Bound<'py, PyDict>,
}

/// The addresses of a server, before there is a store.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Places(Mutex<Option<EnginePlaces>>);

#[pymethods]
impl Places {
    #[staticmethod]
    #[pyo3(signature = (choices, /))]
    fn take(py: Python<'_>, choices: Choices<'_>) -> PyResult<Self> {
        let options = options(py, choices)?;
        let places = EnginePlaces::take(options).map_err(|error| raised(py, error))?;
        Ok(Self(Mutex::new(Some(places))))
    }

    #[pyo3(signature = (store, /))]
    fn serve(&self, store: &Bound<'_, Store>) -> PyResult<Server> {
        let (py, engine) = (store.py(), Arc::clone(&store.get().engine));
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let places = places.ok_or_else(|| errors::raised(py, Error::Closed))?;
        py.detach(|| EngineServer::start_at(places, engine)).map(Server).map_err(|error| raised(py, error))
    }
}

#[pymethods]
impl Server {
    fn addresses(&self) -> (String, Option<String>) {
        (self.0.address().to_string(), self.0.http_address().map(|address| address.to_string()))
    }

    fn notices(&self) -> (Vec<NoticeTuple>, u64) {
        let (told, unlisted) = self.0.notices();
        (tuples(told), unlisted)
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

/// Notices about peers as tuples.
pub(crate) fn tuples(notices: Vec<Notice<IpAddr>>) -> Vec<NoticeTuple> {
    let told = notices.into_iter().map(|one| {
        let level = if one.kind.is_warning() { "warning" } else { "info" };
        (level, one.kind.word(), one.kind.words(), one.address.to_string(), one.detail, one.count)
    });
    told.collect()
}

/// The options of a server.
pub(crate) fn options(py: Python<'_>, choices: Choices<'_>) -> PyResult<ServerOptions> {
    let options = ServerOptions {
        listen: SocketAddr::new(address(py, "server.host", &choices.host)?, choices.port),
        http: Some(SocketAddr::new(address(py, "http.host", &choices.http_host)?, choices.http_port)),
        access: access(&choices).map_err(|error| errors::raised(py, error))?,
        advertised_address: choices.advertised_address,
        switched_off: choices.switched_off,
        ..ServerOptions::default()
    };
    let usual = options.connection;
    let silence_ms_max = choices.silence_ms.unwrap_or(usual.silence_ms_max);
    let options = ServerOptions { connection: ConnectionLimits { silence_ms_max, ..usual }, ..options };
    with_consuming(&choices.consuming, options)
}

fn address(py: Python<'_>, key: &'static str, text: &str) -> PyResult<IpAddr> {
    text.parse().map_err(|_| errors::refused(py, key, "an IP address, such as 127.0.0.1", &format!("{text:?}")))
}

fn access(choices: &Choices<'_>) -> Result<AccessOptions, Error> {
    let hash = |key, text: &Option<String>| text.as_deref().map(|text| TokenHash::parse(key, text)).transpose();
    let networks = choices.qmq_clients_from.iter().map(|text| Network::parse("server.qmq_clients_from", text));
    Ok(AccessOptions {
        token: hash("server.token_hash", &choices.token_hash)?,
        admin_token: hash("server.admin_token_hash", &choices.admin_token_hash)?,
        qmq_clients_from: networks.collect::<Result<_, _>>()?,
    })
}

/// The exception for an error of a server's start.
pub(crate) fn raised(py: Python<'_>, error: ServerError) -> PyErr {
    match error {
        ServerError::Listen { address, reason } => {
            let found = format!("{address}: {reason}");
            errors::refused(py, "server.port", "an address that can be listened on", &found)
        }
        ServerError::Thread { reason } => errors::no_thread(py, &reason),
        ServerError::Store(error) => errors::raised(py, error),
    }
}
