//! delaymq's own commands, from 200 on, in the frames of QMQ: requests that QMQ's commands cannot express.
//! `docs/protocol.md` describes their order.
//!
//! A request is answered with the code 0 and the body of its command, or with the code of an [`errors::ErrorCode`]
//! and a body with details. Integers are big-endian. A `str` is QMQ's; a `blob` is an unsigned 32-bit length and
//! bytes.

pub mod administration;
pub mod by_key;
pub mod clock;
pub mod consume;
pub mod consumers;
pub mod dead_letters;
pub mod errors;
pub mod filters;
pub mod forecast;
pub mod hello;
pub mod key_fate;
pub mod load;
pub mod moves;
pub mod pending;
pub mod proof;
pub mod publish;
pub mod recurring;
pub mod request;
pub mod settle;
pub mod start;
pub mod status;
pub mod terms;

#[cfg(test)]
mod tests;

pub use request::*;

/// The version of these layouts, as sent in the frame.
pub const EXTENSION_VERSION: i16 = 1;

/// The numbers that commands of delaymq's own may have.
pub const OWN_COMMANDS: std::ops::Range<i16> = 200..300;

/// Messages for a subscription; the server sends it without a request.
pub const DELIVER: i16 = 206;
