//! Checks of operators' commands: redrives, resets and removals of groups, expiries.

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::store::Outcome;
use delaymq_core::units::{GroupNumber, Millis, Sequence, SubjectNumber};

use super::{AtOnce, Entry, Life, Oracle, Origin};
use crate::node::SeenDeadLetter;

/// The expiry of a message for all groups except those that held it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// The fact.
    pub fact: Sequence,
    /// The groups in which a consumer held it.
    pub held: BTreeSet<GroupNumber>,
}

/// A reset or a removal of a group.
#[derive(Clone, Debug)]
pub struct GroupChange {
    /// The group.
    pub group: GroupNumber,
    /// For a removal: the subjects of its retries and dead letters.
    pub derived: Vec<SubjectNumber>,
    /// Whether a reset begins again at the latest message.
    pub from_latest: bool,
    /// The group certainly had consumers.
    pub has_consumers: bool,
    /// The group may have had consumers.
    pub may_have_consumers: bool,
}

/// The dead letters of one group, as listed.
#[derive(Clone, Copy, Debug)]
pub struct SeenDead<'a> {
    /// The dead-letter subject.
    pub subject: SubjectNumber,
    /// The listed letters.
    pub letters: &'a [SeenDeadLetter],
}

impl Oracle {
    /// True if a fact before `fact` has expired the entry for the group.
    pub fn is_expired(&self, group: GroupNumber, entry: Sequence, fact: Sequence) -> bool {
        let expiries = self.expiries.get(&entry);
        expiries.is_some_and(|all| all.iter().any(|one| one.fact < fact && !one.held.contains(&group)))
    }

    /// The log's queue has accepted an expiry of these entries. Each comes with the groups that hold it.
    pub fn expiry_submitted(
        &mut self,
        fact: Sequence,
        subject: SubjectNumber,
        due_before: Millis,
        entries: &BTreeMap<Sequence, BTreeSet<GroupNumber>>,
    ) {
        let mut wrong = Vec::new();
        for entry in entries.keys() {
            match self.entries.get(entry) {
                Some(known) if known.subject == subject && known.due < due_before && *entry < self.visible => {}
                other => wrong.push(format!("expiry {fact} of {entry}, which is {other:?}")),
            }
        }
        let forgotten = self.entries.iter().filter(|(sequence, entry)| {
            let is_ready = entry.at_once == AtOnce::Yes && entry.applied.is_some() && entry.subject == subject;
            is_ready && entry.due < due_before && !entries.contains_key(*sequence) && self.is_owed(**sequence)
        });
        wrong.extend(forgotten.map(|(sequence, entry)| format!("expiry {fact} leaves out {sequence}: {entry:?}")));
        for (entry, held) in entries {
            self.expiries.entry(*entry).or_default().push(Expiry { fact, held: held.clone() });
        }
        self.violations.extend(wrong);
    }

    /// How many of these entries a group certainly had neither finished nor held.
    pub fn certainly_expire(&self, entries: &BTreeMap<Sequence, BTreeSet<GroupNumber>>) -> usize {
        let owed = entries.iter().filter(|(sequence, held)| {
            let Some(entry) = self.entries.get(*sequence) else { return false };
            self.lives.iter().any(|(group, life)| {
                !held.contains(group)
                    && self.must_get(*group, life, **sequence, entry)
                    && !self.finishes.contains_key(&(*group, **sequence))
            })
        });
        owed.count()
    }

    /// The outcome of an expiry.
    pub fn expiry_answered(&mut self, fact: Sequence, least: usize, most: usize, outcome: Outcome) {
        match outcome {
            Outcome::Expired(count) if (least as u64..=most as u64).contains(&count) => self.counts.expired += count,
            other => self.blame(format!("expiry {fact} of {least} to {most} messages was answered {other:?}")),
        }
    }

    /// The outcome of a change of a group.
    pub fn group_change_answered(&mut self, fact: Sequence, change: &GroupChange, outcome: Outcome) {
        let GroupChange { group, has_consumers, may_have_consumers, .. } = *change;
        match outcome {
            Outcome::HasConsumers(_) if !may_have_consumers => {
                self.blame(format!("change {fact} of group {group} is refused, and nobody consumes"));
            }
            Outcome::HasConsumers(_) | Outcome::NotFound => {}
            _ if has_consumers => self.blame(format!("change {fact} of group {group}, for which somebody consumes")),
            Outcome::Done => self.removed(fact, change),
            Outcome::Group(again) => self.reset(fact, again, change),
            other => self.blame(format!("change {fact} of group {group} was answered {other:?}")),
        }
    }

