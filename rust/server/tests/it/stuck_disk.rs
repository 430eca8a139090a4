//! A disk that is slow, or fails: requests that need it get true answers, and no others wait.

#![cfg(test)]

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::faulty::{Faulty, serve_faulty};
use crate::keeping::settled;
use crate::planting::Everywhere;
use crate::support::qmq::{HOLD_MS, Pull, Qmq, ids, message, pull};
use crate::support::{Client, PATIENCE, Served, eventually, is_closed, metric, options, page, serve_with, subscribing};
use delaymq_core::planted::Planted;
use delaymq_core::units::Millis;
use delaymq_core::wire::extension::errors::ErrorCode;
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter};
use delaymq_core::wire::extension::{EXTENSION_VERSION, PING, PUBLISH, STATUS, SUBSCRIBE, UNSUBSCRIBE};
use delaymq_core::wire::frame::{Header, answer, put_frame};
use delaymq_core::wire::qmq::message::{MessageParts, put_message};
use delaymq_core::wire::qmq::send::{SEND, SendCode, put_sent, read_failures};
use delaymq_engine::Durability;
use delaymq_server::ServerOptions;

/// Long enough for a message to be given and another stored, on a busy machine, too.
const LEASE_MS: u64 = 1_000;
/// A fault is planted for all threads, so leases end in one test at a time.
static LEASES_END: Mutex<()> = Mutex::new(());

fn batch(bytes: usize) -> PublishWriter {
    let mut writer = PublishWriter::default();
    writer.push("order", DueTime::After(3_600_000), &[], &vec![7; bytes]).unwrap();
    writer
}

fn qmq_batch(id: &str) -> Vec<u8> {
    let mut message = Vec::new();
    let parts = MessageParts {
        created: Millis(1),
        due: None,
        subject: "order",
        message_id: id,
        tags: &[],
        is_opaque: false,
        body: &[],
    };
    put_message(&mut message, &parts).unwrap();
    let mut body = Vec::new();
    put_sent(&mut body, &message);
    body
}

#[test]
fn who_waits_for_the_disk_takes_no_thread_and_holds_up_nobody() {
    let (served, switches) = serve_faulty(options());
    let mut producers: Vec<Client> = (0..4).map(|_| served.connect()).collect();
    let mut other = served.connect();
    other.publish("order", &[b"first"], 3_600_000);
    switches.stuck.store(true, Ordering::SeqCst);
    let writer = batch(10);
    let asked: Vec<Vec<i32>> = producers
        .iter_mut()
        .map(|producer| (0..100).map(|_| producer.send(PUBLISH, 0, |out| writer.put(out, false))).collect())
        .collect();
    eventually("all to wait", || metric(&served, "waiting_for_log") == 400);
    assert_eq!(metric(&served, "waiting_for_threads"), 0);
    other.done(PING, |_| Ok(()));
    assert_eq!(page(served.server.http_address().unwrap(), "GET /meta/address").0, 200);
    switches.stuck.store(false, Ordering::SeqCst);
    for (producer, asked) in producers.iter_mut().zip(asked) {
        for opaque in asked {
            assert_eq!(producer.answer(), (opaque, 0, vec![0; 4]));
        }
    }
    assert_eq!(served.store.status().unwrap().pending, 401);
}

#[test]
fn who_waited_for_a_disk_that_failed_is_told_so() {
    let (served, switches) = serve_faulty(options());
    let (mut own, mut qmq) = (served.connect(), served.connect());
    own.publish("order", &[b"first"], 3_600_000);
    switches.stuck.store(true, Ordering::SeqCst);
    let writer = batch(10);
    let published = own.send(PUBLISH, 0, |out| writer.put(out, true));
    let body = qmq_batch("id-1");
    let sent = qmq.send(SEND, 0, |out| {
        out.extend_from_slice(&body);
        Ok(())
    });
    eventually("both to wait", || metric(&served, "waiting_for_log") == 2);
    switches.fail_syncs.store(true, Ordering::SeqCst);
    switches.stuck.store(false, Ordering::SeqCst);
    let (opaque, code, _) = own.answer();
    assert_eq!((opaque, code), (published, ErrorCode::Poisoned.number()));
    let (opaque, code, answer) = qmq.answer();
    let failures = read_failures(&answer).unwrap();
    assert_eq!((opaque, code, failures.len()), (sent, 0, 1));
    assert_eq!((failures[0].message_id.as_str(), failures[0].code), ("id-1", SendCode::StoreError));
    own.refused(PUBLISH, ErrorCode::Poisoned, |out| writer.put(out, true));
    own.done(PING, |_| Ok(()));
    let http = served.server.http_address().unwrap();
    assert_eq!((page(http, "GET /ready").0, page(http, "GET /health").0, metric(&served, "poisoned")), (503, 200, 1));
}

