//! Tests of groups.

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
    let ranges: Vec<_> = numbers.iter().map(|(first, count)| NumberRange { first: *first, count: *count }).collect();
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
fn messages_that_expired_unassigned_do_not_bound_the_reserve() {
    let mut group = group();
    let expired = RESERVE_MAX + 100;
    group.done.insert_range(0, expired);
    reserve(&mut group, 8, expired + 8);
    assert_eq!(group.reserved_number, ReadyNumber(expired + 8));
    reserve(&mut group, 8, expired + RESERVE_MAX + 1);
    assert_eq!(group.reserved_number, ReadyNumber(expired + 8), "it is too far ahead");
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

fn ranges(numbers: &[(u64, u64)]) -> impl Iterator<Item = NumberRange> {
    numbers.iter().map(|(first, count)| NumberRange { first: *first, count: *count })
}

#[test]
fn what_filters_keep_back_is_finished_unless_a_consumer_has_it() {
    let mut group = group();
    reserve(&mut group, 8, 8);
    assign(&mut group, 0, &[(0, 2)]);
    let next = ReadyNumber(9);
    // 0 and 1 are held, and 9 is not ready yet.
    assert!(!group.pass_over(ranges(&[(0, 4), (6, u64::MAX)]), next));
    assert_eq!(group.done.all_ranges().collect::<Vec<_>>(), [(0, 0), (2, 4), (6, 9)]);
    // The cursor does not pass numbers that belong to nobody.
    assert_eq!((group.cursor, group.in_flight()), (ReadyNumber(4), 2));
    assign(&mut group, 2, &[(4, 2)]);
    assert!(!group.pass_over(ranges(&[(8, 1)]), next));
    assert_eq!((group.cursor, group.in_flight()), (ReadyNumber(9), 4));
    // Numbers that were given back belong to no consumer.
    group.end_consumer(CONSUMER, Millis(7));
    assert!(group.pass_over(ranges(&[(0, 2), (5, 1), (7, 1)]), next));
    assert_eq!(group.returned.keys().map(|number| number.0).collect::<Vec<_>>(), [4]);
    assert_eq!((group.done.below(), group.unfinished(next)), (4, 1));
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
