//! The thread that reads for other nodes: batches of the log and parts of files for nodes that lag, and messages that they have
//! damaged. The node's thread commits and answers heartbeats, so that one only asks for them, and notes what was sent.
//!
//! A replica only reads messages. A primary reads its store without a lock of the node, and the thread ends before the copy follows
//! again: another one begins then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use delaymq_core::error::Error;
use delaymq_core::replication::{FilePlace, Message, NodeId, SentFile, WantedRecord};
use delaymq_core::store::KeptMessages;
use delaymq_core::units::{Epoch, Sequence};
use delaymq_engine::Store;
use delaymq_peers::{NotSent, Peers};

use crate::events::{Events, Guarded, Incoming};
use crate::interface::NodeError;
use crate::loads::parts::Parts;
use crate::shipping::{SHIPMENT_BYTES_MAX, ShipmentEnd, Shipped, end_of, is_full};
use crate::snapshot::outgoing::{Exchange, Outgoing};
use crate::status::Reports;

/// Nothing is read for a node while so many bytes wait for its connection.
const QUEUED_BYTES_MAX: usize = 8 << 20;
/// How often snapshots that no node asks for are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Something to read, and to send to a node.
pub(crate) enum Work {
    /// Batches from `first` on. What is before `committed` is committed.
    Batches { exchange: Exchange, first: Sequence, committed: Sequence },
    /// The part of a file that begins there.
    Part { exchange: Exchange, place: FilePlace },
    /// A message that the node has damaged, from what a replica has. A primary reads it from its store.
    Record { epoch: Epoch, wanted: WantedRecord, kept: Option<Box<KeptMessages>> },
}

/// See the module. Dropping it waits for the end of the thread.
pub(crate) struct Reader {
    /// `None` once it is being dropped.
    work: Option<Sender<(NodeId, Work)>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    store: Arc<OnceLock<Arc<Store>>>,
}

/// The parts of the thread.
pub(crate) struct ReaderParts {
    /// Once the node leads.
    pub(crate) store: Arc<OnceLock<Arc<Store>>>,
    pub(crate) outgoing: Outgoing,
    pub(crate) load_parts: Parts,
    pub(crate) peers: Arc<Peers>,
    pub(crate) events: Arc<Events>,
    pub(crate) reports: Arc<Reports>,
}

impl Reader {
    /// Starts the thread. What it has sent becomes events of the node.
    ///
    /// # Errors
    /// `Thread`.
    pub(crate) fn start(parts: ReaderParts) -> Result<Self, NodeError> {
        const NAME: &str = "delaymq-node-reader";
        let (work, asked) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let (guard, ended, store) = (Guarded::new(NAME, &parts.events), Arc::clone(&is_over), Arc::clone(&parts.store));
        let spawned = Builder::new().name(NAME.to_owned()).spawn(move || {
            let _guard = guard;
            Thread { parts, is_over: ended }.run(&asked);
        });
        let thread = spawned.map_err(|error| NodeError::Thread { reason: error.to_string() })?;
        Ok(Self { work: Some(work), is_over, thread: Some(thread), store })
    }

    /// The node leads from now on, with this store.
    pub(crate) fn lead(&self, store: Arc<Store>) {
        // A reader ends with the store that it has.
        drop(self.store.set(store));
    }

