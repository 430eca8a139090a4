//! The other nodes: which ones belong to the group, and which of them is the primary.

use std::collections::BTreeSet;

use delaymq_core::replication::{Event, Message, NodeId, Register, RoleName};
use delaymq_peers::{Direction, PeerEvent};
use delaymq_server::Primary;

use super::Member;
use super::care::is_long_silent;
use crate::interface::NodeError;

/// Reasons that are kept, so that each is reported once.
const FAULTS_MAX: usize = 64;

impl Member {
    pub(super) fn hear(&mut self, event: PeerEvent) -> Result<(), NodeError> {
        match event {
            PeerEvent::Message(from, Message::AskRecord { epoch, wanted }) => self.answer_record(from, epoch, wanted),
            PeerEvent::Message(from, Message::Record { epoch, sequence, payload }) => {
                self.take_record(from, epoch, sequence, payload);
            }
            PeerEvent::Message(from, message) => return self.step(Event::Received(from, message)),
            PeerEvent::Connected { hello, direction } => {
                let node = hello.node;
                self.hear_of_addresses(&hello);
                self.parts.client_addresses.insert(node, hello.client_address);
                self.connected.insert((node, direction == Direction::Outgoing));
                if direction == Direction::Outgoing {
                    self.parts.reports.note(format!("connected to the node {node}"));
                    self.link_faults.clear();
                }
                return self.meet(node);
            }
            PeerEvent::Disconnected { node, direction, fault } => {
                let is_outgoing = direction == Direction::Outgoing;
                self.connected.remove(&(node, is_outgoing));
                if is_outgoing {
                    self.parts.reports.warn(format!("the connection to the node {node} has ended: {fault}"));
                }
            }
            PeerEvent::Refused { address, direction, fault } => {
                // A node is tried about once a second, and each reason is reported once. Each attempt of another node has
                // another port.
                let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).to_owned();
                let address = if direction == Direction::Incoming { host } else { address };
                let fault = fault.to_string();
                let known = &mut self.link_faults;
                if known.get(&address) != Some(&fault) {
                    self.parts.reports.warn(format!("no connection to {address}: {fault}"));
                    if known.len() > FAULTS_MAX {
                        known.clear();
                    }
                    known.insert(address, fault);
                }
            }
        }
        Ok(())
    }

    /// Another node belongs to the group.
    pub(super) fn meet(&mut self, node: NodeId) -> Result<(), NodeError> {
        if node == self.parts.copy.node() || !self.parts.known.insert(node) {
            return Ok(());
        }
        self.step(Event::Peers(self.parts.known.clone()))
    }

    /// An operator says that a node is gone for good.
    pub(super) fn remove(&mut self, node: NodeId, accepts_loss: bool) -> Result<(), NodeError> {
        if self.is_connected(node) {
            return Ok(());
        }
        self.step(Event::Remove(node, accepts_loss))?;
        let is_kept = |value: &Register| value.names(node) && !self.parts.protocol.is_removing(node);
        if self.parts.protocol.register().is_some_and(is_kept) {
            self.parts.reports.warn(format!("the node {node} was not removed: it is needed meanwhile"));
            return Ok(());
        }
        self.parts.reports.note(format!("removing the node {node}, as asked"));
        self.forget_address(node);
        self.forget(&[node])
    }

    fn is_connected(&self, node: NodeId) -> bool {
        [true, false].iter().any(|is_outgoing| self.connected.contains(&(node, *is_outgoing)))
    }

    /// Forgets the nodes that are not connected and that the register does not name. A primary, which keeps its log for them,
    /// waits until they have been silent for long.
    pub(super) fn forget_absent(&mut self) -> Result<(), NodeError> {
        let Some(value) = self.parts.protocol.register() else { return Ok(()) };
        let is_absent = |node: &NodeId| !value.names(*node) && !self.is_connected(*node);
        let mut absent: BTreeSet<NodeId> = self.parts.known.iter().copied().filter(is_absent).collect();
        if absent.is_empty() {
            return Ok(());
        }
        if self.role != RoleName::Replica {
            let copies = self.parts.protocol.copies_known();
            absent.retain(|node| copies.iter().filter(|copy| copy.node == *node).all(is_long_silent));
        }
        self.forget(&absent.into_iter().collect::<Vec<_>>())
    }

    fn forget(&mut self, nodes: &[NodeId]) -> Result<(), NodeError> {
        let mut are_known = false;
        for node in nodes {
            are_known |= self.parts.known.remove(node);
            self.parts.client_addresses.remove(node);
            self.warned_of.remove(node);
        }
        if are_known { self.step(Event::Peers(self.parts.known.clone())) } else { Ok(()) }
    }

    pub(super) fn meet_nodes_of_register(&mut self) -> Result<(), NodeError> {
        let Some(value) = self.parts.protocol.register() else { return Ok(()) };
        if value.sync == self.set_known {
            return Ok(());
        }
        let protocol = &self.parts.protocol;
        let complete: Vec<NodeId> =
            value.complete.iter().copied().filter(|node| !protocol.is_removing(*node)).collect();
        self.set_known = value.sync.clone();
        let names: Vec<String> = self.set_known.iter().map(ToString::to_string).collect();
        self.parts.reports.note(format!("the set that has each committed fact: {}", names.join(", ")));
        complete.into_iter().try_for_each(|node| self.meet(node))
    }

    /// The standby names the primary that this node follows.
    pub(super) fn name_primary(&mut self) {
        let leader = self.parts.protocol.leader().filter(|leader| *leader != self.parts.copy.node());
        let address = leader.and_then(|leader| self.parts.client_addresses.get(&leader));
        let address = address.filter(|address| !address.is_empty());
        let epoch = self.parts.protocol.promised();
        // This is looked at after each event, and the primary is another one seldom.
        let known = self.primary.as_ref().map(|known| (&known.address, known.epoch));
        if known != address.map(|address| (address, epoch)) {
            self.primary = address.map(|address| Primary { address: address.clone(), epoch });
            self.parts.service.set_primary(self.primary.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use delaymq_core::replication::CopyKnown;

    use super::*;
    use crate::member::care::KEPT_FOR_SILENT_MS;

    #[test]
    fn a_copy_is_forgotten_after_the_time_for_which_the_log_is_kept_for_it() {
        let node = NodeId([1; 16]);
        let silent = |silent_ms| CopyKnown {
            node,
            durable: None,
            silent_ms,
            is_matched: false,
            has_diverged: false,
            clock_offset_ms: None,
            is_clock_apart: false,
        };
        assert!(!is_long_silent(&silent(KEPT_FOR_SILENT_MS - 1)));
        assert!(is_long_silent(&silent(KEPT_FOR_SILENT_MS)));
    }
}
