//! Access: which peers may ask what.
//!
//! In: the address of a peer, and the token that it sends. Out: a verdict, and the notices of what was refused.
//! Read `entrance` (which connections are accepted) and `control`, then `token` (hashes of tokens) and `network` (ranges of addresses).

pub(crate) mod control;
pub(crate) mod entrance;
pub(crate) mod network;
pub(crate) mod token;
