//! Fuzz targets for every reader of bytes in the core.
//!
//! A *target* gives any bytes to one reader. It reports whether the bytes were accepted or refused, or which
//! promise was broken: bytes that were read and written again read the same; no accepted byte is outside of a
//! check; a stream that is split elsewhere gives the same result; a store that opens gives the same result when it
//! is opened again. No input may cause a panic. `tests/replay.rs` runs every target over its corpus and over
//! mutations of it; `guided/` is for libFuzzer.

pub mod corpus;
pub mod mutation;
pub mod resealing;
pub mod running;
pub mod sample;
pub mod targets;
pub mod telling;
pub mod verdict;
pub mod writing;
