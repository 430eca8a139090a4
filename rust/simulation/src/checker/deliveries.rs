//! Checks of deliveries.

use delaymq_core::clock::Reading;
use delaymq_core::units::{ConsumerNumber, GroupNumber, PullOffset, Sequence, SubjectNumber};

use super::{HandOver, Oracle, Origin};
use crate::node::Handed;

/// A hand-over.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// The group.
    pub group: GroupNumber,
    /// The consumer.
    pub consumer: ConsumerNumber,
    /// The group's subject.
    pub subject: SubjectNumber,
    /// The group's name.
    pub group_name: &'a str,
    /// The consumer's name.
    pub consumer_name: &'a str,
    /// The trusted time.
    pub reading: Reading,
    /// The message.
    pub handed: &'a Handed,
}

impl std::fmt::Debug for Seen<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let delivery = &self.handed.delivery;
        let words = format!(
            "{} as number {} of subject {} to {} of group {} under {}, attempt {}, at {}",
            delivery.entry.sequence(),
            delivery.number,
            self.subject,
            self.consumer_name,
            self.group,
            delivery.offset,
            delivery.attempt,
            self.reading.now
        );
        formatter.write_str(&words)
    }
}

impl Oracle {
    /// A message was handed over.
    pub fn handed_over(&mut self, seen: &Seen<'_>) {
        self.counts.delivered += 1;
        let delivery = &seen.handed.delivery;
        let sequence = delivery.entry.sequence();
        self.check_content(seen, sequence);
        self.check_repetition(seen, sequence);
        self.check_number(seen, sequence);
        let offsets = (seen.subject, seen.group_name.to_owned(), seen.consumer_name.to_owned());
        let next = self.offsets.entry(offsets).or_default();
        let (offset, expected) = (delivery.offset, *next);
        *next = (*next).max(offset.next());
        if offset < expected {
            self.blame(format!("{seen:?}: offset {offset} was used before, the next is {expected} or above"));
        }
        self.check_density(seen);
        self.handed.entry((seen.group, sequence)).or_default().push(HandOver { before_loss: false });
    }

    /// Filters kept so many messages back.
    pub fn filtered(&mut self, count: usize) {
        self.counts.filtered += count as u64;
    }

    /// A message was to be handed over, and was not: it had expired.
    pub fn expired_at_hand_over(&mut self, seen: &Seen<'_>) {
        self.counts.expired_by_themselves += 1;
        let delivery = &seen.handed.delivery;
        let sequence = delivery.entry.sequence();
        self.latest = self.latest.max(seen.reading.now);
        let has_expired = self.entries.get(&sequence).is_some_and(|entry| entry.has_expired(seen.reading.now));
        if !has_expired {
            let expiry = self.entries.get(&sequence).map(|entry| entry.expiry);
            self.blame(format!("dropped before it expired ({expiry:?}): {seen:?}"));
        }
        self.check_number(seen, sequence);
        self.passed_over.insert((seen.group, seen.consumer, delivery.offset));
    }

    /// Checks that a consumer's offsets leave no gap, except for offsets that a crash made void or whose messages had
    /// expired.
    fn check_density(&mut self, seen: &Seen<'_>) {
        let offset = seen.handed.delivery.offset;
        let is_passed_over = |offset: &PullOffset| self.passed_over.contains(&(seen.group, seen.consumer, *offset));
        if let Some((_, expected)) = self.dense.get_mut(&(seen.group, seen.consumer)) {
            while is_passed_over(expected) {
                *expected = expected.next();
            }
        }
        let after = self.dense.insert((seen.group, seen.consumer), (self.crashes, offset.next()));
        if let Some((crashes, expected)) = after
            && crashes == self.crashes
            && offset != expected
        {
            self.blame(format!("{seen:?}: the offset is not {expected}, and there was no crash in between"));
        }
    }

    /// Without a crash, a reset or a failure in between, the attempt is exactly the number of hand-overs.
    fn check_attempt(&mut self, seen: &Seen<'_>, sequence: Sequence) {
        let base = match self.entries.get(&sequence).map(|entry| entry.origin) {
            Some(Origin::Published) => 1,
            Some(Origin::GivenBack { attempt }) => attempt,
            Some(Origin::Dead { .. }) | None => return,
        };
        let before = self.handed.get(&(seen.group, sequence)).map_or(0, Vec::len);
        let expected = base.saturating_add(u32::try_from(before).unwrap_or(u32::MAX));
        if seen.handed.delivery.attempt != expected {
            self.blame(format!("attempt {expected} is expected, and there was no crash: {seen:?}"));
        }
    }

    /// A pull failed after its messages were assigned.
    pub fn hand_over_failed(&mut self) {
        self.a_hand_over_failed = true;
    }

