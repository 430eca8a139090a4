//! The events of a node, between the threads that bring them and the thread that owns the node.

use std::collections::VecDeque;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use delaymq_core::replication::{Event, Message, NodeId};
use delaymq_core::schedule_log::Entry;
use delaymq_peers::PeerEvent;
use delaymq_server::Stopped;

use crate::held;
use crate::interface::NodeError;
use crate::repairs::Damage;
use crate::shipping::Shipped;

/// A connection waits while batches of so many bytes are here.
const BATCH_BYTES_MAX: usize = 32 << 20;
/// A caller that is to hand over a damaged message waits for so long: for the answers of a few nodes.
const REPAIR_WAIT: Duration = Duration::from_secs(2);

/// One thing that happens.
pub(crate) enum Incoming {
    /// A connection to another node brings something.
    Peer(PeerEvent),
    /// The register has answered, or an operator asks for something.
    Protocol(Event),
    /// The log of the store that leads has grown, or more of it is durable, or the store has failed.
    LogChanged,
    /// The reader has sent batches to another node, or could not.
    Shipped(Shipped),
    /// A message is damaged here.
    Damaged(Damage),
    /// Somebody should look at another node, for this reason.
    Warning(NodeId, String),
    /// An operator asks to connect to another node at this address.
    Dial(String),
    /// The owner stops the node. Clients have so long.
    Stop(Duration),
    /// The server has stopped, as was asked.
    Served(Stopped),
    /// Something the node cannot be without has failed.
    Failed(NodeError),
}

fn batch_bytes(incoming: &Incoming) -> usize {
    match incoming {
        Incoming::Peer(PeerEvent::Message(_, Message::Batches { bytes, .. })) => bytes.len(),
        _ => 0,
    }
}

#[derive(Default)]
struct State {
    queue: VecDeque<Incoming>,
    batch_bytes: usize,
    log_has_changed: bool,
    /// The log was looked at last, so that the queue is next: neither waits for the other for long.
    is_turn_of_queue: bool,
    is_closed: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Events {
    state: Mutex<State>,
    arrived: Condvar,
    taken: Condvar,
}

impl Events {
    /// Adds something, without waiting.
    pub(crate) fn add(&self, incoming: Incoming) {
        let mut state = held(&self.state);
        if state.is_closed {
            return;
        }
        state.batch_bytes = state.batch_bytes.saturating_add(batch_bytes(&incoming));
        state.queue.push_back(incoming);
        drop(state);
        self.arrived.notify_one();
    }

    /// Adds what a connection brings. A connection waits here while too many batches wait, so that the other node waits as
    /// well.
    pub(crate) fn add_of_peer(&self, event: PeerEvent) {
        let mut state = held(&self.state);
        while state.batch_bytes > BATCH_BYTES_MAX && !state.is_closed {
            state = self.taken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.add(Incoming::Peer(event));
    }

    /// Notes that the log has changed: however often that happens, the node looks once.
    pub(crate) fn log_changed(&self) {
        let was = std::mem::replace(&mut held(&self.state).log_has_changed, true);
        if !was {
            self.arrived.notify_one();
        }
    }

    /// Lets the node make the message of an entry whole, and waits for it. False if it may still be damaged.
    pub(crate) fn mend(&self, entry: &Entry) -> bool {
        let (told, is_over) = channel();
        self.add(Incoming::Damaged(Damage {
            sequence: entry.payload_sequence(),
            location: entry.location(),
            key: Some(entry.key()),
            told: Some(told),
        }));
        is_over.recv_timeout(REPAIR_WAIT).unwrap_or(false)
    }

    /// Takes the next thing; `None` if nothing has come within `wait`.
    pub(crate) fn next(&self, wait: Duration) -> Option<Incoming> {
        let state = held(&self.state);
        let is_idle = |state: &mut State| state.queue.is_empty() && !state.log_has_changed;
        let mut state = self.arrived.wait_timeout_while(state, wait, is_idle).unwrap_or_else(PoisonError::into_inner).0;
        let is_turn_of_queue = std::mem::take(&mut state.is_turn_of_queue) && !state.queue.is_empty();
        if !is_turn_of_queue && std::mem::take(&mut state.log_has_changed) {
            state.is_turn_of_queue = true;
            return Some(Incoming::LogChanged);
        }
        let incoming = state.queue.pop_front()?;
        state.batch_bytes = state.batch_bytes.saturating_sub(batch_bytes(&incoming));
        drop(state);
        self.taken.notify_all();
        Some(incoming)
    }

    /// Takes nothing any more, and lets no thread wait.
    pub(crate) fn close(&self) {
        let mut state = held(&self.state);
        state.is_closed = true;
        state.queue.clear();
        drop(state);
        self.taken.notify_all();
        self.arrived.notify_all();
    }

    /// Takes what the connections of the node bring.
    pub(crate) fn sink(self: &Arc<Self>) -> delaymq_peers::Sink {
        let events = Arc::clone(self);
        Arc::new(move |event| events.add_of_peer(event))
    }
}

/// Ends the node if one of its threads dies.
pub(crate) struct Guarded {
    thread: &'static str,
    events: Arc<Events>,
}

impl Guarded {
    pub(crate) fn new(thread: &'static str, events: &Arc<Events>) -> Self {
        Self { thread, events: Arc::clone(events) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = format!("the thread {} has died", self.thread);
            self.events.add(Incoming::Failed(NodeError::Thread { reason }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use delaymq_core::units::{Epoch, Sequence};

    use super::*;

    fn batches(length: usize) -> PeerEvent {
        let (epoch, from, committed) = (Epoch(1), Sequence(1), Sequence(1));
        PeerEvent::Message(
            NodeId([1; 16]),
            Message::Batches { epoch, attempt: 1, from, committed, bytes: vec![0; length] },
        )
    }

    #[test]
    fn a_changed_log_comes_once_however_often_it_changed() {
        let events = Events::default();
        events.log_changed();
        events.log_changed();
        assert!(matches!(events.next(Duration::ZERO), Some(Incoming::LogChanged)));
        assert!(events.next(Duration::ZERO).is_none());
    }

    #[test]
    fn a_log_that_changes_all_the_time_does_not_hold_up_what_others_bring() {
        let events = Events::default();
        for _ in 0..3 {
            events.add_of_peer(batches(1));
        }
        let mut taken = Vec::new();
        for _ in 0..6 {
            events.log_changed();
            taken.push(matches!(events.next(Duration::ZERO), Some(Incoming::Peer(_))));
        }
        assert_eq!(taken, [false, true, false, true, false, true]);
    }

    #[test]
    fn a_connection_waits_while_too_many_batches_wait_and_goes_on_when_they_are_taken() {
        let events = Arc::new(Events::default());
        events.add_of_peer(batches(BATCH_BYTES_MAX + 1));
        let (other, mine) = (Arc::clone(&events), batches(1));
        let waiting = thread::spawn(move || other.add_of_peer(mine));
        assert!(matches!(events.next(Duration::ZERO), Some(Incoming::Peer(_))));
        waiting.join().unwrap();
        assert!(matches!(events.next(Duration::ZERO), Some(Incoming::Peer(_))));
    }

    #[test]
    fn no_connection_waits_at_a_node_that_has_ended() {
        let events = Arc::new(Events::default());
        events.add_of_peer(batches(BATCH_BYTES_MAX + 1));
        let other = Arc::clone(&events);
        let waiting = thread::spawn(move || other.add_of_peer(batches(1)));
        events.close();
        waiting.join().unwrap();
        assert!(events.next(Duration::ZERO).is_none());
    }
}
