//! What a server needs of a store that others use too: a listener of its own, messages of QMQ as they came, many
//! settlements at once, and no more bytes than it has room for.

#![cfg(test)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{collect, eventually, open, options, publish, subscribe};
use delaymq_core::error::Error;
use delaymq_core::store::SENT_BY_CONSUMER;
use delaymq_core::units::Millis;
use delaymq_core::wire::qmq::message::{MessageParts, WireMessage, put_message};
use delaymq_engine::{Delivered, DeliveryRange, Due, Durability, Listener, Pulled, Store, Subscription};

fn listener(store: &Store) -> (Listener, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let called = Arc::clone(&calls);
    let wake = Box::new(move || {
        called.fetch_add(1, Ordering::SeqCst);
    });
    (store.listener(wake).unwrap(), calls)
}

fn qmq_message(subject: &str, id: &str) -> Vec<u8> {
    let mut whole = Vec::new();
    let body = [0, 1, b'k', 0, 1, b'v'];
    let parts = MessageParts {
        created: Millis(1),
        due: None,
        subject,
        message_id: id,
        tags: &["t"],
        is_opaque: false,
        body: &body,
    };
    put_message(&mut whole, &parts).unwrap();
    whole
}

/// Pulls by looking, until there is something or five seconds have passed.
fn found(subscription: &Subscription, count: usize, bytes: usize) -> Vec<Delivered> {
    let mut messages = Vec::new();
    eventually("messages", || {
        messages = match subscription.try_pull_within(count, bytes, false).unwrap() {
            Pulled::Messages(messages) => messages,
            Pulled::WouldWait => subscription.pull_within(count, bytes, Duration::ZERO).unwrap(),
            Pulled::Nothing => Vec::new(),
        };
        !messages.is_empty()
    });
    messages
}

#[test]
fn what_one_listener_hears_is_not_taken_from_another() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    store.listen().unwrap();
    let ((first, first_calls), (second, second_calls)) = (listener(&store), listener(&store));
    let (one, other) = (subscribe(&store, "a", "g"), subscribe(&store, "b", "g"));
    one.watch_by(&first, 7).unwrap();
    other.watch(8).unwrap();
    for subscription in [&one, &other] {
        eventually("nothing", || matches!(subscription.try_pull(1, false).unwrap(), Pulled::Nothing));
    }
    for listener in [&first, &second] {
        listener.drain().unwrap();
    }
    let before = (first_calls.load(Ordering::SeqCst), second_calls.load(Ordering::SeqCst));
    let mut batch = store.batch();
    batch.push("a", Due::After(0), &[], b"1").unwrap();
    batch.push("b", Due::After(0), &[], b"2").unwrap();
    let end = store.submit(&mut batch).unwrap().end();
    eventually("the position", || second.want(end).unwrap());
    let mut tokens = Vec::new();
    eventually("the news", || {
        tokens.extend(first.drain().unwrap().0.tokens);
        !tokens.is_empty()
    });
    assert_eq!(tokens, [7]);
    eventually("the other's news", || store.drain().unwrap().0.tokens.contains(&8));
    assert!(first_calls.load(Ordering::SeqCst) > before.0);
    drop(second);
    let calls = second_calls.load(Ordering::SeqCst);
    store.close().unwrap();
    assert_eq!(second_calls.load(Ordering::SeqCst), calls, "who left is not called");
    assert!(matches!(first.want(delaymq_core::units::Sequence(u64::MAX)), Err(Error::Closed)));
    assert!(matches!(store.listener(Box::new(|| {})), Err(Error::Closed)));
}

#[test]
fn a_message_of_qmq_is_kept_as_it_came() {
    let folder = tempfile::tempdir().unwrap();
    let whole = qmq_message("order", "id-1");
    {
        let store = open(folder.path(), options(Durability::Disk));
        let mut batch = store.batch();
        batch.push_qmq("order", None, 0, &whole).unwrap();
        batch.push("order", Due::After(0), &[], b"own").unwrap();
        let refused = batch.push_qmq("%RETRY%order", None, 0, &whole);
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "subject", .. })));
        let far = batch.push_qmq("order", Some(Millis(u64::MAX)), 0, &whole);
        assert!(matches!(far, Err(Error::InvalidArgument { argument: "due", .. })));
        assert_eq!(batch.len(), 2);
        store.publish(&mut batch).unwrap();
    }
    let store = open(folder.path(), options(Durability::Disk));
    let messages = collect(&subscribe(&store, "order", "g"), 2);
    let (qmq, own) = (&messages[0].payload, &messages[1].payload);
    assert_eq!((qmq.is_opaque(), own.is_opaque()), (false, true));
    assert_eq!((qmq.all(), qmq.body(), qmq.meta()), (&whole[..], &whole[..], &b""[..]));
    assert_eq!(qmq.check(), WireMessage::read_whole(&whole).unwrap().check());
    assert_eq!(own.check(), crc32fast::hash(b"own"));
}

