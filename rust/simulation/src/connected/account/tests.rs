//! Which events are a reason for a message to come again, and which are not.

mod changes;

use super::*;

const NUMBER: u64 = 7;
const SEQUENCE: Sequence = Sequence(40);
const BODY: [u8; 8] = NUMBER.to_le_bytes();

/// One message of one group, which was stored.
fn stored() -> Account {
    let mut account = Account::default();
    account.publish_asked(NUMBER, || Sent::new("orders".to_owned(), BODY.to_vec(), Millis(100)));
    account.published(NUMBER, SEQUENCE, Millis(100));
    account
}

/// It comes to this client, as the server gave it at `now`.
fn comes(account: &mut Account, link: LinkId, now: u64, redelivered: bool) {
    comes_due(account, link, now, redelivered, 100);
}

fn comes_due(account: &mut Account, link: LinkId, now: u64, redelivered: bool, due: u64) {
    account.came(&Came {
        link,
        group: "billing",
        subject: "orders",
        sequence: SEQUENCE,
        is_retry: false,
        redelivered,
        due: Millis(due),
        now: Millis(now),
        body: &BODY,
    });
}

/// What the group's second consumer does with the message before the first one hears of it.
type Settling = fn(&mut Account, LinkId);

const SETTLINGS: [Settling; 4] = [
    |_, _| {},
    |account, link| {
        account.acknowledge_asked(link, "billing", SEQUENCE);
    },
    |account, link| {
        if account.acknowledge_asked(link, "billing", SEQUENCE) {
            account.acknowledged(link, "billing", SEQUENCE);
        }
    },
    |account, link| account.give_back_asked(link, "billing", SEQUENCE, Millis(900)),
];

#[test]
fn what_was_under_way_on_a_lost_connection_may_come_after_what_was_given_later() {
    // Numbers of connections say nothing of the order in which the server gave.
    for (first, second) in [(1, 2), (2, 1)] {
        for settle in SETTLINGS {
            let mut account = stored();
            account.link_lost(first, 1);
            comes(&mut account, second, 300, true);
            settle(&mut account, second);
            comes(&mut account, first, 200, false);
            // Its client has not noticed: whatever it does comes to nobody.
            for settle in SETTLINGS {
                settle(&mut account, first);
            }
            let is_second = |place: Option<Place>| match place {
                Some(Place::Held(link) | Place::Acknowledging(link) | Place::GivenBack(link, _)) => link == second,
                other => other == Some(Place::Done),
            };
            assert!(is_second(account.place("billing", SEQUENCE)), "{:?}", account.place("billing", SEQUENCE));
            assert_eq!(account.violations(), Vec::<String>::new(), "{first} before {second}");
            assert_eq!(account.counts.repeated, 1);
        }
    }
}

#[test]
fn what_a_living_connection_has_does_not_come_to_another_one_also() {
    for settle in SETTLINGS {
        let mut account = stored();
        account.link_lost(3, 1);
        comes(&mut account, 2, 300, true);
        settle(&mut account, 2);
        comes(&mut account, 1, 200, true);
        assert_eq!(account.violations().len(), 1, "{:?}", account.violations());
    }
}

#[test]
fn one_connection_does_not_get_the_same_twice() {
    let mut account = stored();
    account.link_lost(1, 2);
    comes(&mut account, 1, 200, false);
    comes(&mut account, 1, 200, false);
    assert_eq!(account.violations().len(), 1, "{:?}", account.violations());
}

#[test]
fn what_comes_late_counts_as_a_repetition_that_must_have_been_in_flight() {
    let mut account = stored();
    account.link_lost(1, 1);
    comes(&mut account, 2, 300, true);
    for _ in 0..2 {
        comes(&mut account, 1, 200, false);
    }
    assert!(matches!(account.violations(), [blame] if blame.contains("more than 1 rep")), "{:?}", account.violations());
}

#[test]
fn what_is_done_is_not_given_to_a_connection_that_is_lost_later() {
    let mut account = stored();
    comes(&mut account, 1, 200, false);
    assert!(account.acknowledge_asked(1, "billing", SEQUENCE));
    account.acknowledged(1, "billing", SEQUENCE);
    account.link_lost(2, 1);
    comes(&mut account, 2, 300, true);
    assert!(matches!(account.violations(), [blame] if blame.contains("being Done")), "{:?}", account.violations());
}
