//! A session and the server's end of its connection, without a socket.

use std::sync::Arc;

use delaymq_core::store::StartAt;
use delaymq_core::units::{DueKey, Epoch, Millis, Sequence, SubjectNumber};
use delaymq_core::wire::connection::Connection;
use delaymq_core::wire::extension::consume::{Delivered, PayloadForm, Subscribed, put_deliver};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::hello::Welcome;
use delaymq_core::wire::extension::proof::Proof;
use delaymq_core::wire::extension::settle::{Acknowledge, GiveBack};
use delaymq_core::wire::extension::{
    ACKNOWLEDGE, CREDIT, DELIVER, EXTENSION_VERSION, FLUSH, GIVE_BACK, HELLO, PUBLISH, STATUS, SUBSCRIBE,
};
use delaymq_core::wire::frame::{Header, put_frame};
use delaymq_core::wire::quota::connection_limits::ConnectionLimits;
use delaymq_core::wire::reader::Reader;

use super::*;

mod moving;

const STREAM: [u8; 16] = [7; 16];
const NOW: Millis = Millis(1_000);

/// A session with the server's end of its present connection. Waiters are words.
struct Pair {
    session: Session<&'static str>,
    server: Connection,
    limits: CallerLimits,
    now_ms: u64,
}

type Asked = delaymq_core::wire::connection::Asked;

impl Pair {
    fn new() -> Self {
        let session = Session::new(ClientOptions::of_tests(), "opened").unwrap();
        Self { session, server: Self::server(), limits: CallerLimits::default(), now_ms: 0 }
    }

    fn server() -> Connection {
        Connection::new(ConnectionLimits::default(), true, NOW)
    }

    fn connected() -> Self {
        let mut pair = Self::new();
        pair.reconnect(STREAM);
        assert!(matches!(pair.session.take_completed().as_slice(), [("opened", Ok(_))]));
        pair
    }

    fn reconnect(&mut self, stream: [u8; 16]) {
        self.server = Self::server();
        self.session.begin(self.limits, self.now_ms);
        let asked = self.asked();
        assert_eq!(asked.frame.header.code, HELLO);
        let welcome = Welcome {
            version: EXTENSION_VERSION,
            server: "test".to_owned(),
            stream,
            frame_bytes_max: 1 << 24,
            messages_max: 10_000,
            body_bytes_max: 1 << 22,
            in_flight_max: 1 << 16,
            now: NOW,
            delay_ms_max: 1 << 40,
        };
        self.server.answer(asked.id, 0, NOW, |out| welcome.put(out)).unwrap();
        self.carry_back().unwrap();
    }

    fn lose(&mut self) {
        self.session.lost(&Failure::with_reason(Kind::Unreachable, "gone", "gone"), self.now_ms);
    }

    /// The next request that has reached the server.
    fn asked(&mut self) -> Asked {
        self.try_asked().expect("a request")
    }

    fn try_asked(&mut self) -> Option<Asked> {
        let out: Vec<u8> = self.session.output().flatten().copied().collect();
        self.session.sent(self.server.receive(&out, NOW));
        self.server.next_request(NOW)
    }

    fn carry_back(&mut self) -> Result<(), Failure> {
        let back: Vec<u8> = self.server.output().flatten().copied().collect();
        self.server.sent(back.len(), NOW);
        self.session.receive(&back, self.now_ms)
    }

    fn answer(&mut self, asked: &Asked, body: &[u8]) {
        let fill = |out: &mut Vec<u8>| {
            out.extend_from_slice(body);
            Ok(())
        };
        self.server.answer(asked.id, 0, NOW, fill).unwrap();
        self.carry_back().unwrap();
    }

    fn refuse(&mut self, asked: &Asked, code: ErrorCode) {
        self.server.answer_error(asked.id, &RemoteError::new(code, "refused"), NOW).unwrap();
        self.carry_back().unwrap();
    }

    /// The kinds of the outcomes since the last call.
    fn outcomes(&mut self) -> Vec<(&'static str, Option<Kind>)> {
        let completed = self.session.take_completed().into_iter();
        completed
            .map(|(waiter, outcome)| match outcome {
                Ok(_) => (waiter, None),
                Err(Failure::Local { kind, .. }) => (waiter, Some(kind)),
                Err(Failure::Remote(error)) => panic!("{waiter}: {error:?}"),
            })
            .collect()
    }

