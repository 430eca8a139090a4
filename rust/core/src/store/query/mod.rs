//! query.

pub(super) mod dead_letters;
pub(super) mod forecast_query;
pub(super) mod holding;
pub(super) mod listing;
pub(super) mod log_lookup;
pub(super) mod pending_cursor;
pub(super) mod pending_scan;
pub(super) mod preview;
pub(super) mod ready_cursor;
