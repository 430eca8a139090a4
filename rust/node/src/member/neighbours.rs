//! The other nodes: which ones belong to the group, and which of them is the primary.

use delaymq_core::replication::{Event, NodeId};
use delaymq_peers::{Direction, PeerEvent};
use delaymq_server::Primary;

use super::Member;
use crate::interface::NodeError;

/// Reasons that are kept, so that each is reported once.
const FAULTS_MAX: usize = 64;

impl Member {
    pub(super) fn hear(&mut self, event: PeerEvent) -> Result<(), NodeError> {
        let reports = &self.parts.reports;
        match event {
            PeerEvent::Message(from, message) => return self.step(Event::Received(from, message)),
            PeerEvent::Connected { hello, direction } => {
                let node = hello.node;
                self.parts.client_addresses.insert(node, hello.client_address);
                if direction == Direction::Outgoing {
                    reports.note(format!("connected to the node {node}"));
                    self.link_faults.clear();
                }
                return self.meet(node);
            }
            PeerEvent::Disconnected { node, direction: Direction::Outgoing, fault } => {
                reports.warn(format!("the connection to the node {node} has ended: {fault}"));
            }
            PeerEvent::Disconnected { .. } => {}
            PeerEvent::Refused { address, fault, .. } => {
                // A node is tried about once a second, and each reason is reported once.
                let fault = fault.to_string();
                let known = &mut self.link_faults;
                if known.get(&address) != Some(&fault) {
                    reports.warn(format!("no connection to {address}: {fault}"));
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

    pub(super) fn meet_nodes_of_register(&mut self) -> Result<(), NodeError> {
        let Some(value) = self.parts.protocol.register() else { return Ok(()) };
        if value.sync == self.set_known {
            return Ok(());
        }
        let complete = value.complete.clone();
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
