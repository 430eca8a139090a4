//! Administration of a store, on real files with real threads.

use std::time::Duration;

use delaymq_core::error::Error;
use delaymq_engine::{
    Delivered, Due, Durability, REASON_BYTES_MAX, Report, StartAt, Store, SubscribeOptions, Subscription,
};
use std::sync::Arc;

const SOON: Duration = Duration::from_secs(20);

fn publish(store: &Store, subject: &str, bodies: &[&str]) {
    let mut batch = store.batch();
    for body in bodies {
        batch.push(subject, Due::After(0), b"", body.as_bytes()).unwrap();
    }
    store.publish(&mut batch).unwrap();
}

fn subscribe(store: &Store) -> Arc<Subscription> {
    store.subscribe("s", "g", SubscribeOptions::default()).unwrap()
}

fn take(subscription: &Subscription, count: usize) -> Vec<Delivered> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let pulled = subscription.pull(count - taken.len(), SOON).unwrap();
        assert!(!pulled.is_empty(), "only {} of {count} came", taken.len());
        taken.extend(pulled);
    }
    taken
}

fn bodies(delivered: &[Delivered]) -> Vec<String> {
    delivered.iter().map(|one| String::from_utf8(one.body().to_vec()).unwrap()).collect()
}

fn refused(result: Result<impl std::fmt::Debug, Error>, expected: &str) {
    match result {
        Err(Error::InvalidArgument { argument, .. }) => assert_eq!(argument, expected),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_died_is_listed_with_its_reason_and_comes_back_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::support::open(folder.path(), crate::support::options(Durability::Os));
    publish(&store, "s", &["a", "b", "c"]);
    let messages = subscribe(&store);
    let taken = take(&messages, 3);
    messages.dead_letter(taken[0].key, "erstens: größer").unwrap();
    messages.dead_letter(taken[2].key, "").unwrap();
    // What is not held any more changes nothing.
    messages.dead_letter(taken[2].key, "again").unwrap();
    messages.acknowledge(&[taken[1].key]).unwrap();
    messages.close().unwrap();
    store.checkpoint().unwrap();
    store.close().unwrap();
    let store = crate::support::open(folder.path(), crate::support::options(Durability::Os));
    let dead = store.dead_letters("s", "g", 10).unwrap();
    let told: Vec<(&str, &[u8], u32)> =
        dead.iter().map(|one| (one.reason.as_str(), one.payload.as_ref().unwrap().body(), one.attempt)).collect();
    assert_eq!(told, [("erstens: größer", b"a".as_slice(), 1), ("", b"c".as_slice(), 1)]);
    assert!(dead.iter().all(|one| one.damage.is_none() && one.died.0 > 0));
    assert_eq!(store.dead_letters("s", "g", 1).unwrap().len(), 1);
    assert_eq!(store.groups().unwrap()[0].dead_letters, 2);
    assert_eq!(store.redrive("s", "g", Some(1)).unwrap(), 1);
    let messages = subscribe(&store);
    let again = take(&messages, 1);
    assert_eq!((bodies(&again), again[0].attempt), (vec!["a".to_owned()], 1));
    assert_eq!(store.redrive("s", "g", None).unwrap(), 1);
    assert_eq!(store.redrive("s", "g", None).unwrap(), 0);
    // It dies a second time, of another reason, from the retry subject.
    let third = take(&messages, 1);
    messages.dead_letter(third[0].key, "again").unwrap();
    assert!(messages.flush(SOON).unwrap());
    let dead = store.dead_letters("s", "g", 10).unwrap();
    assert_eq!((dead.len(), dead[0].reason.as_str(), dead[0].attempt), (1, "again", 1));
    assert_eq!(store.status().unwrap().metrics.redriven, 2);
}

#[test]
fn many_dead_letters_are_brought_back_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::support::open(folder.path(), crate::support::options(Durability::Os));
    let all: Vec<String> = (0..2_500).map(|number| format!("{number:04}")).collect();
    let messages = store.subscribe("s", "g", SubscribeOptions { in_flight_max: 5_000, ..Default::default() }).unwrap();
    publish(&store, "s", &all.iter().map(String::as_str).collect::<Vec<_>>());
    for one in take(&messages, 2_500) {
        messages.dead_letter(one.key, "all of them").unwrap();
    }
    assert!(messages.flush(SOON).unwrap());
    store.checkpoint().unwrap();
    let dead = store.dead_letters("s", "g", usize::MAX).unwrap();
    assert_eq!(dead.len(), 2_500);
    assert!(dead.iter().all(|one| one.reason == "all of them" && one.damage.is_none()));
    assert_eq!(store.redrive("s", "g", None).unwrap(), 2_500);
    let mut again = bodies(&take(&messages, 2_500));
    again.sort();
    assert_eq!(again, all);
}

