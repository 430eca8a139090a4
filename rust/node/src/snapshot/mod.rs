//! Snapshots: a node that lacks more than the primary's log has gets the primary's files.
//!
//! The primary offers them (`outgoing`), and the other node asks for one part after the other (`incoming`), so that it decides
//! how fast they come, and nothing is lost with a connection: it asks again. While they come, the primary keeps its files with a
//! pin. The files and their adoption are in `delaymq_core::store`.

pub(crate) mod incoming;
pub(crate) mod outgoing;
