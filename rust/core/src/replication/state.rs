//! The state of a node, in each role.

use std::collections::{BTreeMap, BTreeSet};

use super::clocks::OwnClock;
use super::interface::Timing;
use super::members::Member;
use super::register::{NodeId, Register};
use super::registrar::Registrar;
use crate::units::{Epoch, Sequence};

/// The role of a node, with what it knows in it.
pub(super) enum Role {
    Replica(Replica),
    /// It has won the group with this value of the register, and its promise is not durable yet.
    Claiming(Register),
    Leading(Primary),
}

/// One node of a group: it takes events, and gives actions.
pub struct Node {
    pub(super) id: NodeId,
    /// The number of the last answer to a primary.
    pub(super) answer: u64,
    pub(super) timing: Timing,
    pub(super) peers: BTreeSet<NodeId>,
    pub(super) registrar: Registrar,
    pub(super) role: Role,
    pub(super) now_ms: u64,
    /// The sequence after the last fact known to be committed.
    pub(super) committed: Sequence,
    pub(super) is_fit: bool,
    pub(super) clock: OwnClock,
    /// The epoch promised, and the one whose promise is durable.
    pub(super) promised: Epoch,
    pub(super) kept: Epoch,
    /// The coordinator that an operator has confirmed to this node, and until when the node acts by it.
    pub(super) confirmed: Option<(u64, u64)>,
}

/// How far a replica has come with its primary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReplicaStage {
    /// Its log may have facts that the primary's has not.
    Unmatched,
    /// It has sent its history, and waits for the end to keep.
    Promised,
    /// Its log is being cut.
    Cutting,
    /// Its log is the beginning of the primary's.
    Following,
}

/// A node that follows a primary, or waits for one.
pub(super) struct Replica {
    pub(super) primary: Option<NodeId>,
    pub(super) attempt: u64,
    pub(super) stage: ReplicaStage,
    /// When the primary was last heard.
    pub(super) heard_ms: u64,
    /// When the register was last read. `None` before the first read.
    pub(super) asked_ms: Option<u64>,
    /// Until when it claims the group because the primary asked it to.
    pub(super) takes_over_until_ms: u64,
    /// Until when it claims the group because an operator asked it to.
    pub(super) promoted_until_ms: u64,
    /// The end of a cut under way.
    pub(super) cut: Option<Sequence>,
}

impl Replica {
    /// A replica that waits from now on.
    pub(super) fn new(now_ms: u64) -> Self {
        Self {
            primary: None,
            attempt: 0,
            stage: ReplicaStage::Unmatched,
            heard_ms: now_ms,
            asked_ms: None,
            takes_over_until_ms: 0,
            promoted_until_ms: 0,
            cut: None,
        }
    }
}

/// A node that leads.
pub(super) struct Primary {
    pub(super) epoch: Epoch,
    /// The nodes that must have a fact, as the register says.
    pub(super) set: BTreeSet<NodeId>,
    /// True once the first fact of the epoch is committed, and with it everything before.
    pub(super) is_serving: bool,
    pub(super) members: BTreeMap<NodeId, Member>,
    /// Nodes that are counted already, so that they have everything when they join the set.
    pub(super) joining: BTreeSet<NodeId>,
    /// Nodes that an operator has removed, until the register names them no more.
    pub(super) removed: BTreeSet<NodeId>,
    /// The `min_copies` that an operator asked for last.
    pub(super) min_copies: Option<usize>,
    /// The sequence of the first fact of the epoch.
    pub(super) begins: Sequence,
    pub(super) attempts: u64,
    pub(super) beat_ms: Option<u64>,
    /// The node to hand over to, until when, and whether it was asked.
    pub(super) successor: Option<(NodeId, u64, bool)>,
}

impl Primary {
    /// A primary of this epoch, whose first fact has the sequence `begins`.
    pub(super) fn new(epoch: Epoch, set: BTreeSet<NodeId>, begins: Sequence) -> Self {
        let (members, joining, removed) = <_>::default();
        let (min_copies, attempts, beat_ms, successor) = (None, 0, None, None);
        let is_serving = false;
        Self { epoch, set, is_serving, members, joining, removed, min_copies, begins, attempts, beat_ms, successor }
    }

    /// True while it takes no publishes because it hands over.
    pub(super) fn hands_over(&self) -> bool {
        self.successor.is_some()
    }

    pub(super) fn next_attempt(&mut self) -> u64 {
        self.attempts = self.attempts.saturating_add(1);
        self.attempts
    }

    /// The member, if the message is of this epoch and exchange.
    pub(super) fn member(&mut self, node: NodeId, (epoch, attempt): (Epoch, u64)) -> Option<&mut Member> {
        let is_now = epoch == self.epoch;
        self.members.get_mut(&node).filter(|member| is_now && member.attempt == attempt)
    }

    /// The end of what each of these nodes has, of which `id` is this one.
    pub(super) fn durable_on<'a>(
        &self,
        id: NodeId,
        own: Sequence,
        mut nodes: impl Iterator<Item = &'a NodeId>,
    ) -> Option<Sequence> {
        nodes.try_fold(own, |least, node| {
            let durable =
                if *node == id { Some(own) } else { self.members.get(node).and_then(|member| member.durable) };
            durable.map(|durable| least.min(durable))
        })
    }
}
