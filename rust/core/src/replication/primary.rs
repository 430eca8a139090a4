//! A node that leads: it asks the others for their promise, sends them its log, counts what is durable, and changes the set.

use std::collections::BTreeSet;

use super::history::History;
use super::interface::{Action, LogView, RoleName};
use super::members::{Member, Stage};
use super::message::Message;
use super::register::{NodeId, Register};
use super::state::{Node, Primary, Role};
use crate::message_log::Agreement;
use crate::planted::{Planted, is_on};
use crate::units::{Epoch, Sequence};

impl Node {
    pub(super) fn primary(&mut self) -> Option<&mut Primary> {
        match &mut self.role {
            Role::Leading(primary) => Some(primary),
            _ => None,
        }
    }

    /// Asks each new peer for its promise, and forgets those that left the group.
    pub(super) fn meet_peers(&mut self, out: &mut Vec<Action>) {
        let (peers, now_ms, seen) = (self.peers.clone(), self.now_ms, self.registrar.seen());
        let Some(primary) = self.primary() else { return };
        // A node that was removed and is there again is not removed any more.
        primary.removed.retain(|node| !peers.contains(node));
        let known: BTreeSet<NodeId> = primary.members.keys().copied().collect();
        for node in peers.difference(&known) {
            let (epoch, attempt) = (primary.epoch, primary.next_attempt());
            primary.members.insert(*node, Member::asked(attempt, now_ms));
            out.push(Action::Send(*node, Message::Lead { epoch, attempt, seen }));
        }
        self.forget_members();
    }

    /// Forgets the nodes that left the group, but for those that the set still counts.
    pub(super) fn forget_members(&mut self) {
        let peers = &self.peers;
        let Role::Leading(primary) = &mut self.role else { return };
        primary.members.retain(|node, _| peers.contains(node) || primary.set.contains(node));
    }

    /// Time has passed: heartbeats, promises that are asked for again, and nodes that are silent.
    pub(super) fn lead_on(&mut self, log: &dyn LogView, out: &mut Vec<Action>) {
        let (now_ms, timing, committed, seen) = (self.now_ms, self.timing, self.committed, self.registrar.seen());
        let is_over = |beat_ms: u64| now_ms.saturating_sub(beat_ms) >= timing.heartbeat_ms;
        let is_due = self.primary().is_some_and(|primary| primary.beat_ms.is_none_or(is_over));
        if is_due {
            self.compare_clocks();
        }
        let Some(primary) = self.primary() else { return };
        if is_due {
            primary.beat_ms = Some(now_ms);
            let (epoch, beat) = (primary.epoch, now_ms);
            for (node, member) in &mut primary.members {
                member.beat_end = log.end();
                let attempt = member.attempt;
                let message = if member.stage == Stage::Matched {
                    Message::Heartbeat {
                        epoch,
                        attempt,
                        end: member.sent,
                        committed,
                        beat,
                        ahead_ms: member.clock_ahead_ms,
                    }
                } else {
                    Message::Lead { epoch, attempt, seen }
                };
                out.push(Action::Send(*node, message));
            }
        }
        primary.successor = primary.successor.filter(|(_, until_ms, _)| now_ms < *until_ms);
        if self.registrar.swap().is_some() {
            self.read_register(out);
        }
        self.lead_further(log, out);
    }

    /// A node has promised the epoch, and has sent its history.
    pub(super) fn member_promised(
        &mut self,
        node: NodeId,
        exchange: (Epoch, u64),
        (answer, history): (u64, &History),
        log: &dyn LogView,
        out: &mut Vec<Action>,
    ) {
        let now_ms = self.now_ms;
        let Some(member) = self.primary().and_then(|primary| primary.member(node, exchange)) else { return };
        member.heard_ms = now_ms;
        if member.stage == Stage::Matched {
            // It restarted in the middle of this exchange, so it waits for an end that was sent to its earlier process.
            self.member_unmatched(node, exchange.0, out);
            return;
        }
        match log.history().agreement_with(history) {
            Agreement::UpTo { epoch: last_epoch, sequence, .. } => {
                let end = sequence.next();
                (member.stage, member.sent) = (Stage::Matching, end);
                let (epoch, attempt) = exchange;
                out.push(Action::Send(node, Message::Match { epoch, attempt, answer, last_epoch, end }));
            }
            Agreement::Diverged { .. } => {
                member.stage = Stage::Diverged;
                out.push(Action::Alarm(node));
            }
        }
    }

