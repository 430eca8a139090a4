//! Broadcast consumers of QMQ: each receives every message, and what it did not acknowledge comes again.

#![cfg(test)]

use delaymq_core::wire::extension::END_CONSUMER;
use delaymq_core::wire::extension::administration::read_number;
use delaymq_core::wire::qmq::pull::ConsumerName;
use delaymq_engine::{Durability, StartAt, Store};
use delaymq_server::ServerOptions;

use crate::support::qmq::{Pull, Qmq, ids, message, offsets, pull};
use crate::support::{Served, eventually, metric, options, restarted, serve, serve_with};

fn client(served: &Served) -> Qmq {
    Qmq::to(served.server.address())
}

/// A broadcast consumer. The group that its client sends has no meaning.
fn broadcast(consumer: &'static str) -> Pull<'static> {
    Pull { broadcast: true, ..pull("order", "any", consumer) }
}

fn messages(ids: &[&str]) -> Vec<Vec<u8>> {
    ids.iter().map(|id| message("order", id, &[], None)).collect()
}

/// The names of the groups of `order`, with what each has not finished.
fn groups(store: &Store) -> Vec<(String, u64)> {
    let groups = store.groups().unwrap().into_iter().filter(|group| group.subject == "order");
    groups.map(|group| (group.name, group.lag)).collect()
}

fn names(found: &[(String, u64)]) -> Vec<&str> {
    found.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn each_receives_every_message_from_the_next_one_on() {
    let served = serve();
    let mut qmq = client(&served);
    let [one, two] = ["one", "two"].map(broadcast);
    qmq.store(&messages(&["before"]));
    assert!(qmq.pull(&one).is_empty() && qmq.pull(&two).is_empty());
    let held = [&one, &two].map(|names| qmq.ask_pull(&Pull { hold_ms: 300_000, ..names.clone() }));
    eventually("both wait", || metric(&served, "held_pulls") == 2);
    qmq.store(&messages(&["a"]));
    for asked in held {
        assert_eq!(ids(&qmq.pulled(asked)), ["a"]);
    }
    qmq.store(&messages(&["b", "c"]));
    assert_eq!(ids(&qmq.take(&one, 3)), ["a", "b", "c"]);
    assert_eq!(ids(&qmq.take(&Pull { last: 0, ..two.clone() }, 2)), ["b", "c"], "an answer that was lost comes again");
    assert_eq!(qmq.acknowledge(&two, 0, 2), 0);
    assert_eq!(groups(&served.store), [("one".to_owned(), 3), ("two".to_owned(), 0)]);
}

#[test]
fn what_one_did_not_acknowledge_comes_again_over_its_restart_and_the_servers() {
    let served = serve();
    let mut qmq = client(&served);
    let names = broadcast("host@@1");
    assert!(qmq.pull(&names).is_empty());
    qmq.store(&messages(&["a", "b", "c", "d", "e", "f"]));
    assert_eq!(offsets(&qmq.take(&names, 6)), [0, 1, 2, 3, 4, 5]);
    assert_eq!(qmq.acknowledge(&names, 0, 1), 0);
    // It starts anew, on the same server.
    let mut qmq = client(&served);
    let again = qmq.take(&names, 4);
    assert_eq!((ids(&again), offsets(&again)), (vec!["c", "d", "e", "f"], vec![2, 3, 4, 5]));
    assert!(qmq.pull(&Pull { last: 5, ..names.clone() }).is_empty());
    // The server is killed, and what is stored before the consumer is back comes as well.
    let served = restarted(served, options());
    let mut qmq = client(&served);
    qmq.store(&messages(&["g"]));
    assert_eq!(qmq.acknowledge(&names, 2, 2), 0, "an acknowledgement may come before the first pull");
    let again = qmq.take(&names, 4);
    assert_eq!((ids(&again), &offsets(&again)[..3]), (vec!["d", "e", "f", "g"], &[3, 4, 5][..]));
    let last = again[3].offset;
    assert_eq!(qmq.acknowledge(&names, 3, last), 0);
    let served = restarted(served, options());
    assert!(client(&served).pull(&names).is_empty());
}

#[test]
fn a_group_of_others_that_has_finished_its_messages_takes_nothing_from_it() {
    let served = serve();
    let mut qmq = client(&served);
    let (names, shared) = (broadcast("host@@1"), pull("order", "g", "c"));
    assert!(qmq.pull(&names).is_empty() && qmq.pull(&shared).is_empty());
    qmq.store(&messages(&["a", "b"]));
    let last = qmq.take(&shared, 2)[1].offset;
    assert_eq!(qmq.acknowledge(&shared, 0, last), 0);
    let served = restarted(served, options());
    assert_eq!(ids(&client(&served).take(&names, 2)), ["a", "b"]);
}

#[test]
fn an_acknowledgement_finishes_all_below_and_sends_nothing_to_the_retry_subject() {
    let served = serve_with(ServerOptions { retry_delay_ms: 1, ..options() }, Durability::Disk);
    // Before version 8 an acknowledgement does not say that it is a broadcast consumer's.
    for (version, consumer) in [(9, "new"), (7, "old")] {
        let mut qmq = Qmq::of_version(served.server.address(), version);
        let names = Pull { group: consumer, ..broadcast(consumer) };
        assert!(qmq.pull(&names).is_empty());
        qmq.store(&messages(&["a", "b", "c", "d"]));
        assert_eq!(offsets(&qmq.take(&names, 4)), [0, 1, 2, 3]);
        assert_eq!(qmq.acknowledge(&names, 2, 2), 0);
        assert_eq!(ids(&qmq.take(&names, 1)), ["d"], "{version}");
    }
    assert_eq!(metric(&served, "passed_over_messages"), 0);
    assert!(served.store.groups().unwrap().iter().all(|group| group.subject == "order"));
}

#[test]
fn its_lease_is_not_that_of_others() {
    let served = serve_with(ServerOptions { lease_ms: 50, retry_delay_ms: 1, ..options() }, Durability::Disk);
    let mut qmq = client(&served);
    let names = broadcast("host@@1");
    assert!(qmq.pull(&names).is_empty() && qmq.pull(&pull("other", "g", "silent")).is_empty());
    qmq.store(&messages(&["a"]));
    assert_eq!(ids(&qmq.take(&names, 1)), ["a"]);
    eventually("the others' lease to be over", || metric(&served, "expired_consumers") >= 1);
    let again = qmq.take(&names, 1);
    assert_eq!((ids(&again), offsets(&again)), (vec!["a"], vec![0]));
}

#[test]
fn it_ends_with_its_lease_and_leaves_nothing_that_holds_the_log() {
    let served = serve();
    let mut qmq = client(&served);
    let names = broadcast("host@@1");
    let retries = Pull { subject: "%RETRY%order%host@@1", ..names.clone() };
    assert!(qmq.pull(&names).is_empty() && qmq.pull(&retries).is_empty());
    served.store.start_group("order", "g", StartAt::Latest).unwrap();
    qmq.store(&messages(&["a", "b"]));
    qmq.store(&[message(retries.subject, "again", &[], None)]);
    assert_eq!(qmq.take(&names, 2).len(), 2);
    // Its lease goes on where it was, and ends with nobody to hear it.
    let served = restarted(served, ServerOptions { broadcast_lease_ms: 300, ..options() });
    eventually("its group to be gone", || names_of(&served) == ["g"]);
    eventually("both to be forgotten", || metric(&served, "qmq_consumers") == 0);
    assert!(served.store.named_consumers().unwrap().is_empty());
    // It is a new one if it comes back, and has nothing from before.
    let mut qmq = client(&served);
    assert!(qmq.pull(&names).is_empty() && qmq.pull(&retries).is_empty());
    qmq.store(&messages(&["c"]));
    let found = qmq.take(&names, 1);
    assert_eq!(ids(&found), ["c"]);
    assert!(found[0].offset > 1, "no offset is used twice");
}

fn names_of(served: &Served) -> Vec<String> {
    names(&groups(&served.store)).into_iter().map(str::to_owned).collect()
}

#[test]
fn an_operator_ends_one_with_its_group() {
    let served = serve();
    let mut qmq = client(&served);
    let names = broadcast("host@@1");
    assert!(qmq.pull(&names).is_empty());
    qmq.store(&messages(&["a", "b"]));
    assert_eq!(qmq.take(&names, 2).len(), 2);
    let listed = served.store.consumers("order", "host@@1").unwrap();
    assert_eq!(listed.iter().map(|one| (one.is_broadcast, one.in_flight)).collect::<Vec<_>>(), [(true, 2)]);
    let name = ConsumerName { subject: "order", group: "host@@1", consumer: "host@@1" };
    let body = served.connect().done(END_CONSUMER, |out| name.put(out));
    assert_eq!(read_number(&body), Ok(2));
    assert_eq!((groups(&served.store), metric(&served, "qmq_consumers")), (Vec::new(), 0));
    assert_eq!(qmq.acknowledge(&names, 0, 1), 0, "nobody is known");
}
