//! The machine: it starts, and it ends at any moment, even while it starts.

use std::collections::BTreeMap;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Durability;
use delaymq_core::store::{Outcome, verify};
use delaymq_core::units::Sequence;

use super::World;
use super::asked::{Assigned, Promised};
use super::consumers::group_of;
use super::retries::PUT_AWAY_EXPIRED;
use crate::disk::End;
use crate::node::{Expired, Handed, Node, is_stopped};
use crate::replica::Replica;

/// Openings that may fail in a row.
const OPENINGS_MAX: usize = 12;

/// The offset at which a checkpoint is damaged for a while.
const UNREADABLE_AT: u64 = 30;

/// True for damage and missing files, which do not pass as a fault does.
fn is_of_content(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::MissingFile { .. } | Error::NewerFormat { .. })
}

/// What a store promises to be there after a restart.
fn promised_by(node: &Node) -> Promised {
    let commits = node.commits();
    Promised { visible: commits.visible().sequence, synced: commits.synced_mark().sequence, cut: false }
}

impl World {
    /// Closes the store in order. False if that failed.
    pub(super) fn close_node(&mut self) -> bool {
        let Some(node) = self.node.take() else { return false };
        let mut left = promised_by(&node);
        let closed = node.close();
        self.note(&format!("closed: {closed:?}"));
        if closed.is_ok() {
            left.synced = left.visible;
        }
        self.left = Some(left);
        closed.is_ok()
    }

    fn random_end(&mut self) -> End {
        match self.chance.below(4) {
            0 | 1 => End::Kill,
            2 => End::PowerCut,
            _ => End::PowerCutLosesAll,
        }
    }

    /// The machine ends, and starts again.
    pub(super) fn crash(&mut self) {
        let promised = self.end();
        self.start(promised);
    }

    /// The first opening.
    pub(super) fn open(&mut self) {
        self.start(Promised::default());
    }

    fn end(&mut self) -> Promised {
        self.collect();
        let mut promised = match self.node.take() {
            Some(node) => promised_by(&node),
            None => self.left.take().unwrap_or_default(),
        };
        let limit = self.handles.iter().filter(|handle| handle.consumer.is_some()).count();
        let limit = limit.saturating_mul(self.plan.in_flight_max as usize);
        if self.oracle.in_flight() > limit {
            let found = self.oracle.in_flight();
            self.oracle.blame(format!("{found} messages are in flight, more than {limit}"));
        }
        self.end_machine(&mut promised);
        promised
    }

    fn end_machine(&mut self, promised: &mut Promised) {
        let end = self.random_end();
        self.crashes += 1;
        promised.cut |= end.cuts_power();
        self.note(&format!("the machine ends: {end:?}"));
        self.disk.crash(end, &mut self.chance);
        if end.cuts_power() || self.chance.percent(20) {
            let off_ms = self.chance.one_of(&[0, 1, 50, 5_000]);
            self.clock.restart_after(off_ms);
        }
        if self.plan.clock_steps && self.chance.percent(30) {
            self.clock.step_back(self.chance.one_of(&[1, 100, 20_000]));
        }
        if self.plan.wrong_boots && end.cuts_power() && self.chance.percent(40) {
            self.boot_with_a_wrong_clock();
        }
    }

    fn start(&mut self, mut promised: Promised) {
        for attempt in 0..OPENINGS_MAX {
            let last = attempt + 1 == OPENINGS_MAX;
            self.trouble_checkpoints();
            self.rebuild_now_and_then(&mut promised);
            if !last && self.chance.percent(self.plan.crash_in_open_percent) {
                let calls = self.chance.below(90);
                self.disk.storage().stop_after_calls(calls);
            }
            if !last && self.chance.percent(self.plan.fault_in_open_percent) {
                self.fail_some_call(60);
                self.a_fault_is_planned = true;
            }
            if last {
                self.disk.storage().heal();
            }
            let opened = Node::open(self.disk.shared(), self.plan.node, self.clock.read(), &mut self.chance);
            match opened {
                Ok(node) => return self.started(node, promised),
                Err(error) if is_stopped(&error) || self.disk.storage().is_stopped() => {
                    self.note("the machine ends while the store is opened");
                    self.end_machine(&mut promised);
                }
                Err(error) if error.is_no_space() => {
                    self.note("no room to open");
                    self.disk.storage().set_capacity(u64::MAX);
                }
                Err(error) if self.a_fault_is_planned && !is_of_content(&error) => {
                    self.note(&format!("refused for now: {error}"));
                    self.a_fault_is_planned = false;
                    self.disk.storage().heal();
                }
                Err(error) => {
                    self.note(&format!("refused: {error}"));
                    return self.oracle.blame(format!("the store cannot be opened: {error}"));
                }
            }
        }
        self.oracle.blame("the store cannot be opened in so many tries".to_owned());
    }

