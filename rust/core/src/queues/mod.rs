//! Who has what: groups with a shared cursor, consumers with what they hold.
//!
//! Everything here is changed by `apply` alone, in the order of the log; what is decided and not
//! yet applied (assignments under way) lives in [`crate::store`] and is never saved.

mod consumer;
mod group;
mod ranges;
pub mod tags;

pub use consumer::{Consumer, Held};
pub use group::{Group, RESERVE_MAX, Taken};
pub use ranges::RangeSet;
