//! The options of a server, and the errors of its start.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use delaymq_core::error::Error;
use delaymq_core::units::Span;
use delaymq_core::wire::quota::connection_limits::ConnectionLimits;
use delaymq_core::wire::quota::memory_accounting::ScalesLimits;
use delaymq_core::wire::quota::unfinished::UnfinishedLimits;
use thiserror::Error as Described;

use crate::access::network::Network;
use crate::access::token::TokenHash;

/// The usual port of the listener.
const PORT: u16 = 20_801;
/// The usual port of plain HTTP.
const HTTP_PORT: u16 = 20_880;

/// The options of a server. If other machines can reach its addresses, it needs a token and an address to advertise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerOptions {
    /// The address for connections; port 0 is any free port.
    pub listen: SocketAddr,
    /// The address for plain HTTP; port 0 is any free port.
    pub http: Option<SocketAddr>,
    /// The address that `/meta/address` and registrations tell clients, as `host:port`; by default the address of
    /// `listen`.
    pub advertised_address: Option<String>,
    /// When a QMQ message without the delay bit is due, in milliseconds after it arrived. QMQ's delay server has ten
    /// seconds. Here the same listener serves messages that are due now.
    pub undelayed_ms: u64,
    /// The release that the answer to a client's hello names.
    pub release: String,
    /// Access control.
    pub access: AccessOptions,
    /// The file of consumers that are switched off. Without it, all are on when a server starts.
    pub switched_off: Option<PathBuf>,
    /// Connections in all, without plain HTTP.
    pub connections_max: usize,
    /// Connections of one address. Here and below, an IPv6 address stands for its network of 64 bits.
    pub connections_per_address_max: usize,
    /// Connections whose peers have not sent the token.
    pub strangers_max: usize,
    /// The same, of one address.
    pub strangers_per_address_max: usize,
    /// Connections of plain HTTP.
    pub http_connections_max: usize,
    /// The same, of one address.
    pub http_connections_per_address_max: usize,
    /// How long a request of plain HTTP may take to arrive, and its answer to be read, in milliseconds.
    pub http_ms_max: u64,
    /// Subscriptions of one connection.
    pub subscriptions_max: usize,
    /// How long a QMQ consumer may be silent before its messages go to its group's retry subject.
    pub lease_ms: u64,
    /// How long a broadcast consumer may be silent before it ends with its group, also over restarts.
    pub broadcast_lease_ms: u64,
    /// How long a message waits in the retry subject.
    pub retry_delay_ms: u64,
    /// A message that was delivered so often becomes a dead letter instead.
    pub attempts_max: u32,
    /// Parked pulls that delay nothing, in all; one address may have half of them. Further pulls are parked as well,
    /// and count as requests under way of their connection.
    pub held_pulls_max: u32,
    /// Consumers of QMQ in all; the next options limit the groups and subjects that they and QMQ's producers may
    /// create.
    pub consumers_max: usize,
    /// See `consumers_max`.
    pub groups_max: u32,
    /// See `consumers_max`.
    pub subjects_max: u32,
    /// Requests that wait for a thread, in all. Further requests are refused as busy.
    pub waiting_requests_max: usize,
    /// Publishes that wait for room in the log, in all.
    pub waiting_publishes_max: usize,
    /// The bytes of these publishes.
    pub waiting_publish_bytes_max: usize,
    /// Bytes of unfinished requests of all connections together. Beyond it, connections that want more than a little
    /// are closed.
    pub input_bytes_max: usize,
    /// The memory that connections may make the server keep.
    pub scales: ScalesLimits,
    /// The unfinished requests that one address may leave.
    pub unfinished: UnfinishedLimits,
    /// The limits of one connection.
    pub connection: ConnectionLimits,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            http: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, HTTP_PORT))),
            advertised_address: None,
            undelayed_ms: 0,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            access: AccessOptions::default(),
            switched_off: None,
            connections_max: 10_000,
            connections_per_address_max: 5_000,
            strangers_max: 2_048,
            strangers_per_address_max: 256,
            http_connections_max: 256,
            http_connections_per_address_max: 64,
            http_ms_max: 10_000,
            subscriptions_max: 1_024,
            lease_ms: 180_000,
            broadcast_lease_ms: 48 * 3_600_000,
            retry_delay_ms: 5_000,
            attempts_max: 32,
            held_pulls_max: 100_000,
            consumers_max: 100_000,
            groups_max: 100_000,
            subjects_max: 100_000,
            waiting_requests_max: 1_024,
            waiting_publishes_max: 1_024,
            waiting_publish_bytes_max: 64 << 20,
            input_bytes_max: 256 << 20,
            scales: ScalesLimits::default(),
            unfinished: UnfinishedLimits::default(),
            connection: ConnectionLimits::default(),
        }
    }
}

impl ServerOptions {
    /// Checks that the delays of these options are not above the store's longest delay: otherwise it would refuse each
    /// such message.
    /// Fails with `InvalidArgument` naming `server.qmq_retry_seconds` or `server.qmq_undelayed_seconds`.
    pub(crate) fn check_delays(&self, delay_ms_max: u64) -> Result<(), Error> {
        let delays =
            [("server.qmq_retry_seconds", self.retry_delay_ms), ("server.qmq_undelayed_seconds", self.undelayed_ms)];
        match delays.into_iter().find(|(_, delay_ms)| *delay_ms > delay_ms_max) {
            Some((argument, delay_ms)) => Err(Error::InvalidArgument {
                argument,
                expected: format!("at most {}, the longest delay of the store", Span(delay_ms_max)),
                found: Span(delay_ms).to_string(),
            }),
            None => Ok(()),
        }
    }
}

/// Options of access control.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccessOptions {
    /// The token that a peer must send. Without it no token is needed, which is allowed only for addresses that no
    /// other machine reaches.
    pub token: Option<TokenHash>,
    /// The token that switches consumers on and off. Without it no one can.
    pub admin_token: Option<TokenHash>,
    /// Networks of QMQ's clients, which send no token.
    pub qmq_clients_from: Vec<Network>,
}

/// Why a server did not start.
#[derive(Clone, PartialEq, Eq, Debug, Described)]
pub enum ServerError {
    /// It cannot listen on the address.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system says.
        reason: String,
    },
    /// The system has no thread for it.
    #[error("cannot start the server's thread: {reason}")]
    Thread {
        /// What the system says.
        reason: String,
    },
    /// The store failed, or refuses an option.
    #[error(transparent)]
    Store(#[from] Error),
}
