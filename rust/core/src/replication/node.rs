//! One node of a group: events in, actions out.

use super::clocks::OwnClock;
use super::interface::{Action, CopyKnown, Event, LogView, NodeOptions, RoleName, Unfit};
use super::members::{Member, Stage};
use super::message::Message;
use super::register::{NodeId, Register};
use super::registrar::{Reading, Registrar, Settled};
use super::state::{Node, Primary, Replica, Role};
use crate::message_log::Promise;
use crate::planted::{Planted, is_on};
use crate::units::{Epoch, Sequence};

impl Node {
    /// A node that was opened now. It waits for a primary, and reads the register at its first tick.
    pub fn new(options: NodeOptions, now_ms: u64) -> Self {
        Self {
            id: options.id,
            answer: options.random,
            timing: options.timing,
            peers: options.peers,
            registrar: Registrar::new(options.group, options.promise.seen),
            role: Role::Replica(Replica::new(now_ms)),
            now_ms,
            committed: options.committed,
            is_fit: true,
            clock: OwnClock::default(),
            promised: options.promise.epoch,
            kept: options.promise.epoch,
            confirmed: None,
        }
    }

    /// Its role.
    pub fn role(&self) -> RoleName {
        match &self.role {
            Role::Replica(_) | Role::Claiming(_) => RoleName::Replica,
            Role::Leading(primary) if primary.is_serving => RoleName::Primary,
            Role::Leading(_) => RoleName::Promoting,
        }
    }

    /// The sequence after the last fact known to be committed.
    pub fn committed(&self) -> Sequence {
        self.committed
    }

    /// The epoch that it has promised.
    pub fn promised(&self) -> Epoch {
        self.promised
    }

    /// The newest value of the register that it knows.
    pub fn register(&self) -> Option<&Register> {
        self.registrar.known().map(|known| &known.value)
    }

    /// The node that leads, as far as this node has heard: itself, or the primary that it follows, unless that is silent.
    pub fn leader(&self) -> Option<NodeId> {
        let is_heard = |heard_ms: u64| self.now_ms.saturating_sub(heard_ms) < self.timing.shrink_ms;
        match &self.role {
            Role::Leading(_) => Some(self.id),
            Role::Replica(replica) => replica.primary.filter(|_| is_heard(replica.heard_ms)),
            Role::Claiming(_) => None,
        }
    }

    /// True if another coordinator answers than the one that was seen, so that no node becomes primary by itself until an
    /// operator confirms it.
    pub fn awaits_confirmation(&self) -> bool {
        self.registrar.is_foreign()
    }

    /// The last answer of the register, if it is not believed.
    pub fn foreign_reading(&self) -> Option<&Reading> {
        self.registrar.foreign()
    }

    /// True if the answer has a value of this group that was made for another coordinator: it was restored from a backup, and no node
    /// has gone on with it since.
    pub fn is_restored(&self, reading: &Reading) -> bool {
        self.registrar.is_restored(reading)
    }

    /// The coordinator whose register the node believes; 0 if it has seen none.
    pub fn coordinator(&self) -> u64 {
        self.registrar.seen().0
    }

    /// True if an operator has let the group go on from another copy, as a later timeline. This node decides nothing any more.
    pub fn is_superseded(&self) -> bool {
        self.registrar.is_superseded()
    }

    /// The newest answer of the register that is believed.
    pub fn reading(&self) -> Option<&Reading> {
        self.registrar.known()
    }

    /// The other copies, as a primary knows them. Empty on a replica.
    pub fn copies_known(&self) -> Vec<CopyKnown> {
        let Role::Leading(primary) = &self.role else { return Vec::new() };
        let known = |(node, member): (&NodeId, &Member)| CopyKnown {
            node: *node,
            durable: member.durable,
            silent_ms: self.now_ms.saturating_sub(member.heard_ms),
            is_matched: member.stage == Stage::Matched,
            has_diverged: member.stage == Stage::Diverged,
            clock_offset_ms: self.clock_offset_ms(member),
            is_clock_apart: member.is_clock_apart,
        };
        primary.members.iter().map(known).collect()
    }

    /// Why it does not become primary by itself while another node may.
    pub fn unfit(&self) -> Vec<Unfit> {
        let reasons = [(!self.is_fit, Unfit::Disk), (self.clock.is_apart(), Unfit::Clock)];
        reasons.into_iter().filter_map(|(is_so, reason)| is_so.then_some(reason)).collect()
    }

    /// How far its wall clock is at least ahead of that of the group, in milliseconds; less than 0 if it is behind. `None` if
    /// they were not compared.
    pub fn clock_ahead_ms(&self) -> Option<i64> {
        self.clock.ahead_ms()
    }

