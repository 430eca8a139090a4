//! Named consumers: they outlive an open, hold messages under their old offsets, and settle and end in one step.

#![cfg(test)]

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{bodies, eventually, open, options, publish, subscribe};
use delaymq_core::error::Error;
use delaymq_core::queues::pull_log::PullLog;
use delaymq_core::store::Delivery;
use delaymq_core::units::{PullOffset, Sequence};
use delaymq_engine::{
    ConsumerId, CreationLimits, Due, Durability, GivenRun, NamedConsumer, NamedOptions, Options, OwnerOptions,
    PullBounds, Registration, RetryRule, StartAt, Store, TriedRun,
};

const ID: ConsumerId<'_> = ConsumerId { subject: "orders", group: "billing", consumer: "host-7@@0a1b" };
const BOUNDS: PullBounds = PullBounds { count_max: 100, bytes_max: usize::MAX, in_flight_max: 256 };
const AT_ONCE: RetryRule = RetryRule { delay_ms: 0, attempts_max: 3, reason: None };

fn earliest() -> NamedOptions {
    NamedOptions { start: StartAt::Unfinished, ..NamedOptions::default() }
}

fn begin(store: &Store, id: ConsumerId<'_>) -> Arc<NamedConsumer> {
    store.register_named_consumer(id, earliest()).unwrap().finish().unwrap().0
}

fn pull(consumer: &NamedConsumer) -> GivenRun {
    let mut run = None;
    eventually("a message", || {
        run = consumer.pull(BOUNDS).unwrap();
        run.is_some()
    });
    run.unwrap()
}

/// A pull that does not wait, once nobody else is at the owner.
fn tried(consumer: &NamedConsumer) -> TriedRun {
    let mut found = TriedRun::WouldWait;
    eventually("the owner", || {
        found = consumer.try_pull(BOUNDS).unwrap();
        !matches!(found, TriedRun::WouldWait)
    });
    found
}

fn settle(store: &Store, consumer: &NamedConsumer, done: std::ops::Range<u64>, passed_over: &[Delivery]) {
    let done = PullOffset(done.start)..PullOffset(done.end);
    reached(store, consumer.settle(&[done], passed_over, AT_ONCE).unwrap());
}

fn reached(store: &Store, position: Sequence) {
    eventually("the position", || store.want(position).unwrap());
}

fn held(consumer: &NamedConsumer) -> Vec<u64> {
    consumer.holding().unwrap().held.keys().map(|offset| offset.0).collect()
}

fn retries(id: ConsumerId<'_>) -> String {
    format!("%RETRY%{}%{}", id.subject, id.group)
}

#[test]
fn what_is_held_comes_again_after_an_open_under_its_offsets_and_an_acknowledgement_ends_just_that() {
    for durability in [Durability::Disk, Durability::Os] {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path(), options(durability));
        let consumer = begin(&store, ID);
        for body in [b"a", b"b", b"c", b"d", b"e"] {
            publish(&store, "orders", Due::After(0), body);
        }
        let run = pull(&consumer);
        assert_eq!((run.first, bodies(&run.messages).concat()), (PullOffset(0), "abcde".to_owned()));
        settle(&store, &consumer, 0..2, &[]);
        for _ in 0..2 {
            drop(consumer.holding());
            store.close().unwrap();
            store = open(folder.path(), options(durability));
        }
        let listed = store.named_consumers().unwrap();
        assert_eq!((listed.len(), listed[0].consumer.as_str(), listed[0].held), (1, ID.consumer, 3));
        let consumer = begin(&store, ID);
        assert!(Arc::ptr_eq(&consumer, &begin(&store, ID)));
        let holding = consumer.holding().unwrap();
        let mut log = PullLog::new(holding.next, holding.held);
        let (first, lost) = log.lost(None, 100).unwrap();
        let lost: Vec<Delivery> = lost.into_iter().copied().collect();
        let again = consumer.read_again(&lost, usize::MAX).unwrap().run.unwrap();
        assert_eq!((first.0, bodies(&again.messages).concat()), (2, "cde".to_owned()));
        assert!(again.messages.iter().all(|message| message.redelivered && message.attempt == 2));
        assert!(consumer.pull(BOUNDS).unwrap().is_none(), "nobody gets it as something new");
        // A void offset, and then those that it holds.
        settle(&store, &consumer, 6..200, &[]);
        assert_eq!(held(&consumer), [2, 3, 4]);
        let settled = log.acknowledge(PullOffset(2), PullOffset(3));
        settle(&store, &consumer, settled.done.start.0..settled.done.end.0, &[]);
        assert_eq!(held(&consumer), [4]);
        publish(&store, "orders", Due::After(0), b"f");
        let new = pull(&consumer);
        assert!(new.first >= holding.next && holding.next.0 >= 256, "{:?} {:?}", new.first, holding.next);
        store.close().unwrap();
    }
}

