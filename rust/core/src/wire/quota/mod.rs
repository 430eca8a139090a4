//! Limits on the resources of a server that one peer, and all peers together, may use.
//!
//! In: events of connections with their sizes. Out: a permission, or the reason of a refusal. Read `admission`
//! (connections and authentication), then `connection_limits`, `memory_accounting` (bytes that connections hold)
//! and `unfinished` (requests that never end). `notices` limits what is logged about peers.

pub mod admission;
pub mod connection_limits;
pub mod memory_accounting;
pub mod notices;
pub mod unfinished;
#[cfg(test)]
pub(super) mod unfinished_tests;
