//! Checks of facts: submitted, visible, applied, lost.

use delaymq_core::clock::Reading;
use delaymq_core::record::{Fact, Records, decode};
use delaymq_core::store::Outcome;
use delaymq_core::units::{GroupNumber, Millis, PullOffset, Sequence, SubjectNumber};

use super::{AtOnce, CancelNote, Entry, Life, Made, Oracle, Origin};
use crate::node::AppliedBatch;

impl Oracle {
    /// The log's queue has accepted a message or a message given back.
    pub fn submitted(&mut self, sequence: Sequence, entry: Entry) {
        if self.entries.insert(sequence, entry).is_some() {
            self.blame(format!("sequence {sequence} was given out twice"));
        }
    }

    /// The log's queue has accepted a fact that finishes this entry for a group.
    pub fn finished(&mut self, group: GroupNumber, entry: Sequence, fact: Sequence) {
        self.finishes.entry((group, entry)).or_insert(fact);
    }

    /// True if the group has finished the entry.
    pub fn is_finished(&self, group: GroupNumber, entry: Sequence) -> bool {
        self.finishes.contains_key(&(group, entry))
    }

    /// The entry of a sequence.
    pub fn entry(&self, sequence: Sequence) -> Option<&Entry> {
        self.entries.get(&sequence)
    }

    /// The log's queue has accepted a cancel.
    pub fn cancel_submitted(&mut self, command: Sequence, target: Sequence) {
        self.cancels.insert(command, CancelNote { target, outcome: None });
    }

    /// The outcome of a cancel.
    pub fn cancel_answered(&mut self, command: Sequence, outcome: Outcome) {
        let Some(note) = self.cancels.get_mut(&command) else { return };
        if note.outcome == Some(outcome) {
            return;
        }
        if let Some(before) = note.outcome.replace(outcome) {
            self.blame(format!("cancel {command} was answered {before:?}, then {outcome:?}"));
            return;
        }
        let target = note.target;
        let handed = self
            .handed
            .iter()
            .any(|((_, entry), overs)| *entry == target && overs.iter().any(|over| !over.before_loss));
        let unfinished = self.is_owed(target);
        let Some(entry) = self.entries.get_mut(&target) else {
            if outcome != Outcome::NotFound {
                self.blame(format!("cancel {command} of {target}, which is not in the log, was answered {outcome:?}"));
            }
            return;
        };
        match outcome {
            Outcome::Done if entry.known_dispatched => {
                self.blame(format!("cancel {command} of {target}: done, after it was called dispatched"));
            }
            Outcome::Done if handed => {
                self.blame(format!("cancel {command} of {target}: done, after it was handed over"));
            }
            Outcome::Done if entry.moved.is_some() => {
                self.blame(format!("cancel {command} of {target}: done, after it was moved away"));
            }
            Outcome::Done => {
                entry.cancelled.get_or_insert(command);
                self.counts.cancelled += 1;
            }
            Outcome::AlreadyDispatched if entry.cancelled.is_some() => {
                self.blame(format!("cancel {command} of {target}: dispatched, after a cancel was answered done"));
            }
            Outcome::AlreadyDispatched => entry.known_dispatched = true,
            Outcome::NotFound if unfinished => {
                self.blame(format!("cancel {command} of {target}: not found, although somebody is still owed it"));
            }
            _ => {}
        }
    }

    /// A group was made or found.
    pub fn group_is_known(&mut self, group: GroupNumber, subject: SubjectNumber, created: Sequence, from_latest: bool) {
        let crashes = self.crashes;
        let known = Life { subject, created, ended: None, from_latest, retries: false, crashes, after: None };
        let life = self.lives.entry(group).or_insert(known);
        // Of two submissions at once, the first one in the log has made the group.
        if created < life.created {
            (life.created, life.from_latest) = (created, from_latest);
        }
    }

    /// A group that an opening found existed before the crash.
    pub fn found_when_opened(&mut self, group: GroupNumber, was_known: bool) {
        if let Some(life) = self.lives.get_mut(&group).filter(|_| !was_known) {
            life.crashes = life.crashes.saturating_sub(1);
        }
    }

    /// True if the checker has this group.
    pub fn knows(&self, group: GroupNumber) -> bool {
        self.lives.contains_key(&group)
    }

    /// A group of a retry subject was found.
    pub fn retry_group_is_known(&mut self, group: GroupNumber, subject: SubjectNumber) {
        let given_back = |(_, entry): &(&Sequence, &Entry)| {
            let given_back = matches!(entry.origin, Origin::GivenBack { .. }) && entry.ended.is_none();
            entry.subject == subject && given_back
        };
        let first = self.entries.iter().find(given_back).map(|(sequence, _)| *sequence);
        self.group_is_known(group, subject, first.unwrap_or(self.visible), false);
        if let Some(life) = self.lives.get_mut(&group) {
            life.retries = true;
        }
    }

    /// The log's queue has accepted the end of a group.
    pub fn group_ends(&mut self, group: GroupNumber, fact: Sequence) {
        if let Some(life) = self.lives.get_mut(&group) {
            life.ended.get_or_insert(fact);
        }
    }

