//! One subscription over many subjects: a list of them, or all with a prefix.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{bodies, collect, consume, eventually, open, options, publish, subscribe, taken};
use delaymq_core::error::Error;
use delaymq_core::queues::tags::{AttributeRule, Filter};
use delaymq_core::record::message::{Meta, encode_meta};
use delaymq_core::store::{Selection, Since};
use delaymq_core::units::Millis;
use delaymq_engine::{
    Delivered, DeliveryKey, DeliveryRange, Due, Durability, Expires, ManualClock, OnExpiry, Options, PublishTerms,
    Pulled, StartAt, Store, SubscribeOptions, Subscription,
};

const GROUP: &str = "billing";

fn selected(store: &Store, texts: &[&str], options: SubscribeOptions) -> Arc<Subscription> {
    store.subscribe_to(Selection::of(texts).unwrap(), GROUP, options).unwrap()
}

fn of(store: &Store, texts: &[&str]) -> Arc<Subscription> {
    selected(store, texts, SubscribeOptions::default())
}

fn up_to(in_flight_max: u32) -> SubscribeOptions {
    SubscribeOptions { in_flight_max, ..SubscribeOptions::default() }
}

/// Publishes so many messages to each subject, all together.
fn publish_each(store: &Store, subjects: &[&str], count: usize) {
    let mut batch = store.batch();
    for number in 0..count {
        for subject in subjects {
            batch.push(subject, Due::After(0), &[], format!("{subject}-{number}").as_bytes()).unwrap();
        }
    }
    store.publish(&mut batch).unwrap();
}

fn subjects_of(messages: &[Delivered]) -> BTreeSet<String> {
    messages.iter().map(|message| message.subject.to_string()).collect()
}

/// The bodies of each subject, in the order in which they came.
fn by_subject(messages: &[Delivered]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for message in messages {
        let body = String::from_utf8(message.body().to_vec()).unwrap();
        found.entry(message.subject.to_string()).or_default().push(body);
    }
    found
}

fn keys(messages: &[Delivered]) -> Vec<DeliveryKey> {
    messages.iter().map(|message| message.key).collect()
}

/// How many messages the group has not finished, by subject of users.
fn unfinished(store: &Store) -> BTreeMap<String, u64> {
    let listed = store.groups().unwrap().into_iter().filter(|group| group.name == GROUP);
    listed.map(|group| (group.subject, group.lag)).collect()
}

#[test]
fn every_message_of_each_listed_subject_comes_once_in_its_order() {
    for durability in [Durability::Disk, Durability::Os] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), options(durability));
        let messages = of(&store, &["a", "b", "c"]);
        assert!(messages.starts_group());
        assert_eq!((messages.subjects_count(), messages.selection().texts().len()), (3, 3));
        publish_each(&store, &["a", "b", "other", "c"], 100);
        let got = consume(&messages, 300);
        let expected = ["a", "b", "c"].map(|subject| {
            (subject.to_owned(), (0..100).map(|number| format!("{subject}-{number}")).collect::<Vec<_>>())
        });
        assert_eq!(by_subject(&got), BTreeMap::from(expected));
        assert!(taken(&messages).is_empty());
        messages.close().unwrap();
        assert_eq!(unfinished(&store), ["a", "b", "c"].map(|subject| (subject.to_owned(), 0)).into());
        assert!(!of(&store, &["b", "a"]).starts_group(), "both have the group");
    }
}

#[test]
fn a_subject_with_a_backlog_leaves_room_for_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let messages = selected(&store, &["full", "b", "c", "d"], up_to(10_000));
    publish_each(&store, &["full"], 5_000);
    publish_each(&store, &["b", "c", "d"], 60);
    assert_eq!(collect(&messages, 1).len(), 1);
    let first = messages.pull(100, Duration::from_secs(5)).unwrap();
    let counts: BTreeMap<String, usize> =
        by_subject(&first).into_iter().map(|(subject, bodies)| (subject, bodies.len())).collect();
    assert_eq!(first.len(), 100, "{counts:?}");
    assert!(counts.values().all(|count| (24..=26).contains(count)) && counts.len() == 4, "{counts:?}");
    // The subjects that have less than their share leave it to the one that has more.
    let next = messages.pull(1_000, Duration::from_secs(5)).unwrap();
    assert_eq!(next.len(), 1_000);
    let rest = [first, next].concat();
    let rest = by_subject(&rest);
    assert_eq!(["b", "c", "d"].map(|subject| rest[subject].len() >= 59), [true; 3]);
}

