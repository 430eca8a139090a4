//! Consumers of QMQ that are silent, invalid names, limits, and clients of other versions.

#![cfg(test)]

use std::sync::Arc;

use crate::support::qmq::{Pull, Pulled, Qmq, ids, message, message_with, offsets, pull};
use crate::support::{Served, eventually, metric, options, serve, serve_with, store_options};
use delaymq_core::error::Error;
use delaymq_core::record::message::{Meta, encode_meta};
use delaymq_core::store::ConsumerListed;
use delaymq_core::store::StartAt;
use delaymq_core::wire::extension::administration::{GroupName, Listed, Listing, read_number};
use delaymq_core::wire::extension::consumers::Consumers;
use delaymq_core::wire::extension::errors::ErrorCode;
use delaymq_core::wire::extension::{CONSUMERS, END_CONSUMER};
use delaymq_core::wire::qmq::pull::ConsumerName;
use delaymq_engine::{ConsumerId, Due, Durability, Options, RetryRule, Store};
use delaymq_server::{Server, ServerError, ServerOptions};

fn client(served: &Served) -> Qmq {
    Qmq::to(served.server.address())
}

fn join(qmq: &mut Qmq, names: &Pull<'_>) {
    assert!(qmq.pull(names).is_empty());
}

/// Leases end soon, and retries come at once.
fn short(attempts_max: u32) -> ServerOptions {
    ServerOptions { lease_ms: 50, retry_delay_ms: 1, attempts_max, ..options() }
}

#[test]
fn what_a_silent_consumer_holds_goes_to_the_retry_subject_and_at_last_to_the_dead_letters() {
    let served = serve_with(short(2), Durability::Disk);
    let mut qmq = client(&served);
    let names = pull("order", "g", "c");
    // Its own silence may end it before it pulls again, so the group is made from the first message on.
    served.store.start_group("order", "g", StartAt::Unfinished).unwrap();
    qmq.store(&[message("order", "a", &[], None)]);
    let found = qmq.take(&names, 1);
    let retries = pull("%RETRY%order%g", "g", "c");
    let again = qmq.take(&retries, 1);
    assert_eq!((ids(&again), &again[0].whole), (vec!["a"], &found[0].whole));
    // That was its last attempt.
    eventually("it is dead", || served.store.dead_letters("order", "g", 10).unwrap().len() == 1);
    let letter = &served.store.dead_letters("order", "g", 10).unwrap()[0];
    assert_eq!(letter.attempt, 2);
    assert!(qmq.pull(&names).is_empty() && qmq.pull(&retries).is_empty());
    assert!(metric(&served, "expired_consumers") >= 2);
}

#[test]
fn who_waits_for_messages_is_not_silent() {
    let served = serve_with(short(32), Durability::Os);
    let mut qmq = client(&served);
    let (waiting, silent) = (pull("order", "g", "waiting"), pull("order", "other", "silent"));
    let held = qmq.ask_pull(&Pull { hold_ms: 300_000, ..waiting });
    join(&mut qmq, &silent);
    eventually("the silent one is gone", || metric(&served, "expired_consumers") == 1);
    assert_eq!(metric(&served, "qmq_consumers"), 1);
    qmq.store(&[message("order", "a", &[], None)]);
    let found = qmq.pulled(held);
    assert_eq!((ids(&found), offsets(&found)), (vec!["a"], vec![0]), "it was never another");
}

#[test]
fn one_that_does_not_come_back_after_a_restart_is_silent_too() {
    let served = serve();
    let names = pull("order", "g", "c");
    let mut qmq = client(&served);
    join(&mut qmq, &names);
    qmq.store(&[message("order", "a", &[], None), message("order", "b", &[], None)]);
    qmq.take(&names, 2);
    assert_eq!(qmq.acknowledge(&names, 0, 0), 0);
    let Served { server, store, folder } = served;
    store.abandon().unwrap();
    drop((server, store));
    let store = Store::open(folder.path(), store_options(Durability::Disk), &mut |_| {}).unwrap();
    let server = Server::start(Arc::clone(&store), short(32)).unwrap();
    let served = Served { server, store, folder };
    let found = client(&served).take(&pull("%RETRY%order%g", "g", "another"), 1);
    assert_eq!(ids(&found), ["b"]);
}

