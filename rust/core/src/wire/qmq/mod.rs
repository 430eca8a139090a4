//! qmq.

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
