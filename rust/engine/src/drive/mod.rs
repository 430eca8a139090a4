//! Driving the owner: visible facts are applied, due messages become ready.
//!
//! In: batches of the inbox, and the time. Out: proposals in the queue of the log, and news for consumers.
//! Read `driver` (the owner lock, one round, the driver thread), then `recurrence` (the next occurrence of each series),
//! `voiding` (messages whose bytes are damaged) and `quiescence` (driving until nothing is left to do, for manual clocks).

pub(crate) mod driver;
pub(crate) mod quiescence;
pub(crate) mod recurrence;
pub(crate) mod voiding;