#[test]
fn names_that_are_not_usable_make_nothing_and_wait_their_time() {
    let served = serve();
    let mut qmq = client(&served);
    let long = "x".repeat(101);
    let bad = [("", "g", "c"), ("order", "", "c"), ("order", "g", ""), ("a/b", "g", "c"), ("order", "a\nb", "c")];
    for (subject, group, consumer) in bad.into_iter().chain([("order", "a%b", "c"), ("order", long.as_str(), "c")]) {
        let names = pull(subject, group, consumer);
        assert!(qmq.pull(&names).is_empty());
        let held = qmq.ask_pull(&Pull { hold_ms: 300_000, ..names.clone() });
        assert!(qmq.pull(&Pull { hold_ms: 1, ..names }).is_empty());
        assert!(!qmq.has_answer(held));
    }
    // One that asks for nothing is told so at once.
    assert!(qmq.pull(&Pull { count: 0, hold_ms: 300_000, ..pull("order", "g", "c") }).is_empty());
    assert!(qmq.pull(&Pull { count: -1, hold_ms: 300_000, ..pull("order", "g", "c") }).is_empty());
    assert_eq!(metric(&served, "qmq_consumers"), 0);
    assert!(served.store.groups().unwrap().is_empty() && served.store.subjects().unwrap().is_empty());
}

#[test]
fn strangers_make_no_more_consumers_groups_and_subjects_than_they_may() {
    let limited = ServerOptions { consumers_max: 3, groups_max: 2, subjects_max: 4, ..options() };
    let served = serve_with(limited, Durability::Os);
    let mut qmq = client(&served);
    for (subject, group, consumer) in [("s", "g", "a"), ("s", "h", "a"), ("s", "i", "a"), ("t", "g", "a")] {
        assert!(qmq.pull(&pull(subject, group, consumer)).is_empty());
    }
    let groups = |served: &Served| served.store.groups().unwrap().len();
    assert_eq!((groups(&served), metric(&served, "qmq_consumers")), (2, 2), "one that could not be made is forgotten");
    assert!(qmq.pull(&pull("s", "g", "b")).is_empty());
    assert!(qmq.pull(&pull("s", "g", "c")).is_empty());
    assert_eq!(metric(&served, "qmq_consumers"), 3);
    // Those that are there go on.
    qmq.store(&[message("s", "a", &[], None)]);
    assert_eq!(ids(&qmq.take(&pull("s", "h", "a"), 1)), ["a"]);
    let names: Vec<String> = (0..8).map(|number| format!("new.{number}")).collect();
    let sent: Vec<u8> =
        names.iter().flat_map(|name| crate::support::qmq::checked(&message(name, "m", &[], None))).collect();
    let (code, listed) = qmq.ask(10, &sent);
    assert_eq!(code, 0);
    assert!(!listed.is_empty() && served.store.subjects().unwrap().len() <= 4);
}

#[test]
fn as_many_pulls_are_set_apart_as_may_be_and_one_more_waits_as_any_request() {
    let mut limited = ServerOptions { held_pulls_max: 2, ..options() };
    limited.connection.requests_max = 2;
    let served = serve_with(limited, Durability::Os);
    let mut qmq = client(&served);
    let names = Pull { count: 1, hold_ms: 300_000, ..pull("order", "g", "c") };
    let held: Vec<i32> = (0..4).map(|_| qmq.ask_pull(&names)).collect();
    eventually("three wait", || metric(&served, "held_pulls") == 3);
    let counts = ["held_requests", "requests_in_flight"].map(|name| metric(&served, name));
    assert_eq!(counts, [1, 3], "half of those that are set apart are an address's share, and the fourth is not read");
    let mut producer = client(&served);
    let sent: Vec<_> = ["a", "b", "c", "d"].into_iter().map(|id| message("order", id, &[], None)).collect();
    producer.store(&sent);
    for asked in held {
        assert_eq!(qmq.pulled(asked).len(), 1);
    }
}