    /// A subscription that the server does not have yet.
    fn ask_to_subscribe(&mut self, handle_within_ms: Option<u64>) -> SubscriptionId {
        let wanted = SubscriptionRequest {
            subjects: vec!["a".to_owned()],
            group: "g".to_owned(),
            start: StartAt::Unfinished,
            in_flight_max: 100,
            filters: Vec::new(),
            handle_within_ms,
        };
        self.session.subscribe(wanted, "subscribed", self.now_ms).unwrap()
    }

    /// A subscription that the server has, under its first number.
    fn subscribed(&mut self) -> SubscriptionId {
        self.subscribed_within(None)
    }

    /// As [`Self::subscribed`]. Its messages are to be handled within so long.
    fn subscribed_within(&mut self, handle_within_ms: Option<u64>) -> SubscriptionId {
        let id = self.ask_to_subscribe(handle_within_ms);
        self.answer_subscribe();
        assert_eq!(self.outcomes(), [("subscribed", None)]);
        id
    }

    fn answer_subscribe(&mut self) {
        let asked = self.asked();
        assert_eq!(asked.frame.header.code, SUBSCRIBE);
        let mut body = Vec::new();
        Subscribed { consumer: "c".to_owned(), is_new: true }.put(&mut body).unwrap();
        self.answer(&asked, &body);
    }
}

/// The offsets that reach the server, of messages that are given back and of those that are acknowledged.
fn settled(pair: &mut Pair) -> [Vec<u64>; 2] {
    let [mut given_back, mut acknowledged] = [(); 2].map(|()| Vec::new());
    while let Some(asked) = pair.try_asked() {
        let mut body = Reader::new(&asked.frame.body);
        match asked.frame.header.code {
            GIVE_BACK => {
                let messages = GiveBack::read(&mut body).unwrap().messages;
                assert!(messages.iter().all(|one| one.delay_ms == 0));
                given_back.extend(messages.iter().map(|one| one.offset));
            }
            ACKNOWLEDGE => {
                let ranges = Acknowledge::read(&mut body).unwrap().ranges;
                acknowledged.extend(ranges.iter().flat_map(|range| range.first..range.first + range.count));
            }
            _ => {}
        }
    }
    [given_back, acknowledged]
}

/// The frame of a delivery of one message to the subscription of this number.
fn delivery(number: u32, offset: u64) -> Vec<u8> {
    let message = Delivered {
        queue: 0,
        offset,
        form: PayloadForm::Opaque,
        redelivered: false,
        attempt: 1,
        sequence: Sequence(offset),
        due: Millis(5),
        first_due: Millis(5),
        published: Millis(1),
        proof: Proof { epoch: Epoch(1), subject: SubjectNumber(1), check: 0 },
        subject: "a",
        meta_length: 1,
        check: crc32fast::hash(b"mbody"),
        payload: b"mbody",
    };
    let mut out = Vec::new();
    put_frame(&mut out, Header::request(DELIVER, EXTENSION_VERSION, 0), |out| {
        put_deliver(out, number, Millis(2_000), 1)?;
        message.put(out)
    })
    .unwrap();
    out
}

fn publish() -> Request {
    Request::new(PUBLISH, vec![1, 2, 3])
}

#[test]
fn a_lost_answer_is_ambiguous_unless_the_request_may_be_sent_again() {
    let mut pair = Pair::connected();
    pair.session.ask(publish(), "once", 0).unwrap();
    pair.session.ask(Request { retry: true, ..publish() }, "again", 0).unwrap();
    pair.session.ask(Request::new(STATUS, Vec::new()).reading(), "reads", 0).unwrap();
    for command in [PUBLISH, PUBLISH, STATUS] {
        assert_eq!(pair.asked().frame.header.code, command);
    }
    pair.lose();
    assert_eq!(pair.outcomes(), [("once", Some(Kind::Ambiguous))]);
    pair.reconnect(STREAM);
    for _ in 0..2 {
        let asked = pair.asked();
        pair.answer(&asked, b"");
    }
    assert_eq!(pair.outcomes(), [("again", None), ("reads", None)]);
}

