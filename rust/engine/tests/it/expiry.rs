//! Messages that are of no use any more: none is handed over from its expiry on, for no group and no retry.

#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{bodies, open, options, subscribe, taken};
use delaymq_core::error::Error;
use delaymq_core::units::Millis;
use delaymq_engine::{
    CatchUp, ConsumerId, Due, Durability, Expires, ExpiresAfter, IfExists, ManualClock, MoveOutcome, NamedOptions,
    NewRecurring, OnExpiry, Options, PublishTerms, PullBounds, Receipt, Recurs, StartAt, Store, SubscribeOptions,
};

const START: Millis = Millis(1_800_000_000_000);
const PATIENCE: Duration = Duration::from_secs(20);
const BOTH: [OnExpiry; 2] = [OnExpiry::Drop, OnExpiry::DeadLetter];

struct Bench {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    store: Arc<Store>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(START).unwrap());
        let store = Self::open(&folder, &clock);
        Self { folder, clock, store }
    }

    fn open(folder: &tempfile::TempDir, clock: &Arc<ManualClock>) -> Arc<Store> {
        let clock = Arc::clone(clock) as _;
        open(folder.path(), Options { clock, segment_bytes: 256 << 10, ..options(Durability::Disk) })
    }

    fn reopen(mut self) -> Self {
        self.store.abandon().unwrap();
        self.store = Self::open(&self.folder, &self.clock);
        self
    }

    /// As `reopen`, with all that was assigned in the log.
    fn close_and_reopen(mut self) -> Self {
        self.store.close().unwrap();
        self.store = Self::open(&self.folder, &self.clock);
        self
    }

    fn turn(&self, by_ms: u64) {
        self.clock.advance(by_ms, PATIENCE, &mut || true).unwrap();
    }

    fn publish(&self, due: Due, expires: Expires, then: OnExpiry, body: &str) -> Receipt {
        self.try_publish(due, expires, then, body).unwrap()
    }

    fn try_publish(&self, due: Due, expires: Expires, then: OnExpiry, body: &str) -> Result<Receipt, Error> {
        let mut batch = self.store.batch();
        let terms = PublishTerms { expires: Some((expires, then)), ..PublishTerms::NONE };
        batch.push_on_terms("orders", due, (&[], body.as_bytes()), &terms)?;
        assert!(!batch.is_on_terms(), "an expiry alone costs no fact of its own");
        Ok(self.store.publish(&mut batch)?.get(0).unwrap())
    }

    fn expired(&self) -> (u64, u64) {
        let subjects = self.store.subjects().unwrap();
        let durable = subjects.iter().map(|subject| subject.expired).sum();
        (self.store.status().unwrap().metrics.expired, durable)
    }

    fn reasons(&self, group: &str) -> Vec<(String, u32)> {
        let dead = self.store.dead_letters("orders", group, 100).unwrap();
        dead.into_iter().map(|one| (one.reason, one.attempt)).collect()
    }
}

#[test]
fn a_message_is_handed_over_until_the_millisecond_before_its_expiry_and_not_at_it() {
    for (waits, expected) in [(10, vec!["now"]), (14, vec!["now"]), (15, vec![]), (16, vec![])] {
        for then in BOTH {
            let bench = Bench::new();
            let messages = subscribe(&bench.store, "orders", "billing");
            bench.publish(Due::After(10), Expires::After(5), then, "now");
            bench.turn(waits);
            assert_eq!(bodies(&taken(&messages)), expected, "{waits} ms after the publish, {then:?}");
        }
    }
}

#[test]
fn an_expiry_that_is_not_after_the_due_time_is_refused_and_nothing_is_stored() {
    let bench = Bench::new();
    let due = Due::At(START.plus(10));
    for expires in [Expires::After(0), Expires::At(START.plus(10)), Expires::At(START), Expires::At(Millis(u64::MAX))] {
        let refused = bench.try_publish(due, expires, OnExpiry::Drop, "never");
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "expires", .. })), "{expires:?}: {refused:?}");
    }
    assert_eq!(bench.store.status().unwrap().pending, 0);
    bench.publish(due, Expires::At(START.plus(11)), OnExpiry::Drop, "for a millisecond");
}

