//! Filters of a subscription: a message that does not pass is finished for the group, and the others come in full pulls.

#![cfg(test)]

use std::time::Duration;

use crate::support::{bodies, collect, consume, eventually, open, options, taken};
use delaymq_core::error::Error;
use delaymq_core::queues::tags::{AttributeRule, FILTERS_MAX, Filter, TagRule};
use delaymq_core::record::message::{Meta, encode_meta};
use delaymq_core::units::PullOffset;
use delaymq_engine::{
    ConsumerId, DeliveryKey, Due, Durability, Expires, GivenRun, Judging, NamedConsumer, NamedOptions, OnExpiry,
    PublishTerms, PullBounds, Pulled, RetryRule, StartAt, Store, SubscribeOptions, Subscription, TriedRun,
};
use std::sync::Arc;

fn tags(rule: TagRule, tags: &[&str]) -> Filter {
    Filter::Tags { rule, tags: tags.iter().map(|tag| (*tag).to_owned()).collect() }
}

fn attribute(key: &str, rule: AttributeRule) -> Filter {
    Filter::Attribute { key: key.to_owned(), rule }
}

fn meta(tags: &[&str], attributes: &[(&str, &str)]) -> Vec<u8> {
    let attributes = attributes.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    encode_meta(&Meta { message_id: String::new(), tags, attributes }).unwrap()
}

/// Every hundredth of `count` messages has the tag `rare`.
fn publish_rare(store: &Store, count: usize) {
    for start in (0..count).step_by(5_000) {
        let mut batch = store.batch();
        for number in start..count.min(start + 5_000) {
            let tag = if number % 100 == 99 { "rare" } else { "common" };
            batch.push("orders", Due::After(0), &meta(&[tag], &[]), number.to_string().as_bytes()).unwrap();
        }
        store.publish(&mut batch).unwrap();
    }
}

fn filtered(store: &Store, in_flight_max: u32, filters: Vec<Filter>) -> Arc<Subscription> {
    let options = SubscribeOptions { in_flight_max, filters, ..SubscribeOptions::default() };
    store.subscribe("orders", "billing", options).unwrap()
}

/// How many messages of the group are not finished.
fn unfinished(store: &Store) -> u64 {
    store.groups().unwrap().iter().filter(|group| group.name == "billing").map(|group| group.lag).sum()
}

#[test]
fn each_filter_passes_its_messages_and_finishes_the_others() {
    let messages = [
        ("0", meta(&[], &[])),
        ("1", meta(&["a"], &[("kind", "payment")])),
        ("2", meta(&["a", "b"], &[("kind", "pay")])),
        ("3", meta(&["b"], &[("other", "pay"), ("kind", "refund")])),
    ];
    let cases: [(Vec<Filter>, &[&str]); 7] = [
        (vec![], &["0", "1", "2", "3"]),
        (vec![tags(TagRule::Any, &["a", "b"])], &["1", "2", "3"]),
        (vec![tags(TagRule::All, &["a", "b"])], &["2"]),
        (vec![attribute("kind", AttributeRule::Present)], &["1", "2", "3"]),
        (vec![attribute("kind", AttributeRule::Equals(b"pay".to_vec()))], &["2"]),
        (vec![attribute("kind", AttributeRule::StartsWith(b"pay".to_vec()))], &["1", "2"]),
        (vec![tags(TagRule::Any, &["b"]), attribute("kind", AttributeRule::StartsWith(b"p".to_vec()))], &["2"]),
    ];
    for (filters, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), options(Durability::Os));
        let mut batch = store.batch();
        for (body, meta) in &messages {
            batch.push("orders", Due::After(0), meta, body.as_bytes()).unwrap();
        }
        store.publish(&mut batch).unwrap();
        let consumer = filtered(&store, 256, filters.clone());
        assert_eq!(bodies(&consume(&consumer, expected.len())), expected, "{filters:?}");
        assert!(taken(&consumer).is_empty());
        consumer.close().unwrap();
        assert_eq!(unfinished(&store), 0);
        // They are finished for good, also for a consumer of the group without filters.
        assert!(taken(&filtered(&store, 256, vec![])).is_empty());
    }
}

#[test]
fn a_pull_is_full_although_one_message_of_a_hundred_passes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    publish_rare(&store, 30_000);
    let consumer = filtered(&store, 256, vec![tags(TagRule::Any, &["rare"])]);
    assert_eq!(collect(&consumer, 1).len(), 1);
    let pulled = consumer.pull(200, Duration::from_secs(5)).unwrap();
    assert_eq!(pulled.len(), 200);
    assert_eq!(bodies(&pulled)[..2], ["199", "299"]);
    // No more than the limit is in flight, however many were judged.
    assert_eq!(taken(&consumer).len(), 55);
    assert!(taken(&consumer).is_empty());
    let keys: Vec<DeliveryKey> = pulled.iter().map(|message| message.key).collect();
    consumer.acknowledge(&keys).unwrap();
    assert_eq!(taken(&consumer).len(), 44);
}

