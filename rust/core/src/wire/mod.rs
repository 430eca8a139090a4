//! What goes over a connection: bytes to requests and answers to bytes, both ways in one file each,
//! and the state machines of the server that need no socket. `docs/protocol.md` has the words.

pub mod ack;
pub mod admission;
pub mod caller;
pub mod connection;
pub mod connection_limits;
pub mod consume_manage;
pub mod extension;
pub mod fields;
pub mod filtering;
pub mod frame;
pub mod http;
pub mod malformed;
pub mod message;
pub mod plain_text;
pub mod pull;
pub mod reader;
pub mod register;
pub mod registry;
pub mod request;
pub mod send;
pub mod subscriptions;

mod incoming;
mod outgoing;

#[cfg(test)]
mod codec_tests;
#[cfg(test)]
mod connection_tests;
#[cfg(test)]
mod golden_tests;