#[test]
fn a_subscription_whose_messages_could_not_be_read_gets_them_once_they_can_be() {
    let (served, switches) = serve_faulty(options());
    let (mut client, mut other) = (served.connect(), served.connect());
    client.publish("order", &[b"old"], 0);
    // As many segments as stay mapped, and more, lie between, and all of them were looked at.
    other.subscribe(1, "other", "g", 100);
    for _ in 0..24 {
        client.publish("other", &[&vec![7; 400_000]], 0);
        other.messages(1);
    }
    switches.fail_reads.store(true, Ordering::SeqCst);
    client.subscribe(1, "order", "g", 10);
    eventually("reads that fail, again and again", || switches.failed_reads.load(Ordering::SeqCst) >= 3);
    client.done(PING, |_| Ok(()));
    switches.fail_reads.store(false, Ordering::SeqCst);
    assert_eq!(client.messages(1)[0].body, b"old");
}

#[test]
fn what_finds_no_room_is_told_to_come_later_and_is_not_stored() {
    let limited = ServerOptions { waiting_publishes_max: 1, ..options() };
    let (served, switches) = serve_faulty(limited);
    let mut producer = served.connect();
    producer.publish("order", &[b"first"], 3_600_000);
    switches.stuck.store(true, Ordering::SeqCst);
    let writer = batch(300_000);
    let mut asked = 0;
    eventually("no room", || {
        producer.send(PUBLISH, 0, |out| writer.put(out, false));
        asked += 1;
        metric(&served, "busy_answers") > 0
    });
    assert_eq!(metric(&served, "waiting_for_room"), 1);
    switches.stuck.store(false, Ordering::SeqCst);
    let codes: Vec<i16> = (0..asked).map(|_| producer.answer().1).collect();
    let stored = codes.iter().filter(|code| **code == 0).count() as u64;
    let busy = codes.iter().filter(|code| **code == ErrorCode::Busy.number()).count() as u64;
    assert_eq!((stored + busy, metric(&served, "waiting_for_room")), (asked, 0));
    assert!(busy >= 1 && stored >= 2, "{codes:?}");
    assert_eq!(served.store.status().unwrap().pending, stored + 1);
}

#[test]
fn work_that_finds_no_thread_is_told_to_come_later() {
    let limited = ServerOptions { waiting_requests_max: 0, ..options() };
    let served = serve_with(limited, Durability::Os);
    let mut client = served.connect();
    client.refused(STATUS, ErrorCode::Busy, |_| Ok(()));
    client.refused(SUBSCRIBE, ErrorCode::Busy, |out| subscribing(1, "a", "g", 1).put(out));
    client.publish("a", &[b"a"], 0);
    let limited = ServerOptions { subscriptions_max: 1, ..options() };
    let served = serve_with(limited, Durability::Os);
    let mut client = served.connect();
    client.subscribe(1, "a", "g", 1);
    client.refused(SUBSCRIBE, ErrorCode::Busy, |out| subscribing(2, "a", "g", 1).put(out));
}

#[test]
fn consumers_that_are_made_while_the_disk_is_stuck_hold_up_nobody_else() {
    let (served, switches) = serve_faulty(options());
    let mut own = served.connect();
    own.publish("order", &[b"first"], 3_600_000);
    let known = pull("order", "billing", "host@@known");
    let mut knows = Qmq::to(served.server.address());
    assert!(knows.pull(&known).is_empty());
    switches.stuck.store(true, Ordering::SeqCst);
    let names: Vec<String> = (0..40).map(|number| format!("host@@{number}")).collect();
    let mut new: Vec<(Qmq, i32)> = Vec::new();
    for name in &names {
        let mut qmq = Qmq::to(served.server.address());
        let asked = qmq.ask_pull(&pull("order", "billing", name));
        new.push((qmq, asked));
    }
    eventually("all to wait", || metric(&served, "waiting_for_log") == 40);
    // Who was looked up before, and every other command.
    assert!(knows.pull(&known).is_empty());
    own.done(PING, |_| Ok(()));
    assert_eq!(page(served.server.http_address().unwrap(), "GET /meta/address").0, 200);
    switches.stuck.store(false, Ordering::SeqCst);
    for (mut qmq, asked) in new {
        assert!(qmq.pulled(asked).is_empty());
    }
    assert_eq!(served.store.named_consumers().unwrap().len(), 41);
}