#[test]
fn every_version_is_told_what_it_understands() {
    let served = serve();
    let mut sender = client(&served);
    let sent = message("order", "a", &["red"], None);
    for version in [7, 8, 9, 10] {
        let mut qmq = Qmq::of_version(served.server.address(), version);
        let group = format!("g{version}");
        let names = pull("order", &group, "c");
        join(&mut qmq, &names);
        sender.store(std::slice::from_ref(&sent));
        let found = qmq.take(&names, 1);
        let tags: &[&str] = if version < 8 { &[] } else { &["red"] };
        assert_eq!(
            (found[0].tags.as_slice(), found[0].whole == sent),
            (&tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>()[..], version >= 8)
        );
        assert_eq!(qmq.acknowledge(&names, 0, 0), 0);
        assert!(qmq.pull(&names).is_empty());
    }
}

#[test]
fn messages_of_delaymq_s_own_clients_are_told_as_text() {
    let served = serve();
    let names = pull("order", "g", "c");
    let mut qmq = client(&served);
    join(&mut qmq, &names);
    let meta = Meta {
        message_id: "own".to_owned(),
        tags: vec!["red".to_owned()],
        attributes: vec![("trace".to_owned(), b"7".to_vec())],
    };
    let mut batch = served.store.batch();
    batch.push("order", Due::After(0), &encode_meta(&meta).unwrap(), b"hello").unwrap();
    batch.push("order", Due::After(0), b"", b"\xff\xfe").unwrap();
    let receipts = served.store.publish(&mut batch).unwrap();
    let found = qmq.take(&names, 2);
    let told = |message: &Pulled| ["trace", "body", "body.base64"].map(|key| message.attribute(key).map(str::to_owned));
    assert_eq!(found[0].id, "own");
    assert_eq!(told(&found[0]), [Some("7".to_owned()), Some("hello".to_owned()), None]);
    assert_eq!(
        (found[0].tags.as_slice(), found[0].attribute("qmq_createTime").is_some()),
        (&["red".to_owned()][..], true)
    );
    assert_eq!(found[1].id, receipts.get(1).unwrap().to_text());
    assert_eq!(told(&found[1]), [None, None, Some("//4=".to_owned())]);
    // So is one with such a body that came in QMQ's own layout.
    let mut sent = message_with("order", "opaque", &[], None, &[]);
    sent.truncate(sent.len() - 4);
    sent[0] |= 8;
    let body = [&[0, 1, 0, 1, b'k', 0, 0, 0, 1, b'v'][..], b"rest"].concat();
    sent.extend(i32::try_from(body.len()).unwrap().to_be_bytes());
    sent.extend(&body);
    qmq.store(&[sent]);
    let found = qmq.take(&Pull { last: 1, ..names.clone() }, 1);
    assert_eq!(
        (found[0].id.as_str(), found[0].attribute("k"), found[0].attribute("body")),
        ("opaque", Some("v"), Some("rest"))
    );
    // A client that knows of no tags is told none.
    let mut old = Qmq::of_version(served.server.address(), 7);
    let again = old.take(&names, 2);
    assert!(again[0].tags.is_empty() && again[0].attribute("body") == Some("hello"));
}

#[test]
fn a_large_backlog_comes_in_answers_that_fit() {
    let served = serve_with(options(), Durability::Os);
    let names = pull("order", "g", "c");
    let mut qmq = client(&served);
    join(&mut qmq, &names);
    let large = "x".repeat(30_000);
    let body = [("qmq_createTime", "1"), ("a", large.as_str()), ("b", &large), ("c", &large)];
    let many: Vec<Vec<u8>> =
        (0..60).map(|number| message_with("order", &format!("m{number}"), &[], None, &body)).collect();
    for _ in 0..2 {
        qmq.store(&many);
    }
    let all = Pull { count: i32::MAX, ..names };
    let found = qmq.take(&all, 120);
    assert_eq!(offsets(&found), (0..120).collect::<Vec<_>>());
    assert_eq!((qmq.acknowledge(&all, 0, 119), qmq.pull(&all).len()), (0, 0));
}

fn end_consumer(served: &Served, consumer: &str) -> u64 {
    let name = ConsumerName { subject: "order", group: "g", consumer };
    read_number(&served.connect().done(END_CONSUMER, |out| name.put(out))).unwrap()
}

fn is_not_there(served: &Served, consumer: &str) {
    let name = ConsumerName { subject: "order", group: "g", consumer };
    served.connect().refused(END_CONSUMER, ErrorCode::InvalidArgument, |out| name.put(out));
}

