//! A subscription, as the store's threads see it: its consumers, the messages it holds, the deliveries it ended.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::queues::holds::Holds;
use delaymq_core::queues::tags::Filter;
use delaymq_core::record::limits::at_most;
use delaymq_core::store::{Delivery, SUBJECTS_MAX, Selection};
use delaymq_core::units::GroupNumber;

use crate::clock::consumer_presence::ConsumerPresence;
use crate::commit::waits::EventCount;
use crate::consume::delivery::{DeliveryKey, DeliveryRange};
use crate::consume::ended_deliveries::{Moved, Settled};
use crate::consume::offset_hasher::ByOffset;
use crate::consume::queues::{Queues, Turn, place_of};
use crate::held;
use crate::names::Subject;
use crate::options::SubscribeOptions;
use crate::sync::{Instant, Mutex};

pub(crate) use crate::consume::queues::{GroupConsumer, MAIN};

/// The most messages that are assigned ahead for the filters to judge, in addition to those in flight.
pub(crate) const JUDGED_AHEAD_MAX: usize = 1_024;
/// The most messages that filters kept back and whose acknowledgements are on their way to the log, so that judging does
/// not wait for each write.
const PASSED_OVER_MAX: u32 = 1 << 16;
/// So long after it joined something, a member that finds messages joins nothing more.
const JOIN_PAUSE: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct InFlight {
    pub(super) queues: Queues,
    /// What the user has got and not finished.
    pub(super) held: HashMap<DeliveryKey, Delivery, ByOffset>,
    /// Until when the user may keep them, if there is a limit.
    pub(super) holds: Option<Holds<DeliveryKey>>,
    /// What was assigned and is not read yet.
    unread: VecDeque<(u32, Delivery)>,
    /// How many of these a thread is reading.
    reading: usize,
    /// How many of them it may hand over. Filters keep some back.
    promised: usize,
    /// How many messages filters judged lately for each that passed; 0 before the first.
    judged_for_one: usize,
    is_listed: bool,
    /// Subjects that were made since the subscription began, and that its prefix selects.
    met: Vec<String>,
    /// How many subjects its selection has: those from the beginning, and those that were met.
    selected: usize,
    /// When it last joined something.
    joined: Option<Instant>,
}

/// A subject that a member consumes.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) subject: Subject,
    pub(crate) retry_subject: Subject,
}

/// See the module.
pub(crate) struct Member {
    pub(crate) selection: Selection,
    pub(crate) group: Arc<str>,
    pub(crate) in_flight_max: u32,
    /// A message must pass all of these.
    pub(crate) filters: Vec<Filter>,
    /// The time for which the user may have a message is limited.
    pub(crate) is_limited: bool,
    pub(crate) news: EventCount,
    pub(crate) presence: ConsumerPresence,
    /// Its subjects, in the order of their queues. There may be more later, and none goes away.
    places: Mutex<Arc<Vec<Arc<Place>>>>,
    pub(super) hands: Mutex<InFlight>,
}

/// Messages that a thread reads.
pub(crate) struct Unread {
    pub(crate) queue: VecDeque<(u32, Delivery)>,
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
    pub(super) fn list(&mut self) -> Noted {
        if std::mem::replace(&mut self.is_listed, true) { Noted::More } else { Noted::First }
    }

    /// Ends a delivery; `None` if it is not held any more.
    fn end(&mut self, key: DeliveryKey) -> Option<Delivery> {
        if let Some(holds) = &mut self.holds {
            holds.end(key);
        }
        self.held.remove(&key)
    }

    /// How many more messages the user may get.
    fn free(&self, in_flight_max: u32) -> usize {
        (in_flight_max as usize).saturating_sub(self.held.len().saturating_add(self.promised))
    }
}