#[test]
fn a_killed_store_gives_a_named_consumer_all_that_it_did_not_acknowledge() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let (consumer, other) = (begin(&store, ID), subscribe(&store, "orders", "audit"));
    for body in [b"a", b"b", b"c"] {
        publish(&store, "orders", Due::After(0), body);
    }
    assert_eq!(pull(&consumer).messages.len(), 3);
    assert_eq!(crate::support::collect(&other, 3).len(), 3);
    settle(&store, &consumer, 1..2, &[]);
    store.abandon().unwrap();
    let store = store.reopen().unwrap();
    let consumer = begin(&store, ID);
    let offsets = held(&consumer);
    let mut bodies_again = Vec::new();
    while let Some(run) = consumer.pull(BOUNDS).unwrap() {
        bodies_again.extend(bodies(&run.messages));
    }
    // What the log had of the assignment is held; what it had not comes as new, and nothing is missing.
    assert!(offsets == [0, 2] && bodies_again.is_empty() || offsets.is_empty(), "{offsets:?} {bodies_again:?}");
    assert_eq!(
        crate::support::collect(&subscribe(&store, "orders", "audit"), 3).len(),
        3,
        "the others' consumers ended"
    );
}

#[test]
fn one_wait_for_the_disk_makes_subject_group_consumer_and_reserve() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let before = store.status().unwrap().metrics;
    let consumer = begin(&store, ID);
    let after = store.status().unwrap().metrics;
    assert_eq!(after.commits - before.commits, 1);
    publish(&store, "orders", Due::After(0), b"a");
    let TriedRun::Run(run) = tried(&consumer) else { panic!("the reserve is there") };
    assert_eq!(bodies(&run.messages), ["a"]);
}

#[test]
fn the_same_names_are_the_same_consumer_and_others_share_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let first = begin(&store, ID);
    assert!(Arc::ptr_eq(&first, &begin(&store, ID)));
    let second = begin(&store, ConsumerId { consumer: "host-8", ..ID });
    for body in [b"a", b"b", b"c", b"d"] {
        publish(&store, "orders", Due::After(0), body);
    }
    let two = PullBounds { count_max: 2, ..BOUNDS };
    let halves = [first.pull(two).unwrap().unwrap(), second.pull(two).unwrap().unwrap()];
    assert_eq!(
        halves.each_ref().map(|run| (run.first.0, bodies(&run.messages).concat())),
        [(0, "ab".to_owned()), (0, "cd".to_owned())]
    );
    // A name of a subscription's consumer is not taken by a client's.
    let subscription = subscribe(&store, "orders", "billing");
    for epoch in 0..3 {
        for ordinal in 0..5 {
            let name = format!("{epoch}-{ordinal}");
            begin(&store, ConsumerId { consumer: &name, ..ID });
        }
    }
    publish(&store, "orders", Due::After(0), b"e");
    assert_eq!(bodies(&crate::support::collect(&subscription, 1)), ["e"]);
}

#[test]
fn offsets_are_dense_and_what_is_over_a_bound_comes_next() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let consumer = begin(&store, ID);
    for _ in 0..10 {
        publish(&store, "orders", Due::After(0), &[7; 1_000]);
    }
    let few = PullBounds { count_max: 7, bytes_max: 2_500, in_flight_max: 8 };
    let mut firsts = Vec::new();
    while let Some(run) = consumer.pull(few).unwrap() {
        firsts.push((run.first.0, run.messages.len()));
        assert!(run.deliveries.iter().zip(run.first.0..).all(|(delivery, offset)| delivery.offset.0 == offset));
        assert!(run.messages.iter().zip(run.first.0..).all(|(message, offset)| message.key.offset == offset));
    }
    assert_eq!(firsts, [(0, 3), (3, 3), (6, 1), (7, 1)], "as many as may be in flight, and no more");
    settle(&store, &consumer, 0..1, &[]);
    assert_eq!(pull(&consumer).first.0, 8);
    for in_flight_max in [0, 65_536] {
        let refused = consumer.try_pull(PullBounds { in_flight_max, ..BOUNDS });
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "in_flight_max", .. })), "{refused:?}");
    }
}

