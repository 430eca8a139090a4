//! Snapshots on their way: a node that lags is sent the files of the primary now and then, although the log has what it lacks.

use delaymq_core::replication::{Event, Message, NodeId, SnapshotOffer};
use delaymq_core::units::Epoch;

use super::machine::Machine;
use super::transfers::Receiving;
use super::{Copies, Letter};

/// In so many of a hundred shipments a snapshot is offered instead. A node that knows of more than its checkpoint does not take it.
const OFFERED_PERCENT: u64 = 30;

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

    /// A node begins to receive a snapshot.
    pub(super) fn receive_snapshot(
        &mut self,
        place: usize,
        from: NodeId,
        exchange: (Epoch, u64),
        offer: SnapshotOffer,
    ) {
        let Some(life) = self.hosts.get(place).map(|host| host.life) else { return };
        self.snapshots.receiving.insert(place, Receiving { life, from, exchange, offer });
    }

    /// All parts of a snapshot have come, sooner or later. The machine may end while it is adopted.
    pub(super) fn adopt_snapshot(&mut self, place: usize) {
        let Some(Receiving { life, from, exchange, offer }) = self.snapshots.receiving.remove(&place) else { return };
        let (Some(host), Some(parts)) = (self.hosts.get_mut(place), self.snapshots.parts.get(&offer.number)) else {
            return;
        };
        let takes = host.node.as_ref().is_some_and(|node| node.takes_snapshot(from, exchange, &offer, &host.machine));
        if !takes || host.life != life || host.machine.has_stopped() {
            return;
        }
        let adopted = host.machine.adopt(offer, parts);
        let id = host.id.0[7];
        if let Some(committed) = adopted {
            self.checker.counts.snapshots += 1;
            self.note(|| format!("{id} has adopted a snapshot, and knows {committed}"));
            self.give(place, Event::SnapshotAdopted(committed));
        } else {
            // What the machine has to say is heard with its next event.
            self.give(place, Event::Tick);
        }
        self.judge();
    }
}
