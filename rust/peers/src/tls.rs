//! Both ends present a certificate of the group's authority, and speak TLS 1.3.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};

use crate::interface::{Fault, PeersError, TlsFiles};

/// See the module.
pub(crate) struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files.
    pub(crate) fn read(files: &TlsFiles) -> Result<Self, PeersError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates("authorities", &files.authorities)? {
            roots.add(authority).map_err(|error| refused("authorities", &files.authorities, &error))?;
        }
        let roots = Arc::new(roots);
        let chain = certificates("certificate", &files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| refused("key", &files.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let unusable = |error: rustls::Error| refused("certificate", &files.certificate, &error);

        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|error| refused("authorities", &files.authorities, &error))?;
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(unusable)?;
        // A connection lasts, so sessions are not resumed. Nothing is then sent to a node that only writes.
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(unusable)?;
        client.resumption = Resumption::disabled();
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    /// The end that connects to this host.
    pub(crate) fn client(&self, host: &str) -> Result<Connection, Fault> {
        Ok(ClientConnection::new(Arc::clone(&self.client), name_of(host)?)?.into())
    }

    /// The end that accepts.
    pub(crate) fn server(&self) -> Result<Connection, Fault> {
        Ok(ServerConnection::new(Arc::clone(&self.server))?.into())
    }
}

/// The host as certificates name it.
pub(crate) fn name_of(host: &str) -> Result<ServerName<'static>, Fault> {
    let is_none = |_| rustls::Error::General(format!("{host} is no name of a host"));
    Ok(ServerName::try_from(host.to_owned()).map_err(is_none)?)
}

fn refused(option: &'static str, path: &Path, error: &dyn std::fmt::Display) -> PeersError {
    PeersError::InvalidOption { option, message: format!("{}: {error}", path.display()) }
}

fn certificates(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, PeersError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| refused(option, path, &error))?;
    if found.is_empty() {
        return Err(refused(option, path, &"it has no certificate in PEM"));
    }
    Ok(found)
}
