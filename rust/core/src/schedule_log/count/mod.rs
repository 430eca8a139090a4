//! count.

#[cfg(test)]
pub(super) mod counted_tests;
pub(super) mod ended;
pub(super) mod ended_cells;
pub(super) mod horizon;
pub(super) mod horizon_pages;
pub(super) mod pending;
