//! A store that leads a group of copies: its log goes on where the copy of its node ended, and a batch is visible once the
//! copies have it.
//!
//! In: the parts of a follower whose node has become primary; from the node, how far the log is committed, and whether
//! publishes are taken; from group commit, how far the log is written and durable. Out: visible batches, on the same way
//! as those of a store alone; the batches that the node sends to others; news for the node that the log has grown.
//! Read `state` (what such a store has in addition), `leading` (how a store begins to lead), `log` (the log as the protocol looks at it), `commit` (what becomes visible,
//! and the begin of the epoch), `intake` (publishes that are refused, or on too few copies), `waiting_loads` and `loads` (that wait until the copies
//! have their files)
//! and `shipping`.
//!
//! A store alone has none of this: its [`state::Copies`] are `None`. The rules are those of `delaymq_core::replication`.

pub(crate) mod commit;
pub(crate) mod intake;
pub(crate) mod leading;
pub(crate) mod loads;
pub(crate) mod log;
pub(crate) mod shipping;
pub(crate) mod state;
pub(crate) mod waiting_loads;
