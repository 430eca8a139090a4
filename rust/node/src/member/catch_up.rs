//! Batches for nodes that lag, or a snapshot if they lack more than the log has; and the snapshot that this node receives.

use std::sync::Arc;
use std::time::Instant;

use delaymq_core::error::Error;
use delaymq_core::replication::{Event, FilePart, FilePlace, LogView, Message, NodeId, SentFile, SnapshotOffer};
use delaymq_peers::NotSent;

use super::{Member, wall_clock};
use crate::interface::NodeError;
use crate::loads::parts::Parts;
use crate::reader::{Reader, ReaderParts, Work};
use crate::shipping::{end_of, is_full};
use crate::snapshot::outgoing::{Exchange, Outgoing};

impl Member {
    /// Sends each node the next batches that it lacks, or asks the reader to do so.
    pub(super) fn ship(&mut self) {
        let Some(reader) = &self.reader else { return };
        let committed = self.parts.protocol.committed();
        for (node, shipping) in self.shipments.waiting(self.parts.copy.end(), Instant::now()) {
            let (epoch, attempt, first) = (shipping.epoch, shipping.attempt, shipping.next);
            if shipping.lags {
                reader.read(node, Work::Batches { exchange: (epoch, attempt), first, committed });
                self.shipments.asked_for(node);
                continue;
            }
            let bytes = match self.parts.copy.ship(first) {
                Ok(bytes) => bytes,
                // The store ends, and the protocol hears of it.
                Err(Error::Closed | Error::Poisoned { .. }) => return,
                // The reader says what is to be done about it.
                Err(_) => {
                    self.shipments.lags(node);
                    continue;
                }
            };
            let Some(end) = end_of(&bytes) else { continue };
            let lags = is_full(&bytes) && end < self.parts.copy.end();
            match self.parts.peers.send(node, &Message::Batches { epoch, attempt, from: first, committed, bytes }) {
                Ok(()) => self.shipments.sent(node, end),
                // The reader waits until there is room, or says what is to be done.
                Err(NotSent::Full | NotSent::TooLarge(_)) => self.shipments.lags(node),
                // The node asks for it when it is connected.
                Err(NotSent::NotConnected) => self.shipments.end(node),
            }
            if lags {
                self.shipments.lags(node);
            }
        }
    }

    pub(super) fn start_reader(&mut self) -> Result<(), NodeError> {
        let parts = ReaderParts {
            store: Arc::default(),
            outgoing: Outgoing::new(self.parts.copy.path()),
            load_parts: Parts::new(Arc::clone(self.parts.copy.storage())),
            peers: Arc::clone(&self.parts.peers),
            events: Arc::clone(&self.parts.events),
            reports: Arc::clone(&self.parts.reports),
        };
        self.reader = Some(Reader::start(parts)?);
        Ok(())
    }

    pub(super) fn send_part(&mut self, to: NodeId, exchange: Exchange, place: FilePlace) {
        if matches!(place.file, SentFile::Load(_)) {
            self.is_asked_for_load_by(to);
        }
        if let Some(reader) = &self.reader {
            reader.read(to, Work::Part { exchange, place });
        }
    }

    pub(super) fn receive_snapshot(&mut self, from: NodeId, exchange: Exchange, offer: SnapshotOffer) {
        let (count, bytes) =
            (offer.files.len(), offer.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.length)));
        match self.incoming.begin(self.parts.copy.storage(), (from, exchange), offer, Instant::now()) {
            Ok(Some(ask)) => {
                let line = format!("receiving a snapshot of {count} files with {bytes} bytes from the node {from}");
                self.parts.reports.note(line);
                self.tell(Some((from, ask)));
            }
            Ok(None) => {}
            Err(error) => self.warn_of(from, format!("a snapshot of the node {from} cannot be received: {error}")),
        }
    }

    pub(super) fn receive_part(&mut self, part: &FilePart) {
        let now = Instant::now();
        let ask = match part.place.file {
            SentFile::Snapshot { .. } => self.incoming.files.ask_after(part, now),
            SentFile::Load(_) => self.loads.incoming.files.ask_after(part, now),
        };
        // The next part is on its way while this one is written.
        self.tell(ask);
        let taken = match part.place.file {
            SentFile::Snapshot { .. } => self.incoming.files.take(part, now).map(|()| None),
            SentFile::Load(_) => self.loads.incoming.take(part, now),
        };
        match taken {
            Ok(held) => self.tell(held),
            Err(error) => {
                self.parts.reports.warn(format!("a file cannot be written, and it is received again: {error}"));
            }
        }
    }

    /// Asks again for what was lost, and adopts a snapshot of which everything has come.
    pub(super) fn tend_snapshots(&mut self) -> Result<(), NodeError> {
        let now = Instant::now();
        let Some((from, exchange, offer)) = self.incoming.received() else { return Ok(()) };
        // Another primary may have other facts, and batches may have come meanwhile.
        if !self.parts.protocol.takes_snapshot(from, exchange, offer, &self.parts.copy) {
            self.incoming.files.discard();
            return Ok(());
        }
        let ask = self.incoming.files.ask_again(now);
        self.tell(ask);
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
        let Some(snapshot) = self.incoming.files.take_whole() else { return Ok(()) };
        self.repairs.clear();
        let committed = self.parts.copy.adopt(snapshot.of)?;
        self.parts.reports.note(format!("the snapshot has taken the place of this copy, up to {committed}"));
        self.step(Event::SnapshotAdopted(committed))
    }

    /// Sends a message about files. One that is lost is sent again.
    pub(super) fn tell(&self, message: Option<(NodeId, Message)>) {
        if let Some((to, message)) = message {
            drop(self.parts.peers.send(to, &message));
        }
    }
}
