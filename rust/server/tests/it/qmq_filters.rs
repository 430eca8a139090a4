//! Filters of QMQ's consumers: they judge before messages are assigned, so that answers are full and offsets dense.

#![cfg(test)]

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::qmq::{Pull, Qmq, ids, message, message_with, offsets, pull};
use crate::support::{Served, eventually, metric, options, restarted, serve, serve_with};
use delaymq_engine::Durability;
use delaymq_server::ServerOptions;

fn client(served: &Served) -> Qmq {
    Qmq::to(served.server.address())
}

/// Makes a group be there, from the next message on.
fn join(qmq: &mut Qmq, names: &Pull<'_>) {
    assert!(qmq.pull(names).is_empty());
}

fn rare(consumer: &'static str) -> Pull<'static> {
    Pull { tags: Some((1, vec!["rare"])), ..pull("order", "g", consumer) }
}

/// Stores so many messages: every hundredth has the tag.
fn store_rare(qmq: &mut Qmq, count: usize) {
    let all: Vec<usize> = (0..count).collect();
    for part in all.chunks(1_000) {
        let tag = |number: &usize| if number % 100 == 99 { "rare" } else { "common" };
        let part: Vec<_> = part.iter().map(|one| message("order", &one.to_string(), &[tag(one)], None)).collect();
        qmq.store(&part);
    }
}

/// How many messages no consumer of the subject has finished, over all groups.
fn unfinished(served: &Served) -> u64 {
    served.store.groups().unwrap().iter().map(|group| group.lag).sum()
}

#[test]
fn tags_and_environments_are_judged_here() {
    let served = serve();
    let mut qmq = client(&served);
    let any = Pull { tags: Some((1, vec!["red", "blue"])), ..pull("order", "any", "c") };
    let all = Pull { tags: Some((2, vec!["red", "blue"])), ..pull("order", "all", "c") };
    let beta = Pull { environment: Some(("beta", "one")), ..pull("order", "beta", "c") };
    for names in [&any, &all, &beta] {
        join(&mut qmq, names);
    }
    let labelled = |id, environment| {
        let attributes = [("qmq_createTime", "1"), ("qmq_env", environment), ("qmq_subEnv", "one")];
        message_with("order", id, &["green"], None, &attributes)
    };
    qmq.store(&[
        message("order", "none", &[], None),
        message("order", "red", &["red"], None),
        message("order", "both", &["blue", "red"], None),
        message("order", "green", &["green"], None),
        labelled("beta", "beta"),
        labelled("alpha", "alpha"),
        message("order", "last", &["red", "blue", "green"], None),
    ]);
    let found = qmq.take(&any, 3);
    assert_eq!(ids(&found), ["red", "both", "last"]);
    assert_eq!(offsets(&found), [0, 1, 2], "what does not pass has no offset");
    let found = qmq.take(&all, 2);
    assert_eq!((ids(&found), offsets(&found)), (vec!["both", "last"], vec![0, 1]));
    let found = qmq.take(&beta, 6);
    assert_eq!(ids(&found), ["none", "red", "both", "green", "beta", "last"]);
    assert_eq!(offsets(&found), [0, 1, 2, 3, 4, 5]);
    // Messages that did not pass are finished, and no acknowledgement passes over them.
    assert_eq!((qmq.acknowledge(&any, 0, 2), qmq.acknowledge(&all, 0, 1), qmq.acknowledge(&beta, 0, 5)), (0, 0, 0));
    assert_eq!(metric(&served, "passed_over_messages"), 0);
    assert_eq!(metric(&served, "filtered_messages"), 4 + 5 + 1);
    let unfinished = served.store.groups().unwrap().iter().map(|group| group.lag).sum::<u64>();
    assert_eq!(unfinished, 0);
}

#[test]
fn a_filter_that_nothing_passes_waits_and_holds_back_nothing() {
    let served = serve();
    let mut qmq = client(&served);
    let red = Pull { tags: Some((1, vec!["red"])), ..pull("order", "g", "c") };
    join(&mut qmq, &red);
    let held = qmq.ask_pull(&Pull { hold_ms: 300_000, ..red.clone() });
    let green: Vec<Vec<u8>> =
        (0..1_000).map(|number| message("order", &format!("g{number}"), &["green"], None)).collect();
    qmq.store(&green);
    eventually("none passes", || metric(&served, "filtered_messages") == 1_000);
    assert!(!qmq.has_answer(held));
    qmq.store(&[message("order", "red", &["red"], None)]);
    let found = qmq.pulled(held);
    assert_eq!((ids(&found), offsets(&found)), (vec!["red"], vec![0]));
}

#[test]
fn an_answer_is_full_although_one_message_of_a_hundred_passes() {
    for version in [8, 9] {
        let served = serve();
        let mut qmq = Qmq::of_version(served.server.address(), version);
        let names = Pull { count: 20, ..rare("c") };
        join(&mut qmq, &names);
        store_rare(&mut qmq, 5_000);
        eventually("all are ready", || unfinished(&served) == 5_000);
        let mut last = -1;
        for count in [20, 20, 10] {
            let found = qmq.pull(&Pull { last, ..names.clone() });
            let expected: Vec<i64> = (last + 1..=last + count).collect();
            assert_eq!(offsets(&found), expected, "one answer, and no gap");
            let numbers: Vec<String> = expected.iter().map(|offset| (offset * 100 + 99).to_string()).collect();
            assert_eq!(ids(&found), numbers);
            last += count;
        }
        assert!(qmq.pull(&Pull { last, ..names.clone() }).is_empty());
        assert_eq!((metric(&served, "filtered_messages"), unfinished(&served)), (4_950, 50));
        assert_eq!(qmq.acknowledge(&names, 0, 49), 0);
        assert_eq!((metric(&served, "passed_over_messages"), unfinished(&served)), (0, 0));
    }
}

#[test]
fn what_was_not_acknowledged_comes_again_under_its_offsets_also_over_a_restart() {
    let served = serve_with(options(), Durability::Disk);
    let mut qmq = client(&served);
    let names = Pull { count: 3, ..rare("c") };
    join(&mut qmq, &names);
    store_rare(&mut qmq, 500);
    eventually("all are ready", || unfinished(&served) == 500);
    let found = qmq.pull(&names);
    assert_eq!(offsets(&found), [0, 1, 2]);
    assert_eq!(qmq.pull(&names), found, "the answer was lost");
    assert_eq!(qmq.acknowledge(&names, 0, 0), 0);
    let served = restarted(served, options());
    let mut qmq = client(&served);
    assert_eq!(qmq.take(&names, 2), found[1..]);
    let later = qmq.take(&Pull { last: 2, ..names.clone() }, 2);
    assert_eq!(ids(&later), ["399", "499"]);
    let after = offsets(&later);
    assert!(after[0] > 2 && after[1] == after[0] + 1, "those that a restart voids are left out once: {after:?}");
    assert_eq!(unfinished(&served), 4);
}

#[test]
fn two_consumers_of_a_group_get_each_message_once_and_finish_the_others_together() {
    let served = serve();
    let (mut one, mut two) = (client(&served), client(&served));
    let names = ["one", "two"].map(|consumer| Pull { count: 7, ..rare(consumer) });
    join(&mut one, &names[0]);
    join(&mut one, &names[1]);
    store_rare(&mut one, 6_000);
    let mut found = BTreeSet::new();
    let mut given = [0_i64; 2];
    eventually("all", || {
        let asked = [one.ask_pull(&asking(&names[0], given[0])), two.ask_pull(&asking(&names[1], given[1]))];
        for (index, (qmq, asked)) in [&mut one, &mut two].into_iter().zip(asked).enumerate() {
            for message in qmq.pulled(asked) {
                assert_eq!(message.offset, given[index], "its offsets are dense");
                given[index] += 1;
                assert!(found.insert(message.id), "it came twice");
            }
        }
        found.len() == 60
    });
    eventually("all that does not pass", || unfinished(&served) == 60);
    assert_eq!(metric(&served, "filtered_messages"), 5_940);
}

/// A pull of a consumer that was given so many.
fn asking(names: &Pull<'static>, given: i64) -> Pull<'static> {
    Pull { last: given - 1, ..names.clone() }
}

#[test]
fn a_broadcast_consumer_has_filters_of_its_own() {
    let served = serve();
    let mut qmq = client(&served);
    let with = |consumer, tags: &[&'static str]| Pull {
        broadcast: true,
        tags: Some((1, tags.to_vec())),
        ..pull("order", "any", consumer)
    };
    let (red, both) = (with("red", &["red"]), with("both", &["red", "blue"]));
    join(&mut qmq, &red);
    join(&mut qmq, &both);
    for (id, tag) in [("1", "blue"), ("2", "red"), ("3", "green"), ("4", "red")] {
        qmq.store(&[message("order", id, &[tag], None)]);
    }
    let found = qmq.take(&red, 2);
    assert_eq!((ids(&found), offsets(&found)), (vec!["2", "4"], vec![0, 1]));
    let found = qmq.take(&both, 3);
    assert_eq!((ids(&found), offsets(&found)), (vec!["1", "2", "4"], vec![0, 1, 2]));
    assert_eq!((qmq.acknowledge(&red, 0, 1), qmq.acknowledge(&both, 0, 2)), (0, 0));
    assert_eq!(unfinished(&served), 0);
}

#[test]
fn a_message_that_was_sent_back_is_judged_again_under_its_retry_subject() {
    let served = serve_with(ServerOptions { retry_delay_ms: 1, ..options() }, Durability::Os);
    let mut qmq = client(&served);
    let (names, plain) = (rare("c"), pull("order", "g", "other"));
    join(&mut qmq, &names);
    store_rare(&mut qmq, 200);
    eventually("all are ready", || unfinished(&served) == 200);
    let found = qmq.take(&names, 2);
    // The first is passed over, and comes again as a retry; of what did not pass nothing does.
    assert_eq!(qmq.acknowledge(&names, 1, 1), 0);
    let retries = Pull { subject: "%RETRY%order%g", ..names.clone() };
    let again = qmq.take(&retries, 1);
    assert_eq!((ids(&again), offsets(&again)), (vec![found[0].id.as_str()], vec![0]));
    assert_eq!(qmq.acknowledge(&retries, 0, 0), 0);
    // A consumer without filters gets none of them either.
    assert!(qmq.pull(&plain).is_empty());
    assert_eq!(unfinished(&served), 0);
}

#[test]
fn a_consumer_that_changes_its_tags_keeps_what_passes_both() {
    let served = serve();
    let mut qmq = client(&served);
    let red = Pull { tags: Some((1, vec!["red"])), ..pull("order", "g", "c") };
    join(&mut qmq, &red);
    qmq.store(&[
        message("order", "1", &["red"], None),
        message("order", "2", &["green"], None),
        message("order", "3", &["red", "blue"], None),
    ]);
    assert_eq!(ids(&qmq.take(&red, 2)), ["1", "3"]);
    let blue = Pull { tags: Some((1, vec!["blue"])), ..red.clone() };
    let found = qmq.take(&blue, 1);
    assert_eq!((ids(&found), offsets(&found)), (vec!["3"], vec![1]), "under its offset");
    assert_eq!((qmq.acknowledge(&blue, 1, 1), unfinished(&served)), (0, 0));
    assert_eq!(metric(&served, "passed_over_messages"), 0);
}

#[test]
fn a_pull_that_is_woken_often_and_finds_nothing_is_answered_at_its_time() {
    let served = serve();
    let mut qmq = client(&served);
    join(&mut qmq, &rare("c"));
    let held = qmq.ask_pull(&Pull { hold_ms: 300, ..rare("c") });
    for number in 0..20 {
        qmq.store(&[message("order", &number.to_string(), &["common"], None)]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(qmq.pulled(held).is_empty());
    eventually("all of it is finished", || qmq.pull(&rare("c")).is_empty() && unfinished(&served) == 0);
}
