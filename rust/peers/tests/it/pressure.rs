//! A node that does not read.

use std::net::TcpListener;

use delaymq_core::replication::{Message, NodeId};
use delaymq_core::units::{Epoch, Millis, Sequence};
use delaymq_core::wire::peer::PeerFrame;
use delaymq_peers::{Direction, NotSent, PeerAddress};

use crate::nodes::{Node, connect, hello, must_talk};
use crate::raw::Raw;

const QUEUE_BYTES: usize = 4 << 20;
const BATCH_BYTES: usize = 1 << 20;

#[test]
fn a_node_that_stops_reading_fills_its_own_queue_and_is_then_ended() {
    let (one, other) = (Node::with_queue(hello(1), None, QUEUE_BYTES), Node::start(hello(2), None));
    connect(&[&one, &other]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = PeerAddress { address: listener.local_addr().unwrap().to_string(), node: None };
    one.peers.set_peers([other.address(), address.clone()]).unwrap();
    let mut stuck = Raw::accept(&listener);
    stuck.put(&PeerFrame::Hello(hello(3)));
    let node = NodeId([3; 16]);
    one.events.wait_connected(Direction::Outgoing, node);

    let (epoch, from) = (Epoch(1), Sequence(1));
    let batch = Message::Batches { epoch, attempt: 1, from, committed: from, bytes: vec![7; BATCH_BYTES] };
    let beat = Message::Heartbeat { epoch, attempt: 1, end: from, committed: from, beat: 1, ahead_ms: Some(0) };
    let link = || one.peers.status().into_iter().find(|link| link.address == address).unwrap();
    let mut sent = 0;
    let refused = loop {
        match one.peers.send(node, &batch) {
            Ok(()) => sent += 1,
            Err(refused) => break refused,
        }
        assert!(link().queued_bytes <= QUEUE_BYTES, "{}", link().queued_bytes);
        assert!(sent < 1_000, "the buffers of the system end somewhere");
    };
    assert!(matches!(refused, NotSent::Full), "{refused} after {sent}");
    assert!(link().dropped > 0);
    // Others go on, also while a write to this one waits.
    must_talk(&one, &other, 1);
    // What is not sent again has room for longer.
    while one.peers.send(node, &beat).is_ok() {}
    let synced = Message::Synced { epoch, attempt: 1, end: from, beat: 0, wall: Millis(0) };
    assert!(matches!(one.peers.send(node, &synced), Ok(()) | Err(NotSent::NotConnected)));

    one.events.wait_ended(Direction::Outgoing, "its connection ends", |_| true);
    assert!(matches!(one.peers.send(node, &synced), Err(NotSent::NotConnected)));
    assert_eq!(link().queued_bytes, 0);
    must_talk(&one, &other, 2);
}