#[test]
fn an_operator_ends_one_that_does_not_come_back_and_nothing_of_it_is_left_that_would_begin_again() {
    let served = serve_with(ServerOptions { retry_delay_ms: 1, ..options() }, Durability::Disk);
    let mut qmq = client(&served);
    let (gone, there) = (pull("order", "g", "gone"), pull("order", "g", "there"));
    let [gone_again, there_again] = [&gone, &there].map(|names| Pull { subject: "%RETRY%order%g", ..names.clone() });
    join(&mut qmq, &gone);
    join(&mut qmq, &gone_again);
    qmq.store(&[message("order", "a", &[], None), message("order", "b", &[], None)]);
    assert_eq!(qmq.take(&gone, 2).len(), 2);
    let waiting = qmq.ask_pull(&Pull { hold_ms: 300_000, ..there.clone() });
    let names = GroupName { subject: "order", group: "g" };
    let listing = Listing { after: 0, count_max: 10 };
    let rows = || {
        let listed = served.connect().done(CONSUMERS, |out| Consumers { name: names, listing }.put(out));
        let listed = Listed::<ConsumerListed>::read(&listed).unwrap();
        listed.rows.iter().map(|one| (one.name.clone(), one.subject.clone(), one.in_flight)).collect::<Vec<_>>()
    };
    let row = |name: &str, subject: &str, in_flight| (name.to_owned(), subject.to_owned(), in_flight);
    // The pull that waits is on its way.
    eventually("there", || rows().len() == 3);
    assert_eq!(rows(), [row("gone", "order", 2), row("gone", "%RETRY%order%g", 0), row("there", "order", 0)]);
    is_not_there(&served, "nobody");
    assert_eq!(end_consumer(&served, "gone"), 2);
    is_not_there(&served, "gone");
    assert_eq!(metric(&served, "qmq_consumers"), 1, "who waits goes on");
    let mut again = qmq.take(&there_again, 2);
    again.sort_by(|one, other| one.id.cmp(&other.id));
    assert_eq!(ids(&again), ["a", "b"]);
    // One that waits is ended, too, and is another when it is given something.
    assert_eq!(end_consumer(&served, "there"), 2);
    qmq.store(&[message("order", "c", &[], None)]);
    assert_eq!(ids(&qmq.pulled(waiting)), ["c"]);
    assert_eq!(end_consumer(&served, "there"), 1);
    // A session that were left would begin the group again when its lease is over.
    assert_eq!(metric(&served, "qmq_consumers"), 0);
    served.store.remove_group("order", "g").unwrap();
}

#[test]
fn the_end_of_a_lease_makes_nobody_where_its_consumer_is_gone_already() {
    let served = serve_with(ServerOptions { lease_ms: 2_000, ..options() }, Durability::Os);
    join(&mut client(&served), &pull("order", "g", "c"));
    // As where no server runs: nobody tells this one.
    let (id, rule) = (ConsumerId { subject: "order", group: "g", consumer: "c" }, RetryRule::default());
    assert_eq!(served.store.end_named_consumer(id, rule).unwrap(), Some(0));
    served.store.remove_group("order", "g").unwrap();
    eventually("its lease to be over", || metric(&served, "expired_consumers") == 1);
    assert!(served.store.groups().unwrap().is_empty(), "an end would have begun the group again");
}

#[test]
fn what_would_wait_longer_than_the_store_lets_anything_wait_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let chosen = Options { delay_ms_max: 864, ..store_options(Durability::Os) };
    let store = Store::open(folder.path(), chosen, &mut |_| {}).unwrap();
    let started = |retry_delay_ms, undelayed_ms| {
        let options = ServerOptions { retry_delay_ms, undelayed_ms, ..options() };
        Server::start(Arc::clone(&store), options).map(drop)
    };
    for (retry_delay_ms, undelayed_ms, key) in
        [(865, 0, "server.qmq_retry_seconds"), (0, 865, "server.qmq_undelayed_seconds")]
    {
        let refused = started(retry_delay_ms, undelayed_ms);
        let Err(ServerError::Store(Error::InvalidArgument { argument, expected, found })) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((argument, found.as_str()), (key, "865ms"));
        assert!(expected.starts_with("at most 864ms"), "{expected}");
    }
    started(864, 864).unwrap();
}
