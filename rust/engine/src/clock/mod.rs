//! Where time comes from.
//!
//! In: the clocks of the operating system, or a test that turns a clock. Out: readings of the trusted clock.
//! Read `system_clock` (the trait, and real time), then `store_time` (the trusted clock of a store) with
//! `remembered_clock` (what the next open knows), and `manual_clock` with `consumer_presence` (tests that wait for no time)
//! and `timed_store` (what that clock needs of a store). `time_zones` has the rules of time zones that series follow.

pub(crate) mod consumer_presence;
pub(crate) mod manual_clock;
pub(crate) mod remembered_clock;
pub(crate) mod store_time;
pub(crate) mod system_clock;
pub(crate) mod time_zones;
pub(crate) mod timed_store;
