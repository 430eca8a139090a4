//! One node of a group of copies: the process that keeps a copy of a store, and serves it while it is the primary.
//!
//! In: messages of the other nodes, answers of the register, and what clients ask of its server. Out: the same. The protocol is
//! `delaymq_core::replication`, and the rules of copies are there. This crate carries out what the protocol asks for.
//!
//! Read `interface` (options, errors, reports) and `node` (a running node, as its owner sees it), then `group` (how a group and
//! its copies begin) and `continuation` (how one goes on after a loss), `member` (the thread that owns the protocol and the
//! copy, and does all that the protocol asks for), `copy` (a follower or a store that leads), `shipping` (batches on their way
//! to other nodes), `reader` (the thread that reads for nodes that lag), `incoming` (files that come from another node), `snapshot` (files
//! instead of batches), `loads` (files that batches name), `repairs` (messages that are damaged here, and whole on another node),
//! `register` (calls of the coordinator on threads of their own), `service` (the server of a primary, and the standby of a replica), `status` and `requests` (of operators).
//!
//! Nothing here waits for Python: heartbeats and time-outs are on the node's own thread.

mod continuation;
mod copy;
mod events;
mod group;
mod incoming;
mod interface;
mod loads;
mod member;
mod node;
mod pause;
mod reader;
mod register;
mod repairs;
mod requests;
mod service;
mod shipping;
mod snapshot;
mod status;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use continuation::{GroupContinued, continue_group};
pub use group::{GroupCreated, create_group, read_register};
pub use interface::{ClusterOptions, CoordinatorOptions, NodeError, NodeOptions, NodeReport};
pub use node::Node;

/// Locks a mutex, also one whose last holder panicked: what it guards is valid after each single change.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
