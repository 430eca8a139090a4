//! Quotas of the server's memory, if several want it: connections of an address, addresses, and answers of one
//! connection that are made at the same time.

#![cfg(test)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::faulty::{Faulty, serve_faulty};
use crate::keeping::{MEBI, from_address, groups, holding, large, settled};
use crate::support::qmq::{Qmq, checked, ids, message, pull};
use crate::support::{Client, Served, eventually, metric, options, serve_with, subscribing};
use delaymq_core::queues::tags::{Filter, TagRule};
use delaymq_core::wire::extension::administration::{GroupName, Listing};
use delaymq_core::wire::extension::consume::Subscribe;
use delaymq_core::wire::extension::dead_letters::DeadLetters;
use delaymq_core::wire::extension::errors::ErrorCode;
use delaymq_core::wire::extension::{DEAD_LETTERS, PING, SUBSCRIBE};
use delaymq_core::wire::quota::memory_accounting::ScalesLimits;
use delaymq_engine::Durability;
use delaymq_server::ServerOptions;

fn scales(all: usize, each: usize) -> ServerOptions {
    let scales = ScalesLimits { all_bytes_max: all << 20, each_bytes_max: each << 20, free_bytes: 64 << 10 };
    ServerOptions { scales, ..options() }
}

/// Connections from an address that do not read, each with four pulls that wait.
fn deaf_from(served: &Served, last: u8, count: usize) -> Vec<(Qmq, Vec<i32>)> {
    let deaf = (0..count).map(|number| {
        let mut qmq = Qmq::over(from_address(served, [127, 0, 1, last]));
        let held = holding(served, &mut qmq, &groups(&format!("deaf-{last}-{number}"), 4));
        (qmq, held)
    });
    deaf.collect()
}

#[test]
fn all_addresses_together_have_a_share_and_small_requests_of_others_are_served() {
    let served = serve_with(scales(32, 24), Durability::Os);
    let mut deaf: Vec<(Qmq, Vec<i32>)> = [1, 2].into_iter().flat_map(|last| deaf_from(&served, last, 6)).collect();
    let mut other = Qmq::to(served.server.address());
    let waiting = holding(&served, &mut other, &groups("other", 1))[0];
    Qmq::to(served.server.address()).store(&[large("order", "a", 128)]);
    settled("the answers", 0, || metric(&served, "answered_messages"));
    let kept = metric(&served, "kept_bytes");
    assert!(kept < 40 * MEBI, "{} MiB", kept / MEBI);
    Client::over(from_address(&served, [127, 0, 1, 3])).publish("small", &[b"small"], 3_600_000);
    // The memory of an answer that was read goes to any of those that wait, so all of them read.
    std::thread::scope(|scope| {
        for (qmq, held) in &mut deaf {
            scope.spawn(move || held.iter().for_each(|asked| assert_eq!(ids(&qmq.pulled(*asked)), ["a"])));
        }
        assert_eq!(ids(&other.pulled(waiting)), ["a"]);
    });
    eventually("nothing to be kept", || metric(&served, "kept_bytes") < MEBI);
}

#[test]
fn who_keeps_much_where_an_address_has_its_share_is_not_heard_until_it_has_read() {
    let served = serve_with(scales(64, 24), Durability::Os);
    let mut deaf = deaf_from(&served, 1, 8);
    Qmq::to(served.server.address()).store(&[large("order", "a", 128)]);
    settled("the answers", 0, || metric(&served, "answered_messages"));
    let mut small = Client::over(from_address(&served, [127, 0, 1, 1]));
    let before = metric(&served, "requests");
    let asked: Vec<i32> =
        deaf.iter_mut().map(|(qmq, _)| qmq.send(10, &checked(&message("small", "b", &[], None)))).collect();
    // Each of these takes turns, in which all that is heard is served.
    for _ in 0..200 {
        small.done(PING, |_| Ok(()));
    }
    let heard = metric(&served, "requests") - before - 200;
    assert!(heard <= 6, "{heard} of eight were heard");
    std::thread::scope(|scope| {
        for ((qmq, held), asked) in deaf.iter_mut().zip(asked) {
            scope.spawn(move || {
                for one in held {
                    assert_eq!(ids(&qmq.pulled(*one)), ["a"]);
                }
                assert_eq!(qmq.answer(asked), (0, vec![]));
            });
        }
    });
}

