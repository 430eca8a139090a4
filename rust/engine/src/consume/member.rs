//! A subscription, as the store's threads see it: its consumers, the messages it holds, the deliveries it ended.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::queues::tags::Filter;
use delaymq_core::store::Delivery;
use delaymq_core::units::{ConsumerNumber, GroupNumber, SubjectNumber};

use crate::clock::consumer_presence::ConsumerPresence;
use crate::commit::waits::EventCount;
use crate::consume::delivery::{DeliveryKey, DeliveryRange};
use crate::consume::ended_deliveries::{Moved, Settled};
use crate::consume::offset_hasher::ByOffset;
use crate::held;
use crate::names::Subject;
use crate::options::SubscribeOptions;
use crate::sync::{AtomicU32, Mutex};

/// A consumer of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupConsumer {
    pub(crate) group: GroupNumber,
    pub(crate) consumer: ConsumerNumber,
}

/// A subscription consumes from two subjects.
pub(crate) const QUEUES: usize = 2;
/// The subject itself.
pub(crate) const MAIN: u8 = 0;
/// The group's retry subject.
pub(crate) const RETRY: u8 = 1;

/// The most messages that are assigned ahead for the filters to judge, in addition to those in flight.
pub(crate) const JUDGED_AHEAD_MAX: usize = 1_024;
/// The most messages that filters kept back and whose acknowledgements are on their way to the log, so that judging does
/// not wait for each write.
const PASSED_OVER_MAX: u32 = 1 << 16;

#[derive(Default)]
struct InFlight {
    consuming: [Option<GroupConsumer>; QUEUES],
    /// What the user has got and not finished.
    held: HashMap<DeliveryKey, Delivery, ByOffset>,
    /// What was assigned and is not read yet.
    unread: VecDeque<(u8, Delivery)>,
    /// How many of these a thread is reading.
    reading: usize,
    /// How many of them it may hand over. Filters keep some back.
    promised: usize,
    /// How many messages filters judged lately for each that passed; 0 before the first.
    judged_for_one: usize,
    acknowledged: [Vec<u64>; QUEUES],
    moved: [Vec<Moved>; QUEUES],
    is_listed: bool,
    starts_with: u8,
}

/// See the module.
pub(crate) struct Member {
    pub(crate) subject: Subject,
    pub(crate) retry_subject: Subject,
    pub(crate) group: Arc<str>,
    pub(crate) in_flight_max: u32,
    /// A message must pass all of these.
    pub(crate) filters: Vec<Filter>,
    pub(crate) news: EventCount,
    pub(crate) presence: ConsumerPresence,
    retry_group: AtomicU32,
    hands: Mutex<InFlight>,
}

/// Messages that a thread reads.
pub(crate) struct Unread {
    pub(crate) queue: VecDeque<(u8, Delivery)>,
    taken: usize,
    /// At most so many of them are handed over.
    pub(crate) count_max: usize,
}

/// The result of a settlement, which says whether the driver must be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Noted {
    /// Nothing in it was held.
    Nothing,
    /// Something was held, and other ended deliveries wait already.
    More,
    /// Something was held: the first since the last ones were sent.
    First,
}

impl InFlight {
    fn list(&mut self) -> Noted {
        if std::mem::replace(&mut self.is_listed, true) { Noted::More } else { Noted::First }
    }

    /// How many more messages the user may get.
    fn free(&self, in_flight_max: u32) -> usize {
        (in_flight_max as usize).saturating_sub(self.held.len().saturating_add(self.promised))
    }
}

impl Member {
    pub(crate) fn new(
        subject: Subject,
        retry_subject: Subject,
        group: &str,
        options: SubscribeOptions,
        presence: ConsumerPresence,
    ) -> Self {
        let SubscribeOptions { in_flight_max, filters, .. } = options;
        let group = Arc::from(group);
        Self {
            subject,
            retry_subject,
            group,
            in_flight_max,
            filters,
            news: EventCount::default(),
            presence,
            retry_group: AtomicU32::new(0),
            hands: Mutex::default(),
        }
    }

    /// True if this group gets the messages that this member gives back.
    pub(crate) fn retries_in(&self, subject: SubjectNumber, group: &str) -> bool {
        self.retry_subject.number == subject && &*self.group == group
    }

