//! Who has what: groups with a shared cursor, consumers with what they hold.
//!
//! Groups, consumers and ranges are changed by `apply` alone, in the order of the log; what is decided
//! and not yet applied (assignments under way) lives in [`crate::store`] and is never saved. The public
//! modules are what a server decides with: who waits, who lives, what was given under which offset,
//! which messages pass. They are never saved either.

pub mod answer_run;
pub mod broadcast;
mod consumer;
mod group;
pub mod held_pulls;
mod held_runs;
pub mod leases;
pub mod pull_log;
mod ranges;
pub mod tags;

pub use consumer::{Consumer, Consumers};
pub use group::{Group, RESERVE_MAX, Taken};
pub use held_runs::{Held, HeldRuns};
pub use ranges::RangeSet;