#[test]
fn no_more_is_in_flight_than_the_limit_over_all_subjects() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let messages = selected(&store, &["a", "b", "c"], up_to(4));
    publish_each(&store, &["a", "b", "c"], 50);
    let mut came = BTreeSet::new();
    while came.len() < 150 {
        let held = collect(&messages, 4);
        assert_eq!(held.len(), 4.min(150 - came.len()));
        assert!(messages.pull(1, Duration::ZERO).unwrap().is_empty(), "four are held");
        came.extend(held.iter().map(|message| message.sequence));
        messages.acknowledge(&keys(&held)).unwrap();
    }
    assert!(taken(&messages).is_empty());
}

#[test]
fn each_message_is_settled_in_its_own_subject() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let messages = of(&store, &["a", "b"]);
    publish_each(&store, &["a", "b"], 4);
    let got = collect(&messages, 8);
    let of_subject = |subject: &str, number: usize| {
        got.iter().filter(|message| &*message.subject == subject).nth(number).unwrap().key
    };
    // Offset for offset the same in both: only the queues tell them apart.
    assert_eq!(of_subject("a", 0).offset, of_subject("b", 0).offset);
    messages.acknowledge(&[of_subject("a", 0)]).unwrap();
    messages.give_back(of_subject("b", 0), 0).unwrap();
    messages.dead_letter(of_subject("b", 1), "broken").unwrap();
    messages.dead_letter(of_subject("a", 1), "torn").unwrap();
    messages.give_back(of_subject("a", 2), 0).unwrap();
    let nobody = DeliveryKey { queue: 77, offset: 0 };
    messages.acknowledge(&[nobody]).unwrap();
    messages.give_back(nobody, 0).unwrap();
    messages.dead_letter(nobody, "nobody").unwrap();
    let again = collect(&messages, 2);
    assert_eq!(
        by_subject(&again),
        [("a", "a-2"), ("b", "b-0")].map(|(s, b)| (s.to_owned(), vec![b.to_owned()])).into()
    );
    assert!(again.iter().all(|one| one.attempt == 2 && one.key.queue % 2 == 1));
    messages.acknowledge(&keys(&again)).unwrap();
    let range = |subject: &str| {
        let DeliveryKey { queue, offset } = of_subject(subject, 0);
        DeliveryRange { queue, first: offset, count: 4 }
    };
    messages.acknowledge_ranges(&[range("b"), range("a")]).unwrap();
    assert!(messages.flush(Duration::from_secs(5)).unwrap());
    let dead = |subject| store.dead_letters(subject, GROUP, 10).unwrap().into_iter().map(|one| one.reason);
    assert_eq!(dead("a").chain(dead("b")).collect::<Vec<_>>(), ["torn", "broken"]);
    assert!(taken(&messages).is_empty());
    assert_eq!(unfinished(&store).values().sum::<u64>(), 0);
}

#[test]
fn a_prefix_has_the_subjects_that_exist_and_those_that_are_made_later() {
    for durability in [Durability::Disk, Durability::Os] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), options(durability));
        publish_each(&store, &["order.made", "orders", "refund.made"], 2);
        // Retries and dead letters of another group: no prefix selects them.
        let other = subscribe(&store, "order.made", "other");
        let got = collect(&other, 2);
        other.give_back(got[0].key, 0).unwrap();
        other.dead_letter(got[1].key, "dead").unwrap();
        assert!(other.flush(Duration::from_secs(5)).unwrap());
        let latest = SubscribeOptions { start: StartAt::Latest, ..SubscribeOptions::default() };
        let messages = selected(&store, &["order.*"], latest);
        assert_eq!(messages.subjects_count(), 1);
        assert!(taken(&messages).is_empty(), "the subject that is there starts where the options say");
        publish_each(&store, &["order.made", "order.paid", "orders", "refund.made"], 3);
        publish_each(&store, &["order.sent"], 3);
        let got = by_subject(&consume(&messages, 9));
        let three = |subject: &str| (0..3).map(|number| format!("{subject}-{number}")).collect::<Vec<_>>();
        let expected = ["order.made", "order.paid", "order.sent"].map(|name| (name.to_owned(), three(name)));
        assert_eq!(got, BTreeMap::from(expected), "a later subject is read from its first message");
        assert!(taken(&messages).is_empty());
        assert_eq!(messages.subjects_count(), 3);
    }
}

