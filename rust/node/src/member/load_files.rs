//! The files of loads: those that copies are asked to hold, or ask for, and those that this node lacks.

use std::sync::Arc;
use std::time::Instant;

use delaymq_core::replication::{LoadMessage, NodeId};
use delaymq_core::run::StagedRun;

use super::Member;
use crate::loads::incoming::Purpose;
use crate::loads::outgoing::Answer;
use crate::snapshot::outgoing::Exchange;

impl Member {
    pub(super) fn take_load(&mut self, from: NodeId, exchange: Exchange, message: LoadMessage) {
        match message {
            LoadMessage::Hold { number, runs } => {
                self.receive_files((from, exchange), (Purpose::Offer(number), &runs));
            }
            LoadMessage::Held { number } => {
                self.loads.outgoing.is_held(from, number, Instant::now());
                self.tend_loads();
            }
        }
    }

    /// A batch of the primary names files that are not here.
    pub(super) fn lack_files(&mut self, runs: &[StagedRun]) {
        let Some((from, exchange)) = self.parts.protocol.followed() else { return };
        let count = runs.len();
        if self.receive_files((from, exchange), (Purpose::Batch, runs)) {
            self.parts.reports.note(format!("asking the node {from} for {count} files of a load"));
        }
    }

    /// True if the first part was asked for.
    fn receive_files(&mut self, (from, exchange): (NodeId, Exchange), wanted: (Purpose, &[StagedRun])) -> bool {
        let storage = Arc::clone(self.parts.copy.storage());
        match self.loads.incoming.begin(&storage, (from, exchange), wanted, Instant::now()) {
            Ok(Some(message)) => {
                self.tell(Some((from, message)));
                true
            }
            Ok(None) => false,
            Err(error) => {
                self.warn_of(from, format!("files of a load of the node {from} cannot be received: {error}"));
                false
            }
        }
    }

    /// A copy asks for a part of a file of a load.
    pub(super) fn is_asked_for_load_by(&mut self, node: NodeId) {
        let copies = self.parts.protocol.load_copies();
        if let Some(copy) = copies.iter().find(|copy| copy.node == node) {
            self.loads.outgoing.is_asked_by(copy, Instant::now());
        }
    }

    /// Asks copies to hold files, asks again for what was lost, and answers loads.
    pub(super) fn tend_loads(&mut self) {
        let now = Instant::now();
        self.loads.incoming.keep(self.parts.protocol.followed());
        let ask = self.loads.incoming.files.ask_again(now);
        self.tell(ask);
        let Some(store) = self.parts.copy.store() else { return };
        let (waiting, copies) = (store.load_offers(), self.parts.protocol.load_copies());
        for ask in self.loads.outgoing.asks(&waiting, &copies, now) {
            self.tell(Some(ask));
        }
        for (number, answer) in self.loads.outgoing.answers(&copies, now) {
            match answer {
                Answer::Held => store.load_is_held(number),
                Answer::Refused(count) => {
                    store.refuse_load(number, count);
                    let line =
                        format!("a load is refused: {} of {} nodes get its files", count.copies, count.min_copies);
                    self.parts.reports.warn(line);
                }
            }
        }
    }
}
