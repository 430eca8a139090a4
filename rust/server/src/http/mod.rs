//! Plain HTTP: how clients find the server, its health, its metrics, the switch of QMQ consumers, and groups of copies.
//!
//! In: HTTP requests. Out: pages.
//! Read `routes` and `page`, then `metrics` (the page for Prometheus), `on_offline` with `switched_off` (consumers that are
//! switched off, in a file), and `cluster` (groups of copies); both use `administrator`.

mod administrator;
pub(crate) mod cluster;
pub(crate) mod metrics;
pub(crate) mod on_offline;
pub(crate) mod page;
pub(crate) mod routes;
pub(crate) mod switched_off;
