//! One life of a group of a subject.

use std::collections::BTreeMap;

use super::consumer::Consumers;
use super::held_runs::Held;
use super::ranges::RangeSet;
use crate::planted::{Planted, is_on};
use crate::record::queue::{Acknowledge, Assign, NumberRange, Reserve};
use crate::units::{ConsumerNumber, GroupNumber, Millis, PullOffset, ReadyNumber, SubjectNumber};

/// The most offsets and numbers that may be reserved ahead of the assigned ones.
pub const RESERVE_MAX: u64 = 1 << 20;

/// A group, as applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its number; a later group of the same name gets another one.
    pub number: GroupNumber,
    /// The subject it consumes.
    pub subject: SubjectNumber,
    /// Its name, unique in its subject.
    pub name: String,
    /// The next number that was never assigned.
    pub cursor: ReadyNumber,
    /// Numbers below this may have been handed out by assignments that a crash lost.
    pub reserved_number: ReadyNumber,
    /// Numbers below this that are assigned from the cursor are marked as redelivered.
    pub marked_below: ReadyNumber,
    /// Numbers below this may have been handed out before the group was reset: the group reads them again.
    pub again_below: ReadyNumber,
    /// The number that it began with.
    pub start: ReadyNumber,
    /// Numbers that are finished for this group. Numbers below its start count as finished.
    pub done: RangeSet,
    /// Numbers that a consumer gave back or left when it ended, with their delivery counts.
    pub returned: BTreeMap<ReadyNumber, u32>,
    /// Its consumers.
    pub consumers: Consumers,
    /// No new consumer gets an offset below this.
    pub offset_floor: PullOffset,
    /// The trusted time of the fact that last ended one of its consumers; 0 if none ended.
    pub consumer_ended: Millis,
}

/// A delivery that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The message's number in the subject.
    pub number: ReadyNumber,
    /// How often it had been delivered.
    pub deliveries: u32,
}

impl Group {
    /// A group that starts with the message `start`.
    pub fn new(
        number: GroupNumber,
        subject: SubjectNumber,
        name: &str,
        start: ReadyNumber,
        offset_floor: PullOffset,
    ) -> Self {
        Self {
            number,
            subject,
            name: name.to_owned(),
            cursor: start,
            reserved_number: start,
            marked_below: start,
            again_below: ReadyNumber(0),
            start,
            done: RangeSet::starting_at(if is_on(Planted::StartHoldsBack) { 0 } else { start.0 }),
            returned: BTreeMap::new(),
            consumers: Consumers::default(),
            offset_floor,
            consumer_ended: Millis(0),
        }
    }

    /// Applies a reserve. It changes nothing if the consumer does not exist, or if it is further ahead than
    /// [`RESERVE_MAX`].
    pub fn reserve(&mut self, reserve: &Reserve) {
        // Numbers that were finished without being assigned, as by an expiry, do not count.
        let next = ReadyNumber(self.done.end_from(self.cursor.0));
        let too_far = reserve.number_end.since(next) > RESERVE_MAX;
        if let Some(consumer) = self.consumers.get_mut(reserve.consumer)
            && reserve.offset_end.since(consumer.next_offset) <= RESERVE_MAX
            && !too_far
        {
            consumer.reserved_offset = consumer.reserved_offset.max(reserve.offset_end);
            self.reserved_number = self.reserved_number.max(reserve.number_end);
        }
    }

