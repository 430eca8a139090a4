//! Damaged messages: what this node asks others for, and what it gives them.

use std::time::Instant;

use delaymq_core::error::Error;
use delaymq_core::replication::{Message, NodeId, WantedRecord};
use delaymq_core::store::DamagedMessage;
use delaymq_core::units::{Epoch, Sequence};

use super::Member;
use crate::reader::Work;
use crate::repairs::Damage;

impl Member {
    /// A message is damaged here. Another node may have it whole.
    pub(super) fn begin_repair(&mut self, damage: Damage) {
        let Damage { sequence, location, key, told } = damage;
        match DamagedMessage::at(self.parts.copy.storage().as_ref(), location, sequence, key) {
            Ok(Some(message)) => {
                self.repairs.begin(message, told);
                self.go_on_with_repairs();
            }
            // It was made whole meanwhile, or its reader sees that its header is damaged.
            Ok(None) => {
                if let Some(told) = told {
                    let _gone = told.send(true);
                }
            }
            // The reader sees the reason.
            Err(_) => {}
        }
    }

    /// Messages that came damaged from the primary, whose disk has damaged them.
    pub(super) fn repair_appended(&mut self) {
        for damaged in self.parts.copy.take_damaged() {
            let (sequence, location) = (damaged.sequence, damaged.location);
            self.parts.reports.warn(format!("the message {sequence} of the primary's log is damaged"));
            self.begin_repair(Damage { sequence, location, key: None, told: None });
        }
    }

    /// Asks for what waits for no answer: the primary first.
    pub(super) fn go_on_with_repairs(&mut self) {
        let mut nodes: Vec<NodeId> =
            self.connected.iter().filter(|(_, is_outgoing)| *is_outgoing).map(|(node, _)| *node).collect();
        let leader = self.parts.protocol.leader();
        nodes.sort_by_key(|node| Some(*node) != leader);
        let next = self.repairs.next(&nodes, Instant::now());
        let epoch = self.parts.protocol.promised();
        for (node, wanted) in next.asks {
            // A question that is lost is as one that is not answered.
            drop(self.parts.peers.send(node, &Message::AskRecord { epoch, wanted }));
        }
        for sequence in next.given_up {
            self.parts
                .reports
                .warn(format!("no other node that is connected has the damaged message {sequence} whole"));
        }
    }

    /// Another node asks for a message that it has damaged.
    pub(super) fn answer_record(&self, node: NodeId, epoch: Epoch, wanted: WantedRecord) {
        if epoch != self.parts.protocol.promised() {
            return;
        }
        if let Some(reader) = &self.reader {
            let kept = self.parts.copy.kept_messages().map(Box::new);
            reader.read(node, Work::Record { epoch, wanted, kept });
        }
    }

    /// Another node has answered.
    pub(super) fn take_record(&mut self, node: NodeId, epoch: Epoch, sequence: Sequence, payload: Option<Vec<u8>>) {
        if epoch != self.parts.protocol.promised() {
            return;
        }
        let Some(message) = self.repairs.answered(node, sequence) else { return };
        if let Some(payload) = payload {
            let stream = self.parts.copy.identity().stream;
            match message.restore(self.parts.copy.storage().as_ref(), stream, &payload) {
                Ok(_) => {
                    self.messages_repaired = self.messages_repaired.saturating_add(1);
                    self.parts
                        .reports
                        .note(format!("the damaged message {sequence} is whole again, from the node {node}"));
                    self.repairs.end(sequence, true);
                }
                Err(Error::InvalidArgument { argument: "payload", .. }) => {
                    self.warn_of(node, format!("the node {node} has sent other bytes than those of a damaged message"));
                }
                Err(error) => {
                    self.parts.reports.warn(format!("the damaged message {sequence} cannot be written: {error}"));
                    self.repairs.end(sequence, false);
                }
            }
        }
        self.go_on_with_repairs();
    }
}
