//! The messages that wait for the node at one address. Other threads add them, and the thread of [`crate::link`] writes
//! them.

use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delaymq_core::replication::{Message, NodeId};
use delaymq_core::wire::peer::put_message;

use crate::arrivals::end;
use crate::interface::{Fault, LinkFault, LinkStatus, NotSent, PeerAddress};
use crate::queue::Queue;
use crate::threads::lock;
use crate::wake::Wake;

/// See the module.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) address: PeerAddress,
    wake: Wake,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    is_ended: bool,
    /// The connection, to end it.
    socket: Option<Arc<TcpStream>>,
    /// The node that has said hello on it. Nothing waits while there is none.
    node: Option<NodeId>,
    queue: Queue,
    /// Why the last attempt to connect failed.
    fault: Option<LinkFault>,
}

impl Outbox {
    pub(crate) fn new(address: PeerAddress, queue_bytes_max: usize) -> io::Result<Self> {
        let queue = Queue::new(queue_bytes_max);
        let state = State { is_ended: false, socket: None, node: None, queue, fault: None };
        Ok(Self { address, wake: Wake::new()?, state: Mutex::new(state) })
    }

    /// Adds a message for this node.
    pub(crate) fn send(&self, node: NodeId, message: &Message) -> Result<(), NotSent> {
        let mut frame = Vec::new();
        put_message(&mut frame, message)?;
        let is_sent_again = matches!(message, Message::Heartbeat { .. } | Message::Batches { .. });
        let mut state = lock(&self.state);
        if state.node != Some(node) {
            return Err(NotSent::NotConnected);
        }
        let is_first = state.queue.bytes() == 0;
        if !state.queue.push(frame, is_sent_again) {
            return Err(NotSent::Full);
        }
        drop(state);
        if is_first {
            self.wake.wake();
        }
        Ok(())
    }

    /// Ends the connection and the thread, soon.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.state);
        state.is_ended = true;
        if let Some(socket) = &state.socket {
            end(socket);
        }
        drop(state);
        self.wake.wake();
    }

    pub(crate) fn is_ended(&self) -> bool {
        lock(&self.state).is_ended
    }

    pub(crate) fn status(&self) -> LinkStatus {
        let state = lock(&self.state);
        let (queued_bytes, dropped) = (state.queue.bytes(), state.queue.dropped());
        let (address, fault) = (self.address.clone(), state.fault.clone());
        LinkStatus { address, node: state.node, queued_bytes, dropped, fault }
    }

    /// The bytes that wait for this node; `None` if it is not connected.
    pub(crate) fn queued_bytes(&self, node: NodeId) -> Option<usize> {
        let state = lock(&self.state);
        (state.node == Some(node)).then(|| state.queue.bytes())
    }

    /// Notes the socket of a new connection, so that [`Self::end`] ends it.
    pub(crate) fn begin(&self, socket: &Arc<TcpStream>) -> Result<(), Fault> {
        let mut state = lock(&self.state);
        if state.is_ended {
            return Err(Fault::Removed);
        }
        state.socket = Some(Arc::clone(socket));
        Ok(())
    }

    /// From now on, messages of this node are taken.
    pub(crate) fn open(&self, node: NodeId) {
        let mut state = lock(&self.state);
        (state.node, state.fault) = (Some(node), None);
    }

    /// An attempt to connect has failed.
    pub(crate) fn note_fault(&self, fault: &Fault) {
        let fault = LinkFault { words: fault.to_string(), is_refusal: fault.is_refusal() };
        lock(&self.state).fault = Some(fault);
    }

    /// The connection has ended, and what waited is lost.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        (state.node, state.socket) = (None, None);
        state.queue.clear();
    }

    /// The next bytes to write, after so many of the last ones were written.
    pub(crate) fn next_piece(&self, written: usize) -> Result<Option<Vec<u8>>, Fault> {
        let mut state = lock(&self.state);
        if state.is_ended {
            return Err(Fault::Removed);
        }
        state.queue.written(written);
        Ok(state.queue.next_piece())
    }

    /// Waits as [`Wake::wait`] does. A message or the end of the outbox ends the wait.
    pub(crate) fn wait(&self, socket: Option<BorrowedFd<'_>>, at_most: Option<Duration>) -> bool {
        self.wake.wait(socket, at_most)
    }
}
