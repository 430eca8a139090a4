//! A session whose node is not the primary, and one that has several nodes.

use delaymq_core::wire::extension::errors::{Attribute, Value};

use super::*;
use crate::options::ClientOptions;

fn not_primary() -> RemoteError {
    let error = RemoteError::new(ErrorCode::NotPrimary, "this node is not the primary");
    error.with(Attribute::Address, "b:1").with(Attribute::Epoch, 7)
}

impl Pair {
    /// Refuses a request, since the node is not the primary; returns the error with which the session leaves it.
    fn refuse_as_not_primary(&mut self, asked: &Asked) -> Option<Failure> {
        self.server.answer_error(asked.id, &not_primary(), NOW).unwrap();
        self.carry_back().err()
    }

    fn move_to(&mut self, cause: &Failure, stream: [u8; 16]) {
        self.session.lost_one(cause, self.now_ms);
        self.session.connects_to("delaymq://b:1", 10_000);
        self.reconnect(stream);
    }
}

fn is_not_primary(outcome: &Outcome) -> bool {
    matches!(outcome, Err(failure) if failure.not_primary().is_some())
}

#[test]
fn what_a_node_refused_since_it_is_not_the_primary_is_asked_again_in_order() {
    let mut pair = Pair::connected();
    pair.session.ask(publish(), "first", 0).unwrap();
    pair.session.ask(Request::new(PUBLISH, vec![2]), "second", 0).unwrap();
    let (first, second) = (pair.asked(), pair.asked());
    assert_eq!(pair.refuse_as_not_primary(&first), None, "the other may still be answered");
    pair.session.ask(Request::new(PUBLISH, vec![3]), "third", 0).unwrap();
    assert!(pair.try_asked().is_none(), "nothing more is asked of this node");
    let cause = pair.refuse_as_not_primary(&second).unwrap();
    pair.move_to(&cause, STREAM);
    for body in [&[1, 2, 3][..], &[2], &[3]] {
        let asked = pair.asked();
        assert_eq!(asked.frame.body, body);
        pair.answer(&asked, b"");
    }
    assert_eq!(pair.outcomes(), [("first", None), ("second", None), ("third", None)]);
}

#[test]
fn a_node_that_owes_an_answer_for_too_long_is_left_and_only_that_request_is_in_doubt() {
    let mut pair = Pair::connected();
    pair.session.ask(publish(), "owed", 0).unwrap();
    pair.session.ask(publish(), "refused", 0).unwrap();
    pair.session.ask(publish().reading(), "reads", 0).unwrap();
    let [_owed, refused, _reads] = [pair.asked(), pair.asked(), pair.asked()];
    assert_eq!(pair.refuse_as_not_primary(&refused), None);
    assert_eq!(pair.session.next_due_ms(), Some(1_000));
    let cause = pair.session.run_due(1_000).unwrap_err();
    pair.move_to(&cause, STREAM);
    assert_eq!(pair.outcomes(), [("owed", Some(Kind::Ambiguous))]);
    assert!(pair.try_asked().is_some() && pair.try_asked().is_some() && pair.try_asked().is_none());
}

#[test]
fn a_call_for_which_no_node_was_primary_in_time_is_told_so() {
    let mut pair = Pair::connected();
    let refused = pair.session.ask(publish(), "refused", 0).unwrap();
    let sent_again = pair.session.ask(publish(), "sent again", 0).unwrap();
    let cause = [pair.asked(), pair.asked()].map(|asked| pair.refuse_as_not_primary(&asked))[1].take().unwrap();
    pair.session.lost_one(&cause, 0);
    pair.session.lost_one(&Failure::with_reason(Kind::Unreachable, "gone", "gone"), 0);
    let failure = pair.session.withdraw(refused).unwrap();
    let words = "no node of delaymq://server:1 was primary within 30 s; nothing was done: this node is not the primary";
    let expected = RemoteError { words: words.to_owned(), ..not_primary() };
    assert_eq!(failure, Failure::Remote(expected));
    assert_eq!(failure.not_primary().unwrap().detail(Attribute::Epoch), Some(&Value::Number(7)));
    pair.reconnect(STREAM);
    pair.asked();
    assert!(pair.session.withdraw(sent_again).unwrap().is_ambiguous(), "the next node may have done it");
}

#[test]
fn a_refusal_of_the_next_node_tells_nothing_about_a_lost_answer() {
    let mut pair = Pair::connected();
    let ticket = pair.session.ask(Request { retry: true, ..publish() }, "in doubt", 0).unwrap();
    pair.asked();
    pair.lose();
    pair.reconnect(STREAM);
    let asked = pair.asked();
    let cause = pair.refuse_as_not_primary(&asked).unwrap();
    pair.session.lost_one(&cause, 0);
    assert!(pair.session.withdraw(ticket).unwrap().is_ambiguous());
    pair.session.ask(Request { retry: true, ..publish() }, "elsewhere", 0).unwrap();
    pair.reconnect(STREAM);
    pair.asked();
    pair.lose();
    pair.reconnect(STREAM);
    let asked = pair.asked();
    let cause = pair.refuse_as_not_primary(&asked).unwrap();
    pair.move_to(&cause, [8; 16]);
    assert_eq!(pair.outcomes(), [("elsewhere", Some(Kind::Ambiguous))], "that is another store");
}

