//! Tests of the queues of a subscription.

use delaymq_core::units::{ConsumerNumber, GroupNumber};

use super::*;

fn consuming(group: u32) -> GroupConsumer {
    GroupConsumer { group: GroupNumber(group), consumer: ConsumerNumber(group) }
}

fn queues(count: u32) -> Queues {
    let mut queues = Queues::default();
    for place in 0..count {
        assert_eq!(queues.add(consuming(place + 1)), place * 2);
    }
    queues
}

#[test]
fn only_woken_queues_with_a_consumer_have_a_turn() {
    let mut queues = queues(3);
    assert_eq!(queues.take_turn(), None);
    for queue in [4, 1, 0] {
        queues.wake(queue);
    }
    let turns: Vec<u32> = std::iter::from_fn(|| queues.take_turn()).map(|turn| turn.queue).collect();
    assert_eq!(turns, [4, 0], "the retries of the first subject have no consumer yet");
    queues.set_retry_group(1, GroupNumber(9));
    assert_eq!((queues.has_to_join(), queues.take_to_join()), (true, vec![(1, GroupNumber(9))]));
    queues.set_consuming(1, Some(consuming(9)));
    assert_eq!(queues.take_turn().map(|turn| (turn.queue, turn.consuming)), Some((1, consuming(9))));
    assert!(!queues.has_to_join());
}

#[test]
fn what_is_in_flight_elsewhere_is_the_sum_over_the_other_queues() {
    let mut queues = queues(3);
    for (queue, count) in [(0, 5), (2, 7), (4, 0), (0, 1)] {
        queues.note_assigned(queue, count);
        queues.wake(queue);
    }
    assert_eq!(queues.in_flight(), 13);
    let elsewhere: Vec<u64> = std::iter::from_fn(|| queues.take_turn()).map(|turn| turn.elsewhere).collect();
    assert_eq!(elsewhere, [7, 6, 13]);
    queues.look_again(|one| if one.group == GroupNumber(1) { 2 } else { 0 });
    assert_eq!(queues.in_flight(), 2);
    queues.set_consuming(0, None);
    queues.look_again(|_| 2);
    assert_eq!(queues.in_flight(), 0);
}

#[test]
fn the_group_of_retries_that_was_made_again_is_joined_again() {
    let mut queues = queues(1);
    queues.set_retry_group(1, GroupNumber(8));
    assert_eq!(queues.take_to_join(), [(1, GroupNumber(8))]);
    queues.set_consuming(1, Some(consuming(8)));
    queues.set_consuming(1, None);
    assert!(!queues.has_to_join(), "the group is gone, and there is no other");
    queues.set_retry_group(1, GroupNumber(9));
    assert_eq!(queues.take_to_join(), [(1, GroupNumber(9))]);
    queues.set_consuming(1, Some(consuming(9)));
    queues.set_retry_group(1, GroupNumber(10));
    assert!(!queues.has_to_join(), "the old one has a consumer, which does not know yet");
    queues.set_consuming(1, None);
    assert_eq!(queues.take_to_join(), [(1, GroupNumber(10))]);
    assert_eq!(queues.groups().collect::<Vec<_>>(), [GroupNumber(1), GroupNumber(10)]);
}

#[test]
fn the_group_of_retries_that_could_not_be_joined_is_joined_later() {
    let mut queues = queues(2);
    queues.set_retry_group(1, GroupNumber(8));
    queues.set_retry_group(3, GroupNumber(9));
    let taken = queues.take_to_join();
    queues.set_consuming(1, Some(consuming(8)));
    queues.join_again(&taken[1..]);
    assert_eq!(queues.take_to_join(), [(3, GroupNumber(9))]);
    assert!(!queues.has_to_join());
}

#[test]
fn deliveries_that_ended_are_taken_once_by_their_queues() {
    let mut queues = queues(2);
    for (queue, offset) in [(2, 9), (0, 4), (2, 7), (3, 1)] {
        queues.note_done(queue, offset);
    }
    let taken: Vec<_> = queues.take_settled().into_iter().map(|one| (one.group, one.acknowledged)).collect();
    assert_eq!(taken, [(GroupNumber(2), vec![7, 9]), (GroupNumber(1), vec![4])], "nobody consumes the last");
    assert!(queues.take_settled().is_empty());
}