/// R1: what an acknowledgement passes over goes to the retry subject, and after its last attempt among
/// the dead letters.
#[test]
fn r1_what_is_passed_over_comes_again_and_after_its_last_attempt_is_a_dead_letter() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let consumer = begin(&store, ID);
    for body in [b"a", b"b", b"c"] {
        publish(&store, "orders", Due::After(0), body);
    }
    let run = pull(&consumer);
    let own = retries(ID);
    let again = begin(&store, ConsumerId { subject: &own, ..ID });
    settle(&store, &consumer, 1..3, &run.deliveries[..1]);
    assert!(held(&consumer).is_empty());
    for attempt in [2, 3] {
        let retried = pull(&again);
        assert_eq!((bodies(&retried.messages), retried.messages[0].attempt), (vec!["a".to_owned()], attempt));
        settle(&store, &again, 0..0, &retried.deliveries);
    }
    let letters = store.dead_letters("orders", "billing", 10).unwrap();
    assert_eq!((letters.len(), letters[0].attempt), (1, 3));
    assert_eq!(letters[0].reason, "not finished in 3 deliveries");
    assert!(again.pull(BOUNDS).unwrap().is_none() && held(&again).is_empty());
    assert_eq!(store.redrive("orders", "billing", None).unwrap(), 1);
    assert_eq!(bodies(&pull(&again).messages), ["a"]);
}

#[test]
fn a_retry_comes_after_its_delay_and_one_that_is_too_long_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let consumer = begin(&store, ID);
    publish(&store, "orders", Due::After(0), b"a");
    let run = pull(&consumer);
    let refused = consumer.settle(&[], &run.deliveries, RetryRule { delay_ms: u64::MAX, ..RetryRule::default() });
    assert!(matches!(refused, Err(Error::InvalidArgument { argument: "delay", .. })), "{refused:?}");
    assert_eq!(held(&consumer), [0]);
    // What is only finished waits nowhere, so no rule refuses it.
    publish(&store, "orders", Due::After(0), b"b");
    assert_eq!(pull(&consumer).first, PullOffset(1));
    let too_long = RetryRule { delay_ms: u64::MAX, ..RetryRule::default() };
    reached(&store, consumer.settle(&[PullOffset(1)..PullOffset(2)], &[], too_long).unwrap());
    assert_eq!(held(&consumer), [0]);
    let before = store.now();
    let rule = RetryRule { delay_ms: 60, ..RetryRule::default() };
    let position = consumer.try_settle(&[], &run.deliveries, rule).unwrap().unwrap();
    reached(&store, position);
    let own = retries(ID);
    let retried = pull(&begin(&store, ConsumerId { subject: &own, ..ID }));
    assert!(retried.messages[0].due >= before.plus(60), "{:?} {before:?}", retried.messages[0].due);
}

#[test]
fn the_end_of_a_consumer_gives_what_it_holds_to_the_retry_subject_and_not_to_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let consumer = begin(&store, ID);
    for body in [b"a", b"b", b"c"] {
        publish(&store, "orders", Due::After(0), body);
    }
    let two = PullBounds { bytes_max: 7, ..BOUNDS };
    assert_eq!(consumer.pull(two).unwrap().unwrap().messages.len(), 2, "the third is assigned and not handed over");
    assert_eq!(held(&consumer), [0, 1, 2]);
    assert!(consumer.pull(BOUNDS).unwrap().is_none(), "who was told what it holds gets none of it as new");
    settle(&store, &consumer, 0..1, &[]);
    let position = consumer.end(AT_ONCE).unwrap().unwrap();
    reached(&store, position);
    assert!(consumer.is_gone() && consumer.end(AT_ONCE).unwrap().is_none());
    assert!(matches!(consumer.try_pull(BOUNDS), Err(Error::Closed)));
    assert!(matches!(consumer.settle(&[], &[], AT_ONCE), Err(Error::Closed)));
    assert!(store.named_consumers().unwrap().is_empty());
    let (own, anew) = (retries(ID), begin(&store, ID));
    assert!(anew.pull(BOUNDS).unwrap().is_none());
    let retried = pull(&begin(&store, ConsumerId { subject: &own, ..ID }));
    assert_eq!(bodies(&retried.messages).concat(), "bc");
    publish(&store, "orders", Due::After(0), b"d");
    assert!(pull(&anew).first.0 >= 256, "no offset of the life before");
}