    /// The group of the retry subject, if it exists.
    pub(crate) fn retry_group(&self) -> Option<GroupNumber> {
        Some(GroupNumber(self.retry_group.load(Ordering::SeqCst))).filter(|group| group.0 > 0)
    }

    pub(crate) fn set_retry_group(&self, group: GroupNumber) {
        self.retry_group.store(group.0, Ordering::SeqCst);
    }

    /// True if the group of the retry subject exists and this member does not consume from it yet.
    pub(crate) fn has_retries_to_join(&self) -> bool {
        self.retry_group().is_some() && self.consuming(RETRY).is_none()
    }

    pub(crate) fn consuming(&self, queue: u8) -> Option<GroupConsumer> {
        held(&self.hands).consuming.get(usize::from(queue)).copied().flatten()
    }

    pub(crate) fn set_consuming(&self, queue: u8, consuming: Option<GroupConsumer>) {
        if let Some(slot) = held(&self.hands).consuming.get_mut(usize::from(queue)) {
            *slot = consuming;
        }
    }

    /// How many more messages to assign for a pull of `count_max`, and which queue comes first this time. For filters
    /// that pass one message of a hundred, it is a hundred for each that is wanted, up to [`JUDGED_AHEAD_MAX`]: few that
    /// pass are left over, which would wait here while other consumers of the group have nothing.
    pub(crate) fn room(&self, count_max: usize) -> (usize, u8) {
        let mut hands = held(&self.hands);
        hands.starts_with ^= 1;
        let ahead = hands.unread.len().saturating_add(hands.reading);
        let room = if self.filters.is_empty() {
            let used = hands.held.len().saturating_add(ahead);
            (self.in_flight_max as usize).saturating_sub(used).min(count_max)
        } else {
            let wanted = hands.free(self.in_flight_max).min(count_max);
            wanted.saturating_mul(hands.judged_for_one.max(1)).min(JUDGED_AHEAD_MAX.max(wanted)).saturating_sub(ahead)
        };
        (room, hands.starts_with)
    }

    /// How many messages may be assigned to this member and unfinished.
    pub(crate) fn assigned_max(&self) -> u32 {
        let ahead = if self.filters.is_empty() { 0 } else { PASSED_OVER_MAX };
        self.in_flight_max.saturating_add(ahead)
    }

    /// These were assigned; they are read next.
    pub(crate) fn assigned(&self, queue: u8, deliveries: Vec<Delivery>) {
        held(&self.hands).unread.extend(deliveries.into_iter().map(|delivery| (queue, delivery)));
    }

    /// The next ones to read, of which at most `count_max` are handed over: without filters, no more are taken. The
    /// caller gives back what it does not read.
    pub(crate) fn take_unread(&self, count_max: usize) -> Unread {
        let mut hands = held(&self.hands);
        let count_max = if self.filters.is_empty() { count_max } else { count_max.min(hands.free(self.in_flight_max)) };
        let count = match (count_max, self.filters.is_empty()) {
            (1.., false) => hands.unread.len(),
            _ => hands.unread.len().min(count_max),
        };
        let behind = hands.unread.split_off(count);
        let (queue, count_max) = (std::mem::replace(&mut hands.unread, behind), count_max.min(count));
        hands.reading = hands.reading.saturating_add(count);
        hands.promised = hands.promised.saturating_add(count_max);
        Unread { queue, taken: count, count_max }
    }

    /// True if an assigned message is not read yet.
    pub(crate) fn has_unread(&self) -> bool {
        !held(&self.hands).unread.is_empty()
    }

    /// Those of the taken messages that are still in their queue were not read: they are the next ones again. A thread
    /// that found nothing meanwhile looks again.
    pub(crate) fn unread_again(&self, unread: Unread) {
        let Unread { queue: mut unread, taken, count_max } = unread;
        let is_left = !unread.is_empty();
        let mut hands = held(&self.hands);
        hands.reading = hands.reading.saturating_sub(taken);
        hands.promised = hands.promised.saturating_sub(count_max);
        if is_left {
            unread.append(&mut hands.unread);
            hands.unread = unread;
        }
        drop(hands);
        if is_left {
            self.news.notify_all();
        }
    }

    /// The user gets these.
    pub(crate) fn hand_over(&self, deliveries: Vec<(DeliveryKey, Delivery)>) {
        if deliveries.is_empty() {
            return;
        }
        held(&self.hands).held.extend(deliveries);
        self.presence.is_at_work();
    }

