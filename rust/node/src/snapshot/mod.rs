//! Snapshots: a node that lacks more than the primary's log has gets the primary's files.
//!
//! The primary offers them (`outgoing`), and the other node receives them (`incoming`). While they come, the primary keeps its files with a
//! pin. The files and their adoption are in `delaymq_core::store`.

pub(crate) mod incoming;
pub(crate) mod outgoing;
