//! A caller and a connection that talk to each other.

use bytes::BufMut;
use proptest::prelude::*;

use super::*;
use crate::wire::connection::Connection;
use crate::wire::extension::hello::put_ping;
use crate::wire::extension::{ACKNOWLEDGE, HELLO, PING};
use crate::wire::frame::put_frame;
use crate::wire::quota::connection_limits::ConnectionLimits;

const NOW: Millis = Millis(1_000);

fn pair() -> (Caller, Connection) {
    (Caller::new(CallerLimits::default()), Connection::new(ConnectionLimits::default(), true, NOW))
}

/// Carries up to `count` bytes each way.
fn carry(caller: &mut Caller, connection: &mut Connection, count: usize) {
    let out: Vec<u8> = caller.output().flatten().copied().take(count).collect();
    caller.sent(connection.receive(&out, NOW));
    let back: Vec<u8> = connection.output().flatten().copied().take(count).collect();
    connection.sent(caller.receive(&back), NOW);
}

fn ping(caller: &mut Caller, bytes: &[u8]) -> CallId {
    caller.ask(PING, NOW, |out| put_ping(out, bytes)).unwrap().unwrap()
}

fn answer_frame(header: Header, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_frame(&mut out, header, |out| {
        out.put_slice(body);
        Ok(())
    })
    .unwrap();
    out
}

#[test]
fn a_lost_connection_leaves_what_was_asked_in_doubt() {
    let (mut caller, mut connection) = pair();
    let calls = [ping(&mut caller, b"a"), ping(&mut caller, b"b"), ping(&mut caller, b"c")];
    carry(&mut caller, &mut connection, usize::MAX);
    let asked = connection.next_request(NOW).unwrap();
    connection.answer(asked.id, 0, NOW, |_| Ok(())).unwrap();
    carry(&mut caller, &mut connection, usize::MAX);
    assert!(matches!(caller.hear(), Ok(Some(Heard::Answer { call, command: PING, code: 0, .. })) if call == calls[0]));
    assert_eq!(caller.lost(), [(calls[1], PING), (calls[2], PING)]);
    assert_eq!((caller.pending_count(), caller.output_bytes()), (0, 0));
}

#[test]
fn an_answer_that_nobody_waits_for_is_let_be_and_its_number_is_not_mistaken() {
    let (mut caller, mut connection) = pair();
    let call = ping(&mut caller, b"slow");
    assert!(caller.forget(call) && !caller.forget(call));
    let next = ping(&mut caller, b"next");
    assert_ne!(call, next);
    carry(&mut caller, &mut connection, usize::MAX);
    for body in [b"slow", b"next"] {
        let id = connection.next_request(NOW).unwrap().id;
        connection.answer(id, 0, NOW, |out| put_ping(out, body)).unwrap();
    }
    carry(&mut caller, &mut connection, usize::MAX);
    let Ok(Some(Heard::Answer { call, body, .. })) = caller.hear() else { panic!() };
    assert_eq!((call, &body[..]), (next, &b"next"[..]));
    assert_eq!(caller.hear(), Ok(None));
}

#[test]
fn the_error_of_a_request_that_wanted_no_answer_is_heard() {
    let (mut caller, mut connection) = pair();
    assert!(caller.tell(ACKNOWLEDGE, NOW, |_| Ok(())).unwrap());
    assert!(caller.tell(ACKNOWLEDGE, NOW, |_| Ok(())).unwrap());
    assert_eq!(caller.pending_count(), 0);
    carry(&mut caller, &mut connection, usize::MAX);
    let (done, failed) = (connection.next_request(NOW).unwrap().id, connection.next_request(NOW).unwrap().id);
    let error = RemoteError::new(ErrorCode::UnknownSubscription, "no such subscription");
    connection.answer(done, 0, NOW, |_| Ok(())).unwrap();
    connection.answer_error(failed, &error, NOW).unwrap();
    carry(&mut caller, &mut connection, usize::MAX);
    let Ok(Some(Heard::Answer { command, code, body, .. })) = caller.hear() else { panic!() };
    assert_eq!((command, told(code, &body)), (ACKNOWLEDGE, Err(error)));
    assert_eq!(caller.hear(), Ok(None));
}

