//! Known faults of QMQ, tested by QMQ's numbers over a real connection: this server does not have them. With each fault
//! planted, its test fails.

#![cfg(test)]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::engine_support::Faults;
use crate::planting::Everywhere;
use crate::support::qmq::{self, HOLD_MS, Pull, Qmq, pull};
use crate::support::{Client, Served, eventually, options, serve, serve_with, store_options};
use delaymq_core::planted::Planted;
use delaymq_core::store::StartAt;
use delaymq_core::units::Millis;
use delaymq_core::wire::extension::CANCEL;
use delaymq_core::wire::extension::publish::{Cancelled, put_receipts, read_outcomes};
use delaymq_core::wire::frame::answer;
use delaymq_core::wire::qmq::message::{CREATED_KEY, MessageParts, put_attribute, put_message};
use delaymq_core::wire::qmq::send::{Failure, SEND, SendCode, put_sent, read_failures};
use delaymq_engine::{BODY_BYTES_MAX, Durability, Store};
use delaymq_server::{Server, ServerOptions};

/// A fault is planted for all threads, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());
/// How often a Java producer tries.
const TRIES: usize = 10;

/// It holds, and does not with the fault planted.
fn proves(fault: Planted, holds: impl Fn() -> bool) {
    let _alone = ALONE.lock();
    assert!(holds(), "it does not hold");
    let _planted = Everywhere::plant(Some(fault));
    assert!(!holds(), "it holds with {fault:?} planted, too");
}

fn message(subject: &str, id: &str, body: &[u8]) -> Vec<u8> {
    let made = Millis(1_700_000_000_000);
    let mut whole = Vec::new();
    let parts = MessageParts { created: made, due: None, subject, message_id: id, tags: &[], is_opaque: false, body };
    put_message(&mut whole, &parts).unwrap();
    let mut out = Vec::new();
    put_sent(&mut out, &whole);
    out
}

fn attributes() -> Vec<u8> {
    let mut body = Vec::new();
    put_attribute(&mut body, CREATED_KEY, "1700000000000").unwrap();
    body
}

/// What is said to a SEND of these.
fn sent(client: &mut Client, messages: &[Vec<u8>]) -> (i16, Vec<Failure>) {
    let (code, body) = client.ask(SEND, |out| {
        out.extend_from_slice(&messages.concat());
        Ok(())
    });
    (code, read_failures(&body).unwrap())
}

/// As a Java producer does: what is not answered, and what is listed with a code that passes, goes out
/// again without a pause. How often it sent, and what it gave up for good.
fn sent_as_java_does(client: &mut Client, messages: &[(&str, Vec<u8>)]) -> (usize, Vec<String>) {
    let mut left: Vec<(&str, Vec<u8>)> = messages.to_vec();
    let mut given_up = Vec::new();
    for tried in 1..=TRIES {
        let bodies: Vec<Vec<u8>> = left.iter().map(|(_, body)| body.clone()).collect();
        let (code, failures) = sent(client, &bodies);
        if code == answer::SUCCESS {
            let passes = |one: &Failure| !matches!(one.code, SendCode::Refused | SendCode::Blocked);
            given_up.extend(failures.iter().filter(|one| !passes(one)).map(|one| one.message_id.clone()));
            left.retain(|(id, _)| failures.iter().any(|one| one.message_id == *id && passes(one)));
        }
        if left.is_empty() {
            return (tried, given_up);
        }
    }
    (TRIES, given_up)
}

/// How many messages a group of this subject gets.
fn ready(served: &Served, subject: &str) -> u64 {
    served.store.start_group(subject, "counting", StartAt::Unfinished).unwrap();
    let groups = served.store.groups().unwrap();
    groups.iter().filter(|group| group.subject == subject).map(|group| group.lag).sum()
}

