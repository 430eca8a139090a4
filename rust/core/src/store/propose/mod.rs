//! Decisions that become facts. Nothing here changes the state: a proposed fact is applied once it is durable.
//!
//! In: requests of callers, and the time. Out: [`proposals::Proposals`] for the log, and the answer to a pull.
//! Read `proposals`, then `requests` (publish, cancel, groups), `pull` (which consumer gets which message; `load_request`
//! reads the rows that it needs; `judged_pull` for consumers with filters), `settlement` (how deliveries end),
//! `broadcast_end` (a consumer that ends with its group), and `step` (messages that are due, with `due_series` for
//! recurring ones).

pub(super) mod broadcast_end;
pub(super) mod due_series;
pub(super) mod idle;
pub(super) mod judged_pull;
pub(super) mod load_request;
pub(super) mod loaded_postings;
pub(super) mod proposals;
pub(super) mod pull;
pub(super) mod requests;
pub(super) mod rest;
pub(super) mod settlement;
pub(super) mod step;
pub(super) mod views;
