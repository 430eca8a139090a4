//! client.

pub mod caller;
pub mod delivery_keys;