#[test]
fn a_reason_that_is_too_long_is_refused_by_name_and_nothing_happens() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::support::open(folder.path(), crate::support::options(Durability::Os));
    publish(&store, "s", &["a"]);
    let messages = subscribe(&store);
    let taken = take(&messages, 1);
    let long = "ä".repeat(REASON_BYTES_MAX / 2 + 1);
    let result = messages.dead_letter(taken[0].key, &long);
    assert!(matches!(result, Err(Error::TooLarge { argument: "reason", limit: 1024, found: 1026 })), "{result:?}");
    messages.dead_letter(taken[0].key, &long[..REASON_BYTES_MAX]).unwrap();
    assert!(messages.flush(SOON).unwrap());
    assert_eq!(store.dead_letters("s", "g", 9).unwrap()[0].reason.len(), REASON_BYTES_MAX);
}

#[test]
fn groups_are_started_reset_and_removed_where_nobody_consumes() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::support::open(folder.path(), crate::support::options(Durability::Os));
    for (result, argument) in [
        (store.reset_group("s", "g", StartAt::Unfinished), "group"),
        (store.remove_group("s", "g"), "group"),
        (store.redrive("s", "g", None).map(drop), "group"),
        (store.dead_letters("s", "g", 1).map(drop), "group"),
        (store.expire("s", 0).map(drop), "subject"),
        (store.start_group("s/", "g", StartAt::Unfinished), "subject"),
        (store.start_group("s", "%g", StartAt::Unfinished), "group"),
    ] {
        refused(result, argument);
    }
    store.start_group("s", "g", StartAt::Unfinished).unwrap();
    refused(store.start_group("s", "g", StartAt::Latest), "group");
    publish(&store, "s", &["a", "b"]);
    let messages = subscribe(&store);
    let taken = take(&messages, 2);
    let group = &store.groups().unwrap()[0];
    assert_eq!((group.name.as_str(), group.subject.as_str()), ("g", "s"));
    assert_eq!((group.lag, group.in_flight, group.consumers, group.next_number.0), (2, 2, 1, 2));
    refused(store.reset_group("s", "g", StartAt::Unfinished), "group");
    refused(store.remove_group("s", "g"), "group");
    messages.acknowledge(&[taken[0].key, taken[1].key]).unwrap();
    messages.close().unwrap();
    let other = store.subscribe("s", "other", SubscribeOptions::default()).unwrap();
    take(&other, 0);
    assert_eq!(store.groups().unwrap()[0].lag, 0);
    store.reset_group("s", "g", StartAt::Unfinished).unwrap();
    let messages = subscribe(&store);
    publish(&store, "s", &["c"]);
    assert_eq!(bodies(&take(&messages, 1)), ["c"], "nobody kept what was finished before");
    messages.close().unwrap();
    store.remove_group("s", "g").unwrap();
    let names: Vec<String> = store.groups().unwrap().into_iter().map(|group| group.name).collect();
    assert_eq!(names, ["other"]);
}

#[test]
fn what_expired_is_counted_reported_and_given_to_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::support::open(folder.path(), crate::support::options(Durability::Os));
    publish(&store, "s", &["a", "b", "c"]);
    let messages = store.subscribe("s", "g", SubscribeOptions { in_flight_max: 1, ..Default::default() }).unwrap();
    let held = take(&messages, 1);
    store.checkpoint().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(store.expire("s", 3_600_000).unwrap(), 0);
    assert_eq!(store.expire("s", 1).unwrap(), 2);
    let subject = &store.subjects().unwrap()[0];
    assert_eq!((subject.ready, subject.expired, subject.groups.as_slice()), (1, 2, ["g".to_owned()].as_slice()));
    assert!(subject.expired_before.0 > 0);
    assert_eq!(store.status().unwrap().expired, 2);
    let mut reports = std::iter::from_fn(|| store.next_report(Duration::ZERO).unwrap());
    assert!(reports.any(|report| matches!(report, Report::Expired { count: 2, .. })));
    messages.acknowledge(&[held[0].key]).unwrap();
    publish(&store, "s", &["d"]);
    assert_eq!(bodies(&take(&messages, 1)), ["d"]);
}

#[test]
fn who_begins_to_consume_while_the_group_is_reset_or_removed_gets_through() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::support::open(folder.path(), crate::support::options(Durability::Os));
    store.start_group("s", "g", StartAt::Unfinished).unwrap();
    let other = Arc::clone(&store);
    let operator = std::thread::spawn(move || {
        for turn in 0..200 {
            let done = if turn % 2 == 0 {
                other.reset_group("s", "g", StartAt::Unfinished)
            } else {
                other.remove_group("s", "g")
            };
            assert!(matches!(done, Ok(()) | Err(Error::InvalidArgument { argument: "group", .. })), "{done:?}");
        }
    });
    for _ in 0..100 {
        subscribe(&store).close().unwrap();
    }
    operator.join().unwrap();
}
