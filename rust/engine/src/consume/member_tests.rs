//! Tests of members.

use delaymq_core::error::Error;
use delaymq_core::queues::tags::AttributeRule;
use delaymq_core::schedule_log::Entry;
use delaymq_core::units::{ConsumerNumber, DueKey, Location, Millis, PullOffset, ReadyNumber, Sequence, SubjectNumber};

use super::*;

const IN_FLIGHT_MAX: u32 = 8;

fn member() -> Member {
    member_with(Vec::new())
}

fn member_with(filters: Vec<Filter>) -> Member {
    let subject =
        |number, name: &str| Subject { number: SubjectNumber(number), name: Arc::from(name), needs_fact: false };
    let presence = ConsumerPresence::new(None);
    let options = SubscribeOptions { in_flight_max: IN_FLIGHT_MAX, filters, ..SubscribeOptions::default() };
    let member = Member::new(Selection::of(&["orders"]).unwrap(), "billing", options, presence);
    let place = Place { subject: subject(1, "orders"), retry_subject: subject(2, "%RETRY%orders%billing") };
    let consuming = GroupConsumer { group: GroupNumber(1), consumer: ConsumerNumber(1) };
    assert_eq!(member.add([(place, consuming)]), [MAIN]);
    member
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
        is_again: false,
    };
    (first..first + count).map(delivery).collect()
}

#[test]
fn what_somebody_reads_takes_room_until_it_is_handed_over_or_back() {
    let member = member();
    member.assigned(MAIN, deliveries(0, 6));
    let mut unread = member.take_unread(5);
    assert_eq!((unread.queue.len(), member.room(9)), (5, 2), "one waits, and five are read");
    // Another puller meanwhile takes what is left, and no more.
    let one = member.take_unread(5);
    assert_eq!(one.queue.len(), 1);
    assert_eq!(member.room(9), 2);
    member.unread_again(Unread { queue: VecDeque::new(), ..one });
    let (queue, first) = unread.queue.pop_front().unwrap();
    member.hand_over(vec![(DeliveryKey { queue, offset: first.offset.0 }, first)]);
    member.unread_again(unread);
    assert_eq!(member.room(9), 3, "one is held, four wait, and the one of the other is given up");
    let order: Vec<u64> = member.take_unread(9).queue.iter().map(|(_, delivery)| delivery.offset.0).collect();
    assert_eq!(order, [1, 2, 3, 4]);
}

#[test]
fn what_is_handed_back_is_news_for_who_found_nothing_meanwhile() {
    let member = member();
    member.assigned(MAIN, deliveries(0, 2));
    let unread = member.take_unread(2);
    let seen = member.news.count();
    assert!(!member.has_unread());
    member.unread_again(unread);
    assert!(member.has_unread() && member.news.count() != seen);
    let seen = member.news.count();
    let all = member.take_unread(2);
    member.unread_again(Unread { queue: VecDeque::new(), ..all });
    assert_eq!(member.news.count(), seen, "all of it was read");
}

#[test]
fn filters_look_as_far_ahead_as_few_messages_pass() {
    let member = member_with(vec![Filter::Attribute { key: "k".to_owned(), rule: AttributeRule::Present }]);
    assert_eq!(member.room(9), 8);
    let key = |offset| DeliveryKey { queue: MAIN, offset };
    let keys: Vec<DeliveryKey> = (0..50).map(key).collect();
    assert_eq!(member.pass_over(40, &keys[..39]), Noted::First);
    assert_eq!((member.room(1), member.room(9)), (40, 320));
    // None passed: it looks twice as far, to a limit.
    assert_eq!(member.pass_over(40, &keys[..40]), Noted::More);
    assert_eq!(member.room(1), 80);
    for _ in 0..8 {
        member.pass_over(40, &keys[..40]);
    }
    assert_eq!((member.room(1), member.room(9)), (JUDGED_AHEAD_MAX, JUDGED_AHEAD_MAX));
    assert_eq!(member.pass_over(2, &[]), Noted::Nothing);
    assert_eq!(member.room(9), 8);
}

#[test]
fn no_more_than_the_limit_is_in_flight_however_many_pass() {
    let member = member_with(vec![Filter::Attribute { key: "k".to_owned(), rule: AttributeRule::Present }]);
    member.assigned(MAIN, deliveries(0, 100));
    let first = member.take_unread(5);
    assert_eq!((first.queue.len(), first.count_max), (100, 5));
    member.unread_again(first);
    let first = member.take_unread(5);
    member.assigned(MAIN, deliveries(100, 100));
    let second = member.take_unread(5);
    assert_eq!((second.queue.len(), second.count_max), (100, 3), "the first may get five of eight");
    let third = member.take_unread(5);
    assert_eq!((third.queue.len(), third.count_max), (0, 0));
    member.unread_again(third);
    member.unread_again(second);
    let given =
        first.queue.iter().take(5).map(|(queue, one)| (DeliveryKey { queue: *queue, offset: one.offset.0 }, *one));
    member.hand_over(given.collect());
    member.unread_again(first);
    assert_eq!(member.take_unread(9).count_max, 3);
}

#[test]
fn a_prefix_selects_as_many_subjects_as_the_limit_and_not_one_more_also_while_they_are_registered() {
    let member = member();
    // None of these is registered yet: the limit holds for what is on its way, too.
    member.begins_with(SUBJECTS_MAX - 2);
    assert!(!member.has_to_join());
    member.meet("orders.a");
    let met = member.take_met();
    member.meet("orders.b");
    assert!(member.check_selected().is_ok());
    member.meet_again(met.into_iter());
    assert!(member.check_selected().is_ok(), "what is tried again counts once");
    assert_eq!(member.take_met(), ["orders.b", "orders.a"]);
    member.meet("orders.c");
    let refused = member.check_selected();
    assert!(matches!(refused, Err(Error::TooLarge { argument: "subjects", found: 10_001, .. })), "{refused:?}");
    assert!(member.has_to_join() && member.take_met().is_empty(), "nothing beyond it is joined");
}

#[test]
fn a_member_with_messages_joins_once_in_a_while() {
    let member = member();
    assert!(!member.has_to_join_first());
    member.meet("orders.a");
    assert!(member.has_to_join_first(), "it has joined nothing yet");
    member.take_met();
    member.joined();
    member.meet("orders.b");
    assert!(member.has_to_join(), "before it waits for messages");
    let joined = Instant::now();
    while !member.has_to_join_first() {
        std::thread::yield_now();
    }
    assert!(joined.elapsed() + Duration::from_millis(1) >= JOIN_PAUSE, "{:?}", joined.elapsed());
}
