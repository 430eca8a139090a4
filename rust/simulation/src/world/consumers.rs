//! Consumers: they subscribe, pull, acknowledge, give back, and end.

use delaymq_core::store::{Outcome, PullRequest, retry_subject};
use delaymq_core::store::{Since, StartAt};
use delaymq_core::units::{GroupNumber, SubjectNumber};

use super::asked::{Ask, Assigned, Handle};
use super::retries::PUT_AWAY_EXPIRED;
use super::{Plan, World};
use crate::node::{Handed, Place, Pulled};

/// The consumers of a plan, each with a consumer of its group's retry subject.
pub(super) fn handles_of(plan: &Plan) -> Vec<Handle> {
    let mut handles = Vec::new();
    for subject in 0..plan.subjects {
        for group in 0..plan.groups {
            for consumer in 0..plan.consumers {
                let (subject, group) = (World::subject_name(subject), format!("group-{group}"));
                let retries = retry_subject(&subject, &group);
                let main = Handle {
                    subject: subject.clone(),
                    group,
                    name: format!("consumer-{consumer}"),
                    retries_of: None,
                    group_number: None,
                    consumer: None,
                    asked: None,
                    from_latest: false,
                };
                handles.push(Handle { subject: retries, retries_of: Some(subject), ..main.clone() });
                handles.push(main);
            }
        }
    }
    handles
}

/// True if a message passes the filters of a group that has some.
fn passes(body: &[u8]) -> bool {
    !body.iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte))).is_multiple_of(3)
}

/// The group of an outcome.
pub(super) fn group_of(outcome: Outcome) -> Option<GroupNumber> {
    match outcome {
        Outcome::Group(group) | Outcome::GroupThere(group) | Outcome::Attached(group, _) => Some(group),
        _ => None,
    }
}

impl World {
    /// A start behind messages that some group has not finished: the next message, or one by a time within the last ten
    /// seconds.
    pub(super) fn late_start(&mut self) -> StartAt {
        let since = Since::Ago(self.chance.below(10_000));
        match self.chance.below(4) {
            0 => StartAt::Due(since),
            1 => StartAt::Published(since),
            _ => StartAt::Latest,
        }
    }

    /// Takes a handle one step towards being a consumer.
    pub(super) fn subscribe(&mut self, index: usize) {
        let Some(handle) = self.handles.get(index).cloned() else { return };
        let Some(node) = &mut self.node else { return };
        if handle.asked.is_some() || handle.consumer.is_some() {
            return;
        }
        let result = match handle.group_number {
            Some(group) => {
                let block = if (index / 2).is_multiple_of(2) { 0 } else { self.plan.in_flight_max };
                node.begin_consumer(group, &handle.name, block)
            }
            None if handle.retries_of.is_some() => {
                let state = node.owner().state();
                let number = state.subjects.number(&handle.subject);
                let group =
                    number.and_then(|number| state.group_named(number, &handle.group).map(|group| (number, group)));
                if let Some((number, group)) = group {
                    self.oracle.retry_group_is_known(group, number);
                    self.with_handle(index, |handle| handle.group_number = Some(group));
                }
                return;
            }
            None => {
                let from_latest = self.chance.percent(20);
                let begins_again = self.chance.percent(30);
                let start = match (from_latest, begins_again) {
                    (true, _) => self.late_start(),
                    (false, true) => StartAt::Earliest,
                    (false, false) => StartAt::Unfinished,
                };
                self.with_handle(index, |handle| handle.from_latest = from_latest);
                let Some(node) = &mut self.node else { return };
                node.subscribe(&handle.subject, &handle.group, start)
            }
        };
        let Some(asked) = self.survive("subscribe", result) else { return };
        self.note(&format!("subscribe {} {} {}: {asked:?}", handle.subject, handle.group, handle.name));
        self.with_handle(index, |handle| handle.asked = asked);
    }

    pub(super) fn with_handle(&mut self, index: usize, change: impl FnOnce(&mut Handle)) {
        if let Some(handle) = self.handles.get_mut(index) {
            change(handle);
        }
    }

