//! The files of a store, and the payloads in them.
//!
//! In: calls of the core's `Storage`, and locations of payloads. Out: system calls, and bytes.
//! Read `storage` (real files) with `system_errors`, `store_lock` (one process owns a store), `mapping` (all `unsafe` of the engine), then
//! `payload_cache`, `payload_reader` and `block_cache` (how a payload is found), and `reader_pin`.

pub(crate) mod block_cache;
pub(crate) mod mapping;
pub(crate) mod payload_cache;
pub(crate) mod payload_reader;
pub(crate) mod reader_pin;
pub(crate) mod storage;
pub(crate) mod store_lock;
pub(crate) mod system_errors;
