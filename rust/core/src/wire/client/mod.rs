//! The client's end of a connection.
//!
//! In: requests of a program, and bytes from the server. Out: bytes for the server, answers and deliveries.
//! Read `caller`, then `delivery_keys` (how a client names a delivered message). There is no socket and no clock here.

pub mod caller;
pub mod delivery_keys;
