//! Snapshots on their way: a node that lags is sent the files of the primary now and then, although the log has what it lacks.

use std::collections::BTreeMap;

use delaymq_core::replication::{Event, Message, NodeId, SnapshotOffer, SnapshotPiece};
use delaymq_core::units::Epoch;

use super::machine::Machine;
use super::{Copies, Letter};

/// In so many of a hundred shipments a snapshot is offered instead. A node that knows of more than its checkpoint does not take it.
const OFFERED_PERCENT: u64 = 30;

/// The parts of the snapshots that were offered. They come at once, and are as they were when they were offered.
#[derive(Default)]
pub(super) struct Snapshots {
    parts: BTreeMap<u64, Vec<SnapshotPiece>>,
    number: u64,
}

impl<M: Machine> Copies<M> {
    /// Offers a snapshot. False if there is none, or if it is not the time for one.
    pub(super) fn offers_snapshot(&mut self, place: usize, to: NodeId, (epoch, attempt): (Epoch, u64)) -> bool {
        if !self.plan.snapshots || !self.chance.percent(OFFERED_PERCENT) {
            return false;
        }
        let Some(host) = self.hosts.get_mut(place) else { return false };
        let number = self.snapshots.number + 1;
        let Some((offer, parts)) = host.machine.snapshot(number) else { return false };
        self.snapshots.number = number;
        self.snapshots.parts.insert(number, parts);
        self.letters.push(Letter { from: host.id, to, message: Message::Snapshot { epoch, attempt, offer } });
        true
    }

    /// Receives all parts, and adopts the snapshot. The machine may end meanwhile.
    pub(super) fn receive_snapshot(&mut self, place: usize, offer: SnapshotOffer, events: &mut Vec<Event>) {
        let (Some(host), Some(parts)) = (self.hosts.get_mut(place), self.snapshots.parts.get(&offer.number)) else {
            return;
        };
        if let Some(committed) = host.machine.adopt(offer, parts) {
            self.checker.counts.snapshots += 1;
            events.push(Event::SnapshotAdopted(committed));
        }
    }
}
