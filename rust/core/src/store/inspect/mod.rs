//! Reports about a store: its content, its files, the space that it takes, and whether it is sound. Nothing is changed.
//!
//! In: the files of a store, which another process may be writing. Out: reports for an operator.
//! Read `inspection`, then `files` and `space` (why each file is kept). `damaged` inspects a store that cannot be opened.
//! `verify` reads every byte, with `verified_runs` for the runs.

pub(super) mod damaged;
pub(super) mod files;
pub(super) mod inspection;
pub(super) mod space;
pub(super) mod verification;
pub(super) mod verified_runs;
pub(super) mod verify;
pub(super) mod written;
