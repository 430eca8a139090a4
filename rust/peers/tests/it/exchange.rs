//! Nodes that exchange messages.

use delaymq_core::replication::{History, Message, NodeId};
use delaymq_core::units::Epoch;
use delaymq_peers::{Direction, Fault, NotSent, PeerAddress, PeerEvent};

use crate::certificates::Authority;
use crate::nodes::{Node, connect, hello, must_talk, numbered, numbers};

const MESSAGES: u64 = 10_000;

#[test]
fn three_nodes_exchange_ten_thousand_messages_each_way_in_order() {
    let authority = Authority::new();
    let nodes: Vec<Node> = (1..=3)
        .map(|number| Node::start(hello(number), Some(authority.files(&number.to_string(), "127.0.0.1"))))
        .collect();
    connect(&nodes.iter().collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for node in &nodes {
            let others = nodes.iter().map(|other| other.id).filter(|other| *other != node.id);
            let others: Vec<NodeId> = others.collect();
            scope.spawn(move || {
                for number in 1..=MESSAGES {
                    for other in &others {
                        node.send(*other, &numbered(number));
                    }
                }
            });
        }
    });
    for (node, other) in nodes.iter().flat_map(|node| nodes.iter().map(move |other| (node, other))) {
        if node.id == other.id {
            continue;
        }
        let found = node.events.wait("all messages", |list| {
            let found = numbers(list, other.id);
            (found.len() as u64 >= MESSAGES).then_some(found)
        });
        assert!(found.into_iter().eq(1..=MESSAGES), "in order, each once");
    }
    for node in &nodes {
        let status = node.peers.status();
        assert!(status.iter().all(|link| link.dropped == 0 && link.node == link.address.node), "{status:?}");
    }
}

#[test]
fn a_large_batch_arrives_whole() {
    let authority = Authority::new();
    let tls = |name| Some(authority.files(name, "127.0.0.1"));
    let (one, other) = (Node::start(hello(1), tls("one")), Node::start(hello(2), tls("other")));
    connect(&[&one, &other]);
    let bytes: Vec<u8> = (0..20_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let Message::Batches { epoch, attempt, from, committed, .. } = numbered(3) else { panic!("every third is") };
    let large = Message::Batches { epoch, attempt, from, committed, bytes };
    one.send(other.id, &large);
    other.wait_message(one.id, &large);
}

#[test]
fn a_message_that_fits_no_frame_is_refused_at_once() {
    let (one, other) = (Node::start(hello(1), None), Node::start(hello(2), None));
    connect(&[&one, &other]);
    let entry = delaymq_core::message_log::EpochEntry {
        epoch: Epoch(1),
        first_sequence: delaymq_core::units::Sequence(1),
        chain_before: 0,
    };
    let history = History { epochs: vec![entry; (1 << 20) + 1], ..History::default() };
    let message = Message::Promised { epoch: Epoch(1), attempt: 1, answer: 1, history };
    assert!(matches!(one.peers.send(other.id, &message), Err(NotSent::TooLarge(_))));
    must_talk(&one, &other, 1);
}

#[test]
fn a_node_whose_id_is_unknown_is_found_at_its_address() {
    let (one, other) = (Node::start(hello(1), None), Node::start(hello(2), None));
    assert!(matches!(one.peers.send(other.id, &numbered(1)), Err(NotSent::NotConnected)));
    let unknown = |node: &Node| PeerAddress { node: None, ..node.address() };
    one.peers.set_peers([unknown(&other)]).unwrap();
    other.peers.set_peers([unknown(&one)]).unwrap();
    must_talk(&one, &other, 1);
    assert_eq!(one.peers.status()[0].node, Some(other.id));
}

#[test]
fn addresses_change_while_others_go_on() {
    let nodes: Vec<Node> = (1..=3).map(|number| Node::start(hello(number), None)).collect();
    let [one, two, three] = &nodes[..] else { panic!("three") };
    connect(&[one, two]);
    connect(&[one, two, three]);
    must_talk(one, three, 1);
    one.peers.set_peers([three.address()]).unwrap();
    one.events.wait_ended(Direction::Outgoing, "the removed one ends", |fault| matches!(fault, Fault::Removed));
    assert!(matches!(one.peers.send(two.id, &numbered(2)), Err(NotSent::NotConnected)));
    must_talk(one, three, 3);
    two.send(one.id, &numbered(4));
    one.wait_message(two.id, &numbered(4));
    let outgoing = |event: &PeerEvent| matches!(event, PeerEvent::Connected { hello, direction: Direction::Outgoing } if hello.node == three.id);
    assert_eq!(one.events.count(outgoing), 1, "its connection stayed");
    one.peers.set_peers([two.address(), three.address()]).unwrap();
    must_talk(one, two, 5);
}

#[test]
fn a_node_that_restarts_is_connected_to_again_in_both_directions() {
    let (one, other) = (Node::start(hello(1), None), Node::start(hello(2), None));
    connect(&[&one, &other]);
    must_talk(&one, &other, 1);
    other.peers.close();
    one.events.wait_ended(Direction::Outgoing, "its end is seen", |_| true);
    one.events.wait_ended(Direction::Incoming, "its end is seen", |_| true);
    let again = Node::start(hello(2), None);
    one.peers.set_peers([again.address()]).unwrap();
    again.peers.set_peers([one.address()]).unwrap();
    must_talk(&one, &again, 2);
}