    /// Applies an assignment. It changes nothing if it does not continue the consumer's offsets, or exceeds the
    /// reserve.
    pub fn assign(&mut self, assign: &Assign<'_>) {
        let count = assign.numbers.iter().try_fold(0_u64, |count, range| count.checked_add(range.count));
        let end = count.and_then(|count| assign.first_offset.0.checked_add(count)).map(PullOffset);
        let (Some(end), Some(consumer)) = (end, self.consumers.get(&assign.consumer)) else { return };
        if assign.first_offset != consumer.next_offset || end > consumer.reserved_offset {
            return;
        }
        let (mut offset, mut given) = (assign.first_offset, Vec::new());
        for range in assign.numbers.iter() {
            let (mut number, range_end) = (range.first, range.first.saturating_add(range.count));
            while number < range_end {
                let (piece_end, deliveries) = self.pass(number, range_end);
                let gaps = deliveries.map(|_| self.done.gaps(number, piece_end)).unwrap_or_default();
                for (first, last) in gaps {
                    let held = Held { number: ReadyNumber(first), deliveries: deliveries.unwrap_or_default() };
                    given.push((offset.plus(first.saturating_sub(number)), held, last.saturating_sub(first)));
                }
                offset = offset.plus(piece_end.saturating_sub(number));
                number = piece_end;
            }
        }
        let Some(consumer) = self.consumers.get_mut(assign.consumer) else { return };
        for (offset, held, count) in given {
            consumer.held.append(offset, held, count);
        }
        consumer.next_offset = end;
    }

    /// Hands out the longest run of numbers from `first`, at most to `end`, that have the same delivery count.
    /// Returns the end of the run and the count, this delivery included; `None` if another consumer has them.
    fn pass(&mut self, first: u64, end: u64) -> (u64, Option<u32>) {
        if let Some(before) = self.returned.remove(&ReadyNumber(first)) {
            return (first.saturating_add(1), Some(before.saturating_add(1)));
        }
        let returned = self.returned.range(ReadyNumber(first)..).next().map(|(number, _)| number.0);
        let end = end.min(returned.unwrap_or(end));
        if first < self.cursor.0 {
            return (end.min(self.cursor.0), None);
        }
        let is_marked = first < self.marked_below.0;
        let end = if is_marked { end.min(self.marked_below.0) } else { end };
        self.cursor = ReadyNumber(end);
        (end, Some(if is_marked { 2 } else { 1 }))
    }

    /// Applies an acknowledgement; offsets that the consumer does not hold change nothing. Returns true if the
    /// floor of the finished numbers rose.
    pub fn acknowledge(&mut self, acknowledge: &Acknowledge<'_>) -> bool {
        let floor = self.done.below();
        let Some(consumer) = self.consumers.get_mut(acknowledge.consumer) else { return false };
        for range in acknowledge.offsets.iter() {
            let (first, end) = (PullOffset(range.first), PullOffset(range.first.saturating_add(range.count)));
            for (first, end) in consumer.held.take(first, end) {
                self.done.insert_range(first.0, end.0);
            }
        }
        self.done.below() > floor
    }

    /// Finishes numbers below `next` that filters did not let pass: those that were never assigned, and those that were
    /// given back. Numbers that a consumer holds change nothing. Returns true if the floor of the finished numbers rose.
    pub fn pass_over(&mut self, numbers: impl Iterator<Item = NumberRange>, next: ReadyNumber) -> bool {
        let floor = self.done.below();
        for NumberRange { first, count } in numbers {
            let end = first.saturating_add(count).min(next.0).max(first);
            let returned: Vec<u64> =
                self.returned.range(ReadyNumber(first)..ReadyNumber(end)).map(|(number, _)| number.0).collect();
            for number in returned {
                self.returned.remove(&ReadyNumber(number));
                self.done.insert(number);
            }
            self.done.insert_range(first.max(self.cursor.0), end);
            // The reserve counts from the cursor, so the cursor does not stay behind numbers that nobody gets.
            if !is_on(Planted::PassOverUncounted) {
                self.cursor = ReadyNumber(self.done.end_from(self.cursor.0));
            }
        }
        self.done.below() > floor
    }

    /// Ends one delivery, whose message continues elsewhere. `None`, and no change, if the consumer does not hold
    /// this number under this offset.
    pub fn take(&mut self, consumer: ConsumerNumber, offset: PullOffset, number: ReadyNumber) -> Option<Taken> {
        let consumer = self.consumers.get_mut(consumer)?;
        let held = consumer.held.get(offset).filter(|held| held.number == number)?;
        consumer.held.take(offset, offset.next());
        self.done.insert(number.0);
        Some(Taken { number, deliveries: held.deliveries })
    }