#[test]
fn a_message_that_had_expired_before_it_came_is_stored_and_never_handed_over() {
    let bench = Bench::new();
    let messages = subscribe(&bench.store, "orders", "billing");
    let hour_ago = START.0 - 3_600_000;
    bench.publish(Due::At(Millis(hour_ago)), Expires::At(Millis(hour_ago + 1)), OnExpiry::Drop, "too late");
    assert!(taken(&messages).is_empty());
    assert_eq!(bench.expired(), (1, 1));
}

#[test]
fn a_dropped_message_is_finished_for_every_group_but_one_that_holds_it_and_stays_so() {
    let bench = Bench::new();
    let [first, second, third] = ["one", "two", "three"].map(|group| subscribe(&bench.store, "orders", group));
    bench.publish(Due::After(0), Expires::After(10), OnExpiry::Drop, "short");
    let held = taken(&third);
    assert_eq!(bodies(&held), ["short"]);
    bench.turn(10);
    assert!(taken(&first).is_empty());
    let ready = |name: &str| {
        let groups = bench.store.groups().unwrap();
        groups.iter().filter(|group| group.name == name).map(|group| group.lag).sum::<u64>()
    };
    assert_eq!([ready("one"), ready("two"), ready("three")], [0, 0, 1]);
    third.acknowledge(&[held[0].key]).unwrap();
    assert_eq!(ready("three"), 0);
    assert!(taken(&second).is_empty());
    assert_eq!(bench.expired(), (1, 1));
    let late = subscribe(&bench.store, "orders", "late");
    assert!(taken(&late).is_empty(), "a later group does not get it either");
    drop((first, second, third, late));
    let bench = bench.reopen();
    let again = subscribe(&bench.store, "orders", "two");
    assert!(taken(&again).is_empty());
    assert_eq!(bench.expired(), (0, 1), "finished by a fact, not by this process");
}

#[test]
fn each_group_gets_its_own_dead_letter_and_a_redrive_does_not_bring_it_back() {
    let bench = Bench::new();
    let [first, second] = ["one", "two"].map(|group| subscribe(&bench.store, "orders", group));
    bench.publish(Due::After(0), Expires::After(10), OnExpiry::DeadLetter, "short");
    bench.turn(10);
    assert!(taken(&first).is_empty());
    assert_eq!(bench.reasons("one"), [("expired".to_owned(), 0)], "no consumer received it");
    assert!(bench.reasons("two").is_empty());
    assert!(taken(&second).is_empty());
    assert_eq!(bench.reasons("two"), [("expired".to_owned(), 0)]);
    assert_eq!(bench.expired(), (2, 2));
    assert_eq!(bench.store.redrive("orders", "one", None).unwrap(), 1);
    bench.turn(1);
    assert!(taken(&first).is_empty());
    assert_eq!(bench.reasons("one"), [("expired".to_owned(), 0)]);
    drop((first, second));
    let bench = bench.reopen();
    assert_eq!(bench.reasons("one").len(), 1);
}

#[test]
fn a_retry_is_handed_over_before_the_expiry_and_not_from_it_on() {
    for then in BOTH {
        let bench = Bench::new();
        let messages = subscribe(&bench.store, "orders", "billing");
        bench.publish(Due::After(0), Expires::After(20), then, "again");
        let first = taken(&messages);
        messages.give_back(first[0].key, 19).unwrap();
        bench.turn(19);
        let second = taken(&messages);
        assert_eq!((bodies(&second), second[0].attempt), (vec!["again".to_owned()], 2));
        messages.give_back(second[0].key, 1).unwrap();
        bench.turn(1);
        assert!(taken(&messages).is_empty(), "{then:?}");
        let dead = if then == OnExpiry::Drop { vec![] } else { vec![("expired".to_owned(), 2)] };
        assert_eq!((bench.reasons("billing"), bench.expired()), (dead, (1, 1)), "the retry is counted, too");
    }
}

