//! Bytes that must never change without a new format version, kept as files that a second reader,
//! written from `docs/format.md` alone, reads too.

mod batches;
mod checkpoints;
mod files;
mod log_files;
mod receipts;
mod records;
mod runs;
