//! The requests of an operator: to let another node lead, to forget a node that is gone for good, to demand more or fewer
//! copies, and to go on after all nodes of the set are gone for good.

use super::interface::{Action, LogView};
use super::message::Message;
use super::register::{NodeId, Register};
use super::state::{Node, Role};

impl Node {
    /// True if an operator has removed the node, and the register still names it.
    pub fn is_removing(&self, node: NodeId) -> bool {
        matches!(&self.role, Role::Leading(primary) if primary.removed.contains(&node))
    }

    /// An operator asks for another primary.
    pub(super) fn switch_over(&mut self, to: NodeId, log: &dyn LogView, out: &mut Vec<Action>) {
        let until_ms = self.now_ms.saturating_add(self.timing.shrink_ms);
        let Some(primary) = self.primary() else { return };
        if primary.is_serving && primary.set.contains(&to) {
            primary.successor = Some((to, until_ms, false));
            self.hand_over(log, out);
        }
    }

    /// Asks the successor to claim the group, once it has everything and everything is committed.
    pub(super) fn hand_over(&mut self, log: &dyn LogView, out: &mut Vec<Action>) {
        let (end, committed) = (log.end(), self.committed);
        let Some(primary) = self.primary() else { return };
        let Some((to, until_ms, false)) = primary.successor else { return };
        let Some(member) = primary.members.get(&to).filter(|member| member.has(end)) else { return };
        if committed == end {
            let (epoch, attempt) = (primary.epoch, member.attempt);
            primary.successor = Some((to, until_ms, true));
            out.push(Action::Send(to, Message::TakeOver { epoch, attempt }));
        }
    }

    /// An operator says that a node is gone for good. It leaves the set and the complete nodes by the next swap. Until that
    /// is won, what it had on disk counts as before.
    pub(super) fn remove(&mut self, node: NodeId, accepts_loss: bool, log: &dyn LogView, out: &mut Vec<Action>) {
        let Some(known) = self.register() else { return };
        let is_named = known.names(node);
        if node == self.id || (known.is_last_holder(node) && !accepts_loss) {
            return;
        }
        let Some(primary) = self.primary() else { return };
        if is_named {
            primary.removed.insert(node);
        }
        self.peers.remove(&node);
        self.forget_members();
        self.lead_further(log, out);
    }

    /// An operator changes on how many nodes a publish must be. Until the next swap is won, the former number decides.
    pub(super) fn demand_copies(&mut self, min_copies: usize, log: &dyn LogView, out: &mut Vec<Action>) {
        let Some(primary) = self.primary().filter(|_| min_copies > 0) else { return };
        primary.min_copies = Some(min_copies);
        self.lead_further(log, out);
    }

    /// An operator asks this node to lead, because the primary is gone for good. The register is read first, since it decides
    /// whether this node may.
    pub(super) fn promote(&mut self, out: &mut Vec<Action>) {
        let until_ms = self.now_ms.saturating_add(self.timing.forsake_ms);
        if let Some(replica) = self.replica() {
            replica.promoted_until_ms = until_ms;
            self.read_register(out);
        }
    }

    /// Claims the group with this node as the only one of the set, if this node has every message that was answered as
    /// stored. Other facts that the set had committed may be lost: acknowledgements, so that deliveries come again.
    pub(super) fn claim_alone(&mut self, out: &mut Vec<Action>) {
        let Some(known) = self.registrar.known().filter(|known| known.value.complete.contains(&self.id)) else {
            return;
        };
        let epoch = known.value.epoch.max(self.promised).next();
        let value = known.value.with_set([self.id].into()).claimed(self.id, epoch, None);
        self.swap(value, out);
    }

    /// An operator has compared all nodes after a restore of the register, and lets this one go on. The register is read first.
    pub(super) fn confirm(&mut self, coordinator: u64, out: &mut Vec<Action>) {
        self.confirmed = Some((coordinator, self.now_ms.saturating_add(self.timing.forsake_ms)));
        if matches!(self.role, Role::Claiming(_)) {
            // The register that it has won is no more.
            self.wait(out);
        }
        self.read_register(out);
    }

    /// Goes on with a register that was restored from a backup, if an operator has confirmed this node. A primary writes its own set: all that
    /// is committed is on each node of it. Any other node is alone in the set, because the set of the backup may be out of date. Nobody
    /// else does the same, because the new value was made for this coordinator.
    pub(super) fn go_on_as_confirmed(&mut self, out: &mut Vec<Action>) {
        let (now_ms, shrink_ms) = (self.now_ms, self.timing.shrink_ms);
        let Some((coordinator, _)) = self.confirmed.filter(|(_, until_ms)| now_ms < *until_ms) else { return };
        let Some(restored) = self.registrar.restored(coordinator) else { return };
        let value = match &self.role {
            Role::Leading(primary) => self.register().filter(|known| known.epoch == primary.epoch).cloned(),
            Role::Replica(replica) if now_ms.saturating_sub(replica.heard_ms) >= shrink_ms => {
                Some(restored.value.stands_alone(self.id, self.promised))
            }
            Role::Replica(_) | Role::Claiming(_) => None,
        };
        let Some(value) = value.map(|value| Register { made_for: coordinator, ..value }) else { return };
        let expected = restored.version;
        self.registrar.begin_confirmed(expected, value.clone());
        out.push(Action::Swap(expected, value));
    }
}