    pub(super) fn hear_of_consumers(&mut self) {
        for index in 0..self.handles.len() {
            let Some(asked) = self.handles.get(index).and_then(|handle| handle.asked) else { continue };
            let Some(outcome) = self.node.as_mut().and_then(|node| node.take_outcome(asked)) else { continue };
            self.note(&format!("fact {asked} is answered {outcome:?}"));
            let subject = self.handles.get(index).and_then(|handle| self.subject_number(&handle.subject));
            self.with_handle(index, |handle| {
                handle.asked = None;
                match outcome {
                    Outcome::Group(group) | Outcome::GroupThere(group) => handle.group_number = Some(group),
                    Outcome::Consumer(consumer) => handle.consumer = Some(consumer),
                    Outcome::Attached(group, consumer) => {
                        (handle.group_number, handle.consumer) = (Some(group), Some(consumer));
                    }
                    _ => handle.group_number = None,
                }
            });
            self.together.wake(index);
            let from_latest = self.handles.get(index).is_some_and(|handle| handle.from_latest);
            if let (Some(group), Some(subject)) = (group_of(outcome), subject) {
                self.oracle.group_is_known(group, subject, asked, from_latest);
            }
        }
    }

    pub(super) fn subject_number(&self, name: &str) -> Option<SubjectNumber> {
        self.node.as_ref().and_then(|node| node.subject_number(name))
    }

    /// Pulls for one consumer, which has so many messages in flight in other queues. Returns how many came, or `None` if
    /// the pull failed.
    pub(super) fn pull_one(&mut self, index: usize, count_max: usize, beside: u64) -> Option<usize> {
        let handle = self.handles.get(index).cloned()?;
        let (group, consumer) = (handle.group_number?, handle.consumer?);
        let request = PullRequest { group, consumer, count_max, in_flight_max: self.plan.in_flight_max, beside };
        let ask = self.ask(Ask::Nothing);
        let node = self.node.as_mut()?;
        let mut passed_over = Vec::new();
        let result = if self.plan.has_filter(&handle) {
            node.pull_passing(request, ask, &|_, body| passes(body), &mut passed_over)
        } else {
            node.pull(request, ask)
        };
        let has_failed = result.is_err() || node.has_unread();
        if !passed_over.is_empty() {
            self.note(&format!("{group} {consumer} passes over {passed_over:?}"));
            self.oracle.filtered(passed_over.len());
            self.asks.insert(ask, Ask::Judge { group, passed_over, assigned: Vec::new() });
        }
        if has_failed {
            self.a_pull_failed = true;
            self.oracle.hand_over_failed();
        }
        match self.survive("pull", result)? {
            Pulled::Wait => Some(0),
            Pulled::Gone => {
                self.note(&format!("{group} or consumer {consumer} is gone"));
                self.with_handle(index, |handle| (handle.group_number, handle.consumer) = (None, None));
                Some(0)
            }
            Pulled::Messages(messages, damaged, expired) => {
                for delivery in damaged {
                    self.oracle.blame(format!("a payload is damaged that nobody damaged: {delivery:?}"));
                }
                let crashes = self.crashes;
                if let Some(mut node) = self.node.take() {
                    let result = self.take_expired(&mut node, index, (group, consumer), expired);
                    self.node = Some(node);
                    self.survive(PUT_AWAY_EXPIRED, result);
                }
                if self.crashes > crashes {
                    // The machine that assigned the messages has ended before it handed them over.
                    self.a_pull_failed = true;
                    self.oracle.hand_over_failed();
                    return None;
                }
                // What was assigned and could not be handed over is more, too.
                let count = messages.len().max(1);
                self.receive(index, &handle, (group, consumer), ask, messages);
                Some(count)
            }
        }
    }

    fn receive(&mut self, index: usize, handle: &Handle, place: Place, ask: u64, messages: Vec<Handed>) {
        let (group, consumer) = place;
        let Some(node) = &self.node else { return };
        let reading = node.reading();
        let subject = node.owner().state().groups.get(&group).map(|group| group.subject).unwrap_or_default();
        self.oracle.became_visible(node.commits().visible().sequence);
        let mut assigned = Vec::new();
        for handed in messages {
            let delivery = handed.delivery;
            self.note(&format!(
                "{group} {consumer} gets {} as number {} offset {} attempt {}",
                delivery.entry.sequence(),
                delivery.number,
                delivery.offset,
                delivery.attempt
            ));
            let seen = handle.seen((group, consumer), subject, reading, &handed);
            self.oracle.handed_over(&seen);
            if self.plan.has_filter(handle) && !passes(&handed.body) {
                self.oracle.blame(format!("does not pass the filters of its group: {seen:?}"));
            }
            let one = Assigned { group, consumer, handle: index, delivery, handed, fact: None, is_done: false };
            self.assigned.insert(one.key(), one.clone());
            assigned.push(one);
        }
        let in_hand = |one: &&Assigned| (one.group, one.consumer) == place && !one.is_done && !self.is_gone(one);
        let held = self.assigned.values().filter(in_hand).count();
        if held > self.plan.in_flight_max as usize {
            self.oracle.blame(format!("{group} {consumer} holds {held}, more than {}", self.plan.in_flight_max));
        }
        let judged = self.asks.remove(&ask);
        let ask_for = match judged {
            Some(Ask::Judge { group, passed_over, .. }) => Ask::Judge { group, passed_over, assigned },
            _ => Ask::Assign(assigned),
        };
        self.asks.insert(ask, ask_for);
    }