#[test]
fn a_consumer_in_a_loop_that_never_waits_gets_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    publish_rare(&store, 5_000);
    let consumer = filtered(&store, 256, vec![tags(TagRule::Any, &["rare"])]);
    consumer.watch(1).unwrap();
    let mut found = Vec::new();
    eventually("fifty messages", || {
        match consumer.try_pull(10, true).unwrap() {
            Pulled::Messages(messages) => found.extend(messages),
            Pulled::WouldWait => found.extend(consumer.pull(10, Duration::ZERO).unwrap()),
            Pulled::Nothing => {}
        }
        found.len() == 50
    });
    assert!(bodies(&found).iter().all(|body| body.ends_with("99")));
    eventually("nothing is left", || matches!(consumer.try_pull(10, false).unwrap(), Pulled::Nothing));
}

#[test]
fn a_message_that_passes_is_held_over_a_restart_and_the_others_are_not_judged_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    publish_rare(&store, 1_000);
    let rare = || vec![tags(TagRule::Any, &["rare"])];
    let consumer = filtered(&store, 256, rare());
    assert_eq!(collect(&consumer, 10).len(), 10);
    assert!(consumer.flush(Duration::from_secs(20)).unwrap());
    assert_eq!(unfinished(&store), 10);
    drop(consumer);
    store.close().unwrap();
    drop(store);
    let store = open(folder.path(), options(Durability::Disk));
    assert_eq!(unfinished(&store), 10);
    // A retry has the tags of its message.
    let consumer = filtered(&store, 256, rare());
    let again = collect(&consumer, 10);
    assert!(again.len() == 10 && again.iter().all(|message| message.redelivered));
    consumer.give_back(again[0].key, 0).unwrap();
    let retried = collect(&consumer, 1);
    assert_eq!((bodies(&retried), retried[0].attempt), (vec!["99".to_owned()], 3));
}

/// Publishes a rare and a common message, which become dead letters when they expire, and waits until they have expired.
fn publish_expired(store: &Store) {
    let terms = PublishTerms { expires: Some((Expires::After(1), OnExpiry::DeadLetter)), ..PublishTerms::NONE };
    let mut batch = store.batch();
    for tag in ["rare", "common"] {
        batch.push_on_terms("orders", Due::After(0), (&meta(&[tag], &[]), b"x"), &terms).unwrap();
    }
    store.publish(&mut batch).unwrap();
    std::thread::sleep(Duration::from_millis(20));
}

#[test]
fn a_message_that_does_not_pass_is_none_of_the_dead_letters_when_it_expires() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    publish_expired(&store);
    let consumer = filtered(&store, 256, vec![tags(TagRule::Any, &["rare"])]);
    eventually("both are finished", || taken(&consumer).is_empty() && unfinished(&store) == 0);
    eventually("one dead letter", || store.status().unwrap().expired == 1);
}

#[test]
fn too_many_filters_and_too_long_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let one = || attribute("k", AttributeRule::Present);
    let long = attribute("k", AttributeRule::Equals(vec![b'x'; 256]));
    for filters in [vec![one(); FILTERS_MAX + 1], vec![long], vec![tags(TagRule::Any, &["t"; 128])]] {
        let options = SubscribeOptions { filters, ..SubscribeOptions::default() };
        let error = store.subscribe("orders", "billing", options).map(drop).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
    }
    assert!(store.groups().unwrap().is_empty(), "a group was registered");
}

const BOUNDS: PullBounds = PullBounds { count_max: 20, bytes_max: usize::MAX, in_flight_max: 256 };

fn named(store: &Store, consumer: &str) -> Arc<NamedConsumer> {
    let id = ConsumerId { subject: "orders", group: "billing", consumer };
    let options = NamedOptions { start: StartAt::Unfinished, ..NamedOptions::default() };
    store.register_named_consumer(id, options).unwrap().finish().unwrap().0
}

fn judging(filters: &[Filter]) -> Judging<'_> {
    Judging { filters, judged_max: 1 << 16, returns_part: true }
}