impl Member {
    /// A member without a subject.
    pub(crate) fn new(
        selection: Selection,
        group: &str,
        options: SubscribeOptions,
        presence: ConsumerPresence,
    ) -> Self {
        let SubscribeOptions { in_flight_max, filters, handle_within_ms, start: _ } = options;
        let (group, holds) = (Arc::from(group), handle_within_ms.map(Holds::new));
        Self {
            selection,
            group,
            in_flight_max,
            filters,
            is_limited: holds.is_some(),
            news: EventCount::default(),
            presence,
            places: Mutex::default(),
            hands: Mutex::new(InFlight { holds, ..InFlight::default() }),
        }
    }

    /// Adds subjects, each with its consumer. Returns their queues.
    pub(crate) fn add(&self, added: impl IntoIterator<Item = (Place, GroupConsumer)>) -> Vec<u32> {
        let mut hands = held(&self.hands);
        let mut places = held(&self.places);
        let list = Arc::make_mut(&mut places);
        let added = added.into_iter().map(|(place, consuming)| {
            list.push(Arc::new(place));
            hands.queues.add(consuming)
        });
        added.collect()
    }

    /// Its subjects, in the order of their queues.
    pub(crate) fn places(&self) -> Arc<Vec<Arc<Place>>> {
        Arc::clone(&held(&self.places))
    }

    /// The subject that this queue belongs to.
    pub(crate) fn place(&self, queue: u32) -> Option<Arc<Place>> {
        held(&self.places).get(place_of(queue)).cloned()
    }

    /// The selection has so many subjects at the beginning.
    pub(crate) fn begins_with(&self, count: usize) {
        held(&self.hands).selected = count;
    }

    /// A subject was made that the prefix selects. None beyond the limit is joined.
    pub(crate) fn meet(&self, name: &str) {
        let mut hands = held(&self.hands);
        hands.selected = hands.selected.saturating_add(1);
        if hands.selected <= SUBJECTS_MAX {
            hands.met.push(name.to_owned());
        }
    }

    /// These subjects, which were met before, are to be joined after all.
    pub(crate) fn meet_again(&self, names: impl Iterator<Item = String>) {
        held(&self.hands).met.extend(names);
    }

    /// Fails with `TooLarge` naming `subjects` if the prefix selects too many.
    pub(crate) fn check_selected(&self) -> Result<()> {
        at_most("subjects", SUBJECTS_MAX, held(&self.hands).selected)
    }

    /// True if a thread that may wait must join something, before it waits for messages.
    pub(crate) fn has_to_join(&self) -> bool {
        let hands = held(&self.hands);
        !hands.met.is_empty() || hands.selected > SUBJECTS_MAX || hands.queues.has_to_join()
    }

    /// True if it must join something before it looks for messages. While these come, it does so once in a while for
    /// all that was made since: each time waits for two syncs.
    pub(crate) fn has_to_join_first(&self) -> bool {
        self.has_to_join() && held(&self.hands).joined.is_none_or(|joined| joined.elapsed() >= JOIN_PAUSE)
    }

    /// It has joined what was there.
    pub(crate) fn joined(&self) {
        held(&self.hands).joined = Some(Instant::now());
    }

    /// Takes the subjects that were made since.
    pub(crate) fn take_met(&self) -> Vec<String> {
        std::mem::take(&mut held(&self.hands).met)
    }

    /// Calls `look` with the queues.
    pub(crate) fn with_queues<T>(&self, look: impl FnOnce(&mut Queues) -> T) -> T {
        look(&mut held(&self.hands).queues)
    }

    /// All consumers.
    pub(crate) fn consuming(&self) -> Vec<GroupConsumer> {
        self.with_queues(|queues| queues.consuming().collect())
    }

    /// The group of a retry subject, if it exists.
    pub(crate) fn retry_group(&self, queue: u32) -> Option<GroupNumber> {
        self.with_queues(|queues| queues.retry_group(queue))
    }

    /// The queue may have messages.
    pub(crate) fn wake(&self, queue: u32) {
        self.with_queues(|queues| queues.wake(queue));
    }

