//! QMQ's consumers: PULL, ACK and `CONSUME_MANAGE` over a real connection.

#![cfg(test)]

use std::time::Duration;

use crate::support::qmq::{HOLD_MS, Pull, Qmq, ids, message, offsets, pull};
use crate::support::{Served, eventually, metric, options, page, page_with, restarted, serve, serve_with};
use delaymq_engine::{Durability, StartAt};
use delaymq_server::{AccessOptions, ServerOptions, TokenHash};

/// Retries come at once, so that a test need not wait for them.
fn hasty() -> ServerOptions {
    ServerOptions { retry_delay_ms: 1, ..options() }
}

fn client(served: &Served) -> Qmq {
    Qmq::to(served.server.address())
}

/// Makes a group be there, from the next message on.
fn join(qmq: &mut Qmq, names: &Pull<'_>) {
    assert!(qmq.pull(names).is_empty());
}

fn messages(subject: &str, ids: &[&str]) -> Vec<Vec<u8>> {
    ids.iter().map(|id| message(subject, id, &[], None)).collect()
}

#[test]
fn what_is_ready_comes_under_neighbouring_offsets_as_it_was_sent() {
    let served = serve();
    let mut qmq = client(&served);
    let names = pull("order", "billing", "host@@1");
    qmq.store(&messages("order", &["before"]));
    join(&mut qmq, &names);
    let sent =
        [message("order", "a", &["red"], None), message("order", "b", &[], Some(5)), message("order", "c", &[], None)];
    qmq.store(&sent);
    let found = qmq.take(&names, 3);
    assert_eq!((ids(&found), offsets(&found)), (vec!["a", "b", "c"], vec![0, 1, 2]), "from the next message on");
    assert_eq!(found.iter().map(|message| message.whole.clone()).collect::<Vec<_>>(), sent);
    assert_eq!(qmq.acknowledge(&names, 0, 2), 0);
    assert!(qmq.pull(&names).is_empty());
    assert_eq!(metric(&served, "answered_messages"), 3);
    // A group that the same consumer pulls for has offsets of its own.
    let other = pull("order", "other", "host@@1");
    join(&mut qmq, &other);
    qmq.store(&messages("order", &["d"]));
    assert_eq!((offsets(&qmq.take(&other, 1)), offsets(&qmq.take(&names, 1))), (vec![0], vec![3]));
}

#[test]
fn a_held_pull_holds_up_nothing_and_one_of_a_group_is_woken() {
    let served = serve();
    let (mut one, mut other) = (client(&served), client(&served));
    let (first, second) = (pull("order", "g", "one"), pull("order", "g", "two"));
    join(&mut one, &first);
    join(&mut one, &second);
    let hold = |names: &Pull<'static>| Pull { hold_ms: 300_000, ..names.clone() };
    let held = one.ask_pull(&hold(&first));
    eventually("the first waits", || metric(&served, "held_pulls") == 1);
    let later = other.ask_pull(&hold(&second));
    eventually("the second waits", || metric(&served, "held_pulls") == 2);
    // The connection goes on, and so does a pull behind it.
    assert!(one.pull(&pull("elsewhere", "g", "one")).is_empty());
    one.store(&messages("order", &["a"]));
    assert_eq!(ids(&one.pulled(held)), ["a"], "who waits longest");
    assert_eq!(metric(&served, "held_pulls"), 1);
    other.store(&messages("order", &["b"]));
    assert_eq!(ids(&other.pulled(later)), ["b"]);
}