fn first_run(consumer: &NamedConsumer, filters: &[Filter]) -> GivenRun {
    let mut found = None;
    eventually("a message", || {
        if let TriedRun::Run(run) = consumer.pull_passing(BOUNDS, judging(filters)).unwrap() {
            found = Some(run);
        }
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_named_consumer_has_full_answers_under_dense_offsets() {
    for durability in [Durability::Disk, Durability::Os] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), options(durability));
        publish_rare(&store, 10_000);
        let (consumer, rare) = (named(&store, "one"), [tags(TagRule::Any, &["rare"])]);
        let mut given = Vec::new();
        while given.len() < 100 {
            let run = first_run(&consumer, &rare);
            assert_eq!((run.first, run.messages.len()), (PullOffset(given.len() as u64), 20));
            given.extend(bodies(&run.messages));
        }
        let expected: Vec<String> = (0..100).map(|number| (number * 100 + 99).to_string()).collect();
        assert_eq!(given, expected);
        assert!(matches!(consumer.pull_passing(BOUNDS, judging(&rare)).unwrap(), TriedRun::Nothing));
        assert_eq!((unfinished(&store), consumer.take_passed_over(), consumer.take_passed_over()), (100, 9_900, 0));
        let end = consumer.settle(&[PullOffset(0)..PullOffset(100)], &[], RetryRule::default()).unwrap();
        eventually("they are finished", || store.want(end).unwrap() && unfinished(&store) == 0);
        store.close().unwrap();
        let store = open(folder.path(), options(durability));
        assert_eq!(unfinished(&store), 0);
        // A consumer without filters gets none of what was passed over.
        assert!(named(&store, "two").pull(BOUNDS).unwrap().is_none());
    }
}

#[test]
fn a_pull_judges_its_share_and_the_next_one_fills_what_passed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    publish_rare(&store, 6_000);
    eventually("all are ready", || unfinished(&store) == 0 && store.status().unwrap().pending == 0);
    let (consumer, rare) = (named(&store, "one"), [tags(TagRule::Any, &["rare"])]);
    let share = |judged_max, returns_part| {
        consumer.pull_passing(BOUNDS, Judging { filters: &rare, judged_max, returns_part }).unwrap()
    };
    assert!(matches!(share(50, true), TriedRun::WouldWait), "none of fifty passes");
    assert!(matches!(share(1_000, false), TriedRun::WouldWait), "ten do, and wait for the others");
    // Messages that are judged again, because a reserve was not durable yet, count as well.
    let run = loop {
        match share(1, true) {
            TriedRun::Run(run) => break run,
            TriedRun::WouldWait => {}
            TriedRun::Nothing | TriedRun::Soon => panic!("the messages that passed do not come"),
        }
    };
    assert!(run.first == PullOffset(0) && (1..=20).contains(&run.messages.len()), "{}", run.messages.len());
    let TriedRun::Run(rest) = share(1 << 16, false) else { panic!("nothing comes") };
    assert_eq!((rest.first, rest.messages.len()), (PullOffset(run.messages.len() as u64), 20));
    // Its bytes bound it, too.
    let two = PullBounds { bytes_max: 2 * rest.messages[0].payload.all().len(), ..BOUNDS };
    let TriedRun::Run(bounded) = consumer.pull_passing(two, judging(&rare)).unwrap() else { panic!("nothing comes") };
    assert!(bounded.messages.len() <= 2, "{}", bounded.messages.len());
}

#[test]
fn consumers_that_judge_the_same_messages_get_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    publish_rare(&store, 20_000);
    let rare = [tags(TagRule::Any, &["rare"])];
    let found = std::sync::Mutex::new(Vec::new());
    let passed_over = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for name in ["one", "two", "three"] {
            let (store, found, passed_over, rare) = (&store, &found, &passed_over, &rare);
            scope.spawn(move || {
                let (consumer, mut next) = (named(store, name), PullOffset(0));
                while found.lock().unwrap().len() < 200 {
                    let tried = consumer.try_pull_passing(BOUNDS, judging(rare)).unwrap();
                    let tried = match tried {
                        TriedRun::WouldWait => consumer.pull_passing(BOUNDS, judging(rare)).unwrap(),
                        tried => tried,
                    };
                    if let TriedRun::Run(run) = tried {
                        assert_eq!(run.first, next);
                        next = next.plus(run.messages.len() as u64);
                        found.lock().unwrap().extend(bodies(&run.messages));
                    }
                }
                passed_over.fetch_add(consumer.take_passed_over(), std::sync::atomic::Ordering::Relaxed);
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|body| body.parse::<u64>().unwrap());
    let expected: Vec<String> = (0..200).map(|number| (number * 100 + 99).to_string()).collect();
    assert_eq!(found, expected);
    eventually("the others are finished", || unfinished(&store) == 200);
    assert_eq!(passed_over.into_inner(), 19_800);
}

#[test]
fn a_named_consumer_finishes_what_expired_and_passes_and_passes_over_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    publish_expired(&store);
    let (consumer, rare) = (named(&store, "one"), [tags(TagRule::Any, &["rare"])]);
    eventually("both are finished", || {
        assert!(!matches!(consumer.pull_passing(BOUNDS, judging(&rare)).unwrap(), TriedRun::Run(_)));
        unfinished(&store) == 0 && consumer.take_passed_over() == 1
    });
    eventually("one dead letter", || store.status().unwrap().expired == 1);
}
