//! The value of the register: the configuration of one group of copies.

use std::collections::BTreeSet;
use std::fmt;

use crate::planted::{Planted, is_on};
use crate::units::Epoch;

/// The random bytes of one copy, from its identity file. A folder that was emptied is another node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub [u8; 16]);

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// How much later the first epoch after a restore is than those that are known. A node that the operator did not see may have
/// claimed some epochs by the register that was lost, and no epoch may have two primaries.
const EPOCHS_SKIPPED: u32 = 1_000;

/// How far the primary of a group has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupState {
    /// It has claimed the group, and its epoch is not committed yet.
    Promoting,
    /// Its epoch is committed.
    Serving,
}

/// The configuration of one group of copies, as the register holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Register {
    /// The stream that the copies hold.
    pub stream: [u8; 16],
    /// Which of the histories that grew from the stream.
    pub timeline: u32,
    /// The epoch of the primary. It grows with each claim.
    pub epoch: Epoch,
    /// The node that may decide.
    pub primary: NodeId,
    /// The nodes that must have a fact on disk before it is committed. Each of them may become primary.
    pub sync: BTreeSet<NodeId>,
    /// The nodes that have every message that was answered as stored. A node that left the set while publishes were
    /// refused is still one of them.
    pub complete: BTreeSet<NodeId>,
    /// How far the primary has come.
    pub state: GroupState,
    /// The least size of the set in which a publish is answered as stored.
    pub min_copies: usize,
    /// The coordinator that the value was made for; 0 before whoever makes the group knows its number. If another coordinator has the
    /// value, it was restored from a backup, and may be out of date.
    pub made_for: u64,
}

impl Register {
    /// The first value of a new group, whose only copy is `node`.
    pub fn first(stream: [u8; 16], node: NodeId, epoch: Epoch, min_copies: usize) -> Self {
        let only: BTreeSet<NodeId> = [node].into();
        let (complete, state) = (only.clone(), GroupState::Promoting);
        Self { stream, timeline: 0, epoch, primary: node, sync: only, complete, state, min_copies, made_for: 0 }
    }

    /// This value after `node` has claimed the group for `epoch`, without the node `dropped` if there is one. The
    /// old primary may be dropped by the claim, because each remaining node of the set has all that is committed.
    pub(super) fn claimed(&self, node: NodeId, epoch: Epoch, dropped: Option<NodeId>) -> Self {
        let sync = self.sync.iter().copied().filter(|member| Some(*member) != dropped).collect();
        Self { epoch, primary: node, state: GroupState::Promoting, ..self.with_set(sync) }
    }

    /// This value, which was restored from a backup, after an operator has let `node` go on, whose promise is `promised`. Nothing that
    /// the backup says of a node is true any more.
    pub(super) fn stands_alone(&self, node: NodeId, promised: Epoch) -> Self {
        let epoch = Epoch(self.epoch.max(promised).0.saturating_add(EPOCHS_SKIPPED));
        let mut sync: BTreeSet<NodeId> = [node].into();
        if is_on(Planted::RestoredSetKept) {
            sync.extend(&self.sync);
        }
        let (complete, state) = (sync.clone(), GroupState::Promoting);
        Self { epoch, primary: node, sync, complete, state, ..self.clone() }
    }

    /// This value with another set.
    pub(super) fn with_set(&self, sync: BTreeSet<NodeId>) -> Self {
        // Below `min_copies` no publish is answered as stored, so a node that leaves stays complete until the set is
        // large enough again without it.
        let complete = if sync.len() >= self.min_copies && !is_on(Planted::CompleteKept) {
            sync.clone()
        } else {
            self.complete.union(&sync).copied().collect()
        };
        Self { sync, complete, ..self.clone() }
    }

    /// True if the node is in the set, or complete.
    pub fn names(&self, node: NodeId) -> bool {
        self.sync.contains(&node) || self.complete.contains(&node)
    }

    /// True if no node but the primary and this one has every message that was answered as stored. Without copies, as
    /// with a `min_copies` of 1, there is nothing to lose.
    pub fn is_last_holder(&self, node: NodeId) -> bool {
        let is_other = |other: &NodeId| ![node, self.primary].contains(other);
        self.min_copies > 1 && self.complete.contains(&node) && !self.complete.iter().any(is_other)
    }

    /// This value when the epoch of its primary is committed.
    pub(super) fn serving(&self) -> Self {
        Self { state: GroupState::Serving, ..self.clone() }
    }
}