#[test]
fn what_may_have_been_done_is_not_asked_of_another_store_and_not_for_ever() {
    let mut pair = Pair::connected();
    pair.session.ask(Request { retry: true, ..publish() }, "other store", 0).unwrap();
    pair.asked();
    pair.lose();
    pair.reconnect([8; 16]);
    assert_eq!(pair.outcomes(), [("other store", Some(Kind::Ambiguous))]);
    pair.session.ask(Request { retry: true, retry_for_ms: 50, ..publish() }, "late", 0).unwrap();
    pair.asked();
    pair.lose();
    pair.now_ms = 51;
    pair.reconnect([8; 16]);
    assert_eq!(pair.outcomes(), [("late", Some(Kind::Ambiguous))]);
}

#[test]
fn a_refusal_after_a_lost_answer_is_ambiguous_and_a_stopping_server_is_asked_again() {
    let mut pair = Pair::connected();
    pair.session.ask(Request { retry: true, ..publish() }, "stopping", 0).unwrap();
    let asked = pair.asked();
    pair.refuse(&asked, ErrorCode::Stopping);
    assert_eq!(pair.outcomes(), []);
    pair.lose();
    pair.reconnect(STREAM);
    let asked = pair.asked();
    pair.lose();
    pair.reconnect(STREAM);
    let again = pair.asked();
    assert_eq!(again.frame.body, asked.frame.body);
    pair.refuse(&again, ErrorCode::Busy);
    assert_eq!(pair.outcomes(), [("stopping", Some(Kind::Ambiguous))]);
}

#[test]
fn a_flush_confirms_only_what_was_sent_before_it_was_asked() {
    let mut pair = Pair::connected();
    let id = pair.subscribed();
    let settle = |pair: &mut Pair, offsets: std::ops::Range<u64>| {
        for offset in offsets.clone() {
            pair.session.receive(&delivery(1, offset), 0).unwrap();
        }
        let keys: Vec<u128> = pair.session.take(id, 99, false, 0).unwrap().iter().map(|one| one.key).collect();
        assert_eq!(keys.len() as u64, offsets.end - offsets.start);
        pair.session.acknowledge(id, &keys, 0).unwrap();
    };
    settle(&mut pair, 0..5);
    assert!(pair.session.request_flush(id, "first", 0).unwrap().is_some());
    settle(&mut pair, 5..8);
    assert!(pair.session.request_flush(id, "second", 0).unwrap().is_some());
    let mut flushes = Vec::new();
    while let Some(asked) = pair.try_asked() {
        match asked.frame.header.code {
            FLUSH => flushes.push(asked),
            ACKNOWLEDGE | CREDIT => {}
            other => panic!("{other}"),
        }
    }
    pair.answer(&flushes[0], b"");
    assert_eq!(pair.outcomes(), [("first", None)]);
    pair.lose();
    assert_eq!(pair.outcomes(), [("second", Some(Kind::Ambiguous))]);
    assert_eq!(pair.session.request_flush(id, "third", 0), Ok(None), "the second has reported the three");
    let failure = pair.session.finish_close(id, false);
    assert_eq!(failure, Ok(()));
}

#[test]
fn what_was_settled_on_a_lost_connection_is_ambiguous_once_and_is_counted() {
    let mut pair = Pair::connected();
    let id = pair.subscribed();
    pair.session.receive(&delivery(1, 0), 0).unwrap();
    pair.session.receive(&delivery(1, 1), 0).unwrap();
    let keys: Vec<u128> = pair.session.take(id, 99, false, 0).unwrap().iter().map(|one| one.key).collect();
    pair.session.acknowledge(id, &keys[..1], 0).unwrap();
    pair.lose();
    pair.reconnect(STREAM);
    pair.answer_subscribe();
    // The key is of the connection before.
    pair.session.give_back(id, keys[1], 0, 0).unwrap();
    let failure = pair.session.request_flush(id, "flush", 0).unwrap_err();
    assert!(failure.is_ambiguous() && failure.words().contains("before 2 of"), "{failure:?}");
    assert!(pair.session.request_flush(id, "again", 0).unwrap().is_some());
}

#[test]
fn what_was_given_back_is_confirmed_by_its_own_answer_or_a_flush() {
    for flush_first in [true, false] {
        let mut pair = Pair::connected();
        let id = pair.subscribed();
        pair.session.receive(&delivery(1, 0), 0).unwrap();
        let key = pair.session.take(id, 99, false, 0).unwrap()[0].key;
        pair.session.give_back(id, key, 0, 0).unwrap();
        pair.session.request_flush(id, "flush", 0).unwrap();
        let mut asked = Vec::new();
        while let Some(one) = pair.try_asked() {
            asked.extend(matches!(one.frame.header.code, GIVE_BACK | FLUSH).then_some(one));
        }
        if flush_first {
            asked.reverse();
        }
        pair.answer(&asked[0], b"");
        pair.answer(&asked[1], b"");
        pair.lose();
        assert_eq!(pair.session.finish_close(id, false), Ok(()), "flush first: {flush_first}");
    }
}

