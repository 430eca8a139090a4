//! The frames that nodes of a group of copies send to each other.
//!
//! Enter: bytes of a connection, in pieces of any size. Leave: whole [`PeerFrame`]s, or the field that is malformed.
//! Read `frame` (what surrounds each frame), `hello` (how a connection begins, or is refused), `message` (the messages
//! of [`crate::replication`]; what they say of files is in `files`), then `decoder`.
//!
//! The node that connects sends a hello. The other one answers with its own hello, or with a refusal. The first one
//! then sends *begin*, or a refusal, and from then on messages. No message goes the other way: each node sends its
//! messages on the connection that it made itself.

mod decoder;
mod files;
mod frame;
mod hello;
mod message;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use frame::{FRAME_BYTES_MAX, HELLO_FRAME_BYTES_MAX, PeerFrame, put_message};
pub use hello::{ADDRESS_BYTES_MAX, Hello, OTHERS_MAX, PEER_VERSION, Refusal};
pub use message::{BATCHES_BYTES_MAX, HISTORY_EPOCHS_MAX};