#[test]
fn a_prefix_that_selects_nothing_yet_waits_for_its_first_subject() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let messages = of(&store, &["order.*"]);
    assert_eq!((messages.subjects_count(), messages.starts_group()), (0, false));
    assert!(messages.pull(1, Duration::ZERO).unwrap().is_empty());
    let waiting = Arc::clone(&messages);
    let waiter = std::thread::spawn(move || waiting.pull(1, Duration::from_secs(20)).unwrap());
    publish(&store, "order.made", Due::After(20), b"1");
    assert_eq!(bodies(&waiter.join().unwrap()), ["1"]);
    // Another consumer of the group shares what comes.
    let all = of(&store, &["*"]);
    publish_each(&store, &["order.made", "x"], 1);
    let both = [collect(&all, 1), collect(&all, 1), taken(&messages)].concat();
    assert_eq!(subjects_of(&both), ["order.made", "x"].map(str::to_owned).into());
    assert_eq!(both.len(), 2);
}

/// The end of a join is at most so often, and each one has all subjects that were made before.
#[test]
fn subjects_that_keep_being_made_are_joined_together_while_there_are_messages() {
    const MADE: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let messages = selected(&store, &["s.*"], up_to(10_000));
    publish_each(&store, &["s.old"], 4_000);
    let began = Instant::now();
    let (mut joins, mut count) = (0_u32, 0);
    let mut came = BTreeSet::new();
    for number in 0..MADE {
        publish(&store, &format!("s.{number}"), Due::After(0), b"");
        came.extend(subjects_of(&messages.pull(1, Duration::from_secs(20)).unwrap()));
        joins += u32::from(messages.subjects_count() != count);
        count = messages.subjects_count();
    }
    // A pull that has to wait for a fact about its backlog joins as well.
    let most = 2 + u32::try_from(began.elapsed().as_millis() / 100).unwrap() + 20;
    assert!(joins <= most, "{joins} joins");
    // The backlog never ends, and each of them comes nevertheless.
    eventually("each subject", || {
        publish(&store, "s.old", Due::After(0), b"");
        let got = messages.pull(1, Duration::from_secs(20)).unwrap();
        messages.acknowledge(&keys(&got)).unwrap();
        came.extend(subjects_of(&got));
        came.len() == MADE + 1
    });
}

#[test]
fn an_event_loop_hears_of_a_subject_that_is_made_later() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    store.listen().unwrap();
    let messages = of(&store, &["order.*"]);
    messages.watch(5).unwrap();
    // The listener of the store may hold the lock still.
    eventually("nothing", || matches!(messages.try_pull(10, false).unwrap(), Pulled::Nothing));
    publish(&store, "order.made", Due::After(0), b"1");
    eventually("news", || store.drain().unwrap().0.tokens.contains(&5));
    let mut got = Vec::new();
    eventually("the message", || {
        match messages.try_pull(10, false).unwrap() {
            Pulled::Messages(found) => got.extend(found),
            Pulled::WouldWait => got.extend(messages.pull(10, Duration::ZERO).unwrap()),
            Pulled::Nothing => {}
        }
        !got.is_empty()
    });
    assert_eq!(bodies(&got), ["1"]);
}

#[test]
fn what_was_not_acknowledged_of_any_subject_comes_again_after_an_end() {
    for durability in [Durability::Disk, Durability::Os] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), options(durability));
        let messages = of(&store, &["order.*"]);
        publish_each(&store, &["order.a", "order.b", "order.c"], 5);
        let got = collect(&messages, 15);
        let b = got.iter().filter(|message| &*message.subject == "order.b");
        messages.acknowledge(&b.map(|message| message.key).collect::<Vec<_>>()).unwrap();
        let given_back = got.iter().find(|message| &*message.subject == "order.c").unwrap();
        messages.give_back(given_back.key, 0).unwrap();
        assert!(messages.flush(Duration::from_secs(5)).unwrap());
        // As `kill -9` ends it.
        store.abandon().unwrap();
        drop((messages, store));
        let store = open(folder.path(), options(durability));
        let messages = of(&store, &["order.*"]);
        let again = collect(&messages, 10);
        assert!(again.iter().all(|message| message.redelivered));
        let counts = by_subject(&again).into_iter().map(|(subject, bodies)| (subject, bodies.len()));
        assert_eq!(counts.collect::<Vec<_>>(), [("order.a".to_owned(), 5), ("order.c".to_owned(), 5)]);
        assert!(messages.pull(1, Duration::from_millis(20)).unwrap().is_empty());
    }
}

