//! The commands of QMQ: bytes to requests, and answers to bytes.
//!
//! In: the body of a frame. Out: a typed request; or the body of an answer. Read `message` (the layout of a
//! message), then `send`, `pull` and `ack`, then `register` with `registry` (the registered clients) and
//! `consume_manage`. `plain_text` shows a message of delaymq to a QMQ client, `filtering` applies tag filters.

pub mod ack;
#[cfg(test)]
pub(super) mod codec_tests;
pub mod consume_manage;
pub mod filtering;
#[cfg(test)]
pub(super) mod golden_tests;
pub mod message;
pub mod plain_text;
pub mod pull;
pub mod register;
pub mod registry;
pub mod send;