#[test]
fn a_message_is_what_was_sent_however_the_bytes_are_cut() {
    let bytes = [delivery(1, 3), delivery(1, 4)].concat();
    for size in 1..bytes.len() {
        let mut pair = Pair::connected();
        let id = pair.subscribed();
        bytes.chunks(size).for_each(|piece| pair.session.receive(piece, 9).unwrap());
        assert_eq!(pair.session.take_news().into_iter().collect::<Vec<_>>(), [id]);
        let messages = pair.session.take(id, 99, false, 9).unwrap();
        let [first, second] = messages.as_slice() else { panic!("{messages:?}") };
        assert!(Arc::ptr_eq(&first.subject, &first.subject) && first.key != second.key);
        assert_eq!((&first.meta[..], &first.body[..], &*first.subject), (&b"m"[..], &b"body"[..], "a"));
        assert_eq!((first.sequence, second.sequence), (Sequence(3), Sequence(4)));
        assert_eq!(first.receipt.key, DueKey { due: Millis(5), sequence: Sequence(3) });
        assert_eq!((first.receipt.stream, pair.session.now(10)), (STREAM, Millis(2_001)));
    }
}

#[test]
fn damaged_bytes_end_the_connection_and_not_the_client() {
    let mut damaged = delivery(1, 3);
    *damaged.last_mut().unwrap() ^= 1;
    for bytes in [damaged, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()] {
        let mut pair = Pair::connected();
        let id = pair.subscribed();
        let failure = pair.session.receive(&bytes, 0).unwrap_err();
        assert!(failure.is_permanent() && failure.words().contains("no delaymq server sends"), "{failure:?}");
        pair.session.lost(&failure, 0);
        assert!(pair.session.check().is_ok() && pair.session.has(id));
        pair.reconnect(STREAM);
        pair.answer_subscribe();
        assert!(pair.session.is_subscribed(id));
    }
}

#[test]
fn a_silent_server_is_pinged_and_then_left() {
    let mut pair = Pair::connected();
    assert_eq!(pair.session.next_due_ms(), Some(10_000));
    pair.session.run_due(10_000).unwrap();
    assert!(pair.try_asked().is_some());
    for now_ms in [15_000, 20_000, 25_000] {
        pair.session.run_due(now_ms).unwrap();
    }
    let failure = pair.session.run_due(30_000).unwrap_err();
    assert_eq!(failure.words(), "delaymq://server:1 said nothing for 30 s");
}

#[test]
fn a_call_that_is_given_up_is_described_by_what_is_known() {
    let mut pair = Pair::connected();
    let ticket = pair.session.ask(publish(), "sent", 0).unwrap();
    assert!(pair.session.withdraw(ticket).unwrap().is_ambiguous());
    let ticket = pair.session.ask(publish().reading(), "reads", 0).unwrap();
    assert!(matches!(pair.session.withdraw(ticket).unwrap(), Failure::Local { kind: Kind::TimedOut, .. }));
    pair.lose();
    let ticket = pair.session.ask(publish(), "not sent", 0).unwrap();
    assert!(matches!(pair.session.withdraw(ticket).unwrap(), Failure::Local { kind: Kind::Unreachable, .. }));
    pair.reconnect(STREAM);
    assert_eq!(pair.try_asked().map(|asked| asked.frame.header.code), None, "what was given up is not sent");
    assert_eq!(pair.outcomes(), []);
}

/// It was reported as never asked, and was stored twice when its caller asked again.
#[test]
fn a_request_whose_connection_was_lost_at_its_timeout_is_in_doubt() {
    let mut pair = Pair::connected();
    let ticket = pair.session.ask(publish(), "late", 0).unwrap();
    pair.asked();
    pair.lose();
    assert_eq!(pair.session.withdraw(ticket), None);
    assert_eq!(pair.outcomes(), [("late", Some(Kind::Ambiguous))]);
}