    /// True if a publish would be answered as stored as soon as it is committed.
    pub fn accepts_publishes(&self) -> bool {
        match &self.role {
            Role::Leading(primary) => {
                primary.is_serving && !primary.hands_over() && self.copies(primary) >= self.min_copies()
            }
            _ => false,
        }
    }

    /// Takes one event at this time of a clock that only goes on, and adds what is to be done.
    pub fn step(&mut self, now_ms: u64, log: &dyn LogView, event: Event, out: &mut Vec<Action>) {
        self.now_ms = self.now_ms.max(now_ms);
        match event {
            Event::Tick => self.tick(log, out),
            Event::Received(from, message) => self.receive(from, message, log, out),
            Event::Read(reading) => {
                let settled = self.registrar.read(reading, self.promised);
                self.follow_register(settled, log, out);
            }
            Event::Swapped(expected, answer) => {
                let settled = self.registrar.swapped(expected, answer, self.promised);
                self.follow_register(settled, log, out);
            }
            Event::PromiseKept(epoch) => self.promise_kept(epoch, log, out),
            Event::LogChanged => self.log_changed(log, out),
            Event::Cut(end) => self.cut_done(end, log, out),
            Event::AppendRefused => self.append_refused(out),
            Event::SnapshotAdopted(committed) => self.snapshot_adopted(committed, out),
            Event::Peers(peers) => {
                self.peers = peers;
                self.meet_peers(out);
            }
            Event::Fit(is_fit) => {
                self.is_fit = is_fit;
                self.step_down_if_unfit(out);
            }
            Event::WallClock(wall) => self.clock.show(wall, self.now_ms),
            Event::StoodStill(for_ms) => self.stood_still(for_ms),
            Event::SwitchOver(to) => self.switch_over(to, log, out),
            Event::Remove(node, accepts_loss) => self.remove(node, accepts_loss, log, out),
            Event::MinCopies(min_copies) => self.demand_copies(min_copies, log, out),
            Event::Promote => self.promote(out),
            Event::Confirm(coordinator) => self.confirm(coordinator, out),
        }
    }

    /// The time of a standstill is no silence of others.
    fn stood_still(&mut self, for_ms: u64) {
        let now_ms = self.now_ms;
        let later = |since_ms: u64| since_ms.saturating_add(for_ms).min(now_ms);
        match &mut self.role {
            Role::Replica(replica) => replica.heard_ms = later(replica.heard_ms),
            Role::Claiming(_) => {}
            Role::Leading(primary) => primary.members.values_mut().for_each(|member| member.stood_still(later)),
        }
    }

    fn tick(&mut self, log: &dyn LogView, out: &mut Vec<Action>) {
        if let Some((expected, value)) = self.registrar.try_again() {
            out.push(Action::Swap(expected, value));
        }
        match &self.role {
            Role::Replica(_) => self.watch(out),
            Role::Claiming(_) => {}
            Role::Leading(_) => {
                self.lead_on(log, out);
                self.step_down_if_unfit(out);
            }
        }
    }

    /// A primary that is not fit leads only where no other node may. One whose disk hangs would otherwise send
    /// heartbeats, commit nothing, and never be replaced.
    fn step_down_if_unfit(&mut self, out: &mut Vec<Action>) {
        if !self.is_fit && self.others_may_lead() && matches!(self.role, Role::Leading(_)) {
            self.wait(out);
        }
    }

    /// True if another node is in the set, as far as is known.
    pub(super) fn others_may_lead(&self) -> bool {
        self.register().is_some_and(|value| value.sync.iter().any(|node| *node != self.id))
    }

