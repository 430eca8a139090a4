//! The end of a broadcast consumer. Its group is its own, so the group ends with it: with all that it did not
//! acknowledge, its retries and its dead letters.

use crate::record::name::{GroupEnd, encode_consumer_end, encode_group_end};
use crate::store::names::subject_names::{dead_letter_subject, is_of_users, retry_subject};
use crate::store::owner::Owner;
use crate::store::state::State;
use crate::units::{ConsumerNumber, GroupNumber};

/// What ends with a broadcast consumer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BroadcastEnd {
    /// Its group.
    pub group: GroupNumber,
    /// The consumer in its group, and the consumers of the same name of the group's retries and dead letters.
    pub consumers: Vec<(GroupNumber, ConsumerNumber)>,
}

impl State {
    /// What ends with this consumer. `None` if it is no broadcast consumer, or consumes a group's own subject: the
    /// consumer of the group's subject ends that one.
    pub fn broadcast_end(&self, group: GroupNumber, consumer: ConsumerNumber) -> Option<BroadcastEnd> {
        let there = self.groups.get(&group)?;
        let ending = there.consumers.get(&consumer).filter(|consumer| consumer.is_broadcast)?;
        let subject = &self.subjects.get(there.subject)?.name;
        if !is_of_users(subject) {
            return None;
        }
        let mut consumers = vec![(group, consumer)];
        for own in [retry_subject(subject, &there.name), dead_letter_subject(subject, &there.name)] {
            let own = self.subjects.number(&own).and_then(|own| self.group_named(own, &there.name));
            let own = own.and_then(|own| self.groups.get(&own));
            consumers.extend(own.and_then(|own| Some((own.number, own.consumers.named(&ending.name, true)?))));
        }
        Some(BroadcastEnd { group, consumers })
    }
}

impl BroadcastEnd {
    /// Appends the facts, and returns how many there are. The group stays if it has other consumers when they are
    /// applied: then these have its messages.
    pub fn encode(&self, out: &mut Vec<u8>) -> usize {
        for (group, consumer) in &self.consumers {
            encode_consumer_end(out, *group, *consumer);
        }
        encode_group_end(out, self.group, GroupEnd::WithItsRetries);
        self.consumers.len().saturating_add(1)
    }
}

impl Owner {
    /// Stops assigning to these consumers, since the facts that end them are on their way into the log.
    pub fn broadcast_ends(&mut self, end: &BroadcastEnd) {
        for (group, consumer) in &end.consumers {
            self.deciding.end_consumer(*group, *consumer);
        }
    }
}
