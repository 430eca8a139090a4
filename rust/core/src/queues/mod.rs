//! Delivery state: groups with a shared cursor, and consumers with the messages that they hold.
//!
//! Only `apply` changes groups, consumers and ranges, in log order. Decisions that are not applied yet (assignments
//! under way) are in [`crate::store`] and are never saved. A server decides with the public modules: which pulls
//! wait, which consumers live, which offsets were given, which messages pass a filter, which of many queues is next. A
//! consumer's program decides with `holds`, which of its messages it has had for too long. Their state is never saved
//! either.

pub mod answer_run;
mod consumer;
mod group;
pub mod held_pulls;
mod held_runs;
pub mod holds;
pub mod leases;
pub mod pull_log;
mod ranges;
pub mod tags;
pub mod turns;

pub use consumer::{Consumer, Consumers};
pub use group::{Group, RESERVE_MAX, Taken};
pub use held_runs::{Held, HeldRuns};
pub use ranges::RangeSet;
