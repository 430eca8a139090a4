//! One node with its machine, its promise, and the protocol while its process runs.

use std::collections::BTreeSet;

use delaymq_core::replication::{Action, Event, Node, NodeId, NodeOptions, Promise, RoleName, Timing};
use delaymq_core::units::{Epoch, Millis, Sequence};

use super::machine::Machine;
use super::plan::Plan;
use crate::chance::Chance;

/// The stream and the timeline of the group.
pub(super) const GROUP: ([u8; 16], u32) = ([7; 16], 0);

/// The true time at the beginning.
const BEGIN: Millis = Millis(1_800_000_000_000);

/// See the module.
pub(super) struct Host<M> {
    pub(super) id: NodeId,
    pub(super) peers: BTreeSet<NodeId>,
    pub(super) machine: M,
    /// `None` while the process does not run.
    pub(super) node: Option<Node>,
    /// The number of the process, so that no answer reaches a later one.
    pub(super) life: u64,
    pub(super) now_ms: u64,
    /// How far its wall clock is ahead of the true time.
    pub(super) ahead_ms: i64,
    /// The promise that is being made durable.
    pub(super) wanted: Option<Promise>,
}

impl<M: Machine> Host<M> {
    /// A new node with an empty disk, which runs.
    pub(super) fn new(id: NodeId, ids: &BTreeSet<NodeId>, seed: u64, plan: &Plan) -> Self {
        let peers = ids.iter().copied().filter(|other| *other != id).collect();
        let machine = M::new(id, seed, plan);
        let mut host = Self { id, peers, machine, node: None, life: 0, now_ms: 0, ahead_ms: 0, wanted: None };
        host.start();
        host
    }

    /// What its wall clock shows.
    pub(super) fn wall(&self) -> Millis {
        Millis(BEGIN.plus(self.now_ms).0.saturating_add_signed(self.ahead_ms))
    }

    pub(super) fn is_up(&self) -> bool {
        self.node.is_some()
    }

    /// Starts the process.
    pub(super) fn start(&mut self) {
        let options = NodeOptions {
            id: self.id,
            group: GROUP,
            random: (self.life + 1) << 32,
            promise: self.machine.promise(),
            committed: self.machine.start(),
            peers: self.peers.clone(),
            timing: Timing::default(),
        };
        self.life += 1;
        self.node = Some(Node::new(options, self.now_ms));
    }

    /// Ends the process, or the machine.
    pub(super) fn crash(&mut self, chance: &mut Chance) {
        (self.node, self.wanted) = (None, None);
        self.machine.crash(chance);
    }

    /// The promise under way is durable now.
    pub(super) fn keep_promise(&mut self) -> Option<Epoch> {
        let promise = self.wanted.take().filter(|_| self.is_up())?;
        self.machine.keep_promise(promise).then_some(promise.epoch)
    }

    pub(super) fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(node) = &mut self.node {
            node.step(self.now_ms, &self.machine, event, &mut actions);
        }
        actions
    }

    /// True if it leads, as far as it knows.
    pub(super) fn leads(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.role() != RoleName::Replica)
    }

    /// True if it waits until an operator has confirmed the register.
    pub(super) fn awaits_confirmation(&self) -> bool {
        self.node.as_ref().is_some_and(Node::awaits_confirmation)
    }

    /// On how many nodes a publish must be, as it knows.
    pub(super) fn min_copies(&self) -> Option<usize> {
        self.node.as_ref()?.register().map(|value| value.min_copies)
    }

    /// The epoch of the last fact of its log.
    pub(super) fn log_epoch(&self) -> Epoch {
        self.machine.history().epochs.last().map_or(Epoch(0), |last| last.epoch)
    }

    pub(super) fn committed(&self) -> Sequence {
        self.node.as_ref().map_or(Sequence(1), Node::committed)
    }

    /// In words.
    pub(super) fn summary(&self) -> String {
        let role = self.node.as_ref().map(Node::role);
        format!("{} {role:?} to {} of {}", self.id.0[7], self.committed(), self.machine.end())
    }
}
