//! Plain HTTP: how clients find the server, its health, its metrics, and the switch of QMQ consumers.
//!
//! In: HTTP requests. Out: pages.
//! Read `routes` and `page`, then `metrics` (the page for Prometheus), and `on_offline` with `switched_off` (consumers that are
//! switched off, in a file).

pub(crate) mod metrics;
pub(crate) mod on_offline;
pub(crate) mod page;
pub(crate) mod routes;
pub(crate) mod switched_off;
