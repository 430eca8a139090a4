//! The connections between the nodes of a group of copies.
//!
//! In: messages for other nodes ([`Peers::send`]). Out: messages of other nodes, and which connections begin, end or
//! are refused ([`PeerEvent`], to the sink of [`PeerOptions`]). The crate decides nothing about copies. Read
//! `interface` and `peers`, then `link` (a connection that this node makes) and `arrival` (one that it accepts), then
//! `greeting` (both hellos), `channel` (bytes, with or without TLS), `outbox` and `queue` (the messages that wait).
//!
//! A node makes one connection to each address, and sends its messages there. It receives on the connections that it
//! accepts. So two nodes have two connections, each with one thread at each end, which either writes or reads. No lock
//! is held while a thread waits for a socket, and no rule is needed for two nodes that connect at the same time.
//!
//! Messages may be lost, which the protocol expects: when a connection ends, and when the queue of a slow node is full.
//! Those that arrive are in order, whole, and never repeated: no frame is sent on a second connection.
//!
//! Each node presents a certificate of the group's authority (TLS 1.3). Without certificates, addresses must be
//! loopback. A node that stops without a word is noticed within about 3 s.

mod arrival;
mod arrivals;
mod channel;
mod context;
mod greeting;
mod interface;
mod link;
mod listener;
mod outbox;
mod peers;
mod queue;
mod socket;
mod threads;
mod tls;
mod wake;

pub use interface::{
    Direction, Fault, LinkFault, LinkStatus, NotSent, PeerAddress, PeerEvent, PeerOptions, PeersError, QUEUE_BYTES_MAX,
    Sink, TlsFiles,
};
pub use peers::{Peers, check_address};
