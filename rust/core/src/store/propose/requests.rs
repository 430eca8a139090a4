//! Facts that requests of callers propose, one by one. Nothing changes before a fact is applied.

use super::proposals::Proposals;
use super::pull::Delivery;
use crate::record::command::{Void, encode_void};
use crate::record::expire::{ExpiredBy, encode_expire};
use crate::record::name::{GroupEnd, encode_consumer_end, encode_group_end, encode_subject};
use crate::record::queue::{encode_acknowledge, encode_filtered, ranges_of};
use crate::record::retry::{Destination, Retry, encode_retry};
use crate::store::owner::Owner;
use crate::units::{ConsumerNumber, GroupNumber, Millis, ReadyNumber, SubjectNumber};

/// Where a message goes when its delivery ends.
#[derive(Clone, Copy, Debug)]
pub struct RetryTarget<'a> {
    /// The subject's number.
    pub subject: SubjectNumber,
    /// Its name, if the fact that names the subject must be proposed too.
    pub name: Option<&'a str>,
    /// Whether the message is retried or becomes a dead letter there.
    pub destination: Destination<'a>,
}

impl Owner {
    /// Proposes to void a ready message whose payload is damaged.
    pub fn void_ready(&self, subject: SubjectNumber, number: ReadyNumber, proposals: &mut Proposals) {
        proposals.push(1, false, |bytes| encode_void(bytes, Void::Ready { subject, number }));
    }

    /// Proposes the end of messages that had expired when a consumer of this group was to receive them, once more if
    /// `received`. The numbers must ascend.
    pub fn drop_expired(
        (group, received): (GroupNumber, bool),
        subject: SubjectNumber,
        numbers: &[u64],
        proposals: &mut Proposals,
    ) {
        let (by, ranges) = (ExpiredBy::Themselves { group, received }, ranges_of(numbers.iter().copied()));
        proposals.push(1, false, |bytes| encode_expire(bytes, subject, by, &ranges));
    }

    /// Proposes an acknowledgement of these offsets, which must ascend.
    pub fn acknowledge(group: GroupNumber, consumer: ConsumerNumber, offsets: &[u64], proposals: &mut Proposals) {
        let ranges = ranges_of(offsets.iter().copied());
        proposals.push(1, false, |bytes| encode_acknowledge(bytes, group, consumer, &ranges));
    }

    /// Proposes the end of these offsets, which must ascend: filters did not let their messages pass.
    pub fn finish_filtered(group: GroupNumber, consumer: ConsumerNumber, offsets: &[u64], proposals: &mut Proposals) {
        let ranges = ranges_of(offsets.iter().copied());
        proposals.push(1, false, |bytes| encode_filtered(bytes, group, consumer, &ranges));
    }

    /// Proposes that a delivery ends and its message continues in the target subject: due again at `due`, or as a dead
    /// letter that died then.
    pub fn retry(
        group: GroupNumber,
        consumer: ConsumerNumber,
        delivery: &Delivery,
        due: Millis,
        target: RetryTarget<'_>,
        proposals: &mut Proposals,
    ) {
        let retry = retry_of(group, consumer, delivery, due, target.subject, target.destination);
        proposals.push(if target.name.is_some() { 2 } else { 1 }, false, |bytes| {
            if let Some(name) = target.name {
                encode_subject(bytes, target.subject, name);
            }
            encode_retry(bytes, &retry);
        });
    }

    /// Proposes a consumer's end. From now on it gets no message; the messages that it holds go to other consumers.
    pub fn end_consumer(&mut self, group: GroupNumber, consumer: ConsumerNumber, proposals: &mut Proposals) {
        self.deciding.end_consumer(group, consumer);
        proposals.push(1, false, |bytes| encode_consumer_end(bytes, group, consumer));
    }

    /// Proposes the end of every consumer that no client named. A store does this once after opening: these consumers
    /// ended with the process before.
    pub fn end_passing_consumers(&mut self, proposals: &mut Proposals) {
        let all: Vec<(GroupNumber, ConsumerNumber)> = self
            .state
            .groups
            .values()
            .flat_map(|group| group.consumers.values().map(|consumer| (group.number, consumer)))
            .filter(|(_, consumer)| !consumer.is_lasting)
            .map(|(group, consumer)| (group, consumer.number))
            .collect();
        for (group, consumer) in all {
            self.end_consumer(group, consumer, proposals);
        }
    }

    /// Proposes a group's removal, even if it has consumers. Its retries and dead letters stay.
    pub fn end_group(&mut self, group: GroupNumber, proposals: &mut Proposals) {
        self.deciding.end_group(group);
        proposals.push(1, false, |bytes| encode_group_end(bytes, group, GroupEnd::Alone));
    }
}

/// Returns the fact that ends a delivery and continues its message in the target subject.
pub(super) fn retry_of<'a>(
    group: GroupNumber,
    consumer: ConsumerNumber,
    delivery: &Delivery,
    due: Millis,
    target: SubjectNumber,
    destination: Destination<'a>,
) -> Retry<'a> {
    let attempt = match destination {
        Destination::Again => delivery.attempt.saturating_add(1),
        Destination::DeadLetter { .. } => delivery.attempt,
        // This delivery reached no consumer; one under the same assignment may have.
        Destination::Expired { received } => delivery.attempt.saturating_sub(1).max(u32::from(received)),
    };
    Retry {
        group,
        consumer,
        offset: delivery.offset,
        number: delivery.number,
        due,
        target,
        attempt,
        payload_sequence: delivery.entry.payload_sequence(),
        size: delivery.entry.size(),
        destination,
    }
}
