//! A subscription, as the store's threads see it: its consumers, the messages it holds, the deliveries it ended.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::store::Delivery;
use delaymq_core::units::{ConsumerNumber, GroupNumber, SubjectNumber};

use crate::clock::consumer_presence::ConsumerPresence;
use crate::commit::waits::EventCount;
use crate::consume::delivery::{DeliveryKey, DeliveryRange};
use crate::consume::ended_deliveries::{Moved, Settled};
use crate::consume::offset_hasher::ByOffset;
use crate::held;
use crate::names::Subject;
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

#[derive(Default)]
struct InFlight {
    consuming: [Option<GroupConsumer>; QUEUES],
    /// What the user has got and not finished.
    held: HashMap<DeliveryKey, Delivery, ByOffset>,
    /// What was assigned and is not read yet.
    unread: VecDeque<(u8, Delivery)>,
    /// How many of these a thread is reading.
    reading: usize,
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
    pub(crate) news: EventCount,
    pub(crate) presence: ConsumerPresence,
    retry_group: AtomicU32,
    hands: Mutex<InFlight>,
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
}

impl Member {
    pub(crate) fn new(
        subject: Subject,
        retry_subject: Subject,
        group: &str,
        in_flight_max: u32,
        presence: ConsumerPresence,
    ) -> Self {
        let group = Arc::from(group);
        Self {
            subject,
            retry_subject,
            group,
            in_flight_max,
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

    /// How many more messages may be handed over, and which queue comes first this time.
    pub(crate) fn room(&self) -> (usize, u8) {
        let mut hands = held(&self.hands);
        hands.starts_with ^= 1;
        let used = hands.held.len().saturating_add(hands.unread.len()).saturating_add(hands.reading);
        ((self.in_flight_max as usize).saturating_sub(used), hands.starts_with)
    }

    /// These were assigned; they are read next.
    pub(crate) fn assigned(&self, queue: u8, deliveries: Vec<Delivery>) {
        held(&self.hands).unread.extend(deliveries.into_iter().map(|delivery| (queue, delivery)));
    }

    /// The next ones to read, at most so many. The caller gives back what it does not read.
    pub(crate) fn take_unread(&self, count_max: usize) -> VecDeque<(u8, Delivery)> {
        let mut hands = held(&self.hands);
        let count = count_max.min(hands.unread.len());
        let behind = hands.unread.split_off(count);
        hands.reading = hands.reading.saturating_add(count);
        std::mem::replace(&mut hands.unread, behind)
    }

    /// True if an assigned message is not read yet.
    pub(crate) fn has_unread(&self) -> bool {
        !held(&self.hands).unread.is_empty()
    }

    /// Of so many taken messages, these were not read: they are the next ones again. A thread that found nothing
    /// meanwhile looks again.
    pub(crate) fn unread_again(&self, taken: usize, mut unread: VecDeque<(u8, Delivery)>) {
        let is_left = !unread.is_empty();
        let mut hands = held(&self.hands);
        hands.reading = hands.reading.saturating_sub(taken);
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
mod tests {
    use delaymq_core::schedule_log::Entry;
    use delaymq_core::units::{DueKey, Location, Millis, PullOffset, ReadyNumber, Sequence};

    use super::*;

    const IN_FLIGHT_MAX: u32 = 8;

    fn member() -> Member {
        let subject =
            |number, name: &str| Subject { number: SubjectNumber(number), name: Arc::from(name), needs_fact: false };
        let presence = ConsumerPresence::new(None);
        Member::new(subject(1, "orders"), subject(2, "%RETRY%orders%billing"), "billing", IN_FLIGHT_MAX, presence)
    }

    fn deliveries(first: u64, count: u64) -> Vec<Delivery> {
        let entry = |number: u64| {
            let key = DueKey { due: Millis(1), sequence: Sequence(number) };
            Entry::new(key, 1, Sequence(number), Location::NOWHERE, SubjectNumber(1))
        };
        let delivery = |number| Delivery {
            offset: PullOffset(number),
            number: ReadyNumber(number),
            entry: entry(number),
            attempt: 1,
        };
        (first..first + count).map(delivery).collect()
    }

    #[test]
    fn what_somebody_reads_takes_room_until_it_is_handed_over_or_back() {
        let member = member();
        member.assigned(MAIN, deliveries(0, 6));
        let mut unread = member.take_unread(5);
        assert_eq!((unread.len(), member.room().0), (5, 2), "one waits, and five are read");
        // Another puller meanwhile takes what is left, and no more.
        assert_eq!(member.take_unread(5).len(), 1);
        assert_eq!(member.room().0, 2);
        member.unread_again(1, VecDeque::new());
        let (queue, first) = unread.pop_front().unwrap();
        member.hand_over(vec![(DeliveryKey { queue, offset: first.offset.0 }, first)]);
        member.unread_again(5, unread);
        assert_eq!(member.room().0, 3, "one is held, four wait, and the one of the other is given up");
        let order: Vec<u64> = member.take_unread(9).iter().map(|(_, delivery)| delivery.offset.0).collect();
        assert_eq!(order, [1, 2, 3, 4]);
    }

    #[test]
    fn what_is_handed_back_is_news_for_who_found_nothing_meanwhile() {
        let member = member();
        member.assigned(MAIN, deliveries(0, 2));
        let unread = member.take_unread(2);
        let seen = member.news.count();
        assert!(!member.has_unread());
        member.unread_again(2, unread);
        assert!(member.has_unread() && member.news.count() != seen);
        let seen = member.news.count();
        let all = member.take_unread(2);
        member.unread_again(all.len(), VecDeque::new());
        assert_eq!(member.news.count(), seen, "all of it was read");
    }
}