#[test]
fn what_an_ended_consumer_held_is_not_handed_to_another_once_it_has_expired() {
    let bench = Bench::new();
    let messages = subscribe(&bench.store, "orders", "billing");
    bench.publish(Due::After(0), Expires::After(10), OnExpiry::Drop, "held");
    assert_eq!(taken(&messages).len(), 1);
    bench.turn(10);
    messages.close().unwrap();
    let next = subscribe(&bench.store, "orders", "billing");
    assert!(taken(&next).is_empty());
    assert_eq!(bench.expired(), (1, 1));
}

#[test]
fn a_message_that_two_groups_drop_is_counted_once() {
    let bench = Bench::new();
    let [one, two] = ["one", "two"].map(|group| subscribe(&bench.store, "orders", group));
    bench.publish(Due::After(0), Expires::After(10), OnExpiry::Drop, "held by one");
    assert_eq!(taken(&one).len(), 1);
    bench.turn(10);
    assert!(taken(&two).is_empty());
    one.close().unwrap();
    assert!(taken(&subscribe(&bench.store, "orders", "one")).is_empty());
    assert_eq!(bench.expired(), (2, 1), "dropped twice");
    let bench = bench.reopen();
    assert_eq!(bench.expired(), (0, 1));
}

#[test]
fn what_a_named_consumer_held_over_a_restart_does_not_come_again_once_it_has_expired() {
    const ID: ConsumerId<'_> = ConsumerId { subject: "orders", group: "billing", consumer: "host-7@@0a1b" };
    const BOUNDS: PullBounds = PullBounds { count_max: 100, bytes_max: usize::MAX, in_flight_max: 256 };
    let begin = |store: &Store| {
        let options = NamedOptions { start: StartAt::Unfinished, ..NamedOptions::default() };
        store.register_named_consumer(ID, options).unwrap().finish().unwrap().0
    };
    for then in BOTH {
        let bench = Bench::new();
        let consumer = begin(&bench.store);
        bench.publish(Due::After(0), Expires::After(1), then, "never received");
        bench.turn(1);
        assert!(consumer.pull(BOUNDS).unwrap().is_none());
        bench.publish(Due::After(0), Expires::After(10), then, "a");
        bench.publish(Due::After(0), Expires::After(99), then, "b");
        assert_eq!(bodies(&consumer.pull(BOUNDS).unwrap().unwrap().messages), ["a", "b"]);
        drop(consumer);
        let bench = bench.close_and_reopen();
        let consumer = begin(&bench.store);
        bench.turn(10);
        let held: Vec<_> = consumer.holding().unwrap().held.into_values().collect();
        assert_eq!(held.len(), 2);
        let read = consumer.read_again(&held, usize::MAX).unwrap();
        assert_eq!((bodies(&read.run.unwrap().messages), read.finished.len()), (vec!["b".to_owned()], 1));
        assert_eq!(consumer.holding().unwrap().held.len(), 1);
        // New ones are judged, too: the first of these has expired.
        bench.publish(Due::After(0), Expires::After(1), then, "c");
        bench.publish(Due::After(0), Expires::After(99), then, "d");
        bench.turn(1);
        assert_eq!(bodies(&consumer.pull(BOUNDS).unwrap().unwrap().messages), ["d"], "{then:?}");
        assert!(consumer.pull(BOUNDS).unwrap().is_none());
        // The client may have received "a", and "c" as far as a store knows after a restart.
        let dead = if then == OnExpiry::Drop { vec![] } else { [0, 1, 1].map(|n| ("expired".to_owned(), n)).to_vec() };
        assert_eq!((bench.reasons("billing"), bench.expired()), (dead, (2, 3)));
    }
}