    /// Takes the queue whose turn it is.
    pub(crate) fn take_turn(&self) -> Option<Turn> {
        self.with_queues(Queues::take_turn)
    }

    /// How many more messages to assign for a pull of `count_max`. For filters
    /// that pass one message of a hundred, it is a hundred for each that is wanted, up to [`JUDGED_AHEAD_MAX`]: few that
    /// pass are left over, which would wait here while other consumers of the group have nothing.
    pub(crate) fn room(&self, count_max: usize) -> usize {
        let hands = held(&self.hands);
        let ahead = hands.unread.len().saturating_add(hands.reading);
        if self.filters.is_empty() {
            let used = hands.held.len().saturating_add(ahead);
            (self.in_flight_max as usize).saturating_sub(used).min(count_max)
        } else {
            let wanted = hands.free(self.in_flight_max).min(count_max);
            wanted.saturating_mul(hands.judged_for_one.max(1)).min(JUDGED_AHEAD_MAX.max(wanted)).saturating_sub(ahead)
        }
    }

    /// How many messages may be assigned to this member and unfinished.
    pub(crate) fn assigned_max(&self) -> u32 {
        let ahead = if self.filters.is_empty() { 0 } else { PASSED_OVER_MAX };
        self.in_flight_max.saturating_add(ahead)
    }

    /// These were assigned. They are read next, and the queue may have more.
    pub(crate) fn assigned(&self, queue: u32, deliveries: Vec<Delivery>) {
        let mut hands = held(&self.hands);
        hands.queues.note_assigned(queue, deliveries.len() as u64);
        hands.unread.extend(deliveries.into_iter().map(|delivery| (queue, delivery)));
        hands.queues.wake(queue);
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
            hands.queues.note_filtered(key.queue, key.offset);
        }
        if passed_over.is_empty() { Noted::Nothing } else { hands.list() }
    }

    /// Notes that a held message moves to another subject.
    pub(crate) fn move_on(&self, key: DeliveryKey, moved: impl FnOnce(Delivery) -> Moved) -> Noted {
        self.presence.is_at_work();
        let mut hands = held(&self.hands);
        let Some(delivery) = hands.end(key) else { return Noted::Nothing };
        hands.queues.note_moved(key.queue, moved(delivery));
        hands.list()
    }

    /// Notes acknowledgements of held messages. Returns also the places of those that are not held, if that is limited.
    pub(crate) fn acknowledge(&self, keys: &[DeliveryKey]) -> (Noted, Vec<usize>) {
        self.presence.is_at_work();
        let mut hands = held(&self.hands);
        let (mut any, mut late) = (false, Vec::new());
        for (place, key) in keys.iter().enumerate() {
            if hands.end(*key).is_some() {
                hands.queues.note_done(key.queue, key.offset);
                any = true;
            } else if self.is_limited {
                late.push(place);
            }
        }
        (if any { hands.list() } else { Noted::Nothing }, late)
    }

    /// As [`Self::acknowledge`], by ranges. The cost is bounded by the offsets in the ranges or by the held messages,
    /// whichever are fewer, however wide the ranges are and however they overlap.
    pub(crate) fn acknowledge_ranges(&self, ranges: &[DeliveryRange]) -> Noted {
        let held_count = held(&self.hands).held.len();
        let offsets = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.count));
        if offsets <= (held_count as u64).saturating_mul(2) {
            let each = ranges.iter().flat_map(|range| (0..range.count).map(|by| range.offset(by)));
            return self.acknowledge(&each.collect::<Vec<_>>()).0;
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
        self.acknowledge(&keys).0
    }

    /// Ended deliveries that are not sent.
    pub(crate) fn take_settled(&self) -> Vec<Settled> {
        let mut hands = held(&self.hands);
        hands.is_listed = false;
        hands.queues.take_settled()
    }
}

#[cfg(test)]
#[path = "member_tests.rs"]
mod tests;
