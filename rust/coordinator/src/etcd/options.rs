//! Where the register is, and with which certificates.

use std::path::PathBuf;
use std::time::Duration;

/// Certificates for an etcd cluster that demands TLS. All files are PEM.
#[derive(Clone, Debug)]
pub struct EtcdTls {
    /// The certificates that sign those of the endpoints.
    pub authorities: PathBuf,
    /// The client's certificate and its key, if the cluster demands one.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Where the register is.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Addresses of the members, as `http://127.0.0.1:2379`, or with `https`.
    pub endpoints: Vec<String>,
    /// The key of the register.
    pub key: String,
    /// How long one request may take.
    pub timeout: Duration,
    /// Certificates, for `https`.
    pub tls: Option<EtcdTls>,
}
