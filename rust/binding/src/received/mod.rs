//! Messages as a consumer receives them, of a store in this process or of a server.
//!
//! In: deliveries of the engine, or arrivals of a client. Out: `delaymq.Message` and its asyncio twin.
//! Read `message` (what every message has), `faces` (its two kinds), then `many` (lists of them).

pub(crate) mod faces;
pub(crate) mod many;
pub(crate) mod message;