#[test]
fn a_consumer_of_one_message_at_a_time_gets_to_what_lies_behind_a_thousand_expired_ones() {
    for then in BOTH {
        let bench = Bench::new();
        let one = SubscribeOptions { in_flight_max: 1, ..SubscribeOptions::default() };
        let messages = bench.store.subscribe("orders", "billing", one).unwrap();
        let mut batch = bench.store.batch();
        let terms = PublishTerms { expires: Some((Expires::After(1), then)), ..PublishTerms::NONE };
        for _ in 0..300 {
            batch.push_on_terms("orders", Due::After(0), (&[], b"old"), &terms).unwrap();
        }
        batch.push("orders", Due::After(0), &[], b"good").unwrap();
        bench.store.publish(&mut batch).unwrap();
        bench.turn(1);
        assert_eq!(bodies(&taken(&messages)), ["good"], "{then:?}");
        assert_eq!(bench.expired(), (300, 300));
    }
}

#[test]
fn a_move_does_not_change_the_expiry() {
    let bench = Bench::new();
    let messages = subscribe(&bench.store, "orders", "billing");
    let earlier = bench.publish(Due::After(10), Expires::After(5), OnExpiry::Drop, "earlier");
    let later = bench.publish(Due::After(10), Expires::After(5), OnExpiry::Drop, "later");
    assert!(matches!(bench.store.move_to(&earlier, Due::After(14)).unwrap(), MoveOutcome::Done(_)));
    assert!(matches!(bench.store.move_to(&later, Due::After(15)).unwrap(), MoveOutcome::Done(_)));
    bench.turn(14);
    assert_eq!(bodies(&taken(&messages)), ["earlier"]);
    bench.turn(1);
    assert!(taken(&messages).is_empty());
    assert_eq!(bench.expired(), (1, 1));
}

#[test]
fn each_message_of_a_series_expires_by_its_own_due_time() {
    const EXPIRING: Option<ExpiresAfter> = Some(ExpiresAfter { after_ms: 5, then: OnExpiry::DeadLetter });
    let series = NewRecurring {
        name: "often",
        recurs: Recurs::Every(1_000),
        zone: "UTC",
        start: None,
        catch_up: CatchUp::One,
        expires_after: EXPIRING,
        if_exists: IfExists::Refuse,
        meta: b"",
        body: b"again",
    };
    let mut bench = Bench::new();
    let refused = NewRecurring { expires_after: EXPIRING.map(|one| ExpiresAfter { after_ms: 0, ..one }), ..series };
    let refused = bench.store.recur("orders", &refused);
    assert!(matches!(refused, Err(Error::InvalidArgument { argument: "expires_after", .. })), "{refused:?}");
    assert_eq!(bench.store.recur("orders", &series).unwrap().expires_after, EXPIRING);
    // The series comes from the log first, and then from a checkpoint.
    for turn in 1..=3 {
        let messages = subscribe(&bench.store, "orders", "billing");
        bench.turn(1_004 - if turn > 1 { 5 } else { 0 });
        let found = taken(&messages);
        assert_eq!(bodies(&found), ["again"], "{turn}");
        messages.acknowledge(&[found[0].key]).unwrap();
        bench.turn(996);
        bench.turn(5);
        assert!(taken(&messages).is_empty(), "{turn}");
        assert_eq!(bench.reasons("billing").len(), turn);
        bench.store.checkpoint().unwrap();
        drop(messages);
        bench = bench.reopen();
    }
    assert_eq!(bench.store.recurring(None, 0, 10).unwrap()[0].expires_after, EXPIRING);
}

#[test]
fn the_words_of_a_consumer_are_not_taken_for_an_expiry() {
    let bench = Bench::new();
    let messages = subscribe(&bench.store, "orders", "billing");
    bench.publish(Due::After(0), Expires::After(10), OnExpiry::DeadLetter, "broken");
    messages.dead_letter(taken(&messages)[0].key, "expired").unwrap();
    bench.turn(1);
    assert_eq!((bench.reasons("billing"), bench.expired()), (vec![("expired".to_owned(), 1)], (0, 0)));
    drop(messages);
    let bench = bench.close_and_reopen();
    assert_eq!(bench.expired(), (0, 0), "nor by the log");
}
