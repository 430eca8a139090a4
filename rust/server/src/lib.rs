//! The server: sockets around the core's connections and the engine's store. Every decision about messages is the core's.
//!
//! One thread runs all sockets, as tasks that share the `server_state`. Whatever may wait for the disk or for another
//! thread goes to a small `blocking_pool`. A reply that must wait until the log is durable is one of the
//! `pending_replies`, by its position in the log, and takes no thread.
//!
//! Read `listening` (the addresses) and `server` (start and stop, on a `network_thread`), then `connection` (sockets), `access`, `requests` (who serves which command),
//! `subscriptions` (delaymq's own consumers), `qmq` (QMQ's consumers), `http`, and `standby` (a node that is not the
//! primary of its copies).

mod access;
mod blocking_pool;
mod connection;
mod counters;
mod http;
mod listening;
mod network_thread;
mod options;
mod pending_replies;
mod qmq;
mod requests;
mod server;
mod server_state;
mod standby;
mod subscriptions;

pub use access::network::Network;
pub use access::token::TokenHash;
pub use http::cluster::ClusterPages;
pub use listening::{Listening, Places};
pub use network_thread::Stopped;
pub use options::{AccessOptions, ServerError, ServerOptions};
pub use requests::administration::status_told;
pub use server::Server;
pub use standby::{Primary, Standby};
