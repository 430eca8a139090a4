//! A consumer group in plain sets.

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::record::attach::Attach;
use delaymq_core::record::queue::{Acknowledge, Assign, PassOver, Reserve};
use delaymq_core::units::{ConsumerNumber, SubjectNumber};

/// The furthest that numbers and offsets may be reserved ahead.
const RESERVE_MAX: u64 = 1 << 20;

/// A delivery: the number of the message, and how often it was handed over.
pub(super) type Hand = (u64, u32);

/// A consumer.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) name: String,
    /// A client named it.
    pub(super) is_lasting: bool,
    /// It has the group for itself.
    pub(super) is_broadcast: bool,
    pub(super) next_offset: u64,
    pub(super) reserved: u64,
    pub(super) held: BTreeMap<u64, Hand>,
}

/// A group and its consumers.
#[derive(Clone, Debug)]
pub(super) struct Members {
    pub(super) subject: SubjectNumber,
    pub(super) name: String,
    pub(super) start: u64,
    /// The next number that no consumer was given.
    pub(super) cursor: u64,
    pub(super) reserved: u64,
    /// New numbers below this may have been handed over before a crash.
    pub(super) marked_below: u64,
    /// Numbers below this may have been handed over before a reset.
    pub(super) again_below: u64,
    /// Finished numbers, from the start on.
    pub(super) finished: BTreeSet<u64>,
    lowest: u64,
    pub(super) returned: BTreeMap<u64, u32>,
    pub(super) consumers: BTreeMap<ConsumerNumber, Place>,
    used_offsets: u64,
}

impl Members {
    pub(super) fn new(subject: SubjectNumber, name: &str, start: u64, used: u64, gone: &BTreeSet<u64>) -> Self {
        Self {
            subject,
            name: name.to_owned(),
            start,
            cursor: start,
            reserved: start,
            marked_below: start,
            again_below: 0,
            finished: gone.range(start..).copied().collect(),
            lowest: start,
            returned: BTreeMap::new(),
            consumers: BTreeMap::new(),
            used_offsets: used,
        }
    }

    /// Continues a group that was reset: numbers that it may have handed over are marked.
    pub(super) fn go_on_from(&mut self, before: &Self) {
        self.again_below = before.again_below.max(before.reserved);
    }

    pub(super) fn is_finished(&self, number: u64) -> bool {
        number < self.start || self.finished.contains(&number)
    }

    pub(super) fn lowest_unfinished(&mut self) -> u64 {
        while self.finished.contains(&self.lowest) {
            self.lowest += 1;
        }
        self.lowest
    }

    pub(super) fn has_consumers(&self) -> bool {
        !self.consumers.is_empty()
    }

    pub(super) fn offsets_used(&self) -> u64 {
        self.consumers.values().map(|place| place.reserved).fold(self.used_offsets, u64::max)
    }

    /// False if there is a consumer of this name.
    pub(super) fn begin_consumer(&mut self, number: ConsumerNumber, name: &str, is_lasting: bool) -> bool {
        if self.consumers.values().any(|place| place.name == name && place.is_lasting == is_lasting) {
            return false;
        }
        let first = self.used_offsets;
        let place = Place {
            name: name.to_owned(),
            is_lasting,
            is_broadcast: false,
            next_offset: first,
            reserved: first,
            held: BTreeMap::new(),
        };
        self.consumers.insert(number, place);
        true
    }

    pub(super) fn end_consumer(&mut self, consumer: ConsumerNumber) {
        if let Some(ended) = self.consumers.remove(&consumer) {
            self.returned.extend(ended.held.into_values());
            self.used_offsets = self.used_offsets.max(ended.reserved);
        }
    }

    pub(super) fn reserve(&mut self, reserve: &Reserve) {
        let Some(place) = self.consumers.get_mut(&reserve.consumer) else { return };
        let (offset, number) = (reserve.offset_end.0, reserve.number_end.0);
        let mut next = self.cursor;
        while self.finished.contains(&next) {
            next += 1;
        }
        if offset <= place.next_offset + RESERVE_MAX && number <= next + RESERVE_MAX {
            place.reserved = place.reserved.max(offset);
            self.reserved = self.reserved.max(number);
        }
    }