    /// Acknowledges some deliveries of a consumer.
    pub(super) fn acknowledge(&mut self, index: usize, percent: u64) {
        let mut chosen: Vec<Assigned> = Vec::new();
        for one in self.assigned.values().filter(|one| one.handle == index && !one.is_done) {
            let same = chosen.first().is_none_or(|first| (first.group, first.consumer) == (one.group, one.consumer));
            if same && self.chance.percent(percent) {
                chosen.push(one.clone());
            }
        }
        let Some(first) = chosen.first().cloned() else { return };
        let offsets: Vec<u64> = chosen.iter().map(|one| one.delivery.offset.0).collect();
        let entries = chosen.iter().map(|one| one.delivery.entry.sequence()).collect();
        let ask = self.ask(Ask::Finish { group: first.group, entries });
        self.note(&format!("{} {} acknowledges {offsets:?}", first.group, first.consumer));
        for one in &chosen {
            if let Some(known) = self.assigned.get_mut(&one.key()) {
                known.is_done = true;
            }
        }
        self.call("acknowledge", |node| node.acknowledge(first.group, first.consumer, &offsets, ask));
    }

    /// Settles a void delivery, which must change nothing.
    pub(super) fn acknowledge_stale(&mut self) {
        let Some(one) = self.chance.pick(&self.stale).cloned() else { return };
        // A delivery that could not be handed again yet is still held.
        let may_be_held = self.hands_wait.contains(&(one.group, one.consumer)) && one.fact.is_some();
        if may_be_held || self.assigned.contains_key(&one.key()) {
            return;
        }
        let ask = self.ask(Ask::Nothing);
        self.note(&format!("{} {} acknowledges void {}", one.group, one.consumer, one.delivery.offset));
        let Some(node) = &mut self.node else { return };
        let result = if self.chance.percent(80) {
            node.acknowledge(one.group, one.consumer, &[one.delivery.offset.0], ask)
        } else {
            let Some(handle) = self.handles.get(one.handle) else { return };
            let names = (handle.own_subject(), handle.group.as_str());
            let place = (one.group, one.consumer);
            if self.chance.percent(50) {
                node.give_back(names, place, &one.delivery, 1, ask).map(drop)
            } else {
                node.dead_letter(names, place, &one.delivery, "void", ask).map(drop)
            }
        };
        self.survive("acknowledge void", result);
    }

    /// Ends a consumer.
    pub(super) fn end_consumer(&mut self, index: usize) {
        let Some(handle) = self.handles.get(index).cloned() else { return };
        let (Some(group), Some(consumer)) = (handle.group_number, handle.consumer) else { return };
        let ask = self.ask(Ask::Nothing);
        self.note(&format!("{group} {consumer} ends"));
        self.void(|one| (one.group, one.consumer) == (group, consumer));
        self.with_handle(index, |handle| handle.consumer = None);
        self.call("end a consumer", |node| node.end_consumer(group, consumer, ask));
    }

    /// Removes a group.
    pub(super) fn end_group(&mut self, index: usize) {
        let Some(handle) = self.handles.get(index).cloned() else { return };
        let Some(group) = handle.group_number.filter(|_| handle.retries_of.is_none()) else { return };
        let ask = self.ask(Ask::EndGroup(group));
        self.note(&format!("{group} is removed"));
        self.void(|one| one.group == group);
        for handle in self.handles.iter_mut().filter(|handle| handle.group_number == Some(group)) {
            (handle.group_number, handle.consumer, handle.asked) = (None, None, None);
        }
        self.call("remove a group", |node| node.end_group(group, ask));
    }

    /// Voids these deliveries: their messages come again.
    pub(super) fn void(&mut self, of: impl Fn(&Assigned) -> bool) {
        let keys: Vec<_> = self.assigned.values().filter(|one| of(one)).map(Assigned::key).collect();
        for one in keys.iter().filter_map(|key| self.assigned.remove(key)) {
            self.oracle.came_back(one.group, one.delivery.entry.sequence());
            self.stale.push(one);
        }
    }
}
