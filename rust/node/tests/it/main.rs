//! Whole nodes of a group, in one process: real folders, real connections on loopback, and a register in a file.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may")]

mod beginnings;
#[path = "../../../coordinator/tests/it/ports.rs"]
mod ports;
mod roles;
mod support;
mod versions;
