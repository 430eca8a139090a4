//! Connections between nodes, over real sockets of this machine and real TLS.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may")]

mod certificates;
mod closing;
mod cuts;
mod exchange;
mod nodes;
mod pressure;
mod raw;
mod refusals;
mod seats;
