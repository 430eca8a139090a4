//! Counts of pending messages by subject and minute, without reading rows.
//!
//! In: the cells of runs, and the entries that ended since a run was written. Out: a [`horizon::Horizon`].
//! Read `horizon`, then `ended` (what to subtract from the cells of a run). `pending` visits every pending entry.

pub(super) mod cells;
#[cfg(test)]
mod counted_tests;
pub(super) mod ended;
pub(super) mod ended_cells;
pub(super) mod horizon;
pub(super) mod horizon_pages;
pub(super) mod pending;