/// Subscriptions with many filters, as many as a client may have; and one more, without any.
fn subscribed(client: &mut Client) -> usize {
    let tags = |_| Filter::Tags { rule: TagRule::Any, tags: vec!["x".to_owned(); 127] };
    let filters: Vec<Filter> = (0..16).map(tags).collect();
    let wanted = |number| Subscribe { filters: filters.clone(), ..subscribing(number, "order", "own", 1) };
    let made = (1..200).take_while(|number| client.ask(SUBSCRIBE, |out| wanted(*number).put(out)).0 == 0).count();
    client.refused(SUBSCRIBE, ErrorCode::Busy, |out| wanted(300).put(out));
    client.subscribe(400, "order", "own", 1);
    made
}

#[test]
fn what_lasts_has_a_quarter_of_what_passes() {
    let served = serve_with(scales(16, 8), Durability::Os);
    let of = |last: u8| Client::over(from_address(&served, [127, 0, 1, last]));
    let (mut one, mut other, mut third) = (of(1), of(2), of(3));
    let made = [subscribed(&mut one), subscribed(&mut other), subscribed(&mut third)];
    assert!(made[0] > 10 && made[0].abs_diff(made[1]) <= 1 && made[2] <= 1, "{made:?}");
    let kept = metric(&served, "kept_bytes");
    assert!((4 * MEBI - MEBI / 4..4 * MEBI + MEBI / 2).contains(&kept), "{kept}");
    drop(one);
    eventually("room of one that has gone", || metric(&served, "kept_bytes") < 3 * MEBI);
    assert!(subscribed(&mut of(4)) > 10);
}

/// A disk whose reads can be stuck, and a message of 384,000 bytes there that is read from it: as many segments as
/// stay mapped, and more, were written behind it.
fn with_an_old_message(join: impl FnOnce(&Served), subject: &str, count: usize) -> (Served, Faulty) {
    let (served, switches) = serve_faulty(options());
    join(&served);
    let mut qmq = Qmq::to(served.server.address());
    (0..count).for_each(|number| qmq.store(&[large(subject, &number.to_string(), 12)]));
    let mut between = served.connect();
    between.subscribe(1, "between", "g", 100);
    for _ in 0..24 {
        between.publish("between", &[&vec![7; 400_000]], 0);
        between.messages(1);
    }
    (served, switches)
}

#[test]
fn pulls_that_wait_for_a_thread_at_once_do_not_all_take_the_same_room() {
    let names = groups("deaf", 100);
    let join = |served: &Served| {
        let mut qmq = Qmq::to(served.server.address());
        assert!(names.iter().all(|group| qmq.pull(&pull("order", group, "c")).is_empty()));
    };
    let (served, switches) = with_an_old_message(join, "order", 1);
    switches.stuck_reads.store(true, Ordering::SeqCst);
    let mut deaf = Qmq::to(served.server.address());
    let asked: Vec<i32> = names.iter().map(|group| deaf.ask_pull(&pull("order", group, "c"))).collect();
    eventually("all to be read", || metric(&served, "requests_in_flight") == 100);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(metric(&served, "answered_messages"), 0);
    switches.stuck_reads.store(false, Ordering::SeqCst);
    let answered = settled("the answers", 0, || metric(&served, "answered_messages"));
    assert!((40..80).contains(&answered), "{answered} were answered");
    for asked in asked {
        assert_eq!(ids(&deaf.pulled(asked)), ["0"]);
    }
}

