//! A store as of one fact: the files that a table is read from.
//!
//! In: the folder of a store. Out: a snapshot, and a token by which another process takes the same snapshot again.
//! Read `table_snapshot`, then `snapshot_token` and `parties` (the subjects, groups and consumers that are known).

pub(crate) mod parties;
pub(crate) mod snapshot_token;
pub(crate) mod table_snapshot;