#[test]
fn a_subscription_moves_with_its_connection() {
    let mut pair = Pair::new();
    pair.reconnect(STREAM);
    pair.session.take_completed();
    let id = pair.ask_to_subscribe(None);
    let asked = pair.asked();
    let cause = pair.refuse_as_not_primary(&asked).unwrap();
    assert!(pair.session.take_completed().is_empty());
    pair.move_to(&cause, STREAM);
    pair.answer_subscribe();
    assert_eq!(pair.outcomes(), [("subscribed", None)]);
    pair.session.receive(&delivery(2, 0), 0).unwrap();
    let key = pair.session.take(id, 1, false, 0).unwrap()[0].key;
    pair.session.acknowledge(id, &[key], 0).unwrap();
    pair.session.run_due(2).unwrap();
    let acknowledged = std::iter::from_fn(|| pair.try_asked()).find(|asked| asked.frame.header.code == ACKNOWLEDGE);
    let cause = pair.refuse_as_not_primary(&acknowledged.unwrap()).unwrap();
    pair.move_to(&cause, STREAM);
    pair.answer_subscribe();
    assert!(pair.session.is_subscribed(id) && pair.outcomes().is_empty());
    let failure = pair.session.request_flush(id, "flush", 0).unwrap_err();
    assert!(failure.is_ambiguous() && failure.words().contains("before 1 of"), "{failure:?}");
}

#[test]
fn a_client_is_opened_by_any_of_its_nodes_and_waits_for_a_primary_for_some_time() {
    let mut pair = Pair::new();
    pair.session.lost_one(&Failure::with_reason(Kind::Unreachable, "gone", "gone"), 0);
    pair.session.begin(pair.limits, 0);
    let hello = pair.asked();
    let cause = pair.refuse_as_not_primary(&hello).unwrap();
    pair.session.lost_one(&cause, 0);
    let within_ms = ClientOptions::of_tests().hello_ms;
    for now_ms in [500, 500 + within_ms - 1, 500 + within_ms] {
        assert!(pair.session.take_completed().is_empty() && pair.session.check().is_ok());
        pair.server = Pair::server();
        pair.session.begin(pair.limits, now_ms);
        let hello = pair.asked();
        let cause = pair.refuse_as_not_primary(&hello).unwrap();
        pair.session.lost(&cause, now_ms);
    }
    let completed = pair.session.take_completed();
    assert!(matches!(completed.as_slice(), [("opened", outcome)] if is_not_primary(outcome)), "{completed:?}");
    assert!(pair.session.check().is_err());
}

#[test]
fn a_node_that_refuses_for_good_says_nothing_about_the_others() {
    let mut pair = Pair::connected();
    pair.lose();
    let ticket = pair.session.ask(publish(), "waits", 0).unwrap();
    let refused = Failure::from(RemoteError::new(ErrorCode::Unauthorized, "another token"));
    pair.session.lost_one(&refused, 0);
    assert!(pair.session.take_completed().is_empty());
    let failure = pair.session.withdraw(ticket).unwrap();
    assert!(matches!(failure, Failure::Local { kind: Kind::Unreachable, .. }), "{failure:?}");
    pair.session.ask(publish(), "no node takes it", 0).unwrap();
    pair.session.lost(&refused, 0);
    assert_eq!(pair.session.take_completed(), [("no node takes it", Err(refused.clone()))]);
    pair.session.lost_one(&Failure::with_reason(Kind::Unreachable, "gone", "gone"), 0);
    pair.session.ask(publish(), "still none", 0).unwrap();
    assert_eq!(pair.session.take_completed(), [("still none", Err(refused.clone()))], "until a round is over");
    let mut unconnected = Pair::new();
    unconnected.session.ask(publish(), "waits", 0).unwrap();
    unconnected.session.lost_one(&refused, 0);
    assert!(unconnected.session.take_completed().is_empty());
}

#[test]
fn errors_name_the_node_of_the_connection() {
    let mut pair = Pair::connected();
    pair.session.lost_one(&not_primary().into(), 0);
    pair.session.connects_to("delaymq://b:1", 10_000);
    pair.reconnect(STREAM);
    pair.session.take_reports();
    pair.session.ask(publish(), "lost", 0).unwrap();
    pair.asked();
    pair.lose();
    let words = "the connection to delaymq://b:1 was lost before the answer came: it may have been done or not";
    let completed = pair.session.take_completed();
    assert!(matches!(completed.as_slice(), [("lost", Err(failure))] if failure.words() == words), "{completed:?}");
    assert_eq!(pair.session.take_reports()[0].text, "the connection to delaymq://b:1 was lost: gone");
}

#[test]
fn a_node_has_only_its_share_of_the_time_for_its_hello() {
    let mut pair = Pair::new();
    pair.session.connects_to("delaymq://stopped:1", 2_000);
    pair.session.begin(pair.limits, 0);
    assert_eq!(pair.session.run_due(1_999), Ok(()));
    let failure = pair.session.run_due(2_000).unwrap_err();
    assert_eq!(failure.words(), "delaymq://stopped:1 took the connection and said nothing within 2 s");
}
