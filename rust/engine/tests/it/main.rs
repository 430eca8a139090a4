//! The store by its public face, on real files. One program has all tests of the engine, since each more costs a link;
//! `downtime` and `window` are programs of their own, since they count what their process allocates.

#![cfg(test)]

mod administration;
mod crash;
mod delivery;
mod faults;
mod filling;
mod free_room;
mod holes;
mod inspecting;
mod keys;
mod loading;
mod manual_clock;
mod named_consumers;
mod rebuilding;
mod recurring;
mod retention;
mod salvage;
mod shared_store;
mod subject_readers;
mod support;
mod together;
mod unblocked;
