//! A node that follows a primary, or waits for one.

use super::files::SnapshotOffer;
use super::interface::{Action, LogView};
use super::message::Message;
use super::register::NodeId;
use super::state::{Node, Replica, ReplicaStage as Stage, Role};
use crate::planted::{Planted, is_on};
use crate::units::{Epoch, Sequence, Version};

impl Node {
    pub(super) fn replica(&mut self) -> Option<&mut Replica> {
        match &mut self.role {
            Role::Replica(replica) => Some(replica),
            _ => None,
        }
    }

    /// Reads the register at first, and again while no primary is heard.
    pub(super) fn watch(&mut self, out: &mut Vec<Action>) {
        let (now_ms, timing) = (self.now_ms, self.timing);
        let is_confirmed = self.confirmed.is_some_and(|(_, until_ms)| now_ms < until_ms);
        let Some(replica) = self.replica() else { return };
        let is_asked_to_lead = is_confirmed || now_ms < replica.promoted_until_ms;
        let is_silent = is_asked_to_lead || now_ms.saturating_sub(replica.heard_ms) >= timing.promote_ms;
        let is_time = replica.asked_ms.is_none_or(|asked_ms| now_ms.saturating_sub(asked_ms) >= timing.shrink_ms);
        if is_time && (is_silent || replica.asked_ms.is_none()) {
            replica.asked_ms = Some(now_ms);
            self.read_register(out);
        }
    }

    /// Claims the group if the register says that it is this node's, or that this node may and the primary is silent. If an
    /// operator asks for it, a node need not be in the set, and a primary that is silent for a little is gone.
    pub(super) fn consider_claim(&mut self, out: &mut Vec<Action>) {
        // A node whose clock is wrong leaves time to one whose clock is not.
        let timing = self.timing;
        let promote_ms = if self.clock.is_apart() { timing.forsake_ms } else { timing.promote_ms };
        let (id, now_ms) = (self.id, self.now_ms);
        let Some(value) = self.register().cloned() else { return };
        let promised = self.promised;
        let Some(replica) = self.replica() else { return };
        if value.epoch < promised {
            // The value is older than the promise, and so is what it says of the primary.
            return;
        }
        if value.primary == id || now_ms < replica.takes_over_until_ms {
            self.claim(None, out);
            return;
        }
        if value.epoch > promised && replica.primary.is_some() {
            // Another node has claimed the group, and has not been heard yet.
            (replica.primary, replica.heard_ms) = (None, now_ms);
            return;
        }
        let (silent_ms, is_promoted) = (now_ms.saturating_sub(replica.heard_ms), now_ms < replica.promoted_until_ms);
        if is_promoted && silent_ms >= timing.shrink_ms && !value.sync.contains(&id) {
            self.claim_alone(out);
        } else if silent_ms >= if is_promoted { timing.shrink_ms } else { promote_ms } {
            self.claim(Some(value.primary), out);
        }
    }

    /// The primary asks this node to claim the group. The register is read first, since this node may not know that it is in the
    /// set.
    pub(super) fn take_over(&mut self, out: &mut Vec<Action>) {
        let until_ms = self.now_ms.saturating_add(self.timing.shrink_ms);
        if let Some(replica) = self.replica() {
            replica.takes_over_until_ms = until_ms;
        }
        self.read_register(out);
    }

    /// A primary asks for the promise of its epoch.
    pub(super) fn be_led(
        &mut self,
        by: NodeId,
        (epoch, attempt): (Epoch, u64),
        seen: (u64, Version),
        log: &dyn LogView,
        out: &mut Vec<Action>,
    ) {
        if epoch < self.promised {
            out.push(Action::Send(by, Message::Refused { epoch: self.promised }));
            return;
        }
        if self.registrar.hear_of(seen, epoch, epoch > self.promised) {
            self.read_register(out);
        }
        if epoch > self.promised {
            self.wait(out);
            self.promise(epoch, out);
        }
        let now_ms = self.now_ms;
        let Some(replica) = self.replica() else { return };
        replica.heard_ms = now_ms;
        if replica.primary != Some(by) || replica.attempt < attempt {
            (replica.primary, replica.attempt, replica.stage) = (Some(by), attempt, Stage::Unmatched);
        }
        let stage = replica.stage;
        if replica.attempt == attempt && self.has_kept() {
            match stage {
                Stage::Unmatched | Stage::Promised => self.send_promise(log, out),
                Stage::Following => self.send_synced(log, out),
                Stage::Cutting => {}
            }
        }
    }