#[test]
fn a_backlog_of_many_subjects_in_runs_comes_whole() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..120).map(|number| format!("order.{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let store = open(folder.path(), options(Durability::Os));
    of(&store, &["order.*"]).close().unwrap();
    for _ in 0..4 {
        publish_each(&store, &names, 10);
        store.checkpoint().unwrap();
    }
    store.close().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let messages = selected(&store, &["order.*"], up_to(1_000));
    let got = by_subject(&consume(&messages, 4_800));
    assert_eq!(got.len(), 120);
    assert!(got.values().all(|bodies| bodies.len() == 40));
}

#[test]
fn a_subject_whose_rows_are_in_runs_is_not_starved_by_one_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    of(&store, &["kept", "busy"]).close().unwrap();
    publish_each(&store, &["kept"], 1_000);
    store.checkpoint().unwrap();
    store.close().unwrap();
    // After an open, rows of before are in runs.
    let store = open(folder.path(), options(Durability::Os));
    for is_at_once in [false, true] {
        let messages = selected(&store, &["busy", "kept"], up_to(256));
        let mut kept = 0;
        for _ in 0..8 {
            // There are always enough messages in memory for a whole pull.
            publish_each(&store, &["busy"], 300);
            let pulled = if is_at_once {
                match messages.try_pull(256, true).unwrap() {
                    Pulled::Messages(pulled) => pulled,
                    _ => messages.pull(256, Duration::from_secs(10)).unwrap(),
                }
            } else {
                messages.pull(256, Duration::from_secs(10)).unwrap()
            };
            kept += pulled.iter().filter(|message| &*message.subject == "kept").count();
            messages.acknowledge(&keys(&pulled)).unwrap();
            messages.flush(Duration::from_secs(10)).unwrap();
        }
        assert!(kept > 100, "{kept} of a thousand, at once: {is_at_once}");
        messages.close().unwrap();
    }
}

#[test]
fn a_receipt_is_no_start_of_more_than_one_subject() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let mut batch = store.batch();
    batch.push("a", Due::After(0), &[], b"1").unwrap();
    let receipt = store.publish(&mut batch).unwrap().get(0).unwrap();
    for texts in [&["a", "b"][..], &["a*"]] {
        let options = SubscribeOptions { start: StartAt::Message(receipt), ..SubscribeOptions::default() };
        let refused = store.subscribe_to(Selection::of(texts).unwrap(), GROUP, options);
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "start", .. })));
    }
    let options = SubscribeOptions { start: StartAt::Message(receipt), ..SubscribeOptions::default() };
    assert_eq!(bodies(&consume(&selected(&store, &["a"], options), 1)), ["1"]);
}

#[test]
fn a_time_is_a_start_of_every_subject() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let before = of(&store, &["a", "b", "c"]);
    publish_each(&store, &["a", "b", "c"], 2);
    assert_eq!(consume(&before, 6).len(), 6);
    std::thread::sleep(Duration::from_millis(5));
    let since = store.now();
    publish_each(&store, &["a", "c"], 3);
    assert_eq!(consume(&before, 6).len(), 6);
    assert!(before.flush(Duration::from_secs(5)).unwrap());
    // Only a time brings them again.
    eventually("all finished", || unfinished(&store).values().sum::<u64>() == 0);
    for (group, start) in [("published", StartAt::Published(Since::At(since))), ("due", StartAt::Due(Since::At(since)))]
    {
        let options = SubscribeOptions { start, ..SubscribeOptions::default() };
        let again = store.subscribe_to(Selection::of(&["a", "b", "c"]).unwrap(), group, options).unwrap();
        let got = consume(&again, 6);
        assert_eq!(subjects_of(&got), ["a", "c"].map(str::to_owned).into());
        assert!(taken(&again).is_empty());
    }
}