#[test]
fn everybody_who_waits_gets_something_when_there_is_enough() {
    let served = serve();
    let mut qmq = client(&served);
    let consumers: Vec<String> = (0..8).map(|number| format!("c{number}")).collect();
    let one_each = |consumer| Pull { count: 1, ..pull("order", "g", consumer) };
    for consumer in &consumers {
        join(&mut qmq, &one_each(consumer));
    }
    let held: Vec<i32> =
        consumers.iter().map(|consumer| qmq.ask_pull(&Pull { hold_ms: 300_000, ..one_each(consumer) })).collect();
    eventually("all wait", || metric(&served, "held_pulls") == 8);
    // All come with one wake-up.
    qmq.store(&messages("order", &["0", "1", "2", "3", "4", "5", "6", "7"]));
    let mut found: Vec<String> = held.into_iter().map(|asked| qmq.pulled(asked)[0].id.clone()).collect();
    found.sort();
    assert_eq!(found, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn who_comes_back_gets_the_rest_under_the_old_offsets_also_after_a_crash() {
    let served = serve();
    let names = pull("order", "g", "c");
    let mut qmq = client(&served);
    join(&mut qmq, &names);
    qmq.store(&messages("order", &["a", "b", "c", "d", "e"]));
    let found = qmq.take(&names, 5);
    assert_eq!(qmq.acknowledge(&names, 0, 1), 0);
    drop(qmq);
    let mut qmq = client(&served);
    assert_eq!(qmq.take(&names, 3), found[2..]);
    assert_eq!(qmq.take(&Pull { last: 3, ..names.clone() }, 1), found[4..]);
    assert!(qmq.pull(&Pull { last: 4, ..names.clone() }).is_empty(), "it has all");
    // R2: what was acknowledged stays so, and what was not comes under its offset.
    let served = restarted(served, options());
    let mut qmq = client(&served);
    assert_eq!(qmq.take(&names, 3), found[2..]);
    assert_eq!(qmq.acknowledge(&names, 2, 4), 0);
    let served = restarted(served, options());
    let mut qmq = client(&served);
    assert!(qmq.pull(&names).is_empty());
    qmq.store(&messages("order", &["f"]));
    let later = qmq.take(&names, 1);
    assert!(later[0].offset > found[4].offset, "no offset comes twice: {later:?}");
}

#[test]
fn what_an_acknowledgement_passes_over_goes_to_the_retry_subject() {
    let served = serve_with(hasty(), Durability::Disk);
    let names = pull("order", "g", "c");
    let mut qmq = client(&served);
    join(&mut qmq, &names);
    qmq.store(&messages("order", &["a", "b", "c", "d", "e", "f"]));
    let found = qmq.take(&names, 6);
    assert_eq!(qmq.acknowledge(&names, 0, 0), 0);
    // R1: b and c were neither acknowledged nor sent back.
    assert_eq!(qmq.acknowledge(&names, 3, 4), 0);
    assert_eq!(metric(&served, "passed_over_messages"), 2);
    let served = restarted(served, hasty());
    let mut qmq = client(&served);
    let retries = pull("%RETRY%order%g", "g", "c");
    let mut again = qmq.take(&retries, 2);
    again.sort_by_key(|message| message.id.clone());
    assert_eq!(ids(&again), ["b", "c"]);
    assert_eq!(again.iter().map(|one| &one.whole).collect::<Vec<_>>(), [&found[1].whole, &found[2].whole]);
    assert_eq!(ids(&qmq.take(&names, 1)), ["f"], "the last was not passed over");
    assert_eq!(qmq.acknowledge(&names, 5, 5), 0);
    assert!(qmq.pull(&names).is_empty());
}

#[test]
fn a_range_is_done_with_once_and_signs_of_life_change_nothing() {
    let served = serve();
    let names = pull("order", "g", "c");
    let mut qmq = client(&served);
    assert_eq!(qmq.acknowledge(&names, -1, -1), 0, "who never pulled lives, too");
    assert_eq!(qmq.acknowledge(&names, 0, 7), 0, "and is done with nothing");
    assert!(served.store.groups().unwrap().is_empty(), "an acknowledgement makes nobody");
    join(&mut qmq, &names);
    qmq.store(&messages("order", &["a", "b", "c", "d"]));
    qmq.take(&names, 4);
    for (first, last) in [(0, 1), (0, 1), (0, 0), (1, 2), (-1, -1), (1, 0)] {
        assert_eq!(qmq.acknowledge(&names, first, last), 0, "{first} to {last}");
    }
    assert_eq!(offsets(&qmq.take(&names, 1)), [3]);
    assert_eq!(qmq.acknowledge(&names, 3, 1 << 40), 0, "what was never given is not done");
    qmq.store(&messages("order", &["e"]));
    assert_eq!(ids(&qmq.take(&names, 1)), ["e"]);
    assert_eq!(metric(&served, "passed_over_messages"), 0);
    for (subject, group, consumer) in [("", "g", "c"), ("order", "", "c"), ("order", "g", ""), ("a/b", "g", "c")] {
        assert_eq!(qmq.acknowledge(&pull(subject, group, consumer), -1, -1), 51);
    }
}

#[test]
fn a_group_is_moved_while_it_is_consumed() {
    let served = serve();
    let mut qmq = client(&served);
    let names = pull("order", "g", "c");
    join(&mut qmq, &names);
    qmq.store(&messages("order", &["a", "b", "c"]));
    let found = qmq.take(&names, 3);
    let held = qmq.ask_pull(&Pull { last: 2, hold_ms: 300_000, ..names.clone() });
    eventually("it waits", || metric(&served, "held_pulls") == 1);
    assert_eq!(qmq.manage("order", "g", 2), 0);
    let again = qmq.pulled(held);
    assert_eq!(ids(&again), ["a", "b", "c"], "it waits no longer");
    assert!(again[0].offset > found[2].offset);
    assert_eq!(qmq.acknowledge(&names, found[0].offset, found[2].offset), 0);
    assert_eq!(qmq.take(&names, 3), again, "what it had before the move is not acknowledged now");
    assert_eq!(qmq.manage("order", "g", 1), 0);
    assert!(qmq.pull(&names).is_empty());
    qmq.store(&messages("order", &["d"]));
    assert_eq!(ids(&qmq.take(&names, 1)), ["d"]);
    assert_eq!((qmq.manage("order", "g", 7), qmq.manage("order", "nobody", 2)), (0, 53));
    assert_eq!((qmq.manage("", "g", 1), qmq.manage("order", "a/b", 1)), (53, 53));
    assert_eq!(ids(&qmq.take(&names, 1)), ["d"]);
}

#[test]
fn a_move_leaves_nobody_where_it_waited() {
    let served = serve();
    let mut qmq = client(&served);
    let one_of = |consumer| Pull { count: 1, hold_ms: 300_000, ..pull("order", "g", consumer) };
    let held = ["one", "two", "three"].map(|consumer| qmq.ask_pull(&one_of(consumer)));
    eventually("all wait", || metric(&served, "held_pulls") == 3);
    assert_eq!(qmq.manage("order", "g", 1), 0);
    qmq.store(&messages("order", &["a", "b", "c"]));
    let mut found: Vec<String> = held.into_iter().map(|asked| qmq.pulled(asked)[0].id.clone()).collect();
    found.sort();
    assert_eq!(found, ["a", "b", "c"]);
}

#[test]
fn a_stop_tells_who_waits_that_there_is_nothing() {
    let served = serve();
    let mut qmq = client(&served);
    let names = pull("order", "g", "c");
    join(&mut qmq, &names);
    let held = qmq.ask_pull(&Pull { hold_ms: 300_000, ..names.clone() });
    eventually("it waits", || metric(&served, "held_pulls") == 1);
    served.server.stop(Duration::from_secs(60));
    assert!(qmq.pulled(held).is_empty());
    assert_eq!(served.server.wait(crate::support::PATIENCE).unwrap().cut_off, 0);
}

#[test]
fn who_hangs_up_while_it_waits_takes_nothing_along() {
    let served = serve();
    let mut qmq = client(&served);
    let names = pull("order", "g", "one");
    join(&mut qmq, &names);
    let mut gone = client(&served);
    gone.ask_pull(&Pull { hold_ms: 300_000, ..names });
    eventually("it waits", || metric(&served, "held_pulls") == 1);
    drop(gone);
    eventually("it waits no longer", || metric(&served, "held_pulls") == 0);
    qmq.store(&messages("order", &["a"]));
    assert_eq!(ids(&qmq.take(&pull("order", "g", "other"), 1)), ["a"]);
}

#[test]
fn how_late_a_message_is_counts_when_it_is_pulled_the_first_time() {
    let served = serve();
    let (mut producer, mut consumer) = (client(&served), client(&served));
    let names = pull("order", "g", "c1");
    join(&mut consumer, &names);
    producer.store(&messages("order", &["1", "2"]));
    assert_eq!(consumer.take(&names, 2).len(), 2);
    let counted = || {
        let (_, text) = page(served.server.http_address().unwrap(), "GET /metrics");
        let count = text.lines().find_map(|line| line.strip_prefix("delaymq_lateness_seconds_count "));
        count.unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(counted(), 2);
    // Nobody acknowledged them: they come again, under their old offsets.
    let mut again = client(&served);
    assert_eq!(ids(&again.pull(&names)), ["1", "2"]);
    assert_eq!((counted(), metric(&served, "answered_messages")), (2, 4));
}

#[test]
fn who_is_switched_off_while_it_waits_passes_its_news_on() {
    const ADMIN: &str = "the administrator's token";
    let access = AccessOptions { admin_token: Some(TokenHash::of(ADMIN.as_bytes())), ..AccessOptions::default() };
    let served = serve_with(ServerOptions { access, ..options() }, Durability::Disk);
    let (mut producer, mut first, mut second) = (client(&served), client(&served), client(&served));
    let (one, other) = (pull("order", "g", "c1"), pull("order", "g", "c2"));
    join(&mut first, &one);
    join(&mut second, &other);
    let long = |names: Pull<'static>| Pull { hold_ms: 20_000, ..names };
    let asked = first.ask_pull(&long(one));
    eventually("it waits", || metric(&served, "held_pulls") == 1);
    let waiting = second.ask_pull(&long(other));
    eventually("both wait", || metric(&served, "held_pulls") == 2);
    let off = "GET /onoffline?operation=update&clientId=c1&subject=order&consumerGroup=g&state=1";
    let bearer = format!("\r\nAuthorization: Bearer {ADMIN}");
    assert_eq!(page_with(served.server.http_address().unwrap(), off, &bearer).0, 200);
    producer.store(&messages("order", &["1"]));
    assert_eq!(ids(&second.pulled(waiting)), ["1"]);
    assert!(!first.has_answer(asked));
}

#[test]
fn a_pull_that_waits_is_not_left_behind_by_a_group_that_began_again() {
    let served = serve();
    let (mut qmq, mut other) = (client(&served), client(&served));
    let names = pull("order", "billing", "host@@1");
    join(&mut qmq, &names);
    qmq.store(&messages("order", &["a"]));
    assert_eq!(offsets(&qmq.take(&names, 1)), [0]);
    let held = qmq.ask_pull(&Pull { last: 0, hold_ms: HOLD_MS, ..names.clone() });
    eventually("it waits", || metric(&served, "held_pulls") == 1);
    served.store.reset_live_group("order", "billing", StartAt::Unfinished).unwrap();
    // By this it is found that the consumer has ended; another one begins, which holds nothing yet.
    assert_eq!(other.acknowledge(&names, 0, 0), 0);
    assert_eq!(ids(&qmq.pulled(held)), ["a"]);
}