#[test]
fn what_a_qmq_consumer_sends_to_its_retry_subject_reaches_its_group_a_little_later() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let subscription = subscribe(&store, "order", "billing");
    let whole = qmq_message("%RETRY%order%billing", "id-1");
    let before = store.now();
    let mut batch = store.batch();
    batch.push_qmq("%RETRY%order%billing", None, 0, &whole).unwrap();
    let receipts = store.publish(&mut batch).unwrap();
    let due = receipts.get(0).unwrap().key.due;
    assert!(due >= before.plus(5_000) && due < before.plus(60_000), "{due:?} after {before:?}");
    // It is pending and no push of delaymq's own may name it, whatever was pushed before.
    assert!(batch.push("%RETRY%order%billing", Due::After(0), &[], b"").is_err());
    batch.push_qmq("%RETRY%order%billing", Some(Millis(1)), 0, &whole).unwrap();
    assert!(batch.push("%RETRY%order%billing", Due::After(0), &[], b"").is_err());
    batch.clear();
    batch.push_qmq("%DEAD_RETRY%order%billing", None, 0, &whole).unwrap();
    store.publish(&mut batch).unwrap();
    eventually("the dead letter", || !store.dead_letters("order", "billing", 10).unwrap().is_empty());
    let letters = store.dead_letters("order", "billing", 10).unwrap();
    assert_eq!((letters[0].reason.as_str(), &letters[0].damage), (SENT_BY_CONSUMER, &None));
    assert_eq!(store.redrive("order", "billing", None).unwrap(), 1);
    let again = collect(&subscription, 1);
    assert_eq!((again[0].payload.all(), again[0].key.queue), (&whole[..], 1));
}

#[test]
fn ranges_finish_what_is_held_in_them_however_wide_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let subscription = subscribe(&store, "a", "g");
    for number in 0..20_u8 {
        publish(&store, "a", Due::After(0), &[number]);
    }
    assert_eq!(collect(&subscription, 20).len(), 20);
    let range = |queue, first, count| DeliveryRange { queue, first, count };
    subscription.acknowledge_ranges(&[range(0, 2, 3), range(0, 100, 5), range(1, 0, 3)]).unwrap();
    // Too wide to be walked: one around another, overlapping, of a queue that has nothing.
    let wide = [range(0, 8, 1 << 60), range(1, 0, u64::MAX), range(0, 9, 2), range(0, 6, 1), range(0, 12, 1 << 61)];
    subscription.acknowledge_ranges(&wide).unwrap();
    assert!(subscription.flush(Duration::from_secs(10)).unwrap());
    drop(subscription);
    // What comes again comes before what is new.
    publish(&store, "a", Due::After(0), &[99]);
    let left: Vec<u8> = collect(&subscribe(&store, "a", "g"), 5).iter().map(|message| message.body()[0]).collect();
    assert_eq!(left, [0, 1, 5, 7, 99]);
}

#[test]
fn a_pull_stops_with_the_payload_that_fills_its_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let subscription = subscribe(&store, "a", "g");
    for _ in 0..6 {
        publish(&store, "a", Due::After(0), &[7; 1_000]);
    }
    eventually("all", || store.status().unwrap().ready == 6);
    let counts: Vec<usize> = (0..3).map(|_| found(&subscription, 10, 1_500).len()).collect();
    assert_eq!(counts, [2, 2, 2]);
    assert!(matches!(subscription.try_pull(10, false).unwrap(), Pulled::Nothing | Pulled::WouldWait));
    subscription.acknowledge_ranges(&[DeliveryRange { queue: 0, first: 0, count: 6 }]).unwrap();
    let end = subscription.submit_flush().unwrap();
    eventually("the flush", || store.want(end).unwrap());
    assert_eq!(store.status().unwrap().ready, 0);
}