#[test]
fn a_live_group_begins_again_at_either_end_but_not_under_subscriptions() {
    for start in [StartAt::Unfinished, StartAt::Latest] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), options(Durability::Disk));
        let consumer = begin(&store, ID);
        // Somebody else has finished nothing, so the earliest is the first.
        begin(&store, ConsumerId { group: "audit", ..ID });
        publish(&store, "orders", Due::After(0), b"a");
        publish(&store, "orders", Due::After(0), b"b");
        pull(&consumer);
        settle(&store, &consumer, 0..1, &[]);
        store.reset_live_group("orders", "billing", start).unwrap();
        assert!(consumer.is_gone());
        let anew = begin(&store, ID);
        assert!(anew.group_number() > consumer.group_number());
        publish(&store, "orders", Due::After(0), b"c");
        let run = pull(&anew);
        let expected = if start == StartAt::Unfinished { "abc" } else { "c" };
        assert_eq!(bodies(&run.messages).concat(), expected);
        assert!(run.first.0 >= 256);
        let subscription = subscribe(&store, "orders", "billing");
        let refused = store.reset_live_group("orders", "billing", start);
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "group", .. })), "{refused:?}");
        subscription.close().unwrap();
        let unknown = store.reset_live_group("orders", "nobody", start);
        assert!(matches!(unknown, Err(Error::InvalidArgument { argument: "group", .. })), "{unknown:?}");
    }
}

#[test]
fn a_listener_hears_of_a_group_whenever_it_gets_something() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let calls = Arc::new(AtomicU64::new(0));
    let called = Arc::clone(&calls);
    let listener = store.listener(Box::new(move || {
        called.fetch_add(1, Ordering::SeqCst);
    }));
    let listener = listener.unwrap();
    let consumer = begin(&store, ID);
    let other = begin(&store, ConsumerId { group: "audit", ..ID });
    consumer.watch_by(&listener, 7).unwrap();
    other.watch_by(&listener, 8).unwrap();
    listener.drain().unwrap();
    for _ in 0..3 {
        publish(&store, "orders", Due::After(0), b"a");
        let mut heard = Vec::new();
        eventually("both are told", || {
            heard.extend(listener.drain().unwrap().0.tokens);
            heard.contains(&7) && heard.contains(&8)
        });
        assert!(matches!(tried(&consumer), TriedRun::Run(_)));
    }
    assert!(calls.load(Ordering::SeqCst) >= 3);
    consumer.end(AT_ONCE).unwrap();
    other.end(AT_ONCE).unwrap();
}

#[test]
fn what_lies_in_runs_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let owner = OwnerOptions { ready_entries_max: 0, ..OwnerOptions::default() };
    let with_runs = || Options { owner, ..options(Durability::Disk) };
    let store = open(folder.path(), with_runs());
    let consumer = begin(&store, ID);
    let count = 3_000_u64;
    let mut batch = store.batch();
    for number in 0..count {
        batch.push("orders", Due::After(0), &[], number.to_string().as_bytes()).unwrap();
    }
    store.publish(&mut batch).unwrap();
    store.checkpoint().unwrap();
    let bounds = PullBounds { count_max: 10_000, in_flight_max: 10_000, ..BOUNDS };
    let mut given = 0;
    while given < count {
        let Some(run) = consumer.pull(bounds).unwrap() else { continue };
        assert_eq!(run.first.0, given);
        given += run.messages.len() as u64;
    }
    store.close().unwrap();
    let store = open(folder.path(), with_runs());
    let consumer = begin(&store, ID);
    let held = consumer.holding().unwrap().held;
    assert_eq!(held.len() as u64, count);
    let deliveries: Vec<Delivery> = held.into_values().collect();
    let again = consumer.read_again(&deliveries, usize::MAX).unwrap().run.unwrap();
    let numbers: Vec<u64> = bodies(&again.messages).iter().map(|body| body.parse().unwrap()).collect();
    assert_eq!(numbers, (0..count).collect::<Vec<_>>());
    reached(&store, consumer.end(AT_ONCE).unwrap().unwrap());
    let own = retries(ID);
    let retried = begin(&store, ConsumerId { subject: &own, ..ID });
    let mut returned = 0;
    while returned < count {
        returned += retried.pull(bounds).unwrap().map_or(0, |run| run.messages.len() as u64);
    }
    assert_eq!(returned, count);
}

