//! A settlement ends many deliveries of one consumer, and possibly the consumer itself. Its facts are one submission,
//! so a crash leaves all of it or nothing.

use super::pull::Delivery;
use super::requests::retry_of;
use crate::planted::{Planted, is_on};
use crate::record::name::{GroupStart, encode_consumer_end, encode_group_reset, encode_subject};
use crate::record::queue::ranges_of;
use crate::record::queue::{NumberRange, encode_acknowledge};
use crate::record::retry::{Destination, encode_retry};
use crate::store::owner::Owner;
use crate::units::{ConsumerNumber, GroupNumber, Millis, SubjectNumber};

/// When messages that a consumer does not finish are delivered again, and when they become dead letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryRule {
    /// The group receives the message again after so many milliseconds.
    pub delay_ms: u64,
    /// A message that was delivered so often becomes a dead letter instead.
    pub attempts_max: u32,
    /// The reason of the dead letter. If `None`, the reason is how often the message was delivered.
    pub reason: Option<&'static str>,
}

impl Default for RetryRule {
    /// The values of QMQ: after 5 s, 32 times.
    fn default() -> Self {
        Self { delay_ms: 5_000, attempts_max: 32, reason: None }
    }
}

/// Where the messages of one settlement continue.
#[derive(Clone, Copy, Debug)]
pub struct RetryPlaces<'a> {
    /// The rule that decides between a retry and a dead letter.
    pub rule: RetryRule,
    /// The trusted time.
    pub now: Millis,
    /// The time from which delays count, which may be later.
    pub from: Millis,
    /// The subject of retries.
    pub again: SubjectNumber,
    /// The subject of dead letters. `None` if this queue makes none.
    pub dead: Option<SubjectNumber>,
    /// How messages become dead letters.
    pub death: Destination<'a>,
}

impl<'a> RetryPlaces<'a> {
    /// True if the message becomes a dead letter after this delivery.
    pub fn is_dead(&self, delivery: &Delivery) -> bool {
        self.dead.is_some() && delivery.attempt >= self.rule.attempts_max
    }

    /// Returns where and when the message of this delivery continues.
    pub fn retried(&self, delivery: &Delivery) -> Retried<'a> {
        let delivery = *delivery;
        if let Some(target) = self.dead.filter(|_| self.is_dead(&delivery)) {
            return Retried { delivery, due: self.now, target, destination: self.death };
        }
        let due = if self.rule.delay_ms == 0 { self.now } else { self.from.plus(self.rule.delay_ms) };
        Retried { delivery, due, target: self.again, destination: Destination::Again }
    }
}

/// A message that continues in another subject.
#[derive(Clone, Copy, Debug)]
pub struct Retried<'a> {
    /// The delivery that ends.
    pub delivery: Delivery,
    /// When the message is due again, or when the dead letter died.
    pub due: Millis,
    /// The subject that it goes to.
    pub target: SubjectNumber,
    /// Whether the message is retried or becomes a dead letter there.
    pub destination: Destination<'a>,
}

/// The end of many deliveries of a consumer. A delivery that the consumer does not hold when the facts are applied
/// changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Settlement<'a> {
    /// The group.
    pub group: GroupNumber,
    /// The consumer.
    pub consumer: ConsumerNumber,
    /// Subjects whose naming facts are part of the settlement.
    pub subjects: &'a [(SubjectNumber, &'a str)],
    /// Pull offsets that are finished.
    pub done: &'a [NumberRange],
    /// Messages that continue in another subject.
    pub retried: &'a [Retried<'a>],
    /// The consumer ends, and the other messages that it holds return to the group.
    pub is_end: bool,
}

impl Settlement<'_> {
    /// Appends the records, and returns how many there are.
    pub fn encode(&self, out: &mut Vec<u8>) -> usize {
        let Self { group, consumer, .. } = *self;
        let mut count = 0_usize;
        for (number, name) in self.subjects {
            encode_subject(out, *number, name);
            count = count.saturating_add(1);
        }
        if !self.done.is_empty() {
            encode_acknowledge(out, group, consumer, self.done);
            count = count.saturating_add(1);
        }
        let retried = if self.is_end && is_on(Planted::LeaseEndIsDone) {
            let offsets = ranges_of(self.retried.iter().map(|one| one.delivery.offset.0));
            if !offsets.is_empty() {
                encode_acknowledge(out, group, consumer, &offsets);
                count = count.saturating_add(1);
            }
            &[]
        } else {
            self.retried
        };
        for one in retried {
            encode_retry(out, &retry_of(group, consumer, &one.delivery, one.due, one.target, one.destination));
            count = count.saturating_add(1);
        }
        if self.is_end {
            encode_consumer_end(out, group, consumer);
            count = count.saturating_add(1);
        }
        count
    }
}

impl Owner {
    /// Stops assigning to this consumer, since the fact that ends it is on its way into the log.
    pub fn consumer_ends(&mut self, group: GroupNumber, consumer: ConsumerNumber) {
        self.deciding.end_consumer(group, consumer);
    }

    /// Stops assigning to all consumers of this group, since the facts that end them are on their way into the log.
    pub fn consumers_end(&mut self, group: GroupNumber) {
        let Some(there) = self.state.groups.get(&group) else { return };
        for consumer in there.consumers.keys() {
            self.deciding.end_consumer(group, *consumer);
        }
    }

    /// Appends the facts that end all consumers of a group and reset the group, and returns how many facts there are.
    /// Call [`Self::consumers_end`] once the facts are on their way into the log.
    pub fn encode_reset_with_consumers(&self, group: GroupNumber, start: GroupStart, out: &mut Vec<u8>) -> usize {
        let there = self.state.groups.get(&group);
        let consumers: Vec<ConsumerNumber> =
            there.map(|there| there.consumers.keys().copied().collect()).unwrap_or_default();
        for consumer in &consumers {
            encode_consumer_end(out, group, *consumer);
        }
        encode_group_reset(out, group, start);
        consumers.len().saturating_add(1)
    }
}