    /// Makes the newest of two checkpoints unreadable for a while, or an unreadable one readable again if it exists.
    fn trouble_checkpoints(&mut self) {
        let image = self.disk.storage().image();
        if let Some((path, bytes)) = self.unreadable.take() {
            if image.get(&path) == Some(&bytes) {
                self.note(&format!("{path} can be read again"));
                self.disk.storage().damage(&path, UNREADABLE_AT, 1);
            } else if !image.contains_key(&path) {
                self.unreadable = Some((path, bytes));
            }
            return;
        }
        let checkpoints: Vec<&String> = image.keys().filter(|path| path.ends_with(".checkpoint")).collect();
        if checkpoints.len() < 2 || !self.chance.percent(self.plan.unreadable_percent) {
            return;
        }
        let Some(newest) = checkpoints.last().map(|path| (*path).clone()) else { return };
        self.note(&format!("{newest} cannot be read"));
        self.disk.storage().damage(&newest, UNREADABLE_AT, 1);
        let bytes = self.disk.storage().image().remove(&newest).unwrap_or_default();
        self.unreadable = Some((newest, bytes));
    }

    fn started(&mut self, mut node: Node, promised: Promised) {
        self.a_fault_is_planned = false;
        // Openings that failed may also have begun epochs.
        let epochs = &node.owner().state().epochs;
        let first = epochs.iter().find(|info| info.epoch > self.epoch).map(|info| info.first_sequence);
        let first = first.unwrap_or(node.first_sequence());
        self.epoch = node.epoch();
        self.note(&format!("open: epoch {} from {first}, {:?}", node.epoch(), node.recovered().checkpoint));
        let os = self.plan.node.durability == Durability::Os;
        let required = if promised.cut && os { promised.synced } else { promised.visible };
        self.oracle.reopened(first, required);
        for kept in &mut self.receipts {
            kept.is_here &= kept.receipt.epoch == node.epoch() || kept.receipt.key.sequence < first;
        }
        self.forget_from(first);
        let replayed = self.catch_up(&mut node, first);
        if let Err(error) = replayed {
            self.oracle.blame(format!("the log cannot be read again: {error}"));
        }
        self.asks.clear();
        let resumed = self.resume_consumers(&mut node, first);
        self.node = Some(node);
        self.wake_all_queues();
        self.collect();
        self.compare();
        self.survive(PUT_AWAY_EXPIRED, resumed);
    }

    /// The log goes on at `first`: users forget their requests from there on.
    fn forget_from(&mut self, first: Sequence) {
        self.commands.retain(|fact, _| *fact < first);
        self.changes.retain(|fact, _| *fact < first);
        self.keyed.holders.values_mut().for_each(|held| held.retain(|fact| *fact < first));
        self.by_keys.answered.retain(|fact, _| *fact < first);
        for row in self.by_keys.again.iter_mut().flat_map(|asked| &mut asked.rows) {
            row.first = row.first.filter(|fact| *fact < first);
        }
        self.recurs.asked.retain(|fact, _| *fact < first);
        self.recurs.stored.values_mut().for_each(|stored| stored.retain(|(fact, _)| *fact < first));
        self.loading.done.retain(|_, (base, _)| *base < first);
    }

    /// Lets the replica apply the batches that it has not seen, and those that the opening has added.
    fn catch_up(&mut self, node: &mut Node, first: Sequence) -> Result<()> {
        let mut replica = match self.replica.take() {
            Some(replica) => replica,
            None => Replica::new(*node.identity())?,
        };
        for (name, bytes, lines) in &self.loading.staged {
            replica.know_staged(*name, bytes, lines)?;
        }
        replica.forget_from(first)?;
        self.oracle.became_visible(node.commits().visible().sequence);
        let applied = node.take_applied();
        if let Some(begins) = applied.first() {
            for batch in replica.catch_up(&self.disk.copy(), begins.start)? {
                self.oracle.applied(&batch);
            }
        }
        for batch in &applied {
            replica.apply(batch)?;
            self.oracle.applied(batch);
        }
        let answered = |command: &Sequence| Some((*command, replica.outcome(*command)?));
        let answered: Vec<(Sequence, Outcome)> = self.commands.keys().filter_map(answered).collect();
        self.replica = Some(replica);
        for (command, outcome) in answered {
            self.command_answered(command, outcome);
        }
        self.hear_of_changes(|world, fact| world.replica.as_ref().and_then(|replica| replica.outcome(fact)));
        Ok(())
    }