#[test]
fn subscriptions_that_wait_for_a_thread_at_once_do_not_all_take_the_same_room() {
    let names = groups("deaf", 40);
    let (served, switches) = with_an_old_message(|_| (), "order", 10);
    let mut deaf = served.connect();
    for (number, group) in (0..).zip(&names) {
        deaf.subscribe(number, "order", group, 0);
    }
    switches.stuck_reads.store(true, Ordering::SeqCst);
    (0..).zip(&names).for_each(|(number, _)| deaf.credit(number, 100));
    let before = metric(&served, "pulled_messages");
    served.connect().done(PING, |_| Ok(()));
    std::thread::sleep(Duration::from_millis(200));
    switches.stuck_reads.store(false, Ordering::SeqCst);
    let sent = settled("what is sent", 0, || metric(&served, "sent_messages"));
    let pulled = metric(&served, "pulled_messages") - before;
    assert!(sent < 100 && pulled < sent + 20, "{pulled} were pulled, {sent} sent");
    assert_eq!(deaf.messages(400).len(), 400);
}

#[test]
fn a_list_whose_room_was_taken_while_it_was_made_is_asked_for_again() {
    let (served, switches) = with_an_old_message(
        |served| assert!(Qmq::to(served.server.address()).pull(&pull("order", "g", "c")).is_empty()),
        "%DEAD_RETRY%order%g",
        1,
    );
    let letters =
        DeadLetters { name: GroupName { subject: "order", group: "g" }, listing: Listing { after: 0, count_max: 10 } };
    let mut deaf = served.connect();
    deaf.subscribe(1, "large", "g", 1_000);
    switches.stuck_reads.store(true, Ordering::SeqCst);
    let asked = deaf.send(DEAD_LETTERS, 0, |out| letters.put(out));
    eventually("it to be made", || metric(&served, "waiting_for_threads") == 1);
    let mut producer = served.connect();
    for _ in 0..80 {
        producer.publish("large", &[&vec![7; 400_000]], 0);
    }
    settled("a full connection", 0, || metric(&served, "sent_messages"));
    switches.stuck_reads.store(false, Ordering::SeqCst);
    eventually("the list", || metric(&served, "waiting_for_threads") == 0);
    let (of, code, _) = deaf.answer();
    assert_eq!((of, code), (asked, ErrorCode::Busy.number()));
    deaf.messages(80);
    assert!(deaf.done(DEAD_LETTERS, |out| letters.put(out)).len() > 384_000);
}

#[test]
fn parked_pulls_of_who_has_gone_are_no_sign_of_life() {
    let served = serve_with(ServerOptions { lease_ms: 500, ..options() }, Durability::Os);
    let mut deaf = Qmq::to(served.server.address());
    drop(holding(&served, &mut deaf, &groups("deaf", 20)));
    Qmq::to(served.server.address()).store(&[large("order", "a", 128)]);
    settled("the answers", 0, || metric(&served, "answered_messages"));
    assert!(metric(&served, "held_pulls") == 0 && metric(&served, "answered_messages") < 20, "some are parked");
    drop(deaf);
    eventually("its consumers to end", || metric(&served, "qmq_consumers") == 0);
}

#[test]
fn what_is_told_of_refused_messages_is_weighed_while_the_others_wait() {
    let (served, switches) = serve_faulty(options());
    served.connect().publish("order", &[b"first"], 3_600_000);
    switches.stuck.store(true, Ordering::SeqCst);
    let mut qmq = Qmq::to(served.server.address());
    let refused = (0..5_000).map(|_| message("no subject", "m", &[], None));
    let taken = std::iter::once(message("order", "taken", &[], None));
    let body: Vec<u8> = taken.chain(refused).flat_map(|message| checked(&message)).collect();
    let asked = qmq.send(10, &body);
    eventually("it to wait", || metric(&served, "waiting_for_log") == 1);
    let kept = metric(&served, "kept_bytes");
    switches.stuck.store(false, Ordering::SeqCst);
    let (code, listed) = qmq.answer(asked);
    assert_eq!(code, 0);
    assert!(kept > (body.len() + listed.len()) as u64, "{kept} for {} and {}", body.len(), listed.len());
}
