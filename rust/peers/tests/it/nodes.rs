//! Nodes that note everything that happens to them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use delaymq_core::replication::{Message, NodeId};
use delaymq_core::units::{Epoch, Millis, Sequence};
use delaymq_core::wire::peer::Hello;
use delaymq_peers::{Direction, Fault, NotSent, PeerAddress, PeerEvent, PeerOptions, Peers, TlsFiles};

/// How long anything may take. A busy machine takes long; each wait ends as soon as what it waits for is there.
pub(crate) const AT_MOST: Duration = Duration::from_secs(120);

/// What has happened to a node.
#[derive(Default)]
pub(crate) struct Events {
    list: Mutex<Vec<PeerEvent>>,
    changed: Condvar,
}

impl Events {
    fn add(&self, event: PeerEvent) {
        self.list.lock().unwrap().push(event);
        self.changed.notify_all();
    }

    /// Waits until the events give a result.
    pub(crate) fn wait<T>(&self, what: &str, mut find: impl FnMut(&[PeerEvent]) -> Option<T>) -> T {
        let until = Instant::now() + AT_MOST;
        let mut list = self.list.lock().unwrap();
        loop {
            if let Some(found) = find(&list) {
                return found;
            }
            let left = until.saturating_duration_since(Instant::now());
            let last: Vec<_> = list.iter().rev().take(5).collect();
            assert!(!left.is_zero(), "{what} did not happen; the last of {} events: {last:?}", list.len());
            list = self.changed.wait_timeout(list, left).unwrap().0;
        }
    }

    /// Waits for an event.
    pub(crate) fn wait_for(&self, what: &str, is_it: impl Fn(&PeerEvent) -> bool) {
        self.wait(what, |list| list.iter().any(&is_it).then_some(()));
    }

    /// Waits for a refused connection.
    pub(crate) fn wait_refused(&self, of: Direction, what: &str, is_it: impl Fn(&Fault) -> bool) {
        self.wait_for(what, |event| match event {
            PeerEvent::Refused { direction, fault, .. } => *direction == of && is_it(fault),
            _ => false,
        });
    }

    /// Waits for the end of a connection that counted.
    pub(crate) fn wait_ended(&self, of: Direction, what: &str, is_it: impl Fn(&Fault) -> bool) {
        self.wait_for(what, |event| match event {
            PeerEvent::Disconnected { direction, fault, .. } => *direction == of && is_it(fault),
            _ => false,
        });
    }

    /// Waits for a connection that counts.
    pub(crate) fn wait_connected(&self, of: Direction, node: NodeId) {
        self.wait_for("a connection", |event| match event {
            PeerEvent::Connected { hello, direction } => *direction == of && hello.node == node,
            _ => false,
        });
    }

    /// How many of the events are such.
    pub(crate) fn count(&self, is_it: impl Fn(&PeerEvent) -> bool) -> usize {
        self.list.lock().unwrap().iter().filter(|event| is_it(event)).count()
    }
}

/// A node.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) peers: Peers,
    pub(crate) events: Arc<Events>,
}

/// The hello of a node.
pub(crate) fn hello(number: u8) -> Hello {
    Hello {
        format_level: 1,
        stream: [9; 16],
        timeline: 1,
        node: NodeId([number; 16]),
        nonce: u64::from(number) + 70,
        segment_bytes: 64 << 20,
        client_address: format!("{number}.example:20801"),
        peer_address: format!("{number}.example:20811"),
        others: Vec::new(),
    }
}

impl Node {
    /// A node on a free port that connects to nobody yet.
    pub(crate) fn start(hello: Hello, tls: Option<TlsFiles>) -> Self {
        Self::with_queue(hello, tls, 64 << 20)
    }

    pub(crate) fn with_queue(hello: Hello, tls: Option<TlsFiles>, queue_bytes_max: usize) -> Self {
        let events = Arc::new(Events::default());
        let noted = Arc::clone(&events);
        let id = hello.node;
        let peers = Peers::start(PeerOptions {
            hello,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            peers: Vec::new(),
            tls,
            queue_bytes_max,
            sink: Arc::new(move |event| noted.add(event)),
        });
        Self { id, peers: peers.unwrap(), events }
    }

    /// Its address, for others.
    pub(crate) fn address(&self) -> PeerAddress {
        PeerAddress { address: self.peers.address().to_string(), node: Some(self.id) }
    }

    /// Sends a message as soon as it can be queued.
    pub(crate) fn send(&self, to: NodeId, message: &Message) {
        let until = Instant::now() + AT_MOST;
        while let Err(refused) = self.peers.send(to, message) {
            assert!(Instant::now() < until, "{refused}");
            assert!(!matches!(refused, NotSent::TooLarge(_)), "{refused}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until it has received this message from there.
    pub(crate) fn wait_message(&self, from: NodeId, message: &Message) {
        self.events.wait_for("a message", |event| match event {
            PeerEvent::Message(node, found) => *node == from && found == message,
            _ => false,
        });
    }
}

/// Connects all of them to each other.
pub(crate) fn connect(nodes: &[&Node]) {
    for node in nodes {
        let others: BTreeSet<_> =
            nodes.iter().filter(|other| other.id != node.id).map(|other| other.address()).collect();
        node.peers.set_peers(others).unwrap();
    }
    for (node, other) in nodes.iter().flat_map(|node| nodes.iter().map(move |other| (node, other))) {
        if node.id != other.id {
            node.events.wait_connected(Direction::Outgoing, other.id);
            node.events.wait_connected(Direction::Incoming, other.id);
        }
    }
}

/// Two nodes still talk to each other, both ways.
pub(crate) fn must_talk(one: &Node, other: &Node, number: u64) {
    for (from, to) in [(one, other), (other, one)] {
        from.send(to.id, &numbered(number));
        to.wait_message(from.id, &numbered(number));
    }
}

/// A message that is made of its number; every third is long.
pub(crate) fn numbered(number: u64) -> Message {
    let (epoch, end) = (Epoch(1), Sequence(number));
    if number.is_multiple_of(3) {
        let bytes = number.to_be_bytes().repeat(1 + usize::try_from(number % 50).unwrap());
        return Message::Batches { epoch, attempt: number, from: end, committed: end, bytes };
    }
    Message::Synced { epoch, attempt: number, end, beat: number, wall: Millis(number) }
}

/// The number of a message that is whole.
pub(crate) fn number_of(message: &Message) -> u64 {
    let (Message::Batches { attempt, .. } | Message::Synced { attempt, .. }) = message else {
        panic!("nobody sent {message:?}")
    };
    assert_eq!(*message, numbered(*attempt));
    *attempt
}

/// The numbers of the messages of one node, in the order in which they came.
pub(crate) fn numbers(list: &[PeerEvent], from: NodeId) -> Vec<u64> {
    let of = |event: &PeerEvent| match event {
        PeerEvent::Message(node, message) if *node == from => Some(number_of(message)),
        _ => None,
    };
    list.iter().filter_map(of).collect()
}
