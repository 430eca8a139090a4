//! Which connection of a node counts.

use std::net::TcpStream;

use delaymq_core::replication::NodeId;
use delaymq_core::wire::peer::PeerFrame;
use delaymq_peers::{Direction, Fault, PeerEvent};

use crate::nodes::{Node, connect, hello, must_talk, numbered, numbers};
use crate::raw::Raw;

/// More than a node accepts.
const CONNECTIONS: usize = 100;

#[test]
fn a_newer_connection_takes_the_place_of_an_older_one() {
    let node = Node::start(hello(1), None);
    let from = NodeId([3; 16]);
    let mut older = Raw::begin(&node, hello(3));
    older.put(&PeerFrame::Message(numbered(1)));
    node.wait_message(from, &numbered(1));
    let mut newer = Raw::begin(&node, hello(3));
    newer.put(&PeerFrame::Message(numbered(2)));
    node.wait_message(from, &numbered(2));
    older.put(&PeerFrame::Message(numbered(7)));
    older.wait_end();
    newer.put(&PeerFrame::Message(numbered(4)));
    node.wait_message(from, &numbered(4));
    let order = node.events.wait("all of it", |list| {
        let name = |event: &PeerEvent| match event {
            PeerEvent::Message(..) => "message",
            PeerEvent::Connected { direction: Direction::Incoming, .. } => "connected",
            PeerEvent::Disconnected { direction: Direction::Incoming, fault: Fault::Replaced, .. } => "replaced",
            other => panic!("{other:?}"),
        };
        Some(list.iter().map(name).collect::<Vec<_>>())
    });
    assert_eq!(order, ["connected", "message", "replaced", "connected", "message", "message"]);
    assert_eq!(node.events.wait("numbers", |list| Some(numbers(list, from))), [1, 2, 4]);
    drop(newer);
    node.events.wait_ended(Direction::Incoming, "the end of the newer one", |fault| matches!(fault, Fault::Ended));
}

#[test]
fn silent_strangers_keep_no_node_out() {
    let (one, other) = (Node::start(hello(1), None), Node::start(hello(2), None));
    let strangers: Vec<TcpStream> =
        (0..CONNECTIONS).map(|_| TcpStream::connect(one.peers.address()).unwrap()).collect();
    connect(&[&one, &other]);
    must_talk(&one, &other, 1);
    one.events.wait_refused(Direction::Incoming, "the oldest make room", |fault| matches!(fault, Fault::Full));
    drop(strangers);
}

#[test]
fn nodes_that_have_said_hello_are_not_ended_for_others() {
    let node = Node::start(hello(1), None);
    let mut known: Vec<Raw> = (3..67).map(|number| Raw::begin(&node, hello(number))).collect();
    for raw in 3..67 {
        node.events.wait_connected(Direction::Incoming, NodeId([raw; 16]));
    }
    let mut further = Raw::connect(&node);
    further.wait_end();
    node.events.wait_refused(Direction::Incoming, "one too many", |fault| matches!(fault, Fault::Full));
    for (number, raw) in (3..67).zip(&mut known) {
        raw.put(&PeerFrame::Message(numbered(u64::from(number))));
        node.wait_message(NodeId([number; 16]), &numbered(u64::from(number)));
    }
}