fn damage(folder: &Path, text: &[u8]) {
    for file in std::fs::read_dir(folder.join("log")).unwrap() {
        let path = file.unwrap().path();
        // The next segment is renamed when it is ready, also between the listing and this.
        let Ok(bytes) = std::fs::read(&path) else { continue };
        if let Some(at) = bytes.windows(text.len()).position(|window| window == text) {
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            return file.write_all_at(b"!", at as u64).unwrap();
        }
    }
    panic!("not in the log");
}

#[test]
fn a_damaged_message_is_a_hole_and_no_run_spans_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let consumer = begin(&store, ID);
    for body in ["first one", "second one", "third one", "fourth one"] {
        publish(&store, "orders", Due::After(0), body.as_bytes());
    }
    damage(folder.path(), b"second one");
    assert_eq!(bodies(&pull(&consumer).messages), ["first one"]);
    let rest = pull(&consumer);
    assert_eq!((rest.first.0, bodies(&rest.messages)), (2, vec!["third one".to_owned(), "fourth one".to_owned()]));
    eventually("it is given up", || held(&consumer) == [0, 2, 3]);
    damage(folder.path(), b"fourth one");
    let deliveries: Vec<Delivery> = consumer.holding().unwrap().held.into_values().collect();
    let again = consumer.read_again(&deliveries[1..], usize::MAX).unwrap();
    assert_eq!(again.finished, [PullOffset(3)]);
    assert_eq!(bodies(&again.run.unwrap().messages), ["third one"]);
    assert_eq!(store.status().unwrap().voided, 2);
}

#[test]
fn strangers_make_no_more_than_they_may() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    store.limit_creation(CreationLimits { subjects_max: 2, groups_max: 2, consumers_max: 2 });
    let try_one = |subject: &str, group: &str, consumer: &str| match store
        .register_named_consumer(ConsumerId { subject, group, consumer }, earliest())
        .and_then(Registration::finish)
    {
        Ok(_) => "",
        Err(Error::TooLarge { argument, .. } | Error::InvalidArgument { argument, .. }) => argument,
        Err(other) => panic!("{other}"),
    };
    assert_eq!([try_one("a", "g", "1"), try_one("b", "g", "1")], ["", ""]);
    assert_eq!(try_one("c", "g", "1"), "subjects");
    assert_eq!(try_one("a", "h", "1"), "groups");
    assert_eq!([try_one("a", "g", "2"), try_one("a", "g", "3"), try_one("a", "g", "2")], ["", "consumers", ""]);
    assert_eq!(
        [try_one("a/b", "g", "1"), try_one("a", "%", "1"), try_one("a", "g", "\n")],
        ["subject", "group", "consumer"]
    );
    // A message to a retry subject would make both.
    let mut batch = store.batch();
    let refused = batch.push_qmq("%RETRY%x%y", None, 0, b"whatever");
    assert!(matches!(refused, Err(Error::TooLarge { argument: "subjects", limit: 2, .. })), "{refused:?}");
    assert!(batch.is_empty());
    batch.push_qmq("a", None, 0, b"whatever").unwrap();
    // Whoever is known makes what it likes.
    publish(&store, "c", Due::After(0), b"own");
}

