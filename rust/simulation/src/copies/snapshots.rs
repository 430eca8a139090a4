//! Snapshots on their way: a node that needs more than the log has, or any node now and then, is sent the files of the primary. The
//! parts come one after the other, and the primary goes on meanwhile.

use delaymq_core::replication::{CopyKnown, Event, Message, NodeId, RoleName, SnapshotOffer};
use delaymq_core::units::Epoch;

use super::machine::Machine;
use super::transfers::Receiving;
use super::{Copies, Letter};

/// In so many of a hundred shipments a snapshot is offered instead. A node that knows of more than its checkpoint does not take it.
const OFFERED_PERCENT: u64 = 30;
/// The most parts that come at once.
const PARTS_MAX: u64 = 4;
/// The log is not kept for a node that is silent for so long. That is an hour outside of histories.
const KEPT_FOR_SILENT_MS: u64 = 5_000;

/// The epoch, and the exchange that matched the logs.
type Exchange = (Epoch, u64);

impl<M: Machine> Copies<M> {
    /// The machine of a primary keeps the log that other nodes lack.
    pub(super) fn keep_log(&mut self, place: usize) {
        let Some(host) = self.hosts.get_mut(place) else { return };
        let Some(node) = host.node.as_ref().filter(|node| node.role() == RoleName::Primary) else { return };
        let is_awaited = |copy: &&CopyKnown| !copy.has_diverged && copy.silent_ms < KEPT_FOR_SILENT_MS;
        let first = node.copies_known().iter().filter(is_awaited).filter_map(|copy| copy.durable).min();
        host.machine.keep_log_from(first);
    }

    /// Offers a snapshot now and then, although the log has what the node lacks. False if it is not the time for one, as at the end, or
    /// if there is none.
    pub(super) fn offers_snapshot(&mut self, place: usize, to: NodeId, exchange: Exchange) -> bool {
        let may_offer = self.plan.snapshots && self.turn <= self.plan.turns;
        may_offer && self.chance.percent(OFFERED_PERCENT) && self.offer_snapshot(place, to, exchange)
    }

    /// Offers a snapshot to a node, unless it receives one in this exchange. False if there is none.
    pub(super) fn offer_snapshot(&mut self, place: usize, to: NodeId, (epoch, attempt): Exchange) -> bool {
        let Some(from) = self.hosts.get(place).map(|host| host.id) else { return false };
        let receiver = self.hosts.iter().position(|host| host.id == to);
        let received = receiver.and_then(|at| Some((self.hosts.get(at)?.life, self.snapshots.receiving.get(&at)?)));
        let is_asked = |(life, known): (u64, &Receiving)| {
            (known.life, known.from, known.exchange) == (life, from, (epoch, attempt))
        };
        if received.is_some_and(is_asked) {
            return true;
        }
        let number = self.snapshots.number + 1;
        let made = self.hosts.get_mut(place).and_then(|host| host.machine.snapshot(to, number));
        let Some(offer) = made else { return false };
        self.snapshots.number = number;
        self.letters.push(Letter { from, to, message: Message::Snapshot { epoch, attempt, offer } });
        true
    }

    /// A node begins to receive a snapshot.
    pub(super) fn receive_snapshot(&mut self, place: usize, from: NodeId, exchange: Exchange, offer: SnapshotOffer) {
        let Some(life) = self.hosts.get(place).map(|host| host.life) else { return };
        self.snapshots.receiving.insert(place, Receiving { life, from, exchange, offer, parts: Vec::new() });
    }

    /// Some parts of a snapshot come. With the last one, it is adopted.
    pub(super) fn receive_parts(&mut self, place: usize) {
        let Some(mut known) = self.snapshots.receiving.remove(&place) else { return };
        let (from, exchange) = (known.from, known.exchange);
        let takes = self.hosts.get(place).filter(|host| host.life == known.life && !host.machine.has_stopped());
        let takes = takes.filter(|host| {
            let node = host.node.as_ref();
            node.is_some_and(|node| node.takes_snapshot(from, exchange, &known.offer, &host.machine))
        });
        let Some(to) = takes.map(|host| host.id) else { return };
        let Some(primary) = self.hosts.iter().position(|host| host.id == from && host.is_up()) else { return };
        if self.cut.contains(&(from, to)) || self.cut.contains(&(to, from)) {
            self.snapshots.receiving.insert(place, known);
            return;
        }
        self.look(primary);
        for _ in 0..self.chance.between(1, PARTS_MAX) {
            let Some(next) = known.next() else { break };
            let Some(part) = self.hosts.get_mut(primary).and_then(|host| host.machine.part(to, next)) else {
                // The violations of the primary's machine are taken with its next event.
                return self.give(primary, Event::Tick);
            };
            known.parts.push(part);
        }
        if known.next().is_some() {
            self.snapshots.receiving.insert(place, known);
        } else {
            self.adopt_snapshot(place, primary, known);
        }
    }

    /// All parts have come. The machine may end while the snapshot is adopted.
    fn adopt_snapshot(&mut self, place: usize, primary: usize, known: Receiving) {
        let written = self.hosts.get(primary).map(|host| host.machine.written_before(known.offer.end));
        let (Some(written), Some(host)) = (written, self.hosts.get_mut(place)) else { return };
        let adopted = host.machine.adopt(known.offer, &known.parts, written);
        let id = host.id.0[7];
        if let Some(committed) = adopted {
            self.checker.counts.snapshots += 1;
            self.note(|| format!("{id} has adopted a snapshot, and knows {committed}"));
            self.give(place, Event::SnapshotAdopted(committed));
        } else {
            // The violations of the machine are taken with its next event.
            self.give(place, Event::Tick);
        }
        self.judge();
    }
}
