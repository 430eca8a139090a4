//! What ends many deliveries of one consumer together, and the consumer itself where that ends too: facts
//! for one submission, so that a crash leaves all of it or nothing.

use super::owner::Owner;
use super::proposing::retry_of;
use super::pull::Delivery;
use crate::record::name::{GroupStart, encode_consumer_end, encode_group_reset, encode_subject};
use crate::record::queue::{NumberRange, encode_acknowledge};
use crate::record::retry::{Destination, encode_retry};
use crate::units::{ConsumerNumber, GroupNumber, Millis, SubjectNumber};

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
        for one in self.retried {
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