    /// The client of a consumer was seen. Reserves a block for the consumer.
    pub(super) fn see(&mut self, attach: &Attach<'_>) {
        let is_it = |place: &&mut Place| place.is_lasting && place.name == attach.consumer;
        let Some(place) = self.consumers.values_mut().find(is_it) else { return };
        place.is_broadcast = attach.is_broadcast;
        let block = u64::from(attach.block);
        if block <= RESERVE_MAX {
            place.reserved = place.reserved.max(place.next_offset + block);
            self.reserved = self.reserved.max(self.cursor + block);
        }
    }

    /// Each number takes the next offset, also if it is finished.
    pub(super) fn assign(&mut self, assign: &Assign<'_>) {
        let numbers: Vec<u64> =
            assign.numbers.iter().flat_map(|range| range.first..range.first.saturating_add(range.count)).collect();
        let Some(place) = self.consumers.get_mut(&assign.consumer) else { return };
        let end = assign.first_offset.0 + numbers.len() as u64;
        if assign.first_offset.0 != place.next_offset || end > place.reserved {
            return;
        }
        for (offset, number) in (place.next_offset..).zip(numbers) {
            let hand_over = match self.returned.remove(&number) {
                Some(before) => before + 1,
                None if number < self.cursor => continue,
                None if number < self.marked_below => 2,
                None => 1,
            };
            self.cursor = self.cursor.max(number + 1);
            if number >= self.start && !self.finished.contains(&number) {
                place.held.insert(offset, (number, hand_over));
            }
        }
        place.next_offset = end;
    }

    pub(super) fn acknowledge(&mut self, done: &Acknowledge<'_>) {
        let Some(place) = self.consumers.get_mut(&done.consumer) else { return };
        for range in done.offsets.iter() {
            let named = range.first..range.first.saturating_add(range.count);
            let finished = &mut self.finished;
            place.held.retain(|offset, (number, _)| !(named.contains(offset) && finished.insert(*number)));
        }
    }

    /// Numbers below `ready` that belong to nobody are finished. The cursor passes those in front of it.
    pub(super) fn pass_over(&mut self, passed_over: &PassOver<'_>, ready: u64) {
        if !self.consumers.contains_key(&passed_over.consumer) {
            return;
        }
        for range in passed_over.numbers.iter() {
            let cursor = self.cursor;
            for number in range.first..range.first.saturating_add(range.count).min(ready) {
                if self.returned.remove(&number).is_some() || number >= cursor {
                    self.finished.insert(number);
                }
            }
            while self.finished.contains(&self.cursor) {
                self.cursor += 1;
            }
        }
    }

    /// Takes a delivery from its consumer. False if the consumer does not have it.
    pub(super) fn takes(&mut self, consumer: ConsumerNumber, offset: u64, number: u64) -> bool {
        let Some(place) = self.consumers.get_mut(&consumer) else { return false };
        if place.held.get(&offset).is_none_or(|(held, _)| *held != number) {
            return false;
        }
        place.held.remove(&offset);
        self.finished.insert(number);
        true
    }

    /// Voids a number: no consumer of the group gets it any more.
    pub(super) fn give_up(&mut self, number: u64) {
        self.returned.remove(&number);
        for place in self.consumers.values_mut() {
            place.held.retain(|_, (held, _)| *held != number);
        }
        if number >= self.start {
            self.finished.insert(number);
        }
    }

    /// Voids a number unless a consumer holds it.
    pub(super) fn expire(&mut self, number: u64) {
        let is_held = self.consumers.values().any(|place| place.held.values().any(|(held, _)| *held == number));
        if !is_held {
            self.give_up(number);
        }
    }

    /// Reserved offsets that were not used are void, and reserved numbers are marked.
    pub(super) fn begin_epoch(&mut self) {
        for place in self.consumers.values_mut() {
            place.next_offset = place.reserved;
        }
        self.marked_below = self.marked_below.max(self.reserved);
    }
}
