//! The writing half of the log.
//!
//! In: facts as [`submission::Submission`]s. Out: batches in segment files, and marks of what is written and what is durable.
//! Read `submission`, then `commit` (which submissions make one batch, and when it is synced), `interface` and `appender`
//! (which puts batches into segments, those of another copy in `appender::foreign`). `preparing` makes the
//! next segment ahead of its use, `growth` says how large, `room` and `free_room` count bytes.

pub(super) mod appender;
pub(super) mod commit;
pub(super) mod commit_options;
pub(super) mod durability;
pub(super) mod free_room;
mod growth;
pub(super) mod interface;
pub(super) mod preparing;
pub(super) mod room;
pub(super) mod submission;
