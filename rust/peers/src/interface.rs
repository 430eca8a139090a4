//! The options of the connections, what they report, and the errors.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use delaymq_core::replication::{Message, NodeId};
use delaymq_core::wire::malformed::Malformed;
use delaymq_core::wire::peer::{Hello, Refusal};

/// The usual limit of the queue of one node, in bytes.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Takes what happens, on the threads of the connections. It must return soon, because it holds up the connection that
/// calls it, and only that one. It may call [`crate::Peers::send`], but not `set_peers` and `close`.
pub type Sink = Arc<dyn Fn(PeerEvent) + Send + Sync>;

/// The options of the connections of a node.
#[derive(Clone)]
pub struct PeerOptions {
    /// This node.
    pub hello: Hello,
    /// Where it listens.
    pub listen: SocketAddr,
    /// The other nodes.
    pub peers: Vec<PeerAddress>,
    /// Its certificates. Without them, `listen` and all addresses must be loopback.
    pub tls: Option<TlsFiles>,
    /// The most bytes that wait for one node. [`QUEUE_BYTES_MAX`] is usual.
    pub queue_bytes_max: usize,
    /// See [`Sink`].
    pub sink: Sink,
}

/// Where another node listens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PeerAddress {
    /// `host:port`. With TLS, the certificate of the node must be valid for the host.
    pub address: String,
    /// Its id, if it is known. Another node at the address is then refused.
    pub node: Option<NodeId>,
}

/// Certificates, as files in PEM. They are read once.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificates that sign those of the nodes.
    pub authorities: PathBuf,
    /// This node's certificate, for clients and servers, with the certificates between it and the authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Which node made a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// This one, to send.
    Outgoing,
    /// The other one, which sends.
    Incoming,
}

/// Something that happened.
#[derive(Debug)]
pub enum PeerEvent {
    /// A message has come from the node that its connection names.
    Message(NodeId, Message),
    /// A connection counts from now on.
    Connected {
        /// The other node.
        hello: Hello,
        /// Which node made it.
        direction: Direction,
    },
    /// A connection that counted has ended.
    Disconnected {
        /// The other node.
        node: NodeId,
        /// Which node made it.
        direction: Direction,
        /// Why it ended.
        fault: Fault,
    },
    /// A connection ended before it counted. A node tries again about once a second, and reports each attempt.
    Refused {
        /// The address that this node connected to, or that of the other end.
        address: String,
        /// Which node made it.
        direction: Direction,
        /// Why it ended.
        fault: Fault,
    },
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The system reports an error.
    #[error("{0}")]
    Socket(#[from] io::Error),
    /// The other end closed it.
    #[error("the other end closed the connection")]
    Ended,
    /// The certificates or bytes of the other end are not what TLS expects.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// Bytes that are no frame.
    #[error("malformed bytes: {0}")]
    Malformed(#[from] Malformed),
    /// A frame that has no place there.
    #[error("expected {expected}, found another frame")]
    Unexpected {
        /// The expected frame.
        expected: &'static str,
    },
    /// The other end did not say who it is within 5 s.
    #[error("the other end did not say hello in time")]
    Silent,
    /// This node refuses the other one.
    #[error("refused: {0}")]
    Refuses(Refusal),
    /// The other node refuses this one.
    #[error("refused by the other node: {0}")]
    RefusedBy(Refusal),
    /// A newer connection of the same node has taken its place.
    #[error("a newer connection of the same node took its place")]
    Replaced,
    /// There are too many connections.
    #[error("there are too many connections")]
    Full,
    /// Without TLS, only loopback addresses are connected to.
    #[error("the address is not loopback, and there are no certificates")]
    NotLoopback,
    /// This node has ended it, because it stops or has removed the address.
    #[error("this node closed the connection")]
    Removed,
}

impl Fault {
    /// True if both nodes were there, and one of them does not take the other.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refuses(_) | Self::RefusedBy(_) | Self::Tls(_) | Self::NotLoopback)
    }
}

/// Why a message is not sent. It is lost, as one whose connection ends.
#[derive(Debug, thiserror::Error)]
pub enum NotSent {
    /// This node has no connection to the other one.
    #[error("the node is not connected")]
    NotConnected,
    /// Too much waits for the node already.
    #[error("too much waits for the node already")]
    Full,
    /// The message does not fit a frame.
    #[error(transparent)]
    TooLarge(#[from] delaymq_core::Error),
}

/// The state of the connection to one address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkStatus {
    /// The address.
    pub address: PeerAddress,
    /// The node that is connected there.
    pub node: Option<NodeId>,
    /// Bytes that wait to be written.
    pub queued_bytes: usize,
    /// Messages that were lost, because the queue was full or the connection ended, since the address was configured.
    pub dropped: u64,
    /// Why the last attempt to connect failed. `None` while a node is connected.
    pub fault: Option<LinkFault>,
}

/// Why an attempt to connect failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkFault {
    /// In words.
    pub words: String,
    /// The nodes refuse each other, so that it does not help to try again.
    pub is_refusal: bool,
}

/// Why the connections cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum PeersError {
    /// An option cannot be used.
    #[error("{option}: {message}")]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// Why not.
        message: String,
    },
    /// The address cannot be listened on.
    #[error("{address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The system has no more descriptors or threads.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(formatter)
    }
}

impl PeerAddress {
    /// The host without its port, and without brackets.
    pub(crate) fn host(&self) -> Option<&str> {
        let (host, port) = self.address.rsplit_once(':')?;
        port.parse::<u16>().ok()?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        Some(bare.unwrap_or(host)).filter(|host| !host.is_empty())
    }
}

impl fmt::Debug for PeerOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hello, listen, peers, tls, queue_bytes_max, sink: _ } = self;
        let mut shown = formatter.debug_struct("PeerOptions");
        shown.field("hello", hello).field("listen", listen).field("peers", peers).field("tls", tls);
        shown.field("queue_bytes_max", queue_bytes_max).finish_non_exhaustive()
    }
}
