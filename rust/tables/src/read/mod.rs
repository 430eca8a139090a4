//! Reading ranges: one module for each table, over one walk through the log.
//!
//! In: ranges of a plan. Out: an iterator of record batches, or what is damaged.
//! Read `reader`, then `log_walk`, and the table that you look for: `message`, `action`, `pending`, `ready`,
//! `deliveries`, `segments`; `loads` reads loaded runs. `ready_facts` and `ready_numbers` find which fact made a message
//! ready and under which number, `state_rows` has what only the state at the end knows, `verification` checks alone.

pub(crate) mod action;
pub(crate) mod deliveries;
pub(crate) mod loads;
pub(crate) mod log_walk;
pub(crate) mod message;
pub(crate) mod pending;
pub(crate) mod reader;
pub(crate) mod ready;
pub(crate) mod ready_facts;
pub(crate) mod ready_numbers;
pub(crate) mod segments;
pub(crate) mod state_rows;
pub(crate) mod verification;
