//! quota.

pub mod admission;
pub mod connection_limits;
pub mod memory_accounting;
pub mod notices;
pub mod unfinished;
#[cfg(test)]
pub(super) mod unfinished_tests;
