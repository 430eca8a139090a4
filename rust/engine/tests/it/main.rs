//! The store by its public API, on real files. All tests of the engine are one program, since each program costs a
//! link. `downtime` and `window` are programs of their own, since they count what their process allocates.

#![cfg(test)]

mod administration;
mod broadcasts;
mod concurrency;
mod copies;
mod crash;
mod delivery;
mod expiry;
mod faults;
mod filters;
mod free_room;
mod holding;
mod holes;
mod inspection;
mod keys;
mod loads;
mod manual_clock;
mod named_consumers;
mod nonblocking;
mod rebuild;
mod recurring;
mod retention;
mod salvage;
mod segment_growth;
mod shared_store;
mod subjects;
mod support;
mod write_stall;