#[test]
fn a_close_that_the_end_of_the_client_overtakes_reports_what_is_ambiguous() {
    let mut pair = Pair::connected();
    let id = pair.subscribed();
    pair.session.receive(&delivery(1, 0), 0).unwrap();
    let key = pair.session.take(id, 99, false, 0).unwrap()[0].key;
    pair.session.acknowledge(id, &[key], 0).unwrap();
    assert!(pair.session.begin_close(id, "close", false, 0).unwrap().unwrap().ticket.is_some());
    pair.session.end(Failure::new(Kind::Closed, CLIENT_CLOSED), 0);
    assert_eq!(pair.outcomes(), [("close", Some(Kind::Ambiguous))]);
    assert!(pair.session.finish_close(id, false).unwrap_err().words().contains("before 1 of"));
    assert_eq!(pair.session.finish_close(id, false), Ok(()));
}

#[test]
fn the_end_of_a_client_ends_the_wait_for_its_first_connection() {
    let mut pair = Pair::new();
    pair.session.end(Failure::new(Kind::Broken, "failed"), 0);
    assert_eq!(pair.outcomes(), [("opened", Some(Kind::Broken))]);
}

/// Takes messages of these offsets now, and returns their keys.
fn taken(pair: &mut Pair, id: SubscriptionId, offsets: std::ops::Range<u64>) -> Vec<u128> {
    for offset in offsets {
        pair.session.receive(&delivery(1, offset), pair.now_ms).unwrap();
    }
    pair.session.take(id, 99, false, pair.now_ms).unwrap().iter().map(|one| one.key).collect()
}

#[test]
fn a_message_that_is_held_for_too_long_is_given_back_and_cannot_be_settled_any_more() {
    let mut pair = Pair::connected();
    let id = pair.subscribed_within(Some(50));
    pair.session.receive(&delivery(1, 7), 0).unwrap();
    pair.now_ms = 40;
    // It waited here for 40 ms, which do not count.
    let keys = taken(&mut pair, id, 0..3);
    assert_eq!((keys.len(), pair.session.next_due_ms()), (4, Some(50)));
    pair.session.run_due(50).unwrap();
    assert_eq!(pair.session.next_due_ms(), Some(90));
    assert_eq!(pair.session.acknowledge(id, &keys[1..2], 88), Ok(vec![]));
    assert_eq!(pair.session.extend(id, keys[2], None, 89), Ok(true));
    pair.session.run_due(89).unwrap();
    assert_eq!(settled(&mut pair), [vec![], vec![]]);
    pair.session.run_due(90).unwrap();
    assert_eq!(settled(&mut pair), [vec![2, 7], vec![0]]);
    assert_eq!(pair.session.acknowledge(id, &keys, 91), Ok(vec![0, 1, 3]), "one was held for longer, one is settled");
    assert_eq!(pair.session.give_back(id, keys[0], 0, 91), Ok(false));
    assert_eq!(pair.session.dead_letter(id, keys[3], "late", 91), Ok(false));
    assert_eq!(pair.session.extend(id, keys[3], Some(1_000), 91), Ok(false));
    pair.session.run_due(1_000).unwrap();
    assert_eq!(settled(&mut pair), [vec![], vec![1]]);
}

/// A consumer that is stuck takes no more messages, and others are there.
#[test]
fn a_message_that_no_consumer_takes_in_time_is_given_back_and_none_is_asked_for_ahead() {
    let mut pair = Pair::connected();
    let id = pair.subscribed_within(Some(50));
    let credits = |pair: &mut Pair| {
        let asked = std::iter::from_fn(|| pair.try_asked()).filter(|asked| asked.frame.header.code == CREDIT);
        asked.map(|asked| asked.frame.body[4..].to_vec()).collect::<Vec<_>>()
    };
    assert!(credits(&mut pair).is_empty(), "no consumer waits");
    assert!(pair.session.take(id, 3, true, 0).unwrap().is_empty());
    assert_eq!(credits(&mut pair), [[0, 0, 0, 3]]);
    for offset in 0..3 {
        pair.session.receive(&delivery(1, offset), 10).unwrap();
    }
    assert_eq!(pair.session.take(id, 1, true, 20).unwrap().len(), 1);
    assert!(credits(&mut pair).is_empty(), "two wait, and the consumer has one");
    pair.session.run_due(60).unwrap();
    assert_eq!(settled(&mut pair), [vec![1, 2], vec![]]);
    assert!(pair.session.take(id, 1, false, 61).unwrap().is_empty(), "they are not here any more");
    pair.session.run_due(70).unwrap();
    assert_eq!(settled(&mut pair), [vec![0], vec![]]);
}

