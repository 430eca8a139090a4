//! What ends many deliveries of one consumer together, and the consumer itself where that ends too: facts
//! for one submission, so that a crash leaves all of it or nothing.

use super::pull::Delivery;
use super::requests::retry_of;
use crate::planted::{Planted, is_on};
use crate::record::name::{GroupStart, encode_consumer_end, encode_group_reset, encode_subject};
use crate::record::queue::ranges_of;
use crate::record::queue::{NumberRange, encode_acknowledge};
use crate::record::retry::{Destination, encode_retry};
use crate::store::owner::Owner;
use crate::units::{ConsumerNumber, GroupNumber, Millis, SubjectNumber};

/// What becomes of messages that a consumer does not finish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryRule {
    /// The group gets it again after so many milliseconds.
    pub delay_ms: u64,
    /// One that was delivered so often is a dead letter instead.
    pub attempts_max: u32,
    /// Why it is one; how often it was delivered, where nothing stands here.
    pub reason: Option<&'static str>,
}

impl Default for RetryRule {
    /// QMQ's: after 5 s, 32 times.
    fn default() -> Self {
        Self { delay_ms: 5_000, attempts_max: 32, reason: None }
    }
}

/// Where the deliveries of one settlement go on.
#[derive(Clone, Copy, Debug)]
pub struct RetryPlaces<'a> {
    /// What decides.
    pub rule: RetryRule,
    /// The trusted time.
    pub now: Millis,
    /// The time from which delays count, which may be later.
    pub from: Millis,
    /// What is to come again goes here.
    pub again: SubjectNumber,
    /// Dead letters go here; `None` where there are none.
    pub dead: Option<SubjectNumber>,
    /// Why they died.
    pub reason: &'a str,
}

impl<'a> RetryPlaces<'a> {
    /// True where this delivery was its message's last.
    pub fn is_dead(&self, delivery: &Delivery) -> bool {
        self.dead.is_some() && delivery.attempt >= self.rule.attempts_max
    }

    /// Where this delivery goes on, and when.
    pub fn retried(&self, delivery: &Delivery) -> Retried<'a> {
        let delivery = *delivery;
        if let Some(target) = self.dead.filter(|_| self.is_dead(&delivery)) {
            let destination = Destination::DeadLetter { reason: self.reason };
            return Retried { delivery, due: self.now, target, destination };
        }
        let due = if self.rule.delay_ms == 0 { self.now } else { self.from.plus(self.rule.delay_ms) };
        Retried { delivery, due, target: self.again, destination: Destination::Again }
    }
}

/// A message that goes on as one of another subject.
#[derive(Clone, Copy, Debug)]
pub struct Retried<'a> {
    /// The delivery that ends.
    pub delivery: Delivery,
    /// When it is due again; of a dead letter, when it died.
    pub due: Millis,
    /// The subject that it goes to.
    pub target: SubjectNumber,
    /// What becomes of it there.
    pub destination: Destination<'a>,
}

/// See the module. What the consumer does not hold when it is applied changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Settlement<'a> {
    /// The group.
    pub group: GroupNumber,
    /// The consumer.
    pub consumer: ConsumerNumber,
    /// Subjects whose facts must go along.
    pub subjects: &'a [(SubjectNumber, &'a str)],
    /// Pull offsets that are finished.
    pub done: &'a [NumberRange],
    /// Messages that go on.
    pub retried: &'a [Retried<'a>],
    /// The consumer ends: whatever else it holds is its group's again.
    pub is_end: bool,
}

impl Settlement<'_> {
    /// Appends its records; how many there are.
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
    /// The end of this consumer is on its way into the log: nothing is assigned to it any more.
    pub fn consumer_ends(&mut self, group: GroupNumber, consumer: ConsumerNumber) {
        self.deciding.end_consumer(group, consumer);
    }

    /// The end of all consumers of this group is on its way into the log: nothing is assigned to them any
    /// more.
    pub fn consumers_end(&mut self, group: GroupNumber) {
        let Some(there) = self.state.groups.get(&group) else { return };
        for consumer in there.consumers.keys() {
            self.deciding.end_consumer(group, *consumer);
        }
    }

    /// Appends the facts by which all consumers of a group end and it begins anew; how many there are.
    /// Once they are on their way into the log, [`Self::consumers_end`] is to be called.
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
