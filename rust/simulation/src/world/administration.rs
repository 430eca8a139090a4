//! Operators: they list and redrive dead letters, reset and remove groups, expire messages.

use std::collections::BTreeSet;

use delaymq_core::record::expire::EXPIRED_REASON;
use delaymq_core::store::StartAt;
use delaymq_core::store::{Outcome, dead_letter_subject, retry_subject};
use delaymq_core::units::{GroupNumber, Millis, Sequence, SubjectNumber};

use super::World;
use super::asked::{Change, Handle, Holders};
use crate::checker::{Entry, GroupChange, Origin, SeenDead};
use crate::node::{Node, SeenDeadLetter};

impl World {
    /// One operation of an operator.
    pub(super) fn operate(&mut self) {
        match self.chance.below(16) {
            0..=5 => self.put_some_away(),
            6..=7 => self.for_some_handle(Self::look_at_dead_letters),
            8..=9 if self.plan.redrives => self.for_some_handle(Self::redrive_some),
            10..=11 => self.for_some_handle(Self::reset_group),
            12..=13 if self.plan.removes_groups => self.for_some_handle(Self::remove_group),
            14 if self.plan.expires => self.expire(),
            _ => {}
        }
    }

    /// The dead letters of a group, as an operator sees them. The oracle knows everything that was applied.
    fn dead_letters(&mut self, handle: &Handle) -> Option<(GroupNumber, Vec<SeenDeadLetter>)> {
        self.collect();
        let node = self.node.as_ref()?;
        let queue = node.dead_letter_queue(handle.own_subject(), &handle.group);
        let subject = node.subject_number(&dead_letter_subject(handle.own_subject(), &handle.group));
        let Some(queue) = queue else {
            if let Some(subject) = subject {
                self.oracle.dead_letters_seen(SeenDead { subject, letters: &[] });
            }
            return None;
        };
        let result = node.dead_letters(queue);
        let letters = self.survive("list dead letters", result)?;
        self.oracle.dead_letters_seen(SeenDead { subject: queue.subject, letters: &letters });
        Some((queue.group, letters))
    }

    pub(super) fn look_at_dead_letters(&mut self, index: usize) {
        let Some(handle) = self.handles.get(index).cloned() else { return };
        if let Some((group, letters)) = self.dead_letters(&handle) {
            let sequences: Vec<Sequence> = letters.iter().map(|letter| letter.entry.sequence()).collect();
            self.note(&format!("dead letters of {group}: {sequences:?}"));
        }
    }

    /// Two operators may do the same at once.
    fn redrive_some(&mut self, index: usize) {
        self.redrive(index, 70);
        if self.chance.percent(40) {
            self.redrive(index, 70);
        }
    }

    /// Redrives a part of a group's dead letters.
    pub(super) fn redrive(&mut self, index: usize, percent: u64) {
        let Some(handle) = self.handles.get(index).cloned() else { return };
        let Some((group, letters)) = self.dead_letters(&handle) else { return };
        // A message that has expired becomes a dead letter again, so the drain would not end.
        let is_of_use = |letter: &SeenDeadLetter| percent < 100 || letter.reason.as_deref() != Some(EXPIRED_REASON);
        let letters = letters.into_iter().filter(is_of_use);
        let chosen: Vec<SeenDeadLetter> = letters.filter(|_| self.chance.percent(percent)).collect();
        if chosen.is_empty() {
            return;
        }
        let names = (handle.own_subject().to_owned(), handle.group.clone());
        let due = self.now();
        let redriven = self.call("redrive", |node| node.redrive((&names.0, &names.1), group, &chosen));
        let Some(first) = redriven.flatten() else { return };
        let target = self.subject_number(&retry_subject(&names.0, &names.1)).unwrap_or_default();
        for (letter, place) in chosen.iter().zip(0_u64..) {
            let (fact, dead) = (first.plus(place), letter.entry.sequence());
            let published_to = self.oracle.entry(dead).map(|entry| entry.published_to).unwrap_or_default();
            let mut again = Entry::new(target, due, &letter.body, Origin::GivenBack { attempt: 1 });
            again.published_to = published_to;
            again.expiry = self.oracle.entry(dead).and_then(|entry| entry.expiry);
            self.oracle.submitted(fact, again);
            self.note(&format!("{dead} is brought back as {fact}"));
            self.changes.insert(fact, Change::Redrive { dead });
        }
        self.dues.insert(due);
    }

    /// Sometimes ends all consumers of a group.
    fn leave_group(&mut self, index: usize) {
        let Some(handle) = self.handles.get(index).cloned() else { return };
        if !self.chance.percent(60) {
            return;
        }
        for other in 0..self.handles.len() {
            let mine = self.handles.get(other).is_some_and(|one| {
                one.own_subject() == handle.own_subject() && one.group == handle.group && one.consumer.is_some()
            });
            if mine {
                self.end_consumer(other);
            }
        }
    }

    fn reset_group(&mut self, index: usize) {
        self.leave_group(index);
        let Some((group, change)) = self.group_change(index, false) else { return };
        let begins_again = self.chance.percent(50);
        let start = match (change.from_latest, begins_again) {
            (true, _) => self.late_start(),
            (false, true) => StartAt::Earliest,
            (false, false) => StartAt::Unfinished,
        };
        let asked = self.call("reset a group", |node| node.reset_group(group, start)).flatten();
        self.asked_for_change("reset a group", asked, change);
    }