/// D5: a message over the limit was dropped, and answered with success.
#[test]
fn d5_a_message_over_the_limit_is_listed_and_not_stored() {
    proves(Planted::RefusedCalledStored, || {
        let served = serve();
        let mut client = served.connect();
        let mut whole = message("s", "large", &attributes());
        // Longer than may be, and its check is right.
        let body = vec![0; BODY_BYTES_MAX + 1];
        let (length, head) = (body.len() as u32, whole.len() - attributes().len() - 4);
        whole.truncate(head);
        whole.extend_from_slice(&length.to_be_bytes());
        whole.extend_from_slice(&body);
        let mut large = Vec::new();
        put_sent(&mut large, &whole[8..]);
        let (code, failures) = sent(&mut client, &[large, message("s", "small", &attributes())]);
        let listed: Vec<&str> = failures.iter().map(|one| one.message_id.as_str()).collect();
        (code, ready(&served, "s")) == (answer::SUCCESS, 1) && listed == ["large"]
    });
}

/// D26: one bad message failed the request after others were stored; the producer sent all again.
#[test]
fn d26_a_bad_message_costs_the_others_of_its_request_nothing() {
    proves(Planted::BatchFailsWhole, || {
        let served = serve();
        let mut client = served.connect();
        let good = |id| (id, message("s", id, &attributes()));
        let batch = [good("a"), ("", message("s", "", &attributes())), good("b")];
        let (tries, given_up) = sent_as_java_does(&mut client, &batch);
        (tries, given_up.as_slice(), ready(&served, "s")) == (1, &[String::new()], 2)
    });
}

/// D33: what was refused for good was tried again at once, for ever.
#[test]
fn d33_what_can_never_be_stored_is_tried_once() {
    proves(Planted::RefusedForNow, || {
        let served = serve();
        let mut client = served.connect();
        let (tries, given_up) = sent_as_java_does(&mut client, &[("m", message("no subject", "m", &attributes()))]);
        (tries, given_up.as_slice()) == (1, &["m".to_owned()])
    });
}

/// D35: a message whose delay ran out on its way lost its delay bit, and came ten seconds late.
#[test]
fn d35_a_message_without_the_delay_bit_is_due_now_unless_it_is_asked_for() {
    let pending = |undelayed_ms| {
        let served = serve_with(ServerOptions { undelayed_ms, ..options() }, Durability::Os);
        let mut client = served.connect();
        let batch = [message("s", "m", &attributes()), message("%RETRY%s%g", "m", &attributes())];
        assert_eq!(sent(&mut client, &batch), (answer::SUCCESS, Vec::new()));
        served.store.status().unwrap().pending
    };
    // What a consumer sends back waits a while in any case.
    proves(Planted::UndelayedWaits, || pending(0) == 1);
    let _alone = ALONE.lock();
    assert_eq!(pending(3_600_000), 2);
}

/// D24: what was sent on before was sent on again, for nothing said what had become of it. Here the log
/// does: a message that was cancelled while its time came is ready for nobody, though it was found due.
#[test]
fn d24_what_the_log_says_of_a_message_counts_and_not_what_was_decided_before() {
    proves(Planted::ReadyUnjudged, || {
        let folder = tempfile::tempdir().unwrap();
        let (storage, switches) = Faults::over(folder.path());
        let store = Store::open_on(storage, folder.path(), store_options(Durability::Disk), &mut |_| {}).unwrap();
        let server = Server::start(Arc::clone(&store), options()).unwrap();
        let served = Served { server, store, folder };
        let mut client = served.connect();
        let receipts = client.publish("s", &[b"m"], 2_000);
        let accepted = || served.store.status().unwrap().accepted;
        let before = accepted();
        switches.stuck.store(true, Ordering::SeqCst);
        let cancelled = client.send(CANCEL, 0, |out| put_receipts(out, receipts.iter().copied()));
        eventually("the cancel to be in the log's queue", || accepted() > before);
        let before = accepted();
        eventually("the message to be found due", || accepted() > before);
        switches.stuck.store(false, Ordering::SeqCst);
        let (of, code, outcomes) = client.answer();
        assert_eq!((of, code, read_outcomes(&outcomes)), (cancelled, 0, Ok(vec![Cancelled::Done])));
        eventually("all to be applied", || served.store.status().is_ok_and(|status| status.applied == status.accepted));
        ready(&served, "s") == 0
    });
}