    /// Sends the history to the primary, once the promise is durable. Until the primary has said what to keep, the log stays as it is,
    /// so a repeated answer has the same number: the primary may ask again before its word on the first answer has come.
    pub(super) fn send_promise(&mut self, log: &dyn LogView, out: &mut Vec<Action>) {
        let (epoch, next) = (self.promised, self.answer.wrapping_add(1));
        let Some(replica) = self.replica() else { return };
        let Some(primary) = replica.primary else { return };
        let is_repeated = std::mem::replace(&mut replica.stage, Stage::Promised) == Stage::Promised;
        let attempt = replica.attempt;
        self.answer = if is_repeated { self.answer } else { next };
        let answer = self.answer;
        let message = Message::Promised { epoch, attempt, answer, history: log.history() };
        out.push(Action::Send(primary, message));
    }

    /// The primary says which part of the log to keep.
    pub(super) fn match_log(
        &mut self,
        by: NodeId,
        (epoch, attempt): (Epoch, u64),
        (last_epoch, end): (Epoch, Sequence),
        log: &dyn LogView,
        out: &mut Vec<Action>,
    ) {
        let (promised, committed) = (self.promised, self.committed);
        let Some(replica) = self.replica() else { return };
        let is_awaited = (promised, replica.primary, replica.attempt) == (epoch, Some(by), attempt);
        if !is_awaited || replica.stage != Stage::Promised {
            return;
        }
        if end < committed || end > log.end() {
            out.push(Action::Alarm(by));
        } else if end < log.end() {
            (replica.stage, replica.cut) = (Stage::Cutting, Some(end));
            out.push(Action::CutAfter(last_epoch, end));
        } else {
            replica.stage = Stage::Following;
            self.send_synced(log, out);
        }
    }

    /// The log was cut.
    pub(super) fn cut_done(&mut self, end: Sequence, log: &dyn LogView, out: &mut Vec<Action>) {
        let Some(replica) = self.replica() else { return };
        if replica.stage == Stage::Cutting && replica.cut == Some(end) {
            replica.stage = Stage::Following;
            self.send_synced(log, out);
        }
    }

    /// True if the message is of the primary that this node follows. Otherwise the sender learns why not.
    pub(super) fn hears(
        &mut self,
        from: NodeId,
        (epoch, attempt): (Epoch, u64),
        log: &dyn LogView,
        out: &mut Vec<Action>,
    ) -> bool {
        let (promised, now_ms) = (self.promised, self.now_ms);
        if epoch < promised {
            out.push(Action::Send(from, Message::Refused { epoch: promised }));
            return false;
        }
        let follows = self.follows(from, (epoch, attempt));
        let Some(replica) = self.replica() else { return false };
        if follows {
            replica.heard_ms = now_ms;
            return true;
        }
        let is_led = epoch == promised && replica.primary == Some(from);
        match replica.stage {
            // An earlier exchange, which is over, or a cut that ends soon.
            _ if is_led && attempt < replica.attempt => {}
            Stage::Cutting if is_led => {}
            // The primary matched an earlier process of this node, and learns of this one.
            Stage::Promised if is_led && replica.attempt == attempt => self.send_promise(log, out),
            _ => out.push(Action::Send(from, Message::Unmatched { epoch })),
        }
        false
    }

    /// Batches of the primary have come.
    pub(super) fn take_batches(
        &mut self,
        from: Sequence,
        committed: Sequence,
        bytes: Vec<u8>,
        log: &dyn LogView,
        out: &mut Vec<Action>,
    ) {
        match from.cmp(&log.end()) {
            std::cmp::Ordering::Equal => out.push(Action::Append(bytes)),
            std::cmp::Ordering::Greater => self.ask_for(log.end(), out),
            std::cmp::Ordering::Less => self.send_synced(log, out),
        }
        self.learn_committed(committed, log, out);
    }

