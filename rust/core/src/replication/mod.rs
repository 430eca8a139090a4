//! Copies on other nodes: which nodes must have a fact on disk before it counts, and which node may decide.
//!
//! In: an [`Event`] of one node, which is a message of another node, an answer of the register, a position of its own
//! log, or the time. Out: [`Action`]s, which the caller carries out. The module has no log, no socket and no clock.
//! Read `register` (the set that must have each fact), `history` (up to where two logs agree), `files`, `message`, `interface`,
//! `state` and `node`, then what a node does in its role: `replica`, `claim` (becoming primary), `primary`,
//! `members`, `loads` (files that a copy needs besides the log), `operator` (what an operator asks for), and how wall clocks are compared: `clocks`, `comparison`.
//!
//! The protocol is primary-backup, with its configuration in a register that changes by compare-and-swap, as in
//! `PacificA` and Vertical Paxos II. A fact is *committed* when each node of the set in the register has it on disk. Only a
//! node of that set may become primary, by a swap from exactly that value, and each node refuses an epoch below its
//! durable *promise*. No lease and no clock is needed for safety: time decides only when a swap is tried.

mod claim;
mod clocks;
mod comparison;
mod files;
mod history;
mod interface;
mod loads;
mod members;
mod message;
mod node;
mod operator;
mod primary;
mod register;
mod registrar;
mod replica;
mod state;
#[cfg(test)]
mod tests;

pub use crate::message_log::Promise;
pub use crate::units::Version;
pub use files::{FilePart, FilePlace, LoadMessage, SentFile, SnapshotFile, SnapshotOffer};
pub use history::History;
pub use interface::{Action, CopyKnown, Event, LogView, NodeOptions, RoleName, Timing, Unfit};
pub use loads::LoadCopy;
pub use message::{Message, WantedRecord};
pub use register::{GroupState, NodeId, Register};
pub use registrar::{Reading, SwapAnswer};
pub use state::Node;