#[test]
fn consumers_of_a_group_share_each_subject_whatever_else_they_consume() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let consumers = [of(&store, &["order.*"]), of(&store, &["order.a", "x"]), of(&store, &["order.b"])];
    publish_each(&store, &["order.a", "order.b", "order.c", "x"], 200);
    let got: Vec<Vec<Delivered>> = std::thread::scope(|scope| {
        let consume = |messages: &Arc<Subscription>| {
            let mut all = Vec::new();
            loop {
                let pulled = messages.pull(16, Duration::from_millis(300)).unwrap();
                if pulled.is_empty() {
                    return all;
                }
                messages.acknowledge(&keys(&pulled)).unwrap();
                all.extend(pulled);
            }
        };
        let threads: Vec<_> = consumers.iter().map(|messages| scope.spawn(move || consume(messages))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all: BTreeSet<_> = got.iter().flatten().map(|message| message.sequence).collect();
    assert_eq!((all.len(), got.iter().map(Vec::len).sum::<usize>()), (800, 800), "each came once");
    assert!(subjects_of(&got[2]).len() <= 1);
}

#[test]
fn filters_and_expiry_hold_for_every_subject() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Millis(1_800_000_000_000)).unwrap());
    let store = open(folder.path(), Options { clock: clock.clone(), ..options(Durability::Os) });
    let rule = AttributeRule::Equals(b"eu".to_vec());
    let filters = vec![Filter::Attribute { key: "region".to_owned(), rule }];
    let messages = selected(&store, &["a", "b"], SubscribeOptions { filters, ..SubscribeOptions::default() });
    let meta = |region: &str| {
        let attributes = [("region".to_owned(), region.as_bytes().to_vec())].into();
        encode_meta(&Meta { message_id: String::new(), tags: vec![], attributes }).unwrap()
    };
    let mut batch = store.batch();
    for subject in ["a", "b"] {
        for (region, then) in [("eu", OnExpiry::Drop), ("eu", OnExpiry::DeadLetter), ("us", OnExpiry::DeadLetter)] {
            let terms = PublishTerms { expires: Some((Expires::After(10), then)), ..PublishTerms::NONE };
            batch.push_on_terms(subject, Due::After(0), (&meta(region), b"old"), &terms).unwrap();
        }
        batch.push(subject, Due::After(0), &meta("us"), b"far").unwrap();
        batch.push(subject, Due::After(0), &meta("eu"), subject.as_bytes()).unwrap();
    }
    store.publish(&mut batch).unwrap();
    clock.advance(20, Duration::from_secs(5), &mut || true).unwrap();
    let got = consume(&messages, 2);
    assert_eq!(by_subject(&got), ["a", "b"].map(|name| (name.to_owned(), vec![name.to_owned()])).into());
    assert!(taken(&messages).is_empty());
    assert!(messages.flush(Duration::from_secs(5)).unwrap());
    for subject in ["a", "b"] {
        assert_eq!(store.dead_letters(subject, GROUP, 10).unwrap().len(), 1, "{subject}");
    }
    assert_eq!(unfinished(&store).values().sum::<u64>(), 0);
}

#[test]
fn what_is_no_selection_is_refused_and_leaves_no_consumer() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let named = |error: Error| match error {
        Error::InvalidArgument { argument, .. } | Error::TooLarge { argument, .. } => argument,
        other => panic!("{other:?}"),
    };
    let refused = |texts: &[&str]| named(Selection::of(texts).err().unwrap());
    assert_eq!([refused(&[]), refused(&["a", "a"]), refused(&["a", "b*"]), refused(&["a b"])], ["subject"; 4]);
    let prefix = Selection::of(&["*"]).unwrap();
    assert_eq!(named(store.subscribe_to(prefix, "g/h", SubscribeOptions::default()).err().unwrap()), "group");
    let names: Vec<String> = (0..10_001).map(|number| format!("s.{number}")).collect();
    let mut batch = store.batch();
    for (number, name) in names.iter().enumerate() {
        batch.push(name, Due::After(0), &[], b"").unwrap();
        if number % 1_000 == 0 {
            store.publish(&mut batch).unwrap();
        }
    }
    store.publish(&mut batch).unwrap();
    let all = |text: &str| store.subscribe_to(Selection::of(&[text]).unwrap(), GROUP, SubscribeOptions::default());
    assert_eq!(named(all("*").err().unwrap()), "subjects");
    assert!(store.groups().unwrap().is_empty());
    assert_eq!(all("s.1*").unwrap().subjects_count(), 1_111 + 1);
}

#[test]
fn a_prefix_that_comes_to_select_too_many_ends_with_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let messages = of(&store, &["s.*"]);
    let mut batch = store.batch();
    for number in 0..10_000 {
        batch.push(&format!("s.{number}"), Due::After(3_600_000), &[], b"").unwrap();
        if number % 1_000 == 0 {
            store.publish(&mut batch).unwrap();
        }
    }
    store.publish(&mut batch).unwrap();
    // Another thread may apply what was published.
    eventually("all are joined", || {
        assert!(messages.pull(1, Duration::ZERO).unwrap().is_empty());
        messages.subjects_count() == 10_000
    });
    publish(&store, "s.more", Due::After(0), b"");
    let refused = messages.pull(1, Duration::from_secs(5));
    assert!(
        matches!(refused, Err(Error::TooLarge { argument: "subjects", limit: 10_000, found: 10_001 })),
        "{refused:?}"
    );
    messages.close().unwrap();
}
