//! Queries of the present state. They change nothing.
//!
//! In: a query and a cursor. Out: one bounded piece of the answer, and the next cursor.
//! Read `listing` (groups and subjects), `pending_scan` with `pending_cursor`, `ready_cursor` and `preview` (ready
//! messages), `log_lookup` (old facts by sequence), then `forecast_query`, `lag`, `holding`, `dead_letters` and
//! `shipping` (the log for another copy).

pub(super) mod dead_letters;
pub(super) mod forecast_query;
pub(super) mod holding;
pub(super) mod lag;
pub(super) mod listing;
pub(super) mod log_lookup;
pub(super) mod pending_cursor;
pub(super) mod pending_scan;
pub(super) mod preview;
pub(super) mod ready_cursor;
mod shipping;
