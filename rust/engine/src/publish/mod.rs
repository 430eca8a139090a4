//! Publishing, and what a producer may still change while its message is pending.
//!
//! In: a caller's messages, receipts or keys. Out: records in the queue of the log; receipts and outcomes.
//! Read `batch` (encoding, submission, waiting), then `receipts`, `terms` with `conditional_publish` (keys and ids), `rescheduling` and
//! `by_key` (cancels and moves), `recurring` (series), and `staging` with `loads` (bulk loads).

pub(crate) mod batch;
pub(crate) mod by_key;
pub(crate) mod conditional_publish;
pub(crate) mod loads;
pub(crate) mod receipts;
pub(crate) mod recurring;
pub(crate) mod rescheduling;
pub(crate) mod staging;
pub(crate) mod terms;