    /// A heartbeat of the primary has come.
    pub(super) fn answer_heartbeat(
        &mut self,
        end: Sequence,
        committed: Sequence,
        beat: u64,
        log: &dyn LogView,
        out: &mut Vec<Action>,
    ) {
        if end > log.end() {
            self.ask_for(log.end(), out);
        }
        self.learn_committed(committed, log, out);
        let durable = if is_on(Planted::SyncedCopied) { end } else { log.durable() };
        self.answer_synced(beat, durable, log, out);
    }

    fn ask_for(&mut self, from: Sequence, out: &mut Vec<Action>) {
        let epoch = self.promised;
        let Some(replica) = self.replica() else { return };
        if let Some(primary) = replica.primary {
            out.push(Action::Send(primary, Message::Resend { epoch, attempt: replica.attempt, from }));
        }
    }

    /// Facts that are durable here and committed at the primary are committed.
    fn learn_committed(&mut self, committed: Sequence, log: &dyn LogView, out: &mut Vec<Action>) {
        let end = committed.min(log.durable());
        if end > self.committed {
            self.committed = end;
            out.push(Action::Commit { end, copies: 0 });
        }
    }

    /// Tells the primary how much is durable here.
    pub(super) fn send_synced(&mut self, log: &dyn LogView, out: &mut Vec<Action>) {
        self.answer_synced(0, log.durable(), log, out);
    }

    fn answer_synced(&mut self, beat: u64, durable: Sequence, log: &dyn LogView, out: &mut Vec<Action>) {
        let (epoch, wall) = (self.promised, self.clock.wall(self.now_ms));
        let end = if is_on(Planted::CopyCountedUnsynced) { log.end() } else { durable };
        let Some(replica) = self.replica() else { return };
        let Some(primary) = replica.primary.filter(|_| replica.stage == Stage::Following) else { return };
        out.push(Action::Send(primary, Message::Synced { epoch, attempt: replica.attempt, end, beat, wall }));
    }

    /// True if a snapshot of this primary, epoch and exchange may take the place of the log: the node follows the primary, and the
    /// snapshot has everything that the log has, and shows everything that this node knows to be committed. Ask when it is offered,
    /// and again when it is adopted.
    pub fn takes_snapshot(
        &self,
        primary: NodeId,
        exchange: (Epoch, u64),
        offer: &SnapshotOffer,
        log: &dyn LogView,
    ) -> bool {
        let is_more = offer.end > log.end() && offer.committed >= self.committed;
        self.follows(primary, exchange) && (is_more || is_on(Planted::SnapshotIsLess))
    }

    /// True if the node follows this primary in this epoch and exchange.
    fn follows(&self, primary: NodeId, exchange: (Epoch, u64)) -> bool {
        self.followed() == Some((primary, exchange))
    }

    /// The primary whose log this node's grows with, the epoch, and the exchange that matched the logs.
    pub fn followed(&self) -> Option<(NodeId, (Epoch, u64))> {
        let Role::Replica(replica) = &self.role else { return None };
        let primary = replica.primary.filter(|_| replica.stage == Stage::Following)?;
        Some((primary, (self.promised, replica.attempt)))
    }

    /// A snapshot has taken the place of the log, and the logs are matched again.
    pub(super) fn snapshot_adopted(&mut self, committed: Sequence, out: &mut Vec<Action>) {
        self.committed = self.committed.max(committed);
        self.append_refused(out);
    }

    /// The log is not the one that was matched, or a batch does not follow it: the logs are matched again.
    pub(super) fn append_refused(&mut self, out: &mut Vec<Action>) {
        let epoch = self.promised;
        let Some(replica) = self.replica() else { return };
        if let Some(primary) = replica.primary.filter(|_| replica.stage == Stage::Following) {
            replica.stage = Stage::Unmatched;
            out.push(Action::Send(primary, Message::Unmatched { epoch }));
        }
    }
}
