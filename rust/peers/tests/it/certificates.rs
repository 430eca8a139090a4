//! An authority, and certificates of it.

use std::path::Path;

use delaymq_peers::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

/// See the module.
pub(crate) struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { folder: tempfile::tempdir().unwrap(), issuer };
        authority.write("authority.pem", &authority.issuer.pem());
        authority
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The files of a node whose certificate is for this host.
    pub(crate) fn files(&self, name: &str, host: &str) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let signed = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        self.write(&format!("{name}.pem"), &signed.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
        let path = |name: &str| self.folder.path().join(name);
        TlsFiles {
            authorities: path("authority.pem"),
            certificate: path(&format!("{name}.pem")),
            key: path(&format!("{name}.key")),
        }
    }
}