#[test]
fn no_more_is_asked_than_may_be() {
    let mut caller = Caller::new(CallerLimits { requests_max: 2, output_bytes_max: 100 });
    ping(&mut caller, b"");
    ping(&mut caller, b"");
    assert_eq!(caller.ask(PING, NOW, |_| Ok(())), Ok(None));
    assert_eq!(caller.tell(PING, NOW, |_| Ok(())), Ok(false));
    let mut caller = Caller::new(CallerLimits { requests_max: 9, output_bytes_max: 100 });
    ping(&mut caller, &[0; 100]);
    assert_eq!(caller.ask(PING, NOW, |_| Ok(())), Ok(None));
    caller.sent(50);
    assert!(caller.ask(PING, NOW, |_| Ok(())).unwrap().is_some());
    assert!(caller.ask(PING, NOW, |out| put_ping(out, &[0; 2_000])).is_err());
    assert_eq!(caller.pending_count(), 2);
}

#[test]
fn a_server_that_sends_what_is_no_answer_is_left() {
    let request = answer_frame(Header::request(HELLO, 1, 1), b"");
    let garbage = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    for bytes in [request, garbage] {
        let (mut caller, _) = pair();
        let call = ping(&mut caller, b"");
        caller.receive(&bytes);
        let fault = caller.hear().unwrap_err();
        assert_eq!((caller.hear(), caller.has_room(), caller.receive(b"more")), (Err(fault), false, 0));
        assert_eq!(caller.lost(), [(call, PING)]);
    }
}

#[test]
fn numbers_go_round_and_pass_over_those_in_use() {
    let (mut caller, _) = pair();
    let old = ping(&mut caller, b"");
    caller.next_opaque = i32::MAX;
    assert_eq!(ping(&mut caller, b""), CallId(i32::MAX));
    assert_eq!((old, ping(&mut caller, b"")), (CallId(0), CallId(1)));
}

#[test]
fn what_an_answer_says_is_its_body_or_its_error() {
    let body = Bytes::from_static(b"x");
    assert_eq!(told(0, &body), Ok(body.clone()));
    assert_eq!(told(3, &body).unwrap_err().code, ErrorCode::Other);
    assert_eq!(told(1_001, &body).unwrap_err().code, ErrorCode::Malformed);
}

proptest! {
    #[test]
    fn every_question_is_answered_once_however_the_bytes_travel(
        portions in prop::collection::vec(1_usize..60, 1..40),
        order in prop::collection::vec(any::<prop::sample::Index>(), 20),
    ) {
        let (mut caller, mut connection) = pair();
        let mut expected = BTreeMap::new();
        for number in 0_u8..20 {
            expected.insert(ping(&mut caller, &[number; 3]), vec![number; 3]);
        }
        let mut waiting = Vec::new();
        let mut heard = BTreeMap::new();
        for step in 0.. {
            carry(&mut caller, &mut connection, portions[step % portions.len()]);
            waiting.extend(connection.next_request(NOW));
            if step % 3 == 0 && !waiting.is_empty() {
                let asked = waiting.remove(order[step % order.len()].index(waiting.len()));
                let body = asked.frame.body.clone();
                prop_assert_eq!(connection.answer(asked.id, 0, NOW, |out| put_ping(out, &body)), Ok(true));
            }
            while let Some(Heard::Answer { call, body, .. }) = caller.hear().unwrap() {
                prop_assert!(heard.insert(call, body.to_vec()).is_none());
            }
            if heard.len() == expected.len() {
                break;
            }
        }
        prop_assert_eq!(heard, expected);
        prop_assert_eq!((caller.pending_count(), connection.open_count()), (0, 0));
    }
}
