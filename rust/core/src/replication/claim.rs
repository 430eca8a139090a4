//! Becoming primary: a swap that names this node and a later epoch, a durable promise, and only then a look at the own log.
//!
//! Everything that was ever committed is in the log of each node of the set. After the promise, this node helps to
//! commit nothing of an earlier epoch, so nothing more can be committed there.

use super::interface::{Action, LogView, RoleName};
use super::register::{NodeId, Register};
use super::state::{Node, Primary, Role};
use crate::planted::{Planted, is_on};

impl Node {
    /// Tries to become primary. `silent` is the primary that was not heard: it leaves the set.
    pub(super) fn claim(&mut self, silent: Option<NodeId>, out: &mut Vec<Action>) {
        if !self.is_fit && self.others_may_lead() {
            return;
        }
        let Some(known) = self.registrar.known() else { return };
        if !known.value.sync.contains(&self.id) && !is_on(Planted::PromotedFromOutside) {
            return;
        }
        let epoch = if is_on(Planted::EpochNotRaised) && known.value.primary == self.id {
            known.value.epoch
        } else {
            known.value.epoch.max(self.promised).next()
        };
        let value = known.value.claimed(self.id, epoch, silent);
        self.swap(value, out);
    }

    /// Begins a swap from the value that is known, unless another one is under way.
    pub(super) fn swap(&mut self, value: Register, out: &mut Vec<Action>) {
        if let Some((expected, value)) = self.registrar.begin_swap(value) {
            out.push(Action::Swap(expected, value));
        }
    }

    /// The group is this node's, from this epoch on.
    pub(super) fn claim_won(&mut self, value: Register, log: &dyn LogView, out: &mut Vec<Action>) {
        let epoch = value.epoch;
        self.role = Role::Claiming(value);
        self.promise(epoch, out);
        if self.has_kept() {
            self.lead(log, out);
        }
    }

    /// Leads, once the promise is durable.
    pub(super) fn lead(&mut self, log: &dyn LogView, out: &mut Vec<Action>) {
        let Role::Claiming(won) = &self.role else { return };
        let (epoch, set) = (won.epoch, won.sync.clone());
        if self.register().is_some_and(|value| value.epoch > epoch) {
            // Another node has claimed the group since.
            self.wait(out);
            return;
        }
        out.push(Action::Became(RoleName::Promoting));
        out.push(Action::BeginEpoch(epoch));
        self.role = Role::Leading(Primary::new(epoch, set, log.end()));
        self.meet_peers(out);
    }
}
