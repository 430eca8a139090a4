//! The options of a node's connections to the others and to the register: the keys of `ClusterChoices` and
//! `RegisterChoices`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use delaymq_coordinator::{EtcdOptions, EtcdTls};
use delaymq_node::{ClusterOptions, CoordinatorOptions};
use delaymq_peers::{PeerAddress, TlsFiles};
use pyo3::prelude::*;

use crate::convert::errors;

/// Where a node listens, and the other nodes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Choices {
    listen: String,
    advertised_address: Option<String>,
    peers: Vec<String>,
    tls: Option<(PathBuf, PathBuf, PathBuf)>,
    register: RegisterChoices,
}

/// Where the register is: a file, or else a key of etcd.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RegisterChoices {
    file: Option<PathBuf>,
    key: String,
    endpoints: Vec<String>,
    timeout_ms: u64,
    authorities: Option<PathBuf>,
    client: Option<(PathBuf, PathBuf)>,
}

/// The options of a node's connections.
pub(crate) fn cluster(py: Python<'_>, choices: Choices) -> PyResult<ClusterOptions> {
    let Choices { listen, advertised_address, peers, tls, register } = choices;
    let refused = |_| errors::refused(py, "cluster.listen", "an IP address and a port", &format!("{listen:?}"));
    let listen: SocketAddr = listen.parse().map_err(refused)?;
    let peers = peers.into_iter().map(|address| PeerAddress { address, node: None }).collect();
    let tls = tls.map(|(authorities, certificate, key)| TlsFiles { authorities, certificate, key });
    Ok(ClusterOptions { listen, advertised_address, peers, tls, coordinator: coordinator(register) })
}

/// Where the register is.
pub(crate) fn coordinator(choices: RegisterChoices) -> CoordinatorOptions {
    let RegisterChoices { file, key, endpoints, timeout_ms, authorities, client } = choices;
    if let Some(path) = file {
        return CoordinatorOptions::File(path);
    }
    let tls = authorities.map(|authorities| EtcdTls { authorities, client });
    CoordinatorOptions::Etcd(EtcdOptions { endpoints, key, timeout: Duration::from_millis(timeout_ms), tls })
}