    /// Begins to read something, after what was asked for before.
    pub(crate) fn read(&self, node: NodeId, work: Work) {
        if let Some(asked) = &self.work {
            drop(asked.send((node, work)));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.work = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Thread {
    parts: ReaderParts,
    is_over: Arc<AtomicBool>,
}

impl Thread {
    fn run(mut self, asked: &Receiver<(NodeId, Work)>) {
        loop {
            let work = asked.recv_timeout(LOOK);
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            match work {
                Ok((node, Work::Batches { exchange, first, committed })) => {
                    let end = self.ship(node, exchange, first, committed);
                    self.parts.events.add(Incoming::Shipped(Shipped { node, exchange, first, end }));
                }
                Ok((node, Work::Part { exchange, place })) => self.send_part(node, exchange, place),
                Ok((node, Work::Record { epoch, wanted, kept })) => {
                    self.send_record(node, epoch, (&wanted, kept.as_deref()));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.parts.outgoing.tend(Instant::now());
        }
    }

    fn ship(&mut self, node: NodeId, exchange: Exchange, first: Sequence, committed: Sequence) -> ShipmentEnd {
        if self.parts.outgoing.is_asked_by(node, exchange, Instant::now()) {
            return ShipmentEnd::Ended;
        }
        match self.parts.peers.queued_bytes(node) {
            None => return ShipmentEnd::Ended,
            Some(queued) if queued > QUEUED_BYTES_MAX => return ShipmentEnd::Full,
            Some(_) => {}
        }
        let bytes = match self.store().and_then(|store| store.ship(first, SHIPMENT_BYTES_MAX)) {
            Ok(bytes) => bytes,
            Err(Error::NotKept { .. }) => {
                self.offer_snapshot(node, exchange);
                return ShipmentEnd::Ended;
            }
            // The store ends, and the protocol hears of it.
            Err(Error::Closed | Error::Poisoned { .. }) => return ShipmentEnd::Ended,
            // The store tells whether its disk has failed. A request of another node must not end this one.
            Err(error) => {
                self.warn_of(node, format!("batches from {first} on cannot be sent to the node {node}: {error}"));
                return ShipmentEnd::Ended;
            }
        };
        let Some(next) = end_of(&bytes) else { return ShipmentEnd::Sent { next: first, lags: false } };
        let ((epoch, attempt), lags) = (exchange, is_full(&bytes));
        match self.parts.peers.send(node, &Message::Batches { epoch, attempt, from: first, committed, bytes }) {
            Ok(()) => ShipmentEnd::Sent { next, lags },
            Err(NotSent::Full) => ShipmentEnd::Full,
            // The node asks for it when it is connected.
            Err(NotSent::NotConnected) => ShipmentEnd::Ended,
            Err(NotSent::TooLarge(error)) => {
                self.warn_of(node, format!("a batch cannot be sent to the node {node}: {error}"));
                ShipmentEnd::Ended
            }
        }
    }

    /// A node needs more than the log has.
    fn offer_snapshot(&mut self, node: NodeId, exchange: Exchange) {
        let Some(store) = self.parts.store.get() else { return };
        match self.parts.outgoing.offer(node, exchange, store, Instant::now()) {
            Ok(Some((offer, line))) => {
                if let Some(line) = line {
                    self.parts.reports.note(line);
                }
                if let Err(error) = self.parts.peers.send(node, &offer) {
                    self.warn_of(node, format!("a snapshot cannot be offered to the node {node}: {error}"));
                }
            }
            Ok(None) | Err(Error::Closed | Error::Poisoned { .. }) => {}
            Err(error) => self.warn_of(node, format!("there is no snapshot for the node {node} now: {error}")),
        }
    }

    fn send_part(&mut self, node: NodeId, exchange: Exchange, place: FilePlace) {
        let (epoch, attempt) = exchange;
        let read = match place.file {
            SentFile::Snapshot { number, .. } => {
                self.parts.outgoing.part((node, exchange), (number, place), Instant::now())
            }
            SentFile::Load(name) => match self.parts.load_parts.read(name, place.offset) {
                // Its load was refused, and a checkpoint spares the node the fact.
                Err(error) if error.is_not_found() => return self.offer_snapshot(node, exchange),
                other => other.map(Some),
            },
        };
        match read {
            // The node asks again for what is lost.
            Ok(Some(part)) => drop(self.parts.peers.send(node, &Message::Part { epoch, attempt, part })),
            // It asks for the snapshot of an earlier exchange, and is offered another.
            Ok(None) => {}
            Err(error) => self.warn_of(node, format!("a file cannot be sent to the node {node}: {error}")),
        }
    }

    fn send_record(&self, node: NodeId, epoch: Epoch, (wanted, kept): (&WantedRecord, Option<&KeptMessages>)) {
        let sequence = wanted.sequence;
        let read = match kept {
            Some(kept) => kept.payload_of(wanted),
            None => self.store().and_then(|store| store.payload_of(wanted)),
        };
        let payload = match read {
            Ok(payload) => payload,
            Err(error) => {
                self.warn_of(node, format!("the message {sequence} cannot be read for the node {node}: {error}"));
                None
            }
        };
        // The node asks another one if this is lost.
        drop(self.parts.peers.send(node, &Message::Record { epoch, sequence, payload }));
    }

    fn store(&self) -> Result<&Store, Error> {
        self.parts.store.get().map(Arc::as_ref).ok_or(Error::Closed)
    }

    fn warn_of(&self, node: NodeId, line: String) {
        self.parts.events.add(Incoming::Warning(node, line));
    }
}
