//! What a server is started with, and why one does not start.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use delaymq_core::error::Error;
use delaymq_core::units::Span;
use delaymq_core::wire::quota::connection_limits::ConnectionLimits;
use delaymq_core::wire::quota::memory_accounting::ScalesLimits;
use delaymq_core::wire::quota::unfinished::UnfinishedLimits;
use thiserror::Error as Described;

use crate::access::control::AccessOptions;

/// The usual port of the listener.
const PORT: u16 = 20_801;
/// The usual port of plain HTTP.
const HTTP_PORT: u16 = 20_880;

/// The options of a server. Addresses that others than this machine reach need a token and an address
/// to advertise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerOptions {
    /// Where connections are taken; port 0 takes any that is free.
    pub listen: SocketAddr,
    /// Where plain HTTP is answered; port 0 takes any that is free.
    pub http: Option<SocketAddr>,
    /// What `/meta/address` and registrations tell clients, as `host:port`; where it listens, by
    /// itself.
    pub advertised_address: Option<String>,
    /// How long after it came a QMQ message without the delay bit is due, in milliseconds. QMQ's
    /// delay server has ten seconds; here the same listener takes what is due now.
    pub undelayed_ms: u64,
    /// The release that a client's hello is answered with.
    pub release: String,
    /// Who may ask.
    pub access: AccessOptions,
    /// The file that keeps which consumers are switched off; without it they are all on when a server
    /// starts.
    pub switched_off: Option<PathBuf>,
    /// Connections in all, those of plain HTTP not counted.
    pub connections_max: usize,
    /// Connections from one address; of IPv6, from one network of 64 bits, here and below.
    pub connections_per_address_max: usize,
    /// Those of them whose peers have not given the token.
    pub strangers_max: usize,
    /// Those of these from one address.
    pub strangers_per_address_max: usize,
    /// Connections of plain HTTP.
    pub http_connections_max: usize,
    /// Those of them from one address.
    pub http_connections_per_address_max: usize,
    /// How long a request of plain HTTP may take to arrive whole, and its answer to be read, in
    /// milliseconds.
    pub http_ms_max: u64,
    /// Subscriptions of one connection.
    pub subscriptions_max: usize,
    /// How long a QMQ consumer may be silent before what it holds goes to its group's retry subject.
    pub lease_ms: u64,
    /// How long a message waits there.
    pub retry_delay_ms: u64,
    /// A message that was delivered so often is a dead letter instead.
    pub attempts_max: u32,
    /// Pulls that wait and hold up nothing, in all; those of one address are at most half of them. Further
    /// ones wait as well, among the requests of their connection that are under way.
    pub held_pulls_max: u32,
    /// Consumers of QMQ in all, and what they and QMQ's producers may make of subjects and groups.
    pub consumers_max: usize,
    /// See `consumers_max`.
    pub groups_max: u32,
    /// See `consumers_max`.
    pub subjects_max: u32,
    /// Requests that wait for a thread of their own, in all: further ones are told that too much is
    /// under way.
    pub waiting_requests_max: usize,
    /// Publishes that wait for room in the log, in all, and their bytes.
    pub waiting_publishes_max: usize,
    /// See `waiting_publishes_max`.
    pub waiting_publish_bytes_max: usize,
    /// Bytes of requests that are not there whole, of all connections together: over it those end that
    /// want more than a little.
    pub input_bytes_max: usize,
    /// What connections may make the server keep, of whatever it is.
    pub scales: ScalesLimits,
    /// What one address may begin of requests and never finish.
    pub unfinished: UnfinishedLimits,
    /// What one connection may take.
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
    /// Makes sure that what they let messages wait is no longer than a store lets anything wait: it would
    /// refuse each of these messages, for good.
    ///
    /// # Errors
    /// `InvalidArgument` naming `server.qmq_retry_seconds` or `server.qmq_undelayed_seconds`.
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

/// Why a server did not start.
#[derive(Clone, PartialEq, Eq, Debug, Described)]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system says.
        reason: String,
    },
    /// The system gives no thread.
    #[error("cannot start the server's thread: {reason}")]
    Thread {
        /// What the system says.
        reason: String,
    },
    /// The store, or an option that is refused.
    #[error(transparent)]
    Store(#[from] Error),
}