    fn remove_group(&mut self, index: usize) {
        self.leave_group(index);
        let Some((group, change)) = self.group_change(index, true) else { return };
        let asked = self.call("remove a group", |node| node.remove_group(group)).flatten();
        self.asked_for_change("remove a group", asked, change);
    }

    fn asked_for_change(&mut self, what: &str, asked: Option<Sequence>, change: GroupChange) {
        if let Some(fact) = asked {
            self.note(&format!("{what}: {} by {fact}, {change:?}", change.group));
            self.changes.insert(fact, Change::Group(change));
        }
    }

    fn group_change(&mut self, index: usize, removes: bool) -> Option<(GroupNumber, GroupChange)> {
        let handle = self.handles.get(index).cloned()?;
        let group = handle.group_number.filter(|_| handle.retries_of.is_none())?;
        let from_latest = self.chance.percent(40);
        let all_sent = self.call("send", Node::send)?;
        let node = self.node.as_ref()?;
        let names =
            [retry_subject(&handle.subject, &handle.group), dead_letter_subject(&handle.subject, &handle.group)];
        let derived = names.iter().filter(|_| removes).filter_map(|name| node.subject_number(name)).collect();
        let concerns = |other: &&Handle| {
            let mine = other.own_subject() == handle.subject && other.group == handle.group;
            mine && (removes || other.retries_of.is_none())
        };
        let consuming = |other: &Handle| other.consumer.is_some() && other.group_number.is_some();
        let has_consumers = self.handles.iter().filter(concerns).any(consuming);
        let asking = self.handles.iter().filter(concerns).any(|other| other.asked.is_some());
        let may_have_consumers = has_consumers || asking || !all_sent;
        let has_consumers = has_consumers && all_sent;
        let change = GroupChange { group, derived, from_latest, has_consumers, may_have_consumers };
        Some((group, change))
    }

    /// Expires old messages of a subject, if the consumer of each delivery is known.
    fn expire(&mut self) {
        let name = self.some_subject();
        let older_than = self.chance.one_of(&[0, 0, 5, 100, 3_000]);
        let Some(true) = self.call("send", Node::send) else { return };
        self.collect();
        let Some(node) = &mut self.node else { return };
        if self.a_pull_failed || !self.hands_wait.is_empty() || node.has_unread() {
            return;
        }
        let Some(subject) = node.owner().state().subjects.number(&name) else { return };
        let due_before = Millis(node.reading().now.0.saturating_sub(older_than));
        let expired = self.call("expire", |node| node.expire(subject, due_before));
        let Some(asked) = expired.flatten() else { return };
        let entries: Holders =
            asked.entries.iter().map(|entry| (entry.sequence(), self.holders(entry.sequence()))).collect();
        self.note(&format!("expiry {} of {subject} before {due_before}: {entries:?}", asked.fact));
        // Changes that are under way may finish some of the messages first.
        let least = if self.changes.is_empty() { self.oracle.certainly_expire(&entries) } else { 0 };
        self.oracle.expiry_submitted(asked.fact, subject, due_before, &entries);
        self.changes.insert(asked.fact, Change::Expiry { least, most: entries.len() });
    }

    /// The groups in which a consumer holds this entry once the queue is applied.
    fn holders(&self, entry: Sequence) -> BTreeSet<GroupNumber> {
        let holding = self.assigned.values().filter(|one| one.delivery.entry.sequence() == entry);
        let unfinished = holding.filter(|one| one.fact.is_some() && !self.oracle.is_finished(one.group, entry));
        unfinished.map(|one| one.group).collect()
    }

    /// Takes in the outcomes of operators' facts.
    pub(super) fn hear_of_changes(&mut self, mut outcome: impl FnMut(&mut Self, Sequence) -> Option<Outcome>) {
        let awaited: Vec<(Sequence, Change)> =
            self.changes.iter().map(|(fact, change)| (*fact, change.clone())).collect();
        for (fact, change) in awaited {
            let Some(outcome) = outcome(self, fact) else { continue };
            self.changes.remove(&fact);
            self.note(&format!("change {fact} is answered {outcome:?}"));
            match change {
                Change::Redrive { dead } => self.oracle.redrive_answered(fact, dead, outcome),
                Change::Expiry { least, most } => self.oracle.expiry_answered(fact, least, most, outcome),
                Change::Group(change) => {
                    self.oracle.group_change_answered(fact, &change, outcome);
                    self.follow_group(&change, outcome);
                }
            }
        }
    }

    /// The users of a group learn that it was reset or removed.
    fn follow_group(&mut self, change: &GroupChange, outcome: Outcome) {
        let again = match outcome {
            Outcome::Group(again) => Some(again),
            Outcome::Done => None,
            _ => return,
        };
        let names: BTreeSet<SubjectNumber> = change.derived.iter().copied().collect();
        for index in 0..self.handles.len() {
            let Some(handle) = self.handles.get(index).cloned() else { continue };
            let subject = self.node.as_ref().and_then(|node| node.subject_number(&handle.subject));
            let is_derived = subject.is_some_and(|subject| names.contains(&subject));
            if handle.group_number == Some(change.group) || is_derived {
                let group_number = again.filter(|_| !is_derived);
                self.with_handle(index, |handle| (handle.group_number, handle.consumer) = (group_number, None));
            }
        }
    }
}