    /// Ends a consumer: its messages go back to the group, and its offsets are never used again. Returns true if
    /// the consumer existed. `now` is the trusted time of the fact that ends it.
    pub fn end_consumer(&mut self, consumer: ConsumerNumber, now: Millis) -> bool {
        let Some(ended) = self.consumers.remove(consumer) else { return false };
        self.returned.extend(ended.held.iter().map(|(_, held)| (held.number, held.deliveries)));
        self.offset_floor = self.offset_floor.max(ended.reserved_offset);
        self.consumer_ended = now;
        true
    }

    /// A client attached its consumer at this time. Returns the consumer's next offset.
    pub fn see_consumer(&mut self, consumer: ConsumerNumber, is_broadcast: bool, now: Millis) -> PullOffset {
        let Some(consumer) = self.consumers.get_mut(consumer) else { return PullOffset(0) };
        consumer.is_broadcast = is_broadcast;
        consumer.seen = consumer.seen.max(now);
        consumer.next_offset
    }

    /// Voids a message: no consumer of the group receives it any more.
    pub fn void(&mut self, number: ReadyNumber) {
        self.returned.remove(&number);
        for consumer in self.consumers.values_mut() {
            consumer.held.remove_number(number);
        }
        self.done.insert(number.0);
    }

    /// As [`Self::expire`], for messages that expired by their own time: held numbers are finished, too.
    pub fn drop_expired(&mut self, first: u64, end: u64, found: &mut Vec<(u64, u64)>) {
        if is_on(Planted::ExpiredStays) {
            return self.expire(first, end, found);
        }
        for consumer in self.consumers.values_mut() {
            let ranges = consumer.held.number_ranges().map(|(from, to)| from.0.max(first)..to.0.min(end));
            for number in ranges.flatten().collect::<Vec<_>>() {
                consumer.held.remove_number(ReadyNumber(number));
            }
        }
        self.expire(first, end, found);
    }

    /// An operator expires `first..end`: numbers that no consumer holds are finished. A held number stays with its
    /// consumer; if it is given back, the group receives it again. Adds the newly finished numbers to `found`.
    pub fn expire(&mut self, first: u64, end: u64, found: &mut Vec<(u64, u64)>) {
        let mut held: Vec<(u64, u64)> = self
            .consumers
            .values()
            .flat_map(|consumer| consumer.held.number_ranges().map(|(first, end)| (first.0, end.0)))
            .collect();
        held.sort_unstable();
        let mut from = first;
        for (stop, behind) in held.into_iter().chain([(end, end)]) {
            let stop = stop.min(end);
            if from < stop {
                found.extend(self.done.gaps(from, stop));
                self.done.insert_range(from, stop);
            }
            from = from.max(behind);
        }
        let done = &self.done;
        self.returned.retain(|number, _| !done.contains(number.0));
    }

    /// The number of messages below `next` that it has not finished.
    pub fn unfinished(&self, next: ReadyNumber) -> u64 {
        next.0.saturating_sub(self.done.count_below(next.0))
    }

    /// The number of messages that its consumers hold.
    pub fn in_flight(&self) -> u64 {
        self.consumers.values().map(|consumer| consumer.held.len() as u64).sum()
    }

    /// A new epoch begins. Messages that were reserved, and not assigned by a durable fact, may have been
    /// delivered: their offsets are void permanently, and their numbers are delivered again, marked.
    pub fn begin_epoch(&mut self) {
        for consumer in self.consumers.values_mut().filter(|_| !is_on(Planted::ReserveNotVoid)) {
            consumer.next_offset = consumer.reserved_offset;
        }
        if is_on(Planted::BroadcastForgotten) {
            let broadcast = self.consumers.values_mut().filter(|consumer| consumer.is_broadcast);
            for (first, end) in broadcast.flat_map(|consumer| consumer.held.take(PullOffset(0), consumer.next_offset)) {
                self.done.insert_range(first.0, end.0);
            }
        }
        if !is_on(Planted::MarkForgotten) {
            self.marked_below = self.marked_below.max(self.reserved_number);
        }
    }

    /// The highest offset that any consumer of this life may have been given, plus one.
    pub fn offset_end(&self) -> PullOffset {
        self.consumers
            .values()
            .map(|consumer| consumer.reserved_offset)
            .max()
            .unwrap_or_default()
            .max(self.offset_floor)
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
