//! Batches for nodes that lag, or a snapshot if they lack more than the log has; and the snapshot that this node receives.

use std::time::{Duration, Instant};

use delaymq_core::error::Error;
use delaymq_core::replication::{Event, Message, NodeId, RoleName, SnapshotOffer, SnapshotPiece, SnapshotPlace};
use delaymq_peers::NotSent;

use super::{Member, wall_clock};
use crate::interface::NodeError;
use crate::shipping::end_of;
use crate::snapshot::outgoing::Exchange;

impl Member {
    /// Sends each node the next batches that it lacks.
    pub(super) fn ship(&mut self) {
        if self.parts.copy.store().is_none() {
            return;
        }
        for (node, shipping) in self.waiting() {
            if self.outgoing.is_asked_by(node, (shipping.epoch, shipping.attempt), Instant::now()) {
                self.shipments.end(node);
                continue;
            }
            let bytes = match self.parts.copy.ship(shipping.next) {
                Ok(bytes) => bytes,
                Err(Error::NotKept { .. }) => {
                    self.shipments.end(node);
                    self.offer_snapshot(node, (shipping.epoch, shipping.attempt));
                    continue;
                }
                // The store ends, and the protocol hears of it.
                Err(Error::Closed | Error::Poisoned { .. }) => return,
                // The store tells whether its disk has failed. A request of another node must not end this one.
                Err(error) => {
                    self.warn_of(
                        node,
                        format!("batches from {} on cannot be sent to the node {node}: {error}", shipping.next),
                    );
                    self.shipments.end(node);
                    continue;
                }
            };
            let Some(end) = end_of(&bytes) else { continue };
            let (epoch, attempt, from, committed) =
                (shipping.epoch, shipping.attempt, shipping.next, self.parts.protocol.committed());
            match self.parts.peers.send(node, &Message::Batches { epoch, attempt, from, committed, bytes }) {
                Ok(()) => self.shipments.sent(node, end),
                // The rest is sent when there is room.
                Err(NotSent::Full) => std::thread::sleep(Duration::from_millis(1)),
                // The node asks for it when it is connected.
                Err(NotSent::NotConnected) => self.shipments.end(node),
                Err(NotSent::TooLarge(error)) => {
                    self.warn_of(node, format!("a batch cannot be sent to the node {node}: {error}"));
                    self.shipments.end(node);
                }
            }
        }
    }

    /// A node needs more than the log has.
    pub(super) fn offer_snapshot(&mut self, node: NodeId, exchange: Exchange) {
        let Some(store) = self.parts.copy.store() else { return };
        match self.outgoing.offer(node, exchange, store, Instant::now()) {
            Ok(Some((offer, line))) => {
                if let Some(line) = line {
                    self.parts.reports.note(line);
                }
                if let Err(error) = self.parts.peers.send(node, &offer) {
                    self.warn_of(node, format!("a snapshot cannot be offered to the node {node}: {error}"));
                }
            }
            Ok(None) | Err(Error::Closed | Error::Poisoned { .. }) => {}
            Err(error) => self.warn_of(node, format!("there is no snapshot for the node {node} now: {error}")),
        }
    }

    pub(super) fn send_piece(&mut self, node: NodeId, exchange: Exchange, place: SnapshotPlace) {
        if self.role != RoleName::Primary {
            return;
        }
        match self.outgoing.piece(node, exchange, place, Instant::now()) {
            // The node asks again for what is lost.
            Ok(Some(piece)) => drop(self.parts.peers.send(node, &piece)),
            // It asks for the snapshot of an earlier exchange, and is offered another.
            Ok(None) => {}
            Err(error) => self.warn_of(node, format!("the snapshot for the node {node} is made again: {error}")),
        }
    }

    pub(super) fn receive_snapshot(&mut self, from: NodeId, exchange: Exchange, offer: SnapshotOffer) {
        let (count, bytes) =
            (offer.files.len(), offer.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.length)));
        match self.incoming.begin(self.parts.copy.storage(), (from, exchange), offer, Instant::now()) {
            Ok(Some(ask)) => {
                let line = format!("receiving a snapshot of {count} files with {bytes} bytes from the node {from}");
                self.parts.reports.note(line);
                self.ask(from, &ask);
            }
            Ok(None) => {}
            Err(error) => self.warn_of(from, format!("a snapshot of the node {from} cannot be received: {error}")),
        }
    }

    pub(super) fn receive_piece(&mut self, piece: &SnapshotPiece) {
        let now = Instant::now();
        // The next part is on its way while this one is written.
        if let Some((from, ask)) = self.incoming.ask_after(piece, now) {
            self.ask(from, &ask);
        }
        if let Err(error) = self.incoming.take(piece, now) {
            self.parts
                .reports
                .warn(format!("a part of a snapshot cannot be written, and it is received again: {error}"));
        }
    }

    /// Asks again for what was lost, and adopts a snapshot of which everything has come.
    pub(super) fn tend_snapshots(&mut self) -> Result<(), NodeError> {
        let now = Instant::now();
        self.outgoing.tend(now);
        let Some((from, exchange, offer)) = self.incoming.received() else { return Ok(()) };
        // Another primary may have other facts, and batches may have come meanwhile.
        if !self.parts.protocol.takes_snapshot(from, exchange, offer, &self.parts.copy) {
            self.incoming.drop_files();
            return Ok(());
        }
        if let Some((from, ask)) = self.incoming.ask_again(now) {
            self.ask(from, &ask);
        }
        match self.incoming.is_whole(self.parts.copy.identity(), now) {
            Ok(true) => self.adopt(),
            Ok(false) => Ok(()),
            Err(error) => {
                self.parts.reports.warn(format!("the snapshot of the node {from} is not adopted: {error}"));
                Ok(())
            }
        }
    }

    fn adopt(&mut self) -> Result<(), NodeError> {
        if self.parts.copy.is_pinned(wall_clock())? {
            if self.incoming.waits() {
                self.parts.reports.note("the snapshot has come, and waits for the readers of this copy".to_owned());
            }
            return Ok(());
        }
        let Some(snapshot) = self.incoming.take_whole() else { return Ok(()) };
        let committed = self.parts.copy.adopt(snapshot)?;
        self.parts.reports.note(format!("the snapshot has taken the place of this copy, up to {committed}"));
        self.step(Event::SnapshotAdopted(committed))
    }

    fn ask(&self, from: NodeId, ask: &Message) {
        // A lost part is asked for again.
        drop(self.parts.peers.send(from, ask));
    }
}
