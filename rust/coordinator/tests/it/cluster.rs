//! A real etcd of three members on loopback, started and ended by a test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use delaymq_coordinator::{Coordinator, EtcdCoordinator, EtcdOptions, EtcdTls};

use crate::ports::free_ports;

/// How long the cluster may take to be ready. A busy machine takes long; the wait ends as soon as it is.
const READY_WITHIN: Duration = Duration::from_secs(120);

struct Member {
    name: String,
    client: u16,
    peer: u16,
    process: Option<Child>,
}

/// See the module.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    members: Vec<Member>,
    tls: Option<EtcdTls>,
}

impl Cluster {
    /// Three members that answer. With `tls`, their client ports demand certificates of its authority.
    pub(crate) fn start(tls: Option<EtcdTls>) -> Self {
        let ports = free_ports(6);
        let member = |(number, ports): (usize, &[u16])| {
            let [client, peer] = *ports else { panic!("two ports each") };
            Member { name: format!("member{number}"), client, peer, process: None }
        };
        let members = ports.chunks(2).enumerate().map(member).collect();
        let mut cluster = Self { folder: tempfile::tempdir().unwrap(), members, tls };
        (0..3).for_each(|place| cluster.start_member(place));
        let (coordinator, until) = (cluster.coordinator("ready"), Instant::now() + READY_WITHIN);
        while let Err(error) = coordinator.read() {
            assert!(Instant::now() < until, "etcd does not answer: {error}");
            sleep(Duration::from_millis(50));
        }
        cluster
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("{}://127.0.0.1:{}", self.scheme(), member.client)).collect()
    }

    /// A coordinator that knows all members.
    pub(crate) fn coordinator(&self, key: &str) -> EtcdCoordinator {
        EtcdCoordinator::new(&self.options(key)).unwrap()
    }

    /// Options with all members.
    pub(crate) fn options(&self, key: &str) -> EtcdOptions {
        let (endpoints, timeout) = (self.endpoints(), Duration::from_secs(10));
        EtcdOptions { endpoints, key: key.to_owned(), timeout, tls: self.tls.clone() }
    }

    /// Starts a member, with the data that it had.
    pub(crate) fn start_member(&mut self, place: usize) {
        let peers: Vec<_> =
            self.members.iter().map(|member| format!("{}=http://127.0.0.1:{}", member.name, member.peer)).collect();
        let (scheme, folder) = (self.scheme(), self.folder.path().to_owned());
        let tls = self.tls.clone();
        let member = self.members.get_mut(place).unwrap();
        let client = format!("{scheme}://127.0.0.1:{}", member.client);
        let peer = format!("http://127.0.0.1:{}", member.peer);
        let mut command = Command::new("etcd");
        command.args(["--name", &member.name, "--data-dir"]).arg(folder.join(&member.name));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &peers.join(","), "--initial-cluster-state", "new", "--logger", "zap"]);
        if let Some(EtcdTls { authorities, client: Some((certificate, key)) }) = &tls {
            command.arg("--trusted-ca-file").arg(authorities);
            command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
            command.arg("--client-cert-auth");
        }
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        member.process = Some(process.expect("etcd is installed: make etcd says how"));
    }

    /// Ends a member as `kill -9` does.
    pub(crate) fn kill_member(&mut self, place: usize) {
        if let Some(mut process) = self.members.get_mut(place).and_then(|member| member.process.take()) {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|place| self.kill_member(place));
    }
}

/// Writes an authority and one certificate of it, which members and clients share.
pub(crate) fn certificates(folder: &Path) -> EtcdTls {
    let openssl = |arguments: &str| {
        let run = Command::new("openssl").current_dir(folder).args(arguments.split(' ')).stdin(Stdio::null()).output();
        let ended = run.expect("openssl is installed: make etcd says how");
        assert!(ended.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&ended.stderr));
    };
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost").unwrap();
    openssl(&format!("req -x509 {new_key} -keyout authority.key -out authority.pem -subj /CN=authority -days 30"));
    openssl(&format!("req {new_key} -keyout one.key -out one.request -subj /CN=one"));
    openssl("x509 -req -in one.request -CA authority.pem -CAkey authority.key -out one.pem -days 30 -extfile names");
    let path = |name: &str| -> PathBuf { folder.join(name) };
    EtcdTls { authorities: path("authority.pem"), client: Some((path("one.pem"), path("one.key"))) }
}
