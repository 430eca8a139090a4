//! Troubles of nodes, connections and the register.

use std::collections::BTreeSet;

use delaymq_core::planted::{Planted, is_on};
use delaymq_core::replication::{Event, NodeId, RoleName};

use super::host::Host;
use super::machine::Machine;
use super::{Copies, node_id};

/// How far a clock that is wrong is ahead or behind.
const WRONG_MS: i64 = 3_600_000;

/// How often a backup of the register may be restored.
const RESTORES_MAX: u64 = 2;

impl<M: Machine> Copies<M> {
    pub(super) fn crash_or_start(&mut self) {
        let place = self.pick_host();
        let Some(host) = self.hosts.get_mut(place) else { return };
        if host.is_up() && self.chance.percent(30) {
            host.machine.stop_soon(&mut self.chance);
        } else if host.is_up() {
            self.end(place);
        } else {
            host.start();
            self.meet_again();
            self.note_start(place);
        }
    }

    /// Ends a process, or its machine.
    pub(super) fn end(&mut self, place: usize) {
        let Some(host) = self.hosts.get_mut(place).filter(|host| host.is_up()) else { return };
        host.crash(&mut self.chance);
        self.checker.counts.crashes += 1;
        self.note_start(place);
    }

    fn note_start(&mut self, place: usize) {
        let Some((id, is_up)) = self.hosts.get(place).map(|host| (host.id, host.is_up())) else { return };
        self.note(|| format!("{} is up: {is_up}", id.0[7]));
        self.judge();
    }

    pub(super) fn cut_or_mend(&mut self) {
        let (from, to) = (self.pick_host(), self.pick_host());
        let link = (
            self.hosts.get(from).map_or_else(NodeId::default, |host| host.id),
            self.hosts.get(to).map_or_else(NodeId::default, |host| host.id),
        );
        if !self.cut.remove(&link) {
            self.cut.insert(link);
        }
    }

    /// The folder of a node that may go is emptied. It is another node then, unless a fault says otherwise.
    pub(super) fn wipe(&mut self) {
        let place = self.pick_host();
        // A swap on its way could make the node the only one of the set.
        let is_known = self.register.is_of_group() && self.register.is_idle();
        let is_missed = self.register.value().sync.len() < 2 || !is_known;
        if !self.plan.wipes || self.has_wiped || is_missed {
            return;
        }
        self.has_wiped = true;
        let kept = self.hosts.get(place).map(|host| host.id).filter(|_| is_on(Planted::WipedNodeKeepsId));
        let id = kept.unwrap_or_else(|| node_id(self.plan.nodes + 1));
        if let Some(host) = self.hosts.get_mut(place) {
            *host = Host::new(id, &BTreeSet::new(), self.chance.next_number(), &self.plan);
        }
        self.introduce();
        self.note(|| format!("{} is empty", id.0[7]));
    }

    /// All nodes learn who the others are.
    pub(super) fn introduce(&mut self) {
        let ids: BTreeSet<NodeId> = self.hosts.iter().map(|host| host.id).collect();
        for place in 0..self.hosts.len() {
            if let Some(host) = self.hosts.get_mut(place) {
                host.peers = ids.iter().copied().filter(|id| *id != host.id).collect();
                let peers = host.peers.clone();
                self.give(place, Event::Peers(peers));
            }
        }
    }

    pub(super) fn restore_register(&mut self) {
        // An operator who promotes a node after its set was lost does one thing at a time.
        if self.plan.restores && self.restored < RESTORES_MAX && self.promoted.is_none() {
            self.restored += 1;
            self.register.restore(&mut self.chance);
            self.note(|| "the register is an old one".to_owned());
        }
    }

    pub(super) fn switch_over(&mut self) {
        let (place, to) = (self.pick_host(), self.pick_host());
        let Some(to) = self.hosts.get(to).map(|host| host.id) else { return };
        self.give(place, Event::SwitchOver(to));
    }

    /// The wall clock of a node is turned, ahead or back, or is right again.
    pub(super) fn turn_clock(&mut self) {
        let (place, is_ahead) = (self.pick_host(), self.chance.percent(50));
        if !self.plan.clocks {
            return;
        }
        let wrong_ms = if is_ahead { WRONG_MS } else { -WRONG_MS };
        let is_right = self.hosts.get(place).is_some_and(|host| host.ahead_ms == 0);
        self.set_clock(place, if is_right { wrong_ms } else { 0 });
    }

    /// Sets how far the wall clock of a node is ahead. Its machine looks at its clocks before they are set again: a store believes a
    /// clock that was behind its log once it has passed the log, also one that goes from an hour behind to an hour ahead at once
    /// (docs/guarantees.md).
    fn set_clock(&mut self, place: usize, ahead_ms: i64) {
        let Some(host) = self.hosts.get_mut(place).filter(|host| host.ahead_ms != ahead_ms) else { return };
        host.ahead_ms = ahead_ms;
        let id = host.id.0[7];
        self.look(place);
        self.note(|| format!("the clock of {id} is {ahead_ms} ms ahead"));
    }

    /// The disk of a node hangs and its clock is wrong, or both are well again.
    pub(super) fn change_fitness(&mut self) {
        let (place, is_fit) = (self.pick_host(), self.chance.percent(60));
        let leads = self
            .hosts
            .get(place)
            .and_then(|host| host.node.as_ref())
            .is_some_and(|node| node.role() == RoleName::Primary);
        match self.hosts.get(place).map(|host| host.ahead_ms) {
            Some(_) if is_fit => self.set_clock(place, 0),
            Some(0) if self.plan.clocks => self.set_clock(place, WRONG_MS),
            _ => {}
        }
        self.give(place, Event::Fit(is_fit));
        let follows = self
            .hosts
            .get(place)
            .and_then(|host| host.node.as_ref())
            .is_some_and(|node| node.role() == RoleName::Replica);
        self.checker.counts.unfit += u64::from(leads && follows);
    }
}