    /// Everything below `visible` is answered.
    pub fn became_visible(&mut self, visible: Sequence) {
        if visible < self.visible {
            self.blame(format!("what is visible went back from {} to {visible}", self.visible));
        }
        let published = self.entries.range(self.visible..visible.max(self.visible));
        let is_new = |entry: &Entry| entry.origin == Origin::Published && entry.made == Made::Otherwise;
        let published = published.filter(|(_, entry)| is_new(entry)).count();
        self.counts.published += published as u64;
        self.visible = visible;
    }

    /// The store has applied a batch.
    pub fn applied(&mut self, batch: &AppliedBatch) {
        let header = &batch.header;
        let base = Sequence(header.base_sequence.get());
        let trusted = Millis(header.trusted_ms.get());
        let end = batch.end();
        if end > self.visible {
            self.blame(format!("facts up to {end} were applied, and only those below {} are visible", self.visible));
        }
        for (_, entry) in self.entries.range_mut(base..end) {
            entry.applied.get_or_insert(self.operation);
            let is_due = !header.is_held() && entry.due <= trusted;
            if entry.at_once != AtOnce::Never {
                let is_at_once = is_due || matches!(entry.origin, Origin::Dead { .. });
                entry.at_once = if is_at_once { AtOnce::Yes } else { AtOnce::No };
            }
        }
        self.applied_end = self.applied_end.max(end);
        let mut early = Vec::new();
        for (_, record) in Records::new(batch.visible().records, base).flatten() {
            if let Some(Fact::Ready(list)) = decode(&record) {
                let keys = list.entries().map(|(key, _)| key);
                early.extend(keys.filter(|key| key.due > trusted).map(|key| (record.sequence, key)));
            }
        }
        for (fact, key) in early {
            self.blame(format!("early: fact {fact} written at {trusted} makes {key:?} ready"));
        }
    }

    /// A step was taken at this time, with everything below `applied` applied.
    pub fn stepped(&mut self, reading: Reading, applied: Sequence) {
        if reading.held {
            return;
        }
        let operation = self.operation;
        for (_, entry) in self.entries.range_mut(..applied) {
            if entry.due <= reading.now {
                entry.steppable.get_or_insert(operation);
            }
        }
    }

    /// The store was opened again, and its log goes on at `first`. It had promised to keep everything below `required`.
    pub fn reopened(&mut self, first: Sequence, required: Sequence) {
        if first < required {
            self.blame(format!("lost: the log goes on at {first}, and all below {required} was promised"));
        }
        self.crashes += 1;
        let lost_visible = first < self.visible;
        if lost_visible {
            self.check_order();
            self.numbers.clear();
            self.handed.values_mut().flatten().for_each(|over| over.before_loss = true);
        }
        self.entries.retain(|sequence, _| *sequence < first);
        self.cancels.retain(|sequence, _| *sequence < first);
        self.moves.retain(|sequence, _| *sequence < first);
        self.finishes.retain(|_, fact| *fact < first);
        self.lives.retain(|_, life| life.created < first);
        for expiries in self.expiries.values_mut() {
            expiries.retain(|expiry| expiry.fact < first);
        }
        self.applied_end = self.applied_end.min(first);
        for life in self.lives.values_mut() {
            life.ended = life.ended.filter(|fact| *fact < first);
        }
        self.handed.retain(|(group, entry), _| *entry < first && self.lives.contains_key(group));
        self.may_repeat.retain(|(group, entry)| *entry < first && self.lives.contains_key(group));
        for entry in self.entries.values_mut() {
            entry.cancelled = entry.cancelled.filter(|command| *command < first);
            entry.moved = entry.moved.filter(|command| *command < first);
            entry.ended = entry.ended.filter(|fact| *fact < first);
            entry.redriven = entry.redriven.filter(|fact| *fact < first);
            entry.known_dispatched &= !lost_visible;
            entry.applied.get_or_insert(self.operation);
        }
        let in_flight = self.handed.keys().filter(|key| !self.finishes.contains_key(key));
        self.may_repeat.extend(in_flight.copied().collect::<Vec<_>>());
        self.visible = first;
    }

    /// How many messages were handed over, are not finished and may not come again.
    pub fn in_flight(&self) -> usize {
        let handed = self.handed.keys();
        let in_hand = |(group, entry): &(GroupNumber, Sequence)| {
            let key = (*group, *entry);
            let is_expired = self.is_expired(*group, *entry, Sequence(u64::MAX));
            !self.finishes.contains_key(&key) && !self.may_repeat.contains(&key) && !is_expired
        };
        handed.filter(|key| in_hand(key)).count()
    }

    /// A consumer ended: this message may come again.
    pub fn came_back(&mut self, group: GroupNumber, entry: Sequence) {
        self.may_repeat.insert((group, entry));
    }

    /// The least offset that a consumer may get next.
    pub fn next_offset(&self, subject: SubjectNumber, group: &str, consumer: &str) -> PullOffset {
        self.offsets.get(&(subject, group.to_owned(), consumer.to_owned())).copied().unwrap_or_default()
    }
}