    /// A node has this much of the log on its disk.
    pub(super) fn member_synced(
        &mut self,
        node: NodeId,
        exchange: (Epoch, u64),
        end: Sequence,
        log: &dyn LogView,
        out: &mut Vec<Action>,
    ) {
        let now_ms = self.now_ms;
        let Some(member) = self.primary().and_then(|primary| primary.member(node, exchange)) else { return };
        member.heard_ms = now_ms;
        // No node has more than it was sent.
        if end > member.sent || matches!(member.stage, Stage::Asked | Stage::Diverged) {
            return;
        }
        member.stage = Stage::Matched;
        member.durable = Some(member.durable.map_or(end, |durable| durable.max(end)));
        self.lead_further(log, out);
    }

    /// A node lacks batches that it was sent.
    pub(super) fn member_lacks(
        &mut self,
        node: NodeId,
        exchange: (Epoch, u64),
        from: Sequence,
        log: &dyn LogView,
        out: &mut Vec<Action>,
    ) {
        let Some(member) = self.primary().and_then(|primary| primary.member(node, exchange)) else { return };
        if member.stage == Stage::Matched && from < member.sent {
            member.sent = from;
        }
        self.lead_further(log, out);
    }

    /// True if the message is of a node whose log is matched in this exchange.
    pub(super) fn hears_member(&mut self, node: NodeId, exchange: (Epoch, u64)) -> bool {
        let now_ms = self.now_ms;
        let Some(member) = self.primary().and_then(|primary| primary.member(node, exchange)) else { return false };
        member.heard_ms = now_ms;
        member.stage == Stage::Matched
    }

    /// A node has restarted, or could not append.
    pub(super) fn member_unmatched(&mut self, node: NodeId, epoch: Epoch, out: &mut Vec<Action>) {
        let seen = self.registrar.seen();
        let Some(primary) = self.primary().filter(|primary| primary.epoch == epoch) else { return };
        let attempt = primary.next_attempt();
        let Some(member) = primary.members.get_mut(&node) else { return };
        member.ask_again(attempt);
        out.push(Action::Send(node, Message::Lead { epoch, attempt, seen }));
    }

    /// The log has grown, or more of it is durable.
    pub(super) fn log_changed(&mut self, log: &dyn LogView, out: &mut Vec<Action>) {
        match self.role {
            Role::Leading(_) => self.lead_further(log, out),
            Role::Replica(_) => self.send_synced(log, out),
            Role::Claiming(_) => {}
        }
    }

    /// The register has answered. A primary whose place another has taken stops.
    pub(super) fn set_changed(&mut self, log: &dyn LogView, out: &mut Vec<Action>) {
        let Some(value) = self.register().cloned() else { return };
        let is_foreign = self.registrar.is_foreign();
        let Some(primary) = self.primary() else { return };
        if is_foreign {
            return;
        }
        if value.epoch > primary.epoch {
            self.wait(out);
        } else if value.epoch == primary.epoch {
            primary.removed.retain(|node| value.names(*node));
            primary.set = value.sync;
            self.forget_members();
            self.lead_further(log, out);
        }
    }

    /// Does all that has become possible: sends, counts, serves, changes the set, hands over.
    pub(super) fn lead_further(&mut self, log: &dyn LogView, out: &mut Vec<Action>) {
        self.ship(log, out);
        self.choose_joining();
        self.count(log, out);
        self.change_set(out);
        self.hand_over(log, out);
    }

    fn ship(&mut self, log: &dyn LogView, out: &mut Vec<Action>) {
        let (now_ms, end) = (self.now_ms, log.end());
        let Some(primary) = self.primary() else { return };
        let epoch = primary.epoch;
        for (node, member) in &mut primary.members {
            member.await_end(end, now_ms);
            if member.stage == Stage::Matched && member.sent < end {
                out.push(Action::Ship(*node, epoch, member.attempt, member.sent));
                member.sent = end;
            }
        }
    }