#[test]
fn an_operator_ends_a_consumer_whose_client_does_not_come_back_and_a_crash_changes_nothing_of_that() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path(), options(Durability::Disk));
    let own = retries(ID);
    let consumer = begin(&store, ID);
    let both = [consumer, begin(&store, ConsumerId { subject: &own, ..ID })];
    for body in [b"a", b"b", b"c"] {
        publish(&store, "orders", Due::After(0), body);
    }
    let run = pull(&both[0]);
    settle(&store, &both[0], 0..1, &run.deliveries[1..2]);
    assert_eq!(bodies(&pull(&both[1]).messages).concat(), "b", "and it holds c of the subject itself");
    for _ in 0..2 {
        drop(both.each_ref().map(|one| one.holding()));
        store.abandon().unwrap();
        store = store.reopen().unwrap();
    }
    let listed = store.consumers("orders", "billing").unwrap();
    let rows: Vec<_> = listed.iter().map(|one| (&*one.name, &*one.subject, one.in_flight, one.is_lasting)).collect();
    assert_eq!(rows, [(ID.consumer, "orders", 1, true), (ID.consumer, own.as_str(), 1, true)]);
    for change in [store.remove_group("orders", "billing"), store.reset_group("orders", "billing", StartAt::Latest)] {
        assert!(matches!(change, Err(Error::InvalidArgument { argument: "group", .. })), "{change:?}");
    }
    for (id, argument) in [
        (ConsumerId { consumer: "host-8", ..ID }, "consumer"),
        (ConsumerId { group: "audit", ..ID }, "consumer"),
        (ConsumerId { consumer: "", ..ID }, "consumer"),
        (ConsumerId { subject: "a b", ..ID }, "subject"),
    ] {
        let refused = store.end_consumer(id, AT_ONCE);
        assert!(
            matches!(refused, Err(Error::InvalidArgument { argument: found, .. }) if found == argument),
            "{refused:?}"
        );
    }
    assert_eq!(store.end_consumer(ID, AT_ONCE), Ok(2));
    assert!(store.end_consumer(ID, AT_ONCE).is_err(), "it has ended");
    store.abandon().unwrap();
    store = store.reopen().unwrap();
    assert!(store.consumers("orders", "billing").unwrap().is_empty());
    let other = begin(&store, ConsumerId { subject: &own, consumer: "host-8", ..ID });
    let mut again: Vec<String> = Vec::new();
    while again.len() < 2 {
        again.extend(bodies(&pull(&other).messages));
    }
    again.sort();
    assert_eq!(again, ["b", "c"]);
    assert_eq!(store.end_consumer(ConsumerId { consumer: "host-8", ..ID }, AT_ONCE), Ok(2));
    store.reset_group("orders", "billing", StartAt::Latest).unwrap();
    store.remove_group("orders", "billing").unwrap();
    assert!(matches!(store.consumers("orders", "billing"), Err(Error::InvalidArgument { argument: "group", .. })));
}

#[test]
fn a_consumer_of_a_retry_subject_is_ended_by_its_name_there_and_nowhere_twice() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    begin(&store, ID);
    let own = retries(ID);
    let there = ConsumerId { subject: &own, ..ID };
    begin(&store, there);
    assert_eq!(store.consumers(&own, ID.group).unwrap().len(), 1);
    assert_eq!(store.end_consumer(there, AT_ONCE), Ok(0));
    assert!(matches!(store.end_consumer(there, AT_ONCE), Err(Error::InvalidArgument { argument: "consumer", .. })));
    assert_eq!(store.consumers("orders", "billing").unwrap().len(), 1, "the one of the subject itself stays");
}

#[test]
fn consumers_that_are_being_made_count_against_their_limits() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    store.limit_creation(CreationLimits { subjects_max: 9, groups_max: 2, consumers_max: 2 });
    let begin = |group: &'static str, consumer: &'static str| {
        store.register_named_consumer(ConsumerId { subject: "a", group, consumer }, earliest())
    };
    let refused = |group, consumer| match begin(group, consumer).err() {
        Some(Error::TooLarge { argument, .. }) => argument,
        other => panic!("{other:?}"),
    };
    let (one, two) = (begin("g", "1").unwrap(), begin("g", "2").unwrap());
    assert_eq!(refused("g", "3"), "consumers");
    let other = begin("h", "1").unwrap();
    assert_eq!(refused("i", "1"), "groups");
    // One that nobody waits for is there all the same, and counts once.
    drop(other);
    let (one, holding) = one.finish().unwrap();
    assert_eq!((holding.next, holding.held.len()), (PullOffset(0), 0));
    assert!(Arc::ptr_eq(&one, &begin("g", "1").unwrap().finish().unwrap().0), "the same for everybody");
    two.finish().unwrap();
    assert_eq!((store.named_consumers().unwrap().len(), refused("i", "1")), (3, "groups"));
}
