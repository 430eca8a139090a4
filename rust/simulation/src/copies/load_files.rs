//! Files of loads on their way: a node that lacks those which a batch names gets them from the primary that it follows then. If the
//! primary does not have them any more, it offers a snapshot.

use delaymq_core::replication::{Event, Node};

use super::Copies;
use super::host::Host;
use super::machine::Machine;

impl<M: Machine> Copies<M> {
    /// The node has appended, perhaps up to a batch whose files it lacks.
    pub(super) fn lack_files(&mut self, place: usize) {
        let Some(host) = self.hosts.get_mut(place) else { return };
        let runs = host.machine.take_lacking();
        if !runs.is_empty() {
            let (id, life) = (host.id.0[7], host.life);
            self.note(|| format!("{id} lacks {} files", runs.len()));
            self.snapshots.lacking.insert(place, (life, runs));
        }
    }

    /// All parts come. The machine may end meanwhile.
    pub(super) fn receive_files(&mut self, place: usize) {
        let Some((life, runs)) = self.snapshots.lacking.remove(&place) else { return };
        let Some(host) = self.hosts.get(place).filter(|host| host.life == life) else { return };
        let (id, followed) = (host.id, host.node.as_ref().and_then(Node::followed));
        let Some((primary, exchange)) = followed else { return };
        let leads = |host: &Host<M>| host.id == primary && host.is_up();
        let Some(primary) = self.hosts.iter().position(leads) else { return };
        let parts = self.hosts.get_mut(primary).and_then(|host| host.machine.parts_of(&runs));
        let Some(parts) = parts else {
            self.offer_snapshot(primary, id, exchange);
            return;
        };
        self.checker.counts.files += runs.len() as u64;
        if let Some(host) = self.hosts.get_mut(place).filter(|host| !host.machine.has_stopped()) {
            host.machine.receive(&runs, &parts);
            if host.machine.has_stopped() {
                // The violations of the machine are taken with its next event.
                self.give(place, Event::Tick);
            }
        }
    }
}
