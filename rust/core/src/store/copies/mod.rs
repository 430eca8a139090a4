//! The store of one node of a group of copies, while another node leads, and what the protocol sees of its log.
//!
//! In: batches of the primary, how far they are committed, and cuts. Out: a log, and an owner that has applied what is
//! committed. A copy is a recovery that does not end: it decides nothing, and its owner proposes nothing.
//! Read `log_ends` (where epochs began, and what is durable), `follower`, `incoming_files` (how files come from another node),
//! `load_files` (files that facts name, and that are not in the log), `shipment` (what a primary sends), `snapshot` (what it sends to a
//! node that lacks more than its log has), and `records` (messages that one copy has damaged, and another has whole).
//!
//! The rules are in `replication`. When its node becomes primary, a follower is taken apart, and the log and the owner go on
//! in a store that decides.

pub(super) mod follower;
pub(super) mod incoming_files;
pub(super) mod load_files;
pub(super) mod log_ends;
pub(super) mod records;
pub(super) mod shipment;
pub(super) mod snapshot;