    fn check_content(&mut self, seen: &Seen<'_>, sequence: Sequence) {
        let delivery = &seen.handed.delivery;
        let Some(entry) = self.entries.get(&sequence) else {
            return self.blame(format!("phantom: {seen:?} is of no message in the log"));
        };
        let mut wrong = Vec::new();
        if entry.body != seen.handed.body {
            wrong.push("corrupt: another body".to_owned());
        }
        if entry.subject != seen.subject || entry.published_to != seen.handed.subject {
            wrong.push(format!("corrupt: published to {}, ready in {}", entry.published_to, entry.subject));
        }
        if entry.due > seen.reading.now || entry.due != delivery.entry.due() {
            wrong.push(format!("early: due at {}", entry.due));
        }
        if let Some(command) = entry.moved {
            wrong.push(format!("moved to another time by {command}"));
        }
        if let Some(command) = entry.cancelled {
            wrong.push(format!("cancelled by {command}, which was answered done"));
        }
        if let Some(removal) = entry.ended {
            wrong.push(format!("given up by removal {removal}"));
        }
        if entry.has_expired(seen.reading.now) {
            wrong.push(format!("expired by its own time: {:?}", entry.expiry));
        }
        if matches!(entry.origin, Origin::Dead { .. }) {
            wrong.push("it is dead".to_owned());
        }
        if self.is_expired(seen.group, sequence, self.applied_end) && !self.a_hand_over_failed {
            wrong.push(format!("expired: {:?}", self.expiries.get(&sequence)));
        }
        if sequence >= self.visible {
            wrong.push(format!("handed over before it was answered: visible is {}", self.visible));
        }
        if let Origin::GivenBack { attempt } = entry.origin
            && delivery.attempt < attempt
        {
            wrong.push(format!("attempt {} where {attempt} is the least", delivery.attempt));
        }
        for what in wrong {
            self.blame(format!("{what}: {seen:?}"));
        }
    }

    fn check_repetition(&mut self, seen: &Seen<'_>, sequence: Sequence) {
        let key = (seen.group, sequence);
        let marked = seen.handed.delivery.is_redelivered();
        if let Some(fact) = self.finishes.get(&key).copied() {
            self.blame(format!("finished by {fact} and handed over again: {seen:?}"));
        }
        let crashes = self.lives.get(&seen.group).map_or(0, |life| self.crashes.saturating_sub(life.crashes));
        let published = self.entries.get(&sequence).is_some_and(|entry| entry.origin == Origin::Published);
        let was_reset = self.lives.get(&seen.group).is_some_and(|life| life.after.is_some());
        if !marked && self.was_handed_before_reset(seen.group, sequence) {
            self.blame(format!("handed over before the reset, and not marked: {seen:?}"));
        }
        if crashes == 0 && !self.a_hand_over_failed && !was_reset {
            self.check_attempt(seen, sequence);
        }
        let before = self.handed.get(&key).map(|overs| overs.iter().any(|over| !over.before_loss));
        match before {
            None if marked && published && crashes == 0 && !self.a_hand_over_failed && !was_reset => {
                self.blame(format!("marked as a repetition without a crash: {seen:?}"));
            }
            None => {}
            Some(certain) => {
                self.counts.duplicated += 1;
                if certain && !marked {
                    self.blame(format!("a repetition that is not marked: {seen:?}"));
                }
                if !self.may_repeat.remove(&key) && certain {
                    self.blame(format!("handed over again without having been in flight at a crash: {seen:?}"));
                }
            }
        }
    }

    fn check_number(&mut self, seen: &Seen<'_>, sequence: Sequence) {
        let number = (seen.subject, seen.handed.delivery.number);
        let before = *self.numbers.entry(number).or_insert(sequence);
        if before != sequence {
            self.blame(format!("number {number:?} was of {before}: {seen:?}"));
        }
    }

    /// A consumer that came back was handed one of its deliveries again, under the same offset.
    pub fn handed_again(&mut self, seen: &Seen<'_>, held_before: Option<Sequence>) {
        let sequence = seen.handed.delivery.entry.sequence();
        self.check_content(seen, sequence);
        self.check_number(seen, sequence);
        if held_before.is_some_and(|before| before != sequence) {
            self.blame(format!("offset {} was of {held_before:?}: {seen:?}", seen.handed.delivery.offset));
        }
        let key = (seen.group, sequence);
        if self.finishes.contains_key(&key) {
            self.blame(format!("finished and handed over again: {seen:?}"));
        }
        if !seen.handed.delivery.is_redelivered() && self.handed.contains_key(&key) {
            // The offset is the same, which tells the consumer that it is a repetition.
            self.counts.duplicated += 1;
        }
        self.may_repeat.remove(&key);
        let offsets = (seen.subject, seen.group_name.to_owned(), seen.consumer_name.to_owned());
        let next = self.offsets.entry(offsets).or_default();
        *next = (*next).max(PullOffset(seen.handed.delivery.offset.0.saturating_add(1)));
        self.handed.entry(key).or_default().push(HandOver { before_loss: false });
    }
}
