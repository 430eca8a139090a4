//! The ledger of the table `deliveries`: what became of each message for each group.
//!
//! In: facts of the log, one after the other. Out: rows, one for each message and group.
//! Read `slots` and `delivery_ledger`, then `queues` (what a group was given), `index` (how a message is found), `gaps` (what the
//! state at the end says where the log does not say all) and `rows`.

pub(crate) mod delivery_ledger;
pub(crate) mod gaps;
pub(crate) mod index;
pub(crate) mod queues;
pub(crate) mod rows;
pub(crate) mod slots;
