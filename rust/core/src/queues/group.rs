//! One life of a group of a subject.

use std::collections::BTreeMap;

use super::consumer::Consumers;
use super::held_runs::Held;
use super::ranges::RangeSet;
use crate::planted::{Planted, is_on};
use crate::record::queue::{Acknowledge, Assign, Reserve};
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
        let too_far = reserve.number_end.since(self.cursor) > RESERVE_MAX;
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
mod tests {
    use super::*;
    use crate::queues::Consumer;
    use crate::record::queue::{NumberRange, decode_acknowledge, decode_assign, encode_acknowledge, encode_assign};
    use crate::record::{header::read_record, seal_record};
    use crate::units::Sequence;

    const CONSUMER: ConsumerNumber = ConsumerNumber(1);

    fn group() -> Group {
        let mut group = Group::new(GroupNumber(1), SubjectNumber(1), "billing", ReadyNumber(0), PullOffset(0));
        group.consumers.add(Consumer::new(CONSUMER, "a", PullOffset(0)));
        group
    }

    fn reserve(group: &mut Group, offset_end: u64, number_end: u64) {
        group.reserve(&Reserve {
            group: group.number,
            consumer: CONSUMER,
            offset_end: PullOffset(offset_end),
            number_end: ReadyNumber(number_end),
        });
    }

    fn assign(group: &mut Group, first_offset: u64, numbers: &[(u64, u64)]) {
        let ranges: Vec<_> =
            numbers.iter().map(|(first, count)| NumberRange { first: *first, count: *count }).collect();
        let mut bytes = Vec::new();
        encode_assign(&mut bytes, group.number, CONSUMER, PullOffset(first_offset), &ranges);
        seal_record(&mut bytes, Sequence(1)).unwrap();
        group.assign(&decode_assign(&read_record(&bytes, Sequence(1)).unwrap()).unwrap());
    }

    fn acknowledge(group: &mut Group, first: u64, count: u64) -> bool {
        let mut bytes = Vec::new();
        encode_acknowledge(&mut bytes, group.number, CONSUMER, &[NumberRange { first, count }]);
        seal_record(&mut bytes, Sequence(1)).unwrap();
        group.acknowledge(&decode_acknowledge(&read_record(&bytes, Sequence(1)).unwrap()).unwrap())
    }

    #[test]
    fn what_is_acknowledged_is_done_and_the_rest_is_held() {
        let mut group = group();
        reserve(&mut group, 4, 4);
        assign(&mut group, 0, &[(0, 3)]);
        assert!(!acknowledge(&mut group, 1, 1));
        assert!(acknowledge(&mut group, 0, 1));
        assert_eq!(group.done.below(), 2);
        assert_eq!(group.consumers[&CONSUMER].held.len(), 1);
    }

    #[test]
    fn offsets_that_follow_each_other_are_done_by_their_own_numbers() {
        let mut group = group();
        reserve(&mut group, 8, 8);
        // Numbers 4 and 5 were assigned before 1; no consumer got 2 and 3.
        assign(&mut group, 0, &[(0, 1), (4, 2)]);
        assert!(acknowledge(&mut group, 0, 3));
        assert_eq!(group.done.all_ranges().collect::<Vec<_>>(), [(0, 1), (4, 6)]);
        assign(&mut group, 3, &[(6, 2)]);
        // An offset that is not the lowest held, and more offsets than it holds.
        assert!(!acknowledge(&mut group, 4, 9));
        assert_eq!(group.done.all_ranges().collect::<Vec<_>>(), [(0, 1), (4, 6), (7, 8)]);
        assert_eq!(group.consumers[&CONSUMER].held.iter().map(|(offset, _)| offset.0).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn an_acknowledgement_of_a_void_offset_completes_nothing() {
        let mut group = group();
        reserve(&mut group, 4, 4);
        assign(&mut group, 0, &[(0, 1)]);
        // Offsets 1 to 3 were handed out by an assignment that a power cut lost.
        group.begin_epoch();
        reserve(&mut group, 8, 4);
        assign(&mut group, 4, &[(1, 3)]);
        assert!(!acknowledge(&mut group, 1, 3));
        assert_eq!(group.consumers[&CONSUMER].held.len(), 4);
        assert!(group.consumers[&CONSUMER].held.iter_from(PullOffset(4)).all(|(_, held)| held.deliveries == 2));
    }

    #[test]
    fn an_assignment_beyond_the_reserve_changes_nothing() {
        let mut group = group();
        reserve(&mut group, 2, 2);
        let before = group.clone();
        assign(&mut group, 0, &[(0, 3)]);
        assign(&mut group, 1, &[(0, 1)]);
        assert_eq!(group, before);
    }

    #[test]
    fn what_an_ended_consumer_held_comes_again_marked() {
        let mut group = group();
        reserve(&mut group, 4, 4);
        assign(&mut group, 0, &[(0, 2)]);
        assert!(group.end_consumer(CONSUMER, Millis(7)));
        assert_eq!(group.consumer_ended, Millis(7));
        assert_eq!(group.returned.len(), 2);
        group.consumers.add(Consumer::new(CONSUMER, "a", group.offset_floor));
        reserve(&mut group, 8, 4);
        assign(&mut group, 4, &[(0, 1)]);
        assert_eq!(group.consumers[&CONSUMER].held.get(PullOffset(4)).unwrap().deliveries, 2);
    }

    #[test]
    fn a_message_that_expired_by_itself_is_finished_in_its_hand_too() {
        let mut group = group();
        reserve(&mut group, 8, 8);
        assign(&mut group, 0, &[(0, 4)]);
        let mut found = Vec::new();
        group.drop_expired(1, 3, &mut found);
        assert_eq!((found, group.in_flight()), (vec![(1, 3)], 2));
        let mut again = Vec::new();
        group.drop_expired(0, 6, &mut again);
        assert_eq!((again, group.in_flight(), group.done.below()), (vec![(0, 1), (3, 6)], 0, 6));
    }

    #[test]
    fn an_expiry_finishes_what_nobody_holds_and_leaves_what_is_in_a_hand() {
        let mut group = group();
        reserve(&mut group, 8, 8);
        assign(&mut group, 0, &[(0, 4)]);
        assert!(!acknowledge(&mut group, 1, 1));
        let mut found = Vec::new();
        group.expire(0, 6, &mut found);
        assert_eq!(found, [(4, 6)]);
        assert_eq!((group.in_flight(), group.unfinished(ReadyNumber(6))), (3, 3));
        // Its acknowledgement still works, and a number that is given back is the group's again.
        acknowledge(&mut group, 0, 1);
        assert_eq!(group.done.below(), 2);
        group.end_consumer(CONSUMER, Millis(7));
        assert_eq!(group.returned.keys().map(|number| number.0).collect::<Vec<_>>(), [2, 3]);
        found.clear();
        group.expire(0, 6, &mut found);
        assert_eq!((found, group.returned.len(), group.done.below()), (vec![(2, 4)], 0, 6));
    }

    #[test]
    fn a_retry_of_what_another_holds_changes_nothing() {
        let mut group = group();
        reserve(&mut group, 4, 4);
        assign(&mut group, 0, &[(0, 2)]);
        assert_eq!(group.take(CONSUMER, PullOffset(0), ReadyNumber(1)), None);
        assert_eq!(group.take(CONSUMER, PullOffset(0), ReadyNumber(0)).unwrap().deliveries, 1);
        assert_eq!(group.take(CONSUMER, PullOffset(0), ReadyNumber(0)), None);
    }
}
