//! Filters of a subscription: a message that does not pass is finished for the group, and the others come in full pulls.

#![cfg(test)]

use std::time::Duration;

use crate::support::{bodies, collect, consume, eventually, open, options, taken};
use delaymq_core::error::Error;
use delaymq_core::queues::tags::{AttributeRule, FILTERS_MAX, Filter, TagRule};
use delaymq_core::record::message::{Meta, encode_meta};
use delaymq_engine::{
    DeliveryKey, Due, Durability, Expires, OnExpiry, PublishTerms, Pulled, Store, SubscribeOptions, Subscription,
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

#[test]
fn a_message_that_does_not_pass_is_none_of_the_dead_letters_when_it_expires() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let terms = PublishTerms { expires: Some((Expires::After(1), OnExpiry::DeadLetter)), ..PublishTerms::NONE };
    let mut batch = store.batch();
    for tag in ["rare", "common"] {
        batch.push_on_terms("orders", Due::After(0), (&meta(&[tag], &[]), b"x"), &terms).unwrap();
    }
    store.publish(&mut batch).unwrap();
    std::thread::sleep(Duration::from_millis(20));
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