/// As many messages of their subject as these ids name, pulled and not acknowledged.
fn held(qmq: &mut Qmq, names: &Pull<'_>, ids: &[String]) {
    assert!(qmq.pull(names).is_empty(), "the group is there from now on");
    let sent: Vec<Vec<u8>> = ids.iter().map(|id| qmq::message(names.subject, id, &[], None)).collect();
    qmq.store(&sent);
    let mut offsets = Vec::new();
    while offsets.len() < ids.len() {
        let last = offsets.last().copied().unwrap_or(-1);
        offsets.extend(qmq::offsets(&qmq.pull(&Pull { last, hold_ms: HOLD_MS, ..names.clone() })));
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

/// R1: what an acknowledgement passed over was done with, and nobody got it again.
#[test]
fn r1_what_an_acknowledgement_passes_over_goes_to_the_retry_subject() {
    proves(Planted::PassedOverIsDone, || {
        let served = serve_with(ServerOptions { retry_delay_ms: 0, ..options() }, Durability::Os);
        let mut qmq = Qmq::to(served.server.address());
        let consumer = pull("order", "billing", "host@@1");
        held(&mut qmq, &consumer, &names(10));
        assert_eq!(qmq.acknowledge(&consumer, 5, 9), 0);
        let lag: u64 = served.store.groups().unwrap().iter().map(|group| group.lag).sum();
        if lag > 0 {
            return false;
        }
        let (mut again, mut last) = (Vec::new(), -1);
        while again.len() < 5 {
            let retries = Pull { last, hold_ms: HOLD_MS, ..pull("%RETRY%order%billing", "billing", "host@@1") };
            let pulled = qmq.pull(&retries);
            last = pulled.last().unwrap().offset;
            again.extend(pulled.into_iter().map(|message| message.id));
        }
        again.sort_unstable();
        again == names(5) && qmq.pull(&consumer).is_empty()
    });
}

/// R2: a restart forgot the pulls and acknowledgements of some minutes.
#[test]
fn r2_a_restart_forgets_no_acknowledgement() {
    let again = |fault| {
        let Served { server, store, folder } = serve();
        let consumer = pull("order", "billing", "host@@1");
        let mut qmq = Qmq::to(server.address());
        held(&mut qmq, &consumer, &names(10));
        assert_eq!(qmq.acknowledge(&consumer, 0, 6), 0);
        store.abandon().unwrap();
        drop((qmq, server, store));
        let planted = Everywhere::plant(fault);
        let store = Store::open(folder.path(), store_options(Durability::Disk), &mut |_| {}).unwrap();
        drop(planted);
        let server = Server::start(store, options()).unwrap();
        let mut qmq = Qmq::to(server.address());
        qmq::offsets(&qmq.pull(&Pull { hold_ms: HOLD_MS, ..consumer }))
    };
    let _alone = ALONE.lock();
    assert_eq!(again(None), [7, 8, 9]);
    assert_eq!(again(Some(Planted::AcknowledgementsForgotten)), (0..10).collect::<Vec<i64>>());
}

/// R6: the check of a message was stored and not looked at.
#[test]
fn r6_what_broke_on_its_way_is_not_stored_and_is_sent_again() {
    proves(Planted::SentUnverified, || {
        let served = serve();
        let mut client = served.connect();
        let mut broken = message("s", "m", &attributes());
        let last = broken.len() - 1;
        broken[last] ^= 1;
        let (code, failures) = sent(&mut client, &[broken]);
        let codes: Vec<SendCode> = failures.iter().map(|one| one.code).collect();
        (code, ready(&served, "s")) == (answer::SUCCESS, 0) && codes == [SendCode::StoreError]
    });
}