#[test]
fn subscriptions_that_end_while_the_disk_is_stuck_leave_threads_for_others() {
    let (served, switches) = serve_faulty(options());
    let mut leaving: Vec<Client> = (0..20).map(|_| served.connect()).collect();
    for (number, client) in leaving.iter_mut().enumerate() {
        client.subscribe(1, "order", &format!("group-{number}"), 1);
    }
    let mut other = served.connect();
    switches.stuck.store(true, Ordering::SeqCst);
    drop(leaving);
    eventually("all to leave", || metric(&served, "connections") == 1);
    assert_eq!(other.ask(STATUS, |_| Ok(())).0, 0);
    switches.stuck.store(false, Ordering::SeqCst);
}

#[test]
fn pulls_that_do_not_wait_take_no_threads_of_others_while_the_disk_is_stuck() {
    const CONSUMERS: usize = 40;
    let (served, switches) = serve_faulty(options());
    let address = served.server.address();
    let groups: Vec<String> = (0..CONSUMERS).map(|number| format!("group-{number}")).collect();
    let mut pulling: Vec<Qmq> = groups.iter().map(|_| Qmq::to(address)).collect();
    for (qmq, group) in pulling.iter_mut().zip(&groups) {
        assert!(qmq.pull(&pull("order", group, "host@@1")).is_empty(), "the group is there from now on");
    }
    let bodies: Vec<Vec<u8>> =
        (0..300).map(|number| crate::support::qmq::message("order", &number.to_string(), &[], None)).collect();
    pulling[0].store(&bodies);
    for (qmq, group) in pulling.iter_mut().zip(&groups) {
        // All the offsets that may be given before more of them are durable.
        let last = qmq.take(&Pull { count: 256, ..pull("order", group, "host@@1") }, 256).last().unwrap().offset;
        assert_eq!(last, 255);
    }
    let (mut own, mut other) = (served.connect(), served.connect());
    switches.stuck.store(true, Ordering::SeqCst);
    let (answered, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for (qmq, group) in pulling.iter_mut().zip(&groups) {
            let (answered, is_over) = (&answered, &is_over);
            scope.spawn(move || {
                // As a Java consumer pulls its retry subject.
                while !is_over.load(Ordering::SeqCst) {
                    qmq.pull(&Pull { last: 255, count: 10, ..pull("order", group, "host@@1") });
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        eventually("all to pull again and again", || answered.load(Ordering::SeqCst) >= 2 * CONSUMERS);
        let others = || {
            let before = answered.load(Ordering::SeqCst);
            assert_eq!(own.ask(STATUS, |_| Ok(())).0, 0);
            assert_eq!(metric(&served, "poisoned"), 0);
            answered.load(Ordering::SeqCst) - before
        };
        // Behind a queue for threads there would be all that do not fit, each time.
        let fewest = std::iter::repeat_with(others).take(8).min().unwrap();
        is_over.store(true, Ordering::SeqCst);
        switches.stuck.store(false, Ordering::SeqCst);
        assert!(fewest < CONSUMERS / 2, "{fewest} pulls were answered before STATUS was");
    });
    other.done(PING, |_| Ok(()));
}

#[test]
fn requests_and_ends_that_wait_for_a_stuck_disk_leave_threads_for_others() {
    let (served, switches) = serve_faulty(options());
    let mut own = served.connect();
    for number in 0..24 {
        own.subscribe(number, "order", &format!("group-{number}"), 1);
    }
    let mut other = served.connect();
    switches.stuck.store(true, Ordering::SeqCst);
    let ended: Vec<i32> = (0..24_u32)
        .map(|number| {
            own.send(UNSUBSCRIBE, 0, |out| {
                out.extend_from_slice(&number.to_be_bytes());
                Ok(())
            })
        })
        .collect();
    let begun: Vec<i32> = (24..32)
        .map(|number| {
            own.send(SUBSCRIBE, 0, |out| subscribing(number, "other", &format!("group-{number}"), 1).put(out))
        })
        .collect();
    other.done(PING, |_| Ok(()));
    assert_eq!(other.ask(STATUS, |_| Ok(())).0, 0);
    eventually("those that subscribe to wait", || metric(&served, "waiting_for_threads") == 8);
    assert_eq!(other.ask(STATUS, |_| Ok(())).0, 0);
    switches.stuck.store(false, Ordering::SeqCst);
    let mut answers: Vec<(i32, i16)> =
        ended.iter().chain(&begun).map(|_| own.answer()).map(|(of, code, _)| (of, code)).collect();
    answers.sort_unstable();
    assert_eq!(answers, ended.iter().chain(&begun).map(|of| (*of, 0)).collect::<Vec<_>>());
}

#[test]
fn what_was_read_and_not_begun_when_a_stop_comes_is_told_that_nothing_was_done() {
    let mut limited = options();
    limited.connection.requests_max = 1;
    let (served, switches) = serve_faulty(limited);
    let mut client = served.connect();
    client.publish("order", &[b"first"], 3_600_000);
    switches.stuck.store(true, Ordering::SeqCst);
    let (writer, mut frames) = (batch(10), Vec::new());
    for opaque in 11..14 {
        let header = Header::request(PUBLISH, EXTENSION_VERSION, opaque);
        put_frame(&mut frames, header, |out| writer.put(out, false)).unwrap();
    }
    client.socket.write_all(&frames).unwrap();
    eventually("the first to wait", || metric(&served, "waiting_for_log") == 1);
    served.server.stop(PATIENCE);
    let stopping = ErrorCode::Stopping.number();
    let told = [client.answer(), client.answer()].map(|(opaque, code, _)| (opaque, code));
    assert_eq!(told, [(12, stopping), (13, stopping)]);
    switches.stuck.store(false, Ordering::SeqCst);
    assert_eq!(client.answer(), (11, 0, vec![0; 4]));
    assert!(is_closed(&client.socket));
    assert_eq!(served.server.wait(PATIENCE).map(|stopped| stopped.cut_off), Some(0));
    assert_eq!(served.store.status().unwrap().pending, 2);
}

#[test]
fn a_subscriber_with_a_request_under_way_does_not_keep_a_server_from_its_stop() {
    let mut limited = options();
    limited.connection.output_bytes_max = 64 << 10;
    let (served, switches) = serve_faulty(limited);
    let (mut client, mut producer) = (served.connect(), served.connect());
    let bodies = vec![vec![7; 100_000]; 200];
    for part in bodies.chunks(5) {
        producer.publish("order", &part.iter().map(Vec::as_slice).collect::<Vec<_>>(), 0);
    }
    // The first message comes before the disk is stuck, because a consumer joins its group by a fact.
    client.subscribe(1, "order", "g", 1);
    client.messages(1);
    switches.stuck.store(true, Ordering::SeqCst);
    let writer = batch(10);
    client.send(PUBLISH, 0, |out| writer.put(out, false));
    eventually("the publish to wait", || metric(&served, "waiting_for_log") == 1);
    client.credit(1, 200);
    let sent = settled("no more room", 1, || metric(&served, "sent_messages"));
    assert!(sent < 200, "the others wait until the subscriber reads");
    served.server.stop(Duration::from_secs(600));
    // There is room for the others again. Nothing is sent any more.
    client.messages(usize::try_from(sent - 1).unwrap());
    served.server.stop(Duration::ZERO);
    let stopped = served.server.wait(PATIENCE);
    switches.stuck.store(false, Ordering::SeqCst);
    if stopped.is_none() {
        // Its end would wait for the thread of the server.
        std::mem::forget(served);
    }
    assert_eq!(stopped.map(|stopped| stopped.cut_off), Some(1));
}

#[test]
fn a_consumer_whose_end_failed_is_not_told_that_what_it_held_is_done() {
    let _alone = LEASES_END.lock();
    let (served, switches) = serve_faulty(ServerOptions { lease_ms: 1_000, ..options() });
    let names = pull("order", "billing", "host@@1");
    let mut qmq = Qmq::to(served.server.address());
    assert!(qmq.pull(&names).is_empty());
    let mut own = served.connect();
    own.publish("order", &[b"first"], 0);
    assert_eq!(qmq.take(&names, 1).len(), 1);
    // For as long as it waits it is not silent.
    qmq.ask_pull(&Pull { last: 0, hold_ms: 300_000, ..names.clone() });
    switches.fail_syncs.store(true, Ordering::SeqCst);
    let writer = batch(10);
    own.refused(PUBLISH, ErrorCode::Poisoned, |out| writer.put(out, true));
    drop(qmq);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(Qmq::to(served.server.address()).acknowledge(&names, 0, 0), 51);
    assert_eq!(metric(&served, "expired_consumers"), 0);
}

/// A server whose disk is stuck, and a consumer of QMQ that holds a message there and whose lease is over:
/// its end is on its way to the disk. Also an acknowledgement of that message, which is not to be answered yet.
fn acknowledging_as_its_lease_ends(names: &Pull<'_>) -> (Served, Faulty, Qmq, i32) {
    let (served, switches) = serve_faulty(ServerOptions { lease_ms: LEASE_MS, retry_delay_ms: 1, ..options() });
    let (mut qmq, mut producer) = (Qmq::to(served.server.address()), Qmq::to(served.server.address()));
    let held = qmq.ask_pull(&Pull { hold_ms: HOLD_MS, ..names.clone() });
    eventually("it waits", || metric(&served, "held_pulls") == 1);
    producer.store(&[message(names.subject, "a", &[], None)]);
    assert_eq!(ids(&qmq.pulled(held)), ["a"]);
    // With this it is durable, too, that it was given: its end has nothing else to wait for.
    producer.store(&[message("other", "b", &[], None)]);
    switches.stuck.store(true, Ordering::SeqCst);
    let is_over = || metric(&served, "waiting_for_log") > 0 || metric(&served, "expired_consumers") > 0;
    eventually("its lease is over", is_over);
    let acknowledged = qmq.ask_acknowledge(names, 0, 0);
    (served, switches, qmq, acknowledged)
}

#[test]
fn what_is_acknowledged_as_a_lease_ends_is_answered_once_that_end_is_durable() {
    let _alone = LEASES_END.lock();
    let names = pull("order", "billing", "host@@1");
    let (served, switches, mut qmq, acknowledged) = acknowledging_as_its_lease_ends(&names);
    assert!(!qmq.has_answer(acknowledged), "it is answered before the end is durable");
    // It lives, as far as that tells, and is silent once more.
    std::thread::sleep(Duration::from_millis(LEASE_MS + LEASE_MS / 2));
    switches.stuck.store(false, Ordering::SeqCst);
    assert_eq!(qmq.answer(acknowledged).0, answer::SUCCESS);
    // It was too late: another has it by now.
    assert_eq!(ids(&qmq.take(&pull("%RETRY%order%billing", "billing", "host@@2"), 1)), ["a"]);
    assert_eq!(metric(&served, "expired_consumers"), 1, "it ends once");
    let left = served.store.named_consumers().unwrap();
    assert!(left.iter().all(|one| one.consumer != "host@@1"), "an acknowledgement makes nobody: {left:?}");
}

#[test]
fn what_is_acknowledged_as_a_lease_ends_is_not_told_as_done_where_the_disk_fails_then() {
    let _alone = LEASES_END.lock();
    let names = pull("order", "billing", "host@@1");
    let (served, switches, mut qmq, acknowledged) = acknowledging_as_its_lease_ends(&names);
    assert!(!qmq.has_answer(acknowledged), "it is answered before the end is durable");
    switches.fail_syncs.store(true, Ordering::SeqCst);
    switches.stuck.store(false, Ordering::SeqCst);
    assert_eq!(qmq.answer(acknowledged).0, answer::BROKER_ERROR);
    assert_eq!(qmq.acknowledge(&names, 0, 0), answer::BROKER_ERROR, "nor later");
    assert_eq!((metric(&served, "poisoned"), metric(&served, "expired_consumers")), (1, 0));
}

#[test]
fn who_pulls_as_its_lease_ends_is_another_one_who_is_known() {
    let _alone = LEASES_END.lock();
    let names = pull("order", "billing", "host@@1");
    let (served, switches, mut qmq, _) = acknowledging_as_its_lease_ends(&names);
    let asked = qmq.ask_pull(&Pull { hold_ms: HOLD_MS, ..names.clone() });
    switches.stuck.store(false, Ordering::SeqCst);
    eventually("it waits", || metric(&served, "held_pulls") == 1);
    Qmq::to(served.server.address()).store(&[message("order", "c", &[], None)]);
    let found = qmq.pulled(asked);
    assert_eq!(ids(&found), ["c"]);
    assert_eq!(qmq.acknowledge(&names, found[0].offset, found[0].offset), answer::SUCCESS);
    let listed = served.store.groups().unwrap();
    let group = listed.iter().find(|group| group.subject == "order").unwrap();
    assert_eq!((group.lag, group.in_flight), (0, 0), "what it acknowledged is done");
}

/// A kill would undo the end, and what was answered as done would be held again.
#[test]
fn a_consumer_that_is_forgotten_before_its_end_is_durable_is_seen() {
    let _alone = LEASES_END.lock();
    let _planted = Everywhere::plant(Some(Planted::ForgottenBeforeEnd));
    let names = pull("order", "billing", "host@@1");
    let (_served, switches, mut qmq, acknowledged) = acknowledging_as_its_lease_ends(&names);
    assert!(qmq.has_answer(acknowledged), "two tests of the end of a lease would not see it");
    switches.stuck.store(false, Ordering::SeqCst);
}
