//! Which node comes next.

use delaymq_core::wire::extension::errors::ErrorCode;

use super::*;
use crate::failure::Kind;

fn node(host: &str) -> Address {
    Address { host: host.to_owned(), port: 1, shown: format!("delaymq://{host}:1") }
}

fn nodes(first: &str, others: &[&str]) -> Nodes {
    Nodes::new(node(first), others.iter().map(|host| node(host)).collect())
}

fn gone() -> Failure {
    Failure::with_reason(Kind::Unreachable, "gone", "gone")
}

fn refused(code: ErrorCode) -> Failure {
    RemoteError::new(code, "refused").into()
}

fn not_primary(address: &str) -> Failure {
    let error = RemoteError::new(ErrorCode::NotPrimary, "not here");
    error.with(Attribute::Address, address).with(Attribute::Epoch, 3).into()
}

impl Nodes {
    /// Ends the connection; returns the next host, and the delay before it.
    fn after(&mut self, was_ready: bool, cause: &Failure) -> (&str, u32) {
        self.after_use(was_ready, cause, 0)
    }

    fn after_use(&mut self, was_ready: bool, cause: &Failure, used_ms: u64) -> (&str, u32) {
        let now_ms = self.connected_ms + used_ms;
        let next = self.ended(was_ready, cause, now_ms);
        assert_eq!(matches!(next, Next::AfterDelay(_)), self.delay().is_some());
        (&self.current.host, self.delay)
    }
}

#[test]
fn one_node_is_tried_again_after_ever_longer_delays() {
    let mut nodes = nodes("a", &[]);
    assert_eq!(nodes.delay(), None);
    for delay in 1..5 {
        assert_eq!(nodes.after(false, &gone()), ("a", delay));
    }
    assert_eq!(nodes.after(true, &gone()), ("a", 1));
    assert_eq!(nodes.after(false, &gone()), ("a", 2));
}

#[test]
fn a_round_tries_each_node_once_and_begins_with_the_one_that_worked_last() {
    let mut nodes = nodes("a", &["b", "c"]);
    assert_eq!(nodes.after(false, &gone()), ("b", 0));
    assert_eq!(nodes.after(true, &gone()), ("b", 1), "it worked");
    assert_eq!(nodes.after(false, &gone()), ("c", 0));
    assert_eq!(nodes.after(false, &gone()), ("a", 0));
    assert_eq!(nodes.after(false, &gone()), ("b", 2));
    assert_eq!(nodes.after(false, &gone()), ("c", 0));
}

#[test]
fn the_primary_that_a_node_names_is_next_also_if_it_is_not_listed() {
    let mut nodes = nodes("a", &["b"]);
    assert_eq!(nodes.after(true, &not_primary("far.example:7")), ("far.example", 0));
    assert_eq!((nodes.current.port, nodes.current.shown.as_str()), (7, "delaymq://far.example:7"));
    assert_eq!(nodes.after(true, &gone()), ("far.example", 1), "it worked");
    assert_eq!(nodes.after(false, &gone()), ("a", 0));
    assert_eq!(nodes.after(false, &not_primary("[::1]:9")), ("::1", 0));
    assert_eq!(nodes.after(false, &gone()), ("b", 0));
    assert_eq!(nodes.after(false, &gone()), ("a", 2));
}

#[test]
fn nodes_that_name_each_other_or_themselves_are_left_for_a_while() {
    let mut nodes = nodes("a", &["b", "c"]);
    assert_eq!(nodes.after(true, &not_primary("A:1")), ("b", 0), "its own name");
    assert_eq!(nodes.after(true, &not_primary("a:1")), ("c", 0), "it was tried");
    assert_eq!(nodes.after(true, &not_primary("")), ("a", 1));
    // A primary is awaited, so that the delays do not grow on.
    for delay in [2, 3, 3, 3] {
        assert_eq!(nodes.after(true, &not_primary("c:1")), ("c", 0));
        assert_eq!(nodes.after(true, &not_primary("a:1")), ("b", 0));
        assert_eq!(nodes.after(true, &not_primary("c:1")), ("a", delay));
    }
}

#[test]
fn only_so_many_names_are_followed_in_a_round() {
    let mut nodes = nodes("a", &[]);
    for round in 1..4 {
        for port in 0..FOLLOWED_MAX {
            assert_eq!(nodes.after(true, &not_primary(&format!("b:{}", port + 1))), ("b", 0));
        }
        assert_eq!(nodes.after(true, &not_primary("b:99")), ("a", round));
    }
}

#[test]
fn a_node_that_was_used_for_a_while_has_worked() {
    let mut nodes = nodes("a", &["b"]);
    nodes.after(true, &not_primary(""));
    assert_eq!(nodes.after_use(true, &not_primary(""), WORKED_MS - 1), ("a", 1));
    nodes.after(true, &not_primary(""));
    nodes.connected(1_000);
    assert_eq!(nodes.after_use(true, &not_primary("a:1"), WORKED_MS), ("a", 0), "a new round");
    assert_eq!(nodes.after(true, &not_primary("")), ("a", 1), "the delays begin again");
}

#[test]
fn a_round_ends_with_the_error_that_says_most() {
    let told = |causes: [&Failure; 3], has_opened: bool| {
        let mut nodes = nodes("a", &["b", "c"]);
        if has_opened {
            nodes.after(true, &gone());
        }
        let [first, second, third] = causes;
        assert_eq!(nodes.ended(false, first, 0), Next::AtOnce);
        assert_eq!(nodes.ended(false, second, 0), Next::AtOnce);
        match nodes.ended(false, third, 0) {
            Next::AfterDelay(cause) => cause,
            Next::AtOnce => panic!("a round of three"),
        }
    };
    let (unauthorized, away, other) = (refused(ErrorCode::Unauthorized), gone(), not_primary(""));
    assert_eq!(told([&unauthorized, &other, &away], false), unauthorized);
    assert_eq!(told([&unauthorized, &other, &away], true), other);
    assert_eq!(told([&unauthorized, &away, &unauthorized], true), away, "that node may come back");
    assert_eq!(told([&unauthorized, &unauthorized, &unauthorized], true), unauthorized);
}

#[test]
fn a_server_names_a_host_and_a_port_or_nothing() {
    for text in ["a:1", "queue-1.example_x:65535", "127.0.0.1:20801", "[::1]:7", "[2001:db8::1]:1"] {
        assert!(Address::of_server(text).is_some_and(|address| address.shown.ends_with(text)), "{text}");
    }
    let long = format!("{}:1", "a".repeat(HOST_BYTES_MAX + 1));
    let wrong = [
        "", "a", ":1", "a:", "a:0", "a:65536", "a:+1", "a:1 ", " a:1", "a/b:1", "me@a:1", "[::1]", "[::1:1", "::1:1",
        "[a]:1", "[]:1", "a\0:1", "\u{e4}:1", "a:1,b:2", &long,
    ];
    for text in wrong {
        assert_eq!(Address::of_server(text), None, "{text:?}");
    }
}
