//! Operators: they remove a node that is down, let a complete node go on when all machines of the set are lost, and confirm the best node
//! when the register was restored from a backup.

use std::collections::BTreeSet;

use delaymq_core::replication::{Event, NodeId, Register, RoleName};

use super::host::Host;
use super::machine::Machine;
use super::{Copies, node_id};

/// How many turns of a thousand an operator takes.
const OPERATOR_PERMILLE: u64 = 40;

impl<M: Machine> Copies<M> {
    /// True if the turn was an operator's.
    pub(super) fn operator_acts(&mut self) -> bool {
        let plan = &self.plan;
        if !(plan.removes || plan.loses || plan.restores || plan.demands)
            || self.chance.below(1_000) >= OPERATOR_PERMILLE
        {
            return false;
        }
        if self.plan.loses {
            self.lose_set();
            self.promote();
        }
        if self.plan.removes {
            self.remove();
        }
        if self.plan.restores {
            self.confirm();
        }
        if self.plan.demands {
            self.demand_copies();
        }
        true
    }

    /// The operator compares all nodes after a restore, and confirms the best one: that whose log has the latest epoch and, of these, the
    /// primary, or else the one with the highest position.
    pub(super) fn confirm(&mut self) {
        if self.register.is_of_group() || !self.hosts.iter().all(Host::is_up) {
            return;
        }
        self.settle();
        // A machine may have ended meanwhile, and the operator waits for it.
        if !self.hosts.iter().all(Host::is_up) {
            return;
        }
        let rank = |host: &Host<M>| (host.log_epoch(), host.leads(), host.machine.durable());
        let Some(best) = (0..self.hosts.len()).max_by_key(|place| self.hosts.get(*place).map(rank)) else { return };
        if let Some(host) = self.hosts.get(best).filter(|host| host.awaits_confirmation()) {
            let (id, coordinator) = (host.id.0[7], self.register.coordinator());
            self.note(|| format!("{id} is confirmed"));
            self.give(best, Event::Confirm(coordinator));
        }
    }

    /// No request of the register takes as long as an operator does, and no write to a disk.
    fn settle(&mut self) {
        for _ in 0..3 {
            self.answer_all();
            for place in 0..self.hosts.len() {
                self.keep_promise(place);
                self.sync(place);
            }
        }
    }

    /// The primary is asked for one copy of each publish, or for two.
    fn demand_copies(&mut self) {
        let (leading, copies) = (self.leading(), if self.chance.percent(50) { 1 } else { 2 });
        if let Some(primary) = leading.filter(|_| self.chance.percent(20)) {
            self.note(|| format!("{copies} copies are demanded"));
            self.give(primary, Event::MinCopies(copies));
        }
    }

    fn leading(&self) -> Option<usize> {
        let leads = |host: &Host<M>| host.node.as_ref().is_some_and(|node| node.role() == RoleName::Primary);
        self.hosts.iter().position(leads)
    }

    /// The primary is told that a node which is down is gone for good. It may come back all the same.
    fn remove(&mut self) {
        let down: Vec<NodeId> = self.hosts.iter().filter(|host| !host.is_up()).map(|host| host.id).collect();
        let Some(gone) = self.chance.pick(&down).copied() else { return };
        let Some(primary) = self.leading() else { return };
        let accepts_loss = self.chance.percent(20);
        self.give(primary, Event::Remove(gone, accepts_loss));
        let Some(host) = self.hosts.get(primary) else { return };
        if host.node.as_ref().is_some_and(|node| node.is_removing(gone)) {
            self.checker.counts.removed += 1;
            self.note(|| format!("{} is removed", gone.0[7]));
        }
    }

    /// All nodes know the others again, also one that was removed and is back.
    pub(super) fn meet_again(&mut self) {
        if !self.plan.removes {
            return;
        }
        for place in 0..self.hosts.len() {
            let Some(peers) = self.hosts.get(place).map(|host| host.peers.clone()) else { continue };
            self.give(place, Event::Peers(peers));
        }
    }

    /// All machines of the set are lost with their disks while another node is complete. New ones take their places.
    fn lose_set(&mut self) {
        let value = self.register.value().clone();
        let is_left = |host: &Host<M>| !value.sync.contains(&host.id) && value.complete.contains(&host.id);
        // A swap on its way could make the set another one.
        let may_lose = !self.has_lost && self.restored == 0 && self.register.is_idle();
        let Some(left) = self.hosts.iter().find(|host| is_left(host)).map(|host| host.id).filter(|_| may_lose) else {
            return;
        };
        self.has_lost = true;
        self.promoted = Some(left);
        self.note(|| format!("the set is lost, and {} is left", left.0[7]));
        self.replace(&value.sync);
        self.letters.retain(|letter| !value.sync.contains(&letter.from));
        self.checker.counts.lost += 1;
    }

    /// New machines with empty disks take the places of these nodes.
    fn replace(&mut self, gone: &BTreeSet<NodeId>) {
        for place in 0..self.hosts.len() {
            let Some(host) = self.hosts.get_mut(place).filter(|host| gone.contains(&host.id)) else { continue };
            self.replaced += 1;
            // The first number after those of the plan is that of a wiped folder.
            let id = node_id(self.plan.nodes + 1 + self.replaced);
            *host = Host::new(id, &BTreeSet::new(), self.chance.next_number(), &self.plan);
        }
        self.introduce();
    }

    /// A node says that its committed facts are not in another log. After a set was lost that is so where a third node had
    /// followed it further than the node that is left. An operator empties its folder then.
    pub(super) fn alarm(&mut self, by: NodeId, of: NodeId) {
        if self.has_lost {
            self.diverged.insert(by);
        } else {
            self.checker.alarm(by, of);
        }
    }

    pub(super) fn empty_diverged(&mut self) {
        let diverged = std::mem::take(&mut self.diverged);
        if !diverged.is_empty() {
            self.checker.counts.diverged += 1;
            self.replace(&diverged);
        }
    }

    /// The operator asks the complete node that is left, again until it has claimed the group.
    pub(super) fn promote(&mut self) {
        let Some(left) = self.promoted else { return };
        if let Some(place) = self.hosts.iter().position(|host| host.id == left) {
            self.give(place, Event::Promote);
        }
    }

    /// The complete node has claimed the group. Facts that the lost set committed without it are lost; nothing that was
    /// answered as stored may be among them.
    pub(super) fn accept_loss(&mut self, before: &Register, value: &Register) {
        let is_claim = |left: &NodeId| value.primary == *left && !before.sync.contains(left);
        let Some(left) = self.promoted.filter(is_claim) else { return };
        if let Some(host) = self.hosts.iter().find(|host| host.id == left) {
            self.checker.continue_from(host);
        }
        self.promoted = None;
    }
}
