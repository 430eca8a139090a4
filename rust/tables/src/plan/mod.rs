//! The plan of a reading: a table, cut into ranges that can be read anywhere the folder is.
//!
//! In: a snapshot, a table and a filter. Out: ranges, and their tokens for other processes.
//! Read `planner` and `ready` (the tables of ready messages and deliveries), with `log_ranges` and `cut` (pieces of the
//! log) and `due_stretches` (pieces of the schedule); then `range` and `range_parts`, and `range_token` with
//! `token_codec`.

pub(crate) mod cut;
pub(crate) mod due_stretches;
pub(crate) mod log_ranges;
pub(crate) mod planner;
pub(crate) mod range;
pub(crate) mod range_parts;
pub(crate) mod range_token;
pub(crate) mod ready;
pub(crate) mod token_codec;