    fn receive(&mut self, from: NodeId, message: Message, log: &dyn LogView, out: &mut Vec<Action>) {
        match message {
            Message::Lead { epoch, attempt, seen } => self.be_led(from, (epoch, attempt), seen, log, out),
            Message::Match { epoch, attempt, answer, last_epoch, end } => {
                if answer == self.answer {
                    self.match_log(from, (epoch, attempt), (last_epoch, end), log, out);
                }
            }
            Message::Batches { epoch, attempt, from: first, committed, bytes } => {
                if self.hears(from, (epoch, attempt), log, out) {
                    self.take_batches(first, committed, bytes, log, out);
                }
            }
            Message::Heartbeat { epoch, attempt, end, committed, beat, ahead_ms } => {
                if self.hears(from, (epoch, attempt), log, out) {
                    if let Some(ahead_ms) = ahead_ms {
                        self.clock.compare(ahead_ms);
                    }
                    self.answer_heartbeat(end, committed, beat, log, out);
                }
            }
            Message::TakeOver { epoch, attempt } => {
                if self.hears(from, (epoch, attempt), log, out) {
                    self.take_over(out);
                }
            }
            Message::Promised { epoch, attempt, answer, history } => {
                self.member_promised(from, (epoch, attempt), (answer, &history), log, out);
            }
            Message::Synced { epoch, attempt, end, beat, wall } => {
                self.measure_clock(from, (epoch, attempt), (beat, wall));
                self.member_synced(from, (epoch, attempt), end, log, out);
            }
            Message::Resend { epoch, attempt, from: first } => {
                self.member_lacks(from, (epoch, attempt), first, log, out);
            }
            Message::Unmatched { epoch } => self.member_unmatched(from, epoch, out),
            Message::Snapshot { epoch, attempt, offer } => {
                let is_heard = self.hears(from, (epoch, attempt), log, out);
                if is_heard && self.takes_snapshot(from, (epoch, attempt), &offer, log) {
                    out.push(Action::ReceiveSnapshot(from, epoch, attempt, offer));
                }
            }
            Message::Part { epoch, attempt, part } => {
                if self.hears(from, (epoch, attempt), log, out) {
                    out.push(Action::ReceivePart(part));
                }
            }
            Message::AskPart { epoch, attempt, place } => {
                if self.hears_member(from, (epoch, attempt)) {
                    out.push(Action::SendPart(from, epoch, attempt, place));
                }
            }
            Message::Load { epoch, attempt, message } => {
                self.receive_load(from, (epoch, attempt), message, log, out);
            }
            Message::Refused { epoch } => self.refused(epoch, out),
            // The check of a record says what its payload is. No rule of the protocol is about it, and the caller answers.
            Message::AskRecord { .. } | Message::Record { .. } => {}
        }
    }

    fn promise_kept(&mut self, epoch: Epoch, log: &dyn LogView, out: &mut Vec<Action>) {
        self.kept = self.kept.max(epoch);
        if !self.has_kept() {
            return;
        }
        match &self.role {
            Role::Replica(_) => self.send_promise(log, out),
            Role::Claiming(_) => self.lead(log, out),
            Role::Leading(_) => {}
        }
    }

    /// True if the promise is durable.
    pub(super) fn has_kept(&self) -> bool {
        self.kept == self.promised
    }

    /// True if the epoch is later than all that were promised.
    fn is_new(&self, epoch: Epoch) -> bool {
        epoch > self.promised || (is_on(Planted::EpochNotRaised) && epoch == self.promised)
    }

    /// Promises an epoch, which is later than the one before.
    pub(super) fn promise(&mut self, epoch: Epoch, out: &mut Vec<Action>) {
        self.promised = epoch;
        if is_on(Planted::EndReadBeforePromise) {
            self.kept = epoch;
        }
        out.push(Action::KeepPromise(Promise { epoch, seen: self.registrar.seen() }));
    }

    /// Does what the register demands, after an answer of it.
    fn follow_register(&mut self, settled: Settled, log: &dyn LogView, out: &mut Vec<Action>) {
        if self.registrar.is_superseded() {
            self.wait(out);
            return;
        }
        let known = self.registrar.known().map(|known| known.value.clone());
        let claimed =
            known.filter(|value| settled == Settled::Won && value.primary == self.id && self.is_new(value.epoch));
        if let Some(value) = claimed {
            self.claim_won(value, log, out);
            return;
        }
        self.go_on_as_confirmed(out);
        match &self.role {
            Role::Claiming(_) => {}
            Role::Leading(_) => self.set_changed(log, out),
            Role::Replica(_) => self.consider_claim(out),
        }
    }

    /// Waits for a primary, and decides nothing from now on.
    pub(super) fn wait(&mut self, out: &mut Vec<Action>) {
        let led = matches!(self.role, Role::Leading(_));
        self.role = Role::Replica(Replica::new(self.now_ms));
        if led {
            out.push(Action::Became(RoleName::Replica));
        }
    }

    pub(super) fn read_register(&mut self, out: &mut Vec<Action>) {
        if self.registrar.begin_read() {
            out.push(Action::ReadRegister);
        }
    }

    /// Another node has promised a later epoch: a primary of this one commits nothing any more.
    fn refused(&mut self, epoch: Epoch, out: &mut Vec<Action>) {
        if epoch > self.promised && matches!(self.role, Role::Leading(_)) {
            self.wait(out);
            self.read_register(out);
        }
    }

    /// The size of the set that has all that is committed now.
    pub(super) fn copies(&self, primary: &Primary) -> usize {
        let pending = self.registrar.swap().map(|swap| swap.value.sync.len());
        let copies = primary.set.len();
        if is_on(Planted::CopiesOverstated) {
            usize::MAX
        } else {
            pending.map_or(copies, |pending| pending.min(copies))
        }
    }

    fn min_copies(&self) -> usize {
        self.register().map_or(usize::MAX, |value| value.min_copies)
    }
}
