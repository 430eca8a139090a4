//! What goes over a connection: bytes to requests and answers to bytes, both ways in one file each,
//! and the state machines of the server that need no socket. `docs/protocol.md` has the words.
//!
//! The path of a request: [`connection`] takes bytes and hands out whole frames, [`quota::admission`] says
//! whether their command is served, [`request`] reads what is in them. QMQ's commands are [`qmq::send`],
//! [`qmq::pull`], [`qmq::ack`], [`qmq::consume_manage`] and [`qmq::register`], which [`qmq::registry`] answers; delaymq's own
//! are in [`extension`]. [`quota::memory_accounting`] weigh what connections make the server keep, [`quota::unfinished`] says how
//! much is read of who never finishes what it begins, and [`connection::subscriptions`] how much of what is due a
//! client may be sent. [`client::caller`] is the other end, and
//! [`client::delivery_keys`] are what it calls what it was delivered.

pub mod client;
pub mod connection;
pub mod extension;
pub mod fields;
pub mod frame;
pub mod http;
pub mod malformed;
pub mod qmq;
pub mod quota;
pub mod reader;
pub mod request;
