//! Group commit: from submitted records to visible batches.
//!
//! In: encoded records, from publishes and from the owner. Out: batches that are written, and durable where the store
//! promises it, in the inbox of the owner; waits that end.
//! Read `committer` (one batch: write, sync, make visible), then `inbox` (what the owner has not applied yet and how
//! urgent it is), `waits` (threads that wait for a position), `outcomes` with `submissions` (facts whose result a caller
//! waits for), and `write_back` (early writing to the disk).

pub(crate) mod committer;
pub(crate) mod inbox;
pub(crate) mod outcomes;
pub(crate) mod submissions;
pub(crate) mod waits;
pub(crate) mod write_back;
