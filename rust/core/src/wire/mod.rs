//! What goes over a connection: bytes to requests and answers to bytes, both ways in one file each,
//! and the state machines of the server that need no socket. `docs/protocol.md` has the words.
//!
//! The path of a request: [`connection`] takes bytes and hands out whole frames, [`admission`] says
//! whether their command is served, [`request`] reads what is in them. QMQ's commands are [`send`],
//! [`pull`], [`ack`], [`consume_manage`] and [`register`], which [`registry`] answers; delaymq's own
//! are in [`extension`]. [`scales`] weigh what connections make the server keep, [`unfinished`] says how
//! much is read of who never finishes what it begins, and [`subscriptions`] how much of what is due a
//! client may be sent. [`caller`] is the other end, and
//! [`delivery_keys`] are what it calls what it was delivered.

pub mod ack;
pub mod admission;
pub mod caller;
pub mod connection;
pub mod connection_limits;
pub mod consume_manage;
pub mod delivery_keys;
pub mod extension;
pub mod fields;
pub mod filtering;
pub mod frame;
pub mod http;
pub mod malformed;
pub mod message;
pub mod notices;
pub mod plain_text;
pub mod pull;
pub mod reader;
pub mod register;
pub mod registry;
pub mod request;
pub mod scales;
pub mod send;
pub mod subscriptions;
pub mod unfinished;

mod ending;
mod incoming;
mod outgoing;
mod silence;
mod under_way;

#[cfg(test)]
mod codec_tests;
#[cfg(test)]
mod connection_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod unfinished_tests;