    /// Counts nodes that are near the end of the log, before they join the set: otherwise a node that lags by one batch would never
    /// have everything while the log grows.
    fn choose_joining(&mut self) {
        let (now_ms, limit_ms, peers) = (self.now_ms, self.timing.shrink_ms, &self.peers);
        let Role::Leading(primary) = &mut self.role else { return };
        if !primary.is_serving {
            return;
        }
        let may_join = |node: &NodeId, member: &Member| {
            let is_chosen = primary.joining.contains(node) || member.is_near();
            is_chosen && member.stage == Stage::Matched && !member.is_silent(now_ms, limit_ms)
        };
        let joining = primary
            .members
            .iter()
            .filter(|(node, member)| peers.contains(node) && !primary.set.contains(node) && may_join(node, member));
        primary.joining = joining.map(|(node, _)| *node).collect();
    }

    /// Counts what is durable on each node of the set, and of the set that a swap under way would make.
    fn count(&mut self, log: &dyn LogView, out: &mut Vec<Action>) {
        let (id, own, committed) = (self.id, log.durable(), self.committed);
        let Role::Leading(primary) = &self.role else { return };
        let pending = self.registrar.swap().map(|swap| &swap.value.sync);
        let with_pending = pending.filter(|_| !is_on(Planted::UnionForgotten)).into_iter().flatten();
        let set = if is_on(Planted::SetShrunkEarly) { pending.unwrap_or(&primary.set) } else { &primary.set };
        let Some(end) = primary.durable_on(id, own, set.iter().chain(with_pending).chain(&primary.joining)) else {
            return;
        };
        let copies = self.copies(primary);
        let Some(primary) = self.primary() else { return };
        if end > committed && end > primary.begins {
            let begins = !std::mem::replace(&mut primary.is_serving, true);
            self.committed = end;
            out.push(Action::Commit { end, copies });
            if begins {
                out.push(Action::Became(RoleName::Primary));
            }
        }
    }

    /// Swaps the register if its value is not what it should be: nodes that are silent leave the set, nodes that have
    /// everything join it, and a committed epoch serves.
    fn change_set(&mut self, out: &mut Vec<Action>) {
        if self.registrar.swap().is_some() {
            return;
        }
        let Some(known) = self.register() else { return };
        let Role::Leading(primary) = &self.role else { return };
        if known.epoch != primary.epoch || known.primary != self.id {
            return;
        }
        let wanted = self.wanted_value(known, primary);
        if wanted != *known {
            self.swap(wanted, out);
        }
    }

    fn wanted_value(&self, known: &Register, primary: &Primary) -> Register {
        let mut set = self.heard_within(self.timing.shrink_ms, primary);
        // The register may be reached while the other nodes are not. They serve on without this node if they are still in the set.
        let others = primary.members.keys().filter(|node| self.peers.contains(node)).count();
        if set.len() < known.min_copies && others >= known.min_copies {
            set = self.heard_within(self.timing.forsake_ms, primary);
        }
        // Nothing is committed without a joining node, so it has everything from now on.
        let has_all = |node: &NodeId| primary.members.get(node).is_some_and(|member| member.has(self.committed));
        set.extend(primary.joining.iter().copied().filter(has_all));
        if is_on(Planted::JoinCountedBehind) {
            let matched = primary.members.iter().filter(|(_, member)| member.stage == Stage::Matched);
            set.extend(matched.map(|(node, _)| *node));
        }
        // The complete nodes are those by the new number: a node that lacks what is answered with fewer copies is none.
        let min_copies = primary.min_copies.unwrap_or(known.min_copies);
        let mut value = Register { min_copies, ..known.clone() }.with_set(set);
        value.complete.retain(|node| value.sync.contains(node) || !primary.removed.contains(node));
        if primary.is_serving { value.serving() } else { value }
    }

    /// The nodes of the set that were heard within `limit_ms`.
    fn heard_within(&self, limit_ms: u64, primary: &Primary) -> BTreeSet<NodeId> {
        let stays = |node: &NodeId| {
            let is_heard = |member: &Member| !member.is_silent(self.now_ms, limit_ms);
            *node == self.id || (self.peers.contains(node) && primary.members.get(node).is_some_and(is_heard))
        };
        primary.set.iter().copied().filter(stays).collect()
    }
}