    /// Consumers that outlive their process come back and get their deliveries again. All others are gone. Returns the first
    /// error of a message that had expired.
    fn resume_consumers(&mut self, node: &mut Node, first: Sequence) -> Result<()> {
        self.hands_wait.clear();
        for handle in &self.handles {
            let asked = handle.asked.filter(|asked| *asked < first);
            let outcome = asked.and_then(|asked| self.replica.as_ref().and_then(|replica| replica.outcome(asked)));
            let subject = node.owner().state().subjects.number(&handle.subject);
            let group = outcome.and_then(group_of);
            if let (Some(asked), Some(group), Some(subject)) = (asked, group, subject) {
                let was_known = self.oracle.knows(group);
                self.oracle.group_is_known(group, subject, asked, handle.from_latest);
                self.oracle.found_when_opened(group, was_known);
            }
        }
        for index in 0..self.handles.len() {
            let Some(handle) = self.handles.get(index).cloned() else { continue };
            let state = node.owner().state();
            let subject = state.subjects.number(&handle.subject);
            let group = subject.and_then(|subject| state.group_named(subject, &handle.group));
            let consumer = group
                .filter(|_| self.plan.node.keeps_consumers)
                .and_then(|group| state.groups.get(&group))
                .and_then(|group| group.consumers.named(&handle.name, true));
            if let (Some(group), Some(subject)) = (group, subject) {
                let was_known = self.oracle.knows(group);
                if handle.retries_of.is_some() {
                    self.oracle.retry_group_is_known(group, subject);
                } else {
                    self.oracle.group_is_known(group, subject, first, handle.from_latest);
                }
                self.oracle.found_when_opened(group, was_known);
            }
            self.with_handle(index, |handle| {
                (handle.group_number, handle.consumer, handle.asked) = (group, consumer, None);
            });
        }
        let mut before = std::mem::take(&mut self.assigned);
        before.extend(std::mem::take(&mut self.stale).into_iter().map(|one| (one.key(), one)));
        let mut done = Ok(());
        for index in 0..self.handles.len() {
            done = done.and(self.hand_again(node, index, first, &mut before));
        }
        let void = |one: Assigned| Assigned { fact: one.fact.filter(|fact| *fact < first), ..one };
        self.stale.extend(before.into_values().map(void));
        done
    }

    fn hand_again(
        &mut self,
        node: &mut Node,
        index: usize,
        first: Sequence,
        before: &mut BTreeMap<(u32, u32, u64), Assigned>,
    ) -> Result<()> {
        let Some(handle) = self.handles.get(index).cloned() else { return Ok(()) };
        let (Some(group), Some(consumer)) = (handle.group_number, handle.consumer) else { return Ok(()) };
        let (handed, expired): (Vec<Handed>, Vec<Expired>) = match node.hand_again(group, consumer) {
            Ok(handed) => handed,
            Err(error) => {
                // The consumer asks again in the next life of the machine, when the disk works.
                self.hands_wait.insert((group, consumer));
                self.note(&format!("cannot be handed again: {error}"));
                return Ok(());
            }
        };
        let subject = node.owner().state().groups.get(&group).map(|group| group.subject).unwrap_or_default();
        let mut owed: Vec<(u32, u32, u64)> = Vec::new();
        for (key, one) in before.iter() {
            let mine = (one.group, one.consumer) == (group, consumer) && one.fact.is_some_and(|fact| fact < first);
            let entry = one.delivery.entry.sequence();
            let expired = one.fact.is_some_and(|fact| self.oracle.is_expired(group, entry, fact));
            if mine && !expired && !self.oracle.is_finished(group, entry) {
                owed.push(*key);
            }
        }
        for handed in handed {
            let delivery = handed.delivery;
            let key = (group.0, consumer.0, delivery.offset.0);
            owed.retain(|other| *other != key);
            let held = before.remove(&key);
            // The fact that dropped an expired message may be lost, and the trusted time since then with it.
            let expires = self.oracle.entry(delivery.entry.sequence()).is_some_and(|entry| entry.expiry.is_some());
            if held.is_none() && !self.a_pull_failed && !expires {
                self.oracle.blame(format!("{group} {consumer} holds {delivery:?}, which it was never given"));
            }
            let seen = handle.seen((group, consumer), subject, node.reading(), &handed);
            self.oracle.handed_again(&seen, held.map(|held| held.delivery.entry.sequence()));
            let one =
                Assigned { group, consumer, handle: index, delivery, handed, fact: Some(Sequence(0)), is_done: false };
            self.assigned.insert(key, one);
        }
        for one in &expired {
            let key = (group.0, consumer.0, one.handed.delivery.offset.0);
            before.remove(&key);
            owed.retain(|other| *other != key);
        }
        for key in owed {
            self.oracle.blame(format!("{key:?} was assigned durably, and is not held after a restart"));
        }
        self.take_expired(node, index, (group, consumer), expired)
    }

    /// Compares the store with its replica, if both have applied the same facts.
    pub(super) fn compare(&mut self) {
        let (Some(node), Some(replica)) = (&self.node, &self.replica) else { return };
        if self.disk.storage().is_stopped() || node.owner().applied() != replica.owner().applied() {
            return;
        }
        for difference in replica.differences(node.owner()) {
            if self.disk.storage().is_stopped() {
                return;
            }
            self.oracle.blame(difference);
        }
        self.compare_lists();
    }

    /// Checks every byte of the closed store.
    pub(super) fn verify(&mut self) {
        let Some(identity) = self.replica.as_ref().map(Replica::identity) else { return };
        match verify(&self.disk.copy(), &identity) {
            Ok(verified) => {
                for finding in verified.findings {
                    self.oracle.blame(format!("verify: {finding}"));
                }
            }
            Err(error) => self.oracle.blame(format!("verify: {error}")),
        }
    }
}
