//! The connections that this node has accepted, and which of them counts for each node.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use delaymq_core::replication::NodeId;
use delaymq_core::wire::peer::Hello;

use crate::interface::{Direction, Fault, PeerEvent, Sink};
use crate::threads::lock;

/// The most connections that are accepted. Each takes a thread.
pub(crate) const CONNECTIONS_MAX: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    open: Mutex<Open>,
    seats: Mutex<BTreeMap<NodeId, Seat>>,
}

#[derive(Debug, Default)]
struct Open {
    is_closed: bool,
    last_number: u64,
    sockets: BTreeMap<u64, Opened>,
}

#[derive(Debug)]
struct Opened {
    socket: Arc<TcpStream>,
    is_stranger: bool,
}

/// The connection that counts for one node, by its number. Messages are passed on under this lock, so that none of an
/// older connection follows one of a newer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seat(Arc<Mutex<Option<Numbered>>>);

type Numbered = (u64, Arc<TcpStream>);

impl Arrivals {
    /// The number of a new connection. If there are too many, the oldest one that has not said hello makes room, so that
    /// silent strangers keep no node out.
    pub(crate) fn enter(&self, socket: &Arc<TcpStream>) -> Result<u64, Fault> {
        let mut open = lock(&self.open);
        if open.is_closed {
            return Err(Fault::Removed);
        }
        if open.sockets.len() >= CONNECTIONS_MAX {
            let oldest = open.sockets.iter().find(|(_, opened)| opened.is_stranger).map(|(number, _)| *number);
            let ended = oldest.and_then(|oldest| open.sockets.remove(&oldest)).ok_or(Fault::Full)?;
            end(&ended.socket);
        }
        open.last_number = open.last_number.saturating_add(1);
        let number = open.last_number;
        open.sockets.insert(number, Opened { socket: Arc::clone(socket), is_stranger: true });
        Ok(number)
    }

    /// Makes the connection the one that counts for its node, and ends an older one.
    pub(crate) fn admit(&self, number: u64, socket: &Arc<TcpStream>, hello: &Hello, sink: &Sink) -> Seat {
        if let Some(opened) = lock(&self.open).sockets.get_mut(&number) {
            opened.is_stranger = false;
        }
        let seat = {
            let mut seats = lock(&self.seats);
            // Those of nodes that have no connection any more.
            seats.retain(|_, seat| Arc::strong_count(&seat.0) > 1);
            seats.entry(hello.node).or_default().clone()
        };
        let mut current = lock(&seat.0);
        let direction = Direction::Incoming;
        if let Some((_, older)) = current.replace((number, Arc::clone(socket))) {
            end(&older);
            sink(PeerEvent::Disconnected { node: hello.node, direction, fault: Fault::Replaced });
        }
        sink(PeerEvent::Connected { hello: hello.clone(), direction });
        drop(current);
        seat
    }

    /// Forgets a connection that has ended. False if it was ended to make room.
    pub(crate) fn leave(&self, number: u64) -> bool {
        lock(&self.open).sockets.remove(&number).is_some()
    }

    /// Ends all connections, and accepts no more.
    pub(crate) fn close(&self) {
        let mut open = lock(&self.open);
        open.is_closed = true;
        open.sockets.values().for_each(|opened| end(&opened.socket));
    }

    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.open).is_closed
    }
}

impl Seat {
    /// Passes something on if the connection counts. False if it was replaced.
    pub(crate) fn pass_on(&self, number: u64, event: PeerEvent, sink: &Sink) -> bool {
        let current = lock(&self.0);
        let counts = current.as_ref().is_some_and(|(current, _)| *current == number);
        if counts {
            sink(event);
        }
        counts
    }

    /// Reports the end of a connection, unless a newer one has taken its place.
    pub(crate) fn leave(&self, number: u64, node: NodeId, fault: Fault, sink: &Sink) {
        let mut current = lock(&self.0);
        if current.as_ref().is_some_and(|(current, _)| *current == number) {
            *current = None;
            sink(PeerEvent::Disconnected { node, direction: Direction::Incoming, fault });
        }
    }
}

/// Ends a connection. Its thread sees that.
pub(crate) fn end(socket: &TcpStream) {
    // It may have ended already.
    drop(socket.shutdown(Shutdown::Both));
}
