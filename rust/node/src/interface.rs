//! The options of a node, its errors, and its reports.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use delaymq_coordinator::{Coordinator, CoordinatorError, EtcdCoordinator, EtcdOptions, FileCoordinator};
use delaymq_core::error::Error;
use delaymq_engine::{Options, random};
use delaymq_peers::{PeerAddress, PeersError, TlsFiles};
use delaymq_server::{ServerError, ServerOptions};

/// How a node is started.
#[derive(Clone)]
pub struct NodeOptions {
    /// The folder of its copy.
    pub path: PathBuf,
    /// The options of the store. `create` does not matter: an empty folder becomes a copy of the group.
    pub store: Options,
    /// The options of the server for clients.
    pub server: ServerOptions,
    /// The group.
    pub cluster: ClusterOptions,
}

/// The other nodes, and the register.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Where the node listens for other nodes.
    pub listen: SocketAddr,
    /// Where other nodes connect to this one, as `host:port`. By default `listen`, unless that is every address of the machine.
    pub advertised_address: Option<String>,
    /// Where the other nodes listen.
    pub peers: Vec<PeerAddress>,
    /// Certificates for the connections between nodes. Without them, all addresses must be loopback.
    pub tls: Option<TlsFiles>,
    /// Where the register is.
    pub coordinator: CoordinatorOptions,
}

/// Where the register of a group is.
#[derive(Clone, Debug)]
pub enum CoordinatorOptions {
    /// A file, for nodes of one machine.
    File(PathBuf),
    /// A key of an etcd cluster.
    Etcd(EtcdOptions),
}

impl CoordinatorOptions {
    /// The coordinator.
    pub(crate) fn open(&self) -> Result<Arc<dyn Coordinator>, NodeError> {
        Ok(match self {
            Self::File(path) => Arc::new(FileCoordinator::new(path, u64::from_be_bytes(random()?))),
            Self::Etcd(options) => Arc::new(EtcdCoordinator::new(options)?),
        })
    }

    /// The place of the register, in words.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Etcd(options) => format!("the key {} of etcd", options.key),
        }
    }
}

/// Why a node does not start, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The store refuses, or has failed.
    #[error(transparent)]
    Store(#[from] Error),
    /// The server for clients cannot start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The connections to other nodes cannot begin.
    #[error(transparent)]
    Peers(#[from] PeersError),
    /// The coordinator does not answer, or answers something that is no register.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
    /// There is no register yet.
    #[error(
        "{register} holds no group: make one with `delaymq cluster create` on the node that is to have its first copy"
    )]
    NoGroup {
        /// Where it was looked for.
        register: String,
    },
    /// There is a register already.
    #[error("{register} holds a group already: start a node with an empty folder to add a copy of it")]
    GroupExists {
        /// Where it is.
        register: String,
    },
    /// The copy belongs to another group than the register.
    #[error(
        "the copy in {path} is of the stream {found}, and {register} holds the group of the stream {expected}: name the \
         register of its group, or start with an empty folder"
    )]
    OtherGroup {
        /// The folder.
        path: String,
        /// Where the register is.
        register: String,
        /// The stream of the register, and its timeline.
        expected: String,
        /// The stream of the copy, and its timeline.
        found: String,
    },
    /// An operator has let the group go on from another copy.
    #[error(
        "the group of the copy in {path} went on without it, as timeline {timeline}, when an operator accepted a loss: \
         move its folder away, and start with an empty one"
    )]
    Superseded {
        /// The folder.
        path: String,
        /// The timeline of the register.
        timeline: u32,
    },
    /// The node cannot do this in its role.
    #[error("{0}")]
    Refused(String),
    /// The system has no thread for the node, or one of its threads has died.
    #[error("a thread of the node does not run: {reason}")]
    Thread {
        /// Why not.
        reason: String,
    },
}

/// Something that is worth a line in a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeReport {
    /// Somebody should look at it.
    pub is_warning: bool,
    /// In words.
    pub line: String,
}