#[test]
fn a_message_that_was_acknowledged_in_its_last_millisecond_is_not_given_back() {
    let mut pair = Pair::connected();
    let id = pair.subscribed_within(Some(50));
    let keys = taken(&mut pair, id, 0..2);
    // The timer of 50 ms is late. Until it runs, the messages are held.
    assert_eq!(pair.session.acknowledge(id, &keys[..1], 55), Ok(vec![]));
    pair.session.run_due(56).unwrap();
    pair.session.run_due(100).unwrap();
    assert_eq!(settled(&mut pair), [vec![1], vec![0]]);
}

#[test]
fn a_message_that_the_server_does_not_take_back_for_now_is_given_back_once_more() {
    let mut pair = Pair::connected();
    let id = pair.subscribed_within(Some(50));
    taken(&mut pair, id, 0..1);
    pair.now_ms = 50;
    pair.session.run_due(50).unwrap();
    while let Some(asked) = pair.try_asked() {
        if asked.frame.header.code == GIVE_BACK {
            pair.refuse(&asked, ErrorCode::Busy);
        }
    }
    let again_ms = pair.session.options.again_ms;
    pair.session.run_due(50 + again_ms - 1).unwrap();
    assert_eq!(settled(&mut pair), [vec![], vec![]]);
    pair.session.run_due(50 + again_ms).unwrap();
    assert_eq!(settled(&mut pair), [vec![0], vec![]]);
    // The consumer has settled nothing, so nothing that it settled is in doubt.
    pair.lose();
    assert_eq!(pair.session.request_flush(id, "flush", 400), Ok(None));
}

#[test]
fn holds_end_with_their_connection_and_with_their_subscription() {
    let mut pair = Pair::connected();
    let id = pair.subscribed_within(Some(50));
    let keys = taken(&mut pair, id, 0..1);
    pair.lose();
    assert_eq!(pair.session.next_due_ms(), None);
    pair.reconnect(STREAM);
    pair.answer_subscribe();
    assert_eq!(pair.session.extend(id, keys[0], None, 1), Ok(false));
    assert_eq!(pair.session.acknowledge(id, &keys, 1), Ok(vec![]), "a flush says that this is ambiguous");
    pair.session.receive(&delivery(2, 1), 1).unwrap();
    let keys: Vec<u128> = pair.session.take(id, 99, false, 1).unwrap().iter().map(|one| one.key).collect();
    assert!(pair.session.begin_close(id, "close", false, 2).unwrap().is_some());
    let closed = pair.session.extend(id, keys[0], None, 2);
    assert!(matches!(closed, Err(Failure::Local { kind: Kind::Closed, .. })), "{closed:?}");
    pair.session.run_due(60).unwrap();
    assert_eq!(settled(&mut pair), [vec![], vec![]]);
}

#[test]
fn without_a_limit_a_message_is_held_until_it_is_settled() {
    let mut pair = Pair::connected();
    let id = pair.subscribed();
    let keys = taken(&mut pair, id, 0..1);
    assert_eq!(pair.session.next_due_ms(), Some(10_000), "the ping");
    assert_eq!(pair.session.extend(id, keys[0], Some(1), 5), Ok(true));
    assert_eq!(pair.session.acknowledge(id, &keys, 9_000), Ok(vec![]));
}

/// The consumer then waited for ever.
#[test]
fn a_request_for_what_is_ready_that_is_withdrawn_unsent_takes_no_credit_with_it() {
    let mut pair = Pair::new();
    pair.limits.requests_max = 1;
    pair.reconnect(STREAM);
    pair.session.take_completed();
    let id = pair.subscribed_within(Some(50));
    pair.session.take(id, 5, false, 0).unwrap();
    pair.session.ask(Request::new(STATUS, Vec::new()).reading(), "status", 0).unwrap();
    let ticket = pair.session.request_ready(id, "ready", 0).unwrap().unwrap();
    assert!(pair.session.withdraw(ticket).is_some());
    let status = pair.asked();
    pair.answer(&status, b"");
    let asked: Vec<Asked> = std::iter::from_fn(|| pair.try_asked()).collect();
    assert!(asked.iter().all(|asked| asked.frame.header.code == CREDIT), "{asked:?}");
    assert_eq!(asked.iter().map(|asked| asked.frame.body[7]).collect::<Vec<_>>(), [5]);
}