    fn removed(&mut self, fact: Sequence, change: &GroupChange) {
        self.counts.removals += 1;
        self.group_ends(change.group, fact);
        for life in self.lives.values_mut().filter(|life| change.derived.contains(&life.subject)) {
            life.ended.get_or_insert(fact);
        }
        for (_, entry) in self.entries.range_mut(..fact).filter(|(_, entry)| change.derived.contains(&entry.subject)) {
            entry.ended.get_or_insert(fact);
        }
    }

    fn reset(&mut self, fact: Sequence, again: GroupNumber, change: &GroupChange) {
        self.counts.resets += 1;
        let Some(before) = self.lives.get(&change.group).cloned() else { return };
        self.group_ends(change.group, fact);
        let crashes = self.crashes;
        let life = Life {
            created: fact,
            ended: None,
            from_latest: change.from_latest,
            crashes,
            after: Some(change.group),
            ..before
        };
        self.lives.insert(again, life);
    }

    /// True if the message was certainly handed to this group before its reset.
    pub(super) fn was_handed_before_reset(&self, group: GroupNumber, entry: Sequence) -> bool {
        let mut earlier = self.lives.get(&group).and_then(|life| life.after);
        while let Some(group) = earlier {
            if self.handed.get(&(group, entry)).is_some_and(|overs| overs.iter().any(|over| !over.before_loss)) {
                return true;
            }
            earlier = self.lives.get(&group).and_then(|life| life.after);
        }
        false
    }

    /// The outcome of a redrive of one dead letter. Its new entry is `fact`.
    pub fn redrive_answered(&mut self, fact: Sequence, dead: Sequence, outcome: Outcome) {
        let Some(entry) = self.entries.get_mut(&dead) else {
            return self.blame(format!("redrive {fact} of {dead}, which is not in the log"));
        };
        let is_there = entry.redriven.is_none() && entry.ended.is_none();
        match outcome {
            Outcome::Done if is_there => {
                entry.redriven = Some(fact);
                self.counts.redriven += 1;
            }
            Outcome::NotFound if !is_there => {
                self.entries.remove(&fact);
            }
            other => {
                let what = format!("redrive {fact} of {dead} was answered {other:?}: {entry:?}, {:?}", entry.redriven);
                self.blame(what);
            }
        }
    }

    /// Dead letters were listed, while the checker knew all applied facts.
    pub fn dead_letters_seen(&mut self, seen: SeenDead<'_>) {
        let mut wrong = Vec::new();
        let mut missing: BTreeMap<Sequence, &Entry> = self
            .entries
            .range(..self.applied_end)
            .filter(|(_, entry)| entry.subject == seen.subject && entry.is_dead_letter())
            .map(|(sequence, entry)| (*sequence, entry))
            .collect();
        for letter in seen.letters {
            let Some(entry) = missing.remove(&letter.entry.sequence()) else {
                wrong.push(format!("{letter:?} is listed as dead"));
                continue;
            };
            let attempt = match entry.origin {
                Origin::Dead { attempt } => attempt,
                _ => 0,
            };
            let same = letter.reason == entry.reason
                && letter.body == entry.body
                && letter.entry.due() == entry.due
                && u32::from(letter.entry.attempt()) == attempt;
            if !same {
                wrong.push(format!("{letter:?} is listed, and it was {entry:?}, {:?}", entry.reason));
            }
        }
        wrong.extend(missing.into_iter().map(|(sequence, entry)| format!("dead letter {sequence} is lost: {entry:?}")));
        self.counts.dead = self.counts.dead.max(seen.letters.len() as u64);
        self.violations.extend(wrong);
    }

    /// True if there is a dead letter that was not redriven.
    pub fn has_dead_letters(&self) -> bool {
        self.entries.values().any(Entry::is_dead_letter)
    }
}

impl Entry {
    fn is_dead_letter(&self) -> bool {
        matches!(self.origin, Origin::Dead { .. }) && self.redriven.is_none() && self.ended.is_none()
    }
}
