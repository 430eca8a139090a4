//! Checks at the end: the faults have stopped, and the consumers have consumed all messages.

use delaymq_core::units::{GroupNumber, Sequence};

use super::{AtOnce, Entry, Life, Made, Oracle, Origin};

impl Oracle {
    /// True if a group must still get the entry.
    pub fn is_owed(&self, sequence: Sequence) -> bool {
        let Some(entry) = self.entries.get(&sequence) else { return false };
        let groups = self.lives.iter();
        groups.into_iter().any(|(group, life)| {
            self.must_get(*group, life, sequence, entry) && !self.finishes.contains_key(&(*group, sequence))
        })
    }

    /// True if the group must get this entry. False if that cannot be known from outside.
    pub(super) fn must_get(&self, group: GroupNumber, life: &Life, sequence: Sequence, entry: &Entry) -> bool {
        if entry.moved.is_some() || entry.made == Made::Perhaps {
            return false;
        }
        if life.subject != entry.subject || life.ended.is_some() || entry.cancelled.is_some() || entry.voided {
            return false;
        }
        // One that has expired may have been dropped by another group, or be a dead letter already.
        if entry.has_expired(self.latest) {
            return false;
        }
        if entry.ended.is_some() || self.is_expired(group, sequence, Sequence(u64::MAX)) {
            return false;
        }
        if life.retries || sequence > life.created {
            return true;
        }
        let others = || self.lives.iter().filter(|(other, one)| **other != group && one.subject == life.subject);
        let was_finished = others().any(|(other, _)| self.finishes.contains_key(&(*other, sequence)));
        let began_late = others().any(|(_, other)| other.from_latest);
        !life.from_latest && !was_finished && !began_late
    }

    /// Checks that all messages were handed over, in order.
    pub fn check_drained(&mut self) {
        let mut found = Vec::new();
        for (sequence, entry) in &self.entries {
            for (group, life) in &self.lives {
                let key = (*group, *sequence);
                if self.must_get(*group, life, *sequence, entry) && !self.finishes.contains_key(&key) {
                    let handed = self.handed.get(&key).map_or(0, Vec::len);
                    found.push(format!("lost: {sequence} for group {group}, handed over {handed} times: {entry:?}"));
                }
            }
            let given_back = matches!(entry.origin, Origin::GivenBack { .. });
            let is_done = self.finishes.keys().any(|(_, finished)| finished == sequence);
            let is_elsewhere = entry.moved.is_some() || entry.cancelled.is_some() || entry.ended.is_some();
            if given_back && !is_done && !entry.voided && !is_elsewhere && !entry.has_expired(self.latest) {
                found.push(format!("lost: {sequence}, which was given back: {entry:?}"));
            }
        }
        self.violations.extend(found);
        self.check_order();
    }

    /// Checks the order of messages that waited: in a subject the earlier key comes first, unless it arrived when the
    /// other message might already have been ready.
    pub(super) fn check_order(&mut self) {
        let mut found = Vec::new();
        let ordered: Vec<_> = self.numbers.iter().collect();
        for (place, ((subject, number), sequence)) in ordered.iter().enumerate() {
            let Some(first) = self.entries.get(sequence).filter(|entry| entry.at_once != AtOnce::Yes) else { continue };
            for ((other_subject, other_number), other) in ordered.iter().skip(place.saturating_add(1)) {
                if other_subject != subject {
                    break;
                }
                let Some(second) = self.entries.get(other).filter(|entry| entry.at_once != AtOnce::Yes) else {
                    continue;
                };
                let overtaken = (second.due, *other) < (first.due, *sequence);
                let known = second.applied.is_some_and(|applied| first.steppable.is_some_and(|step| applied < step));
                if overtaken && known {
                    found.push(format!(
                        "order: {sequence} {:?} has number {number}, {other} {:?} has {other_number}",
                        first.due, second.due
                    ));
                }
            }
        }
        self.violations.extend(found);
    }
}
