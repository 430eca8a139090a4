//! Bytes that nobody meant, for everything in the core that reads bytes.
//!
//! A *target* takes any bytes, gives them to one reader, and says whether they were taken or refused, or which
//! promise they broke: what is read and written again must be read as the same; nothing is taken that its check does
//! not cover; a stream that is split elsewhere says the same; a store that opens comes to the same end when it is
//! opened again. Not to panic is the least of it. `tests/replay.rs` runs every target over its corpus and over
//! mutations of it; `guided/` lets libFuzzer look for more.

pub mod corpus;
pub mod mutation;
pub mod resealing;
pub mod running;
pub mod sample;
pub mod targets;
pub mod telling;
pub mod verdict;
pub mod writing;
