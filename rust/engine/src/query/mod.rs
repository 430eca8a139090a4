//! Questions about an open store. No message waits for them.
//!
//! In: a question. Out: counts, pages of messages, forecasts, the status, and reports of what happened.
//! Read `pending` (look-up, list, count), then `forecast` (how much is due when), `ready`, and `report` with `metrics`.

pub(crate) mod forecast;
pub(crate) mod metrics;
pub(crate) mod pending;
pub(crate) mod ready;
pub(crate) mod report;