    /// Filters judged so many messages, and these did not pass: they are finished for the group.
    pub(crate) fn pass_over(&self, judged: usize, passed_over: &[DeliveryKey]) -> Noted {
        let mut hands = held(&self.hands);
        let passed = judged.saturating_sub(passed_over.len());
        hands.judged_for_one = match judged.checked_div(passed) {
            Some(judged_for_one) => judged_for_one,
            None => hands.judged_for_one.saturating_mul(2).clamp(2, JUDGED_AHEAD_MAX),
        };
        for key in passed_over {
            if let Some(acknowledged) = hands.acknowledged.get_mut(usize::from(key.queue)) {
                acknowledged.push(key.offset);
            }
        }
        if passed_over.is_empty() { Noted::Nothing } else { hands.list() }
    }

    /// Notes that a held message moves to another subject.
    pub(crate) fn move_on(&self, key: DeliveryKey, moved: impl FnOnce(Delivery) -> Moved) -> Noted {
        self.presence.is_at_work();
        let mut hands = held(&self.hands);
        let Some(delivery) = hands.held.remove(&key) else { return Noted::Nothing };
        let Some(waiting) = hands.moved.get_mut(usize::from(key.queue)) else { return Noted::Nothing };
        waiting.push(moved(delivery));
        hands.list()
    }

    /// Notes acknowledgements of held messages.
    pub(crate) fn acknowledge(&self, keys: &[DeliveryKey]) -> Noted {
        self.presence.is_at_work();
        let mut hands = held(&self.hands);
        let mut any = false;
        for key in keys {
            if hands.held.remove(key).is_some()
                && let Some(acknowledged) = hands.acknowledged.get_mut(usize::from(key.queue))
            {
                acknowledged.push(key.offset);
                any = true;
            }
        }
        if any { hands.list() } else { Noted::Nothing }
    }

    /// As [`Self::acknowledge`], by ranges. The cost is bounded by the offsets in the ranges or by the held messages,
    /// whichever are fewer, however wide the ranges are and however they overlap.
    pub(crate) fn acknowledge_ranges(&self, ranges: &[DeliveryRange]) -> Noted {
        let held_count = held(&self.hands).held.len();
        let offsets = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.count));
        if offsets <= (held_count as u64).saturating_mul(2) {
            let each = ranges.iter().flat_map(|range| (0..range.count).map(|by| range.offset(by)));
            return self.acknowledge(&each.collect::<Vec<_>>());
        }
        let mut keys: Vec<DeliveryKey> = held(&self.hands).held.keys().copied().collect();
        keys.sort_unstable();
        let mut ranges = ranges.to_vec();
        ranges.sort_unstable_by_key(|range| (range.queue, range.first));
        let mut ranges = ranges.into_iter().peekable();
        // Keys behind the end of a range are not in it, but may be in a range around it.
        let mut reach: Option<DeliveryRange> = None;
        keys.retain(|key| {
            while let Some(range) = ranges.next_if(|range| (range.queue, range.first) <= (key.queue, key.offset)) {
                let is_farther = reach.is_none_or(|reach| reach.queue != range.queue || reach.end() < range.end());
                reach = if is_farther { Some(range) } else { reach };
            }
            reach.is_some_and(|reach| reach.queue == key.queue && key.offset < reach.end())
        });
        self.acknowledge(&keys)
    }

    /// Ended deliveries that are not sent.
    pub(crate) fn take_settled(&self) -> Vec<Settled> {
        let mut hands = held(&self.hands);
        hands.is_listed = false;
        let InFlight { consuming, acknowledged, moved, .. } = &mut *hands;
        let mut taken = Vec::new();
        for ((acknowledged, moved), consuming) in acknowledged.iter_mut().zip(moved).zip(consuming) {
            if let Some(GroupConsumer { group, consumer }) = *consuming
                && !(acknowledged.is_empty() && moved.is_empty())
            {
                let (mut acknowledged, moved) = (std::mem::take(acknowledged), std::mem::take(moved));
                acknowledged.sort_unstable();
                taken.push(Settled { group, consumer, acknowledged, moved });
            }
        }
        taken
    }
}

#[cfg(test)]
#[path = "member_tests.rs"]
mod tests;
