//! A node of a group of copies: its copy of the store, and the server for clients.

use std::path::PathBuf;
use std::time::Duration;

use delaymq_core::replication::NodeId;
use delaymq_node::{
    GroupContinued, GroupCreated, Node as EngineNode, NodeOptions, continue_group as go_on, create_group as create,
    read_register as read,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cluster::failures::raised;
use crate::cluster::options::{self, Choices, RegisterChoices};
use crate::embedded::options::{Telling, from_python};
use crate::remote::server::{self, Choices as ServerChoices, NoticeTuple};

/// A node that runs until it is stopped, or until its copy fails.
#[pyclass(frozen, module = "delaymq._core")]
pub(crate) struct Node(EngineNode);

#[pymethods]
impl Node {
    #[staticmethod]
    #[pyo3(signature = (path, store, server, cluster, progress, /))]
    fn start(
        py: Python<'_>,
        path: PathBuf,
        store: &Bound<'_, PyDict>,
        server: ServerChoices<'_>,
        cluster: Choices,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let store = from_python(py, Some(store))?;
        let server = server::options(py, server)?;
        let node = NodeOptions { path, store, server, cluster: options::cluster(py, cluster)? };
        let mut telling = Telling::new(progress);
        let started = py.detach(|| EngineNode::start(node, &mut |progress| telling.tell(progress)));
        telling.outcome()?;
        started.map(Self).map_err(|error| raised(py, error))
    }

    fn addresses(&self) -> (String, Option<String>, String) {
        let http = self.0.http_address().map(|address| address.to_string());
        (self.0.address().to_string(), http, self.0.peer_address().to_string())
    }

    fn status(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.status())
    }

    fn notices(&self) -> (Vec<NoticeTuple>, u64) {
        let (told, unlisted) = self.0.notices();
        (server::tuples(told), unlisted)
    }

    #[pyo3(signature = (wait_ms_max, /))]
    fn next_report(&self, py: Python<'_>, wait_ms_max: u64) -> Option<(bool, String)> {
        let report = py.detach(|| self.0.next_report(Duration::from_millis(wait_ms_max)));
        report.map(|report| (report.is_warning, report.line))
    }

    #[pyo3(signature = (patience_ms, /))]
    fn stop(&self, patience_ms: u64) {
        self.0.stop(Duration::from_millis(patience_ms));
    }

    #[pyo3(signature = (wait_ms_max, /))]
    fn wait(&self, py: Python<'_>, wait_ms_max: u64) -> PyResult<Option<usize>> {
        let ended = py.detach(|| self.0.wait(Duration::from_millis(wait_ms_max)));
        ended.map(|ended| ended.map(|stopped| stopped.cut_off).map_err(|error| raised(py, error))).transpose()
    }
}

/// Stream and node of the first copy of a new group, in hexadecimal digits.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (path, segment_bytes, register, min_copies, /))]
pub(crate) fn create_group(
    py: Python<'_>,
    path: PathBuf,
    segment_bytes: u32,
    register: RegisterChoices,
    min_copies: usize,
) -> PyResult<(String, String)> {
    let coordinator = options::coordinator(register);
    let created = py.detach(|| create(&path, segment_bytes, &coordinator, min_copies));
    let GroupCreated { stream, node } = created.map_err(|error| raised(py, error))?;
    Ok((format!("{:032x}", u128::from_be_bytes(stream)), node.to_string()))
}

/// Timeline of a group that goes on from a copy, and the first sequence that may be missing.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (path, register, node, /))]
pub(crate) fn continue_group(
    py: Python<'_>,
    path: PathBuf,
    register: RegisterChoices,
    node: [u8; 16],
) -> PyResult<(u32, u64)> {
    let coordinator = options::coordinator(register);
    let continued = py.detach(|| go_on(&path, &coordinator, NodeId(node)));
    let GroupContinued { timeline, first_missing } = continued.map_err(|error| raised(py, error))?;
    Ok((timeline, first_missing.0))
}

/// The value of the register as JSON.
#[pyfunction]
#[pyo3(signature = (register, /))]
pub(crate) fn read_register(py: Python<'_>, register: RegisterChoices) -> PyResult<Option<String>> {
    let coordinator = options::coordinator(register);
    py.detach(|| read(&coordinator)).map_err(|error| raised(py, error))
}
