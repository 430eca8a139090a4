//! Operators: they list and redrive dead letters, reset and remove groups, expire messages.

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::record::name::GroupStart;
use delaymq_core::store::{Outcome, dead_letter_subject, retry_subject};
use delaymq_core::units::{GroupNumber, Millis, Sequence, SubjectNumber};

use super::World;
use super::consumers::Handle;
use crate::checker::{Entry, GroupChange, Origin, SeenDead};
use crate::node::SeenDeadLetter;

/// A fact of an operator whose answer is awaited.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A dead letter is brought back.
    Redrive { dead: Sequence },
    /// A group is reset or removed.
    Group(GroupChange),
    /// So many messages expire, at least and at most.
    Expiry { least: usize, most: usize },
}

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

    /// What operators see, everything that was applied being known to the oracle.
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

    /// Brings back so many of a group's dead letters.
    pub(super) fn redrive(&mut self, index: usize, percent: u64) {
        let Some(handle) = self.handles.get(index).cloned() else { return };
        let Some((group, letters)) = self.dead_letters(&handle) else { return };
        let chosen: Vec<SeenDeadLetter> = letters.into_iter().filter(|_| self.chance.percent(percent)).collect();
        if chosen.is_empty() {
            return;
        }
        let names = (handle.own_subject().to_owned(), handle.group.clone());
        let Some(node) = &mut self.node else { return };
        let due = node.reading().now;
        let result = node.redrive((&names.0, &names.1), group, &chosen);
        let target = node.subject_number(&retry_subject(&names.0, &names.1)).unwrap_or_default();
        let Some(Some(first)) = self.survive("redrive", result) else { return };
        for (letter, place) in chosen.iter().zip(0_u64..) {
            let (fact, dead) = (first.plus(place), letter.entry.sequence());
            let published_to = self.oracle.entry(dead).map(|entry| entry.published_to).unwrap_or_default();
            let mut again = Entry::new(target, due, &letter.body, Origin::GivenBack { attempt: 1 });
            again.published_to = published_to;
            self.oracle.submitted(fact, again);
            self.note(&format!("{dead} is brought back as {fact}"));
            self.changes.insert(fact, Change::Redrive { dead });
        }
        self.dues.insert(due);
    }

    /// Sometimes everybody stops consuming for a group first.
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
        let start = if change.from_latest { GroupStart::Latest } else { GroupStart::Earliest };
        let Some(node) = &mut self.node else { return };
        let result = node.reset_group(group, start);
        self.asked_for_change("reset a group", result, change);
    }

    fn remove_group(&mut self, index: usize) {
        self.leave_group(index);
        let Some((group, change)) = self.group_change(index, true) else { return };
        let Some(node) = &mut self.node else { return };
        let result = node.remove_group(group);
        self.asked_for_change("remove a group", result, change);
    }

    fn asked_for_change(&mut self, what: &str, asked: delaymq_core::Result<Option<Sequence>>, change: GroupChange) {
        if let Some(Some(fact)) = self.survive(what, asked) {
            self.note(&format!("{what}: {} by {fact}, {change:?}", change.group));
            self.changes.insert(fact, Change::Group(change));
        }
    }

    fn group_change(&mut self, index: usize, removes: bool) -> Option<(GroupNumber, GroupChange)> {
        let handle = self.handles.get(index).cloned()?;
        let group = handle.group_number.filter(|_| handle.retries_of.is_none())?;
        let from_latest = self.chance.percent(40);
        let node = self.node.as_mut()?;
        let sent = node.send();
        let all_sent = self.survive("send", sent)?;
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

    /// Lets old messages of a subject expire, where it is known who holds which.
    fn expire(&mut self) {
        let name = Self::subject_name(self.chance.below(self.plan.subjects));
        let older_than = self.chance.one_of(&[0, 0, 5, 100, 3_000]);
        let Some(node) = &mut self.node else { return };
        let sent = node.send();
        let Some(true) = self.survive("send", sent) else { return };
        self.collect();
        let Some(node) = &mut self.node else { return };
        if self.a_pull_failed || !self.hands_wait.is_empty() || node.has_unread() {
            return;
        }
        let Some(subject) = node.owner().state().subjects.number(&name) else { return };
        let due_before = Millis(node.reading().now.0.saturating_sub(older_than));
        let result = node.expire(subject, due_before);
        let Some(Some(asked)) = self.survive("expire", result) else { return };
        let entries: BTreeMap<Sequence, BTreeSet<GroupNumber>> =
            asked.entries.iter().map(|entry| (entry.sequence(), self.holders(entry.sequence()))).collect();
        self.note(&format!("expiry {} of {subject} before {due_before}: {entries:?}", asked.fact));
        // What is under way may finish some of it first.
        let least = if self.changes.is_empty() { self.oracle.certainly_expire(&entries) } else { 0 };
        self.oracle.expiry_submitted(asked.fact, subject, due_before, &entries);
        self.changes.insert(asked.fact, Change::Expiry { least, most: entries.len() });
    }

    /// The groups in which a consumer holds this entry, as far as the log will say at its end.
    fn holders(&self, entry: Sequence) -> BTreeSet<GroupNumber> {
        let holding = self.assigned.values().filter(|one| one.delivery.entry.sequence() == entry);
        let unfinished = holding.filter(|one| one.fact.is_some() && !self.oracle.is_finished(one.group, entry));
        unfinished.map(|one| one.group).collect()
    }

    /// Hears what became of what operators asked for; `outcome` knows it.
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

    /// Users of a group that was reset or removed know of it.
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
