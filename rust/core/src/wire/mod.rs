//! The protocol: requests and answers as bytes, each encoded and decoded in one file, and the state machines of the
//! server that need no socket. `docs/protocol.md` describes the protocol.
//!
//! The path of a request: [`connection`] takes bytes and returns whole frames, [`quota::admission`] decides whether
//! the command is served, and [`request`] reads its fields. QMQ's commands are [`qmq::send`], [`qmq::pull`],
//! [`qmq::ack`], [`qmq::consume_manage`] and [`qmq::register`], which [`qmq::registry`] answers; delaymq's own are
//! in [`extension`]. [`quota::memory_accounting`] limits the memory that connections hold, [`quota::unfinished`]
//! limits how much is read from peers that never finish their requests, and [`connection::subscriptions`] limits
//! how many due messages a client is sent. [`client::caller`] is the client's end, and [`client::delivery_keys`]
//! are its names for deliveries. [`peer`] has the frames that nodes of a group of copies send to each other.

pub mod client;
pub mod connection;
pub mod extension;
pub mod fields;
pub mod frame;
pub mod http;
pub mod malformed;
pub mod peer;
pub mod qmq;
pub mod quota;
pub mod reader;
pub mod request;
