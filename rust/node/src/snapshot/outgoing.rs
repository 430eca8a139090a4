//! The snapshots that this node sends while it is the primary.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use delaymq_core::error::Error;
use delaymq_core::replication::{FilePart, FilePlace, Message, NodeId};
use delaymq_core::store::OutgoingSnapshot;
use delaymq_core::units::Epoch;
use delaymq_engine::{ReaderPin, Store, pin_again};

use crate::pause::Pause;

/// The files are kept for so long after they were last pinned, in milliseconds.
const PINNED_FOR_MS: u64 = 60_000;
/// Files that are still asked for are pinned again after so long.
const PIN_AGAIN_AFTER: Duration = Duration::from_secs(20);
/// A node that has asked for nothing for so long may not have heard of its snapshot, and gets it offered again.
const OFFER_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// A node that has asked for nothing for so long is no longer waited for.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The epoch, and the exchange that matched the logs.
pub(crate) type Exchange = (Epoch, u64);

struct Sending {
    exchange: Exchange,
    number: u64,
    snapshot: OutgoingSnapshot,
    // Dropped after its successor was made.
    pin: Option<ReaderPin>,
    pinned: Instant,
    /// When the node was last heard of, or the snapshot was offered.
    heard: Instant,
}

/// See the module.
pub(crate) struct Outgoing {
    path: PathBuf,
    of: BTreeMap<NodeId, Sending>,
    /// After a snapshot could not be made or read.
    pauses: BTreeMap<NodeId, Pause>,
    number: u64,
}

impl Outgoing {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), of: BTreeMap::new(), pauses: BTreeMap::new(), number: 0 }
    }

    /// Offers the files of the store to a node, again if it has not asked for them. Returns the message, and a line for the log if the
    /// snapshot is a new one.
    ///
    /// # Errors
    /// As [`Store::snapshot`].
    pub(crate) fn offer(
        &mut self,
        node: NodeId,
        exchange: Exchange,
        store: &Store,
        now: Instant,
    ) -> Result<Option<(Message, Option<String>)>, Error> {
        let (epoch, attempt) = exchange;
        let known = self.of.get_mut(&node).filter(|known| known.exchange == exchange);
        if let Some(known) = known {
            if now.duration_since(known.heard) < OFFER_AGAIN_AFTER {
                return Ok(None);
            }
            known.heard = now;
            known.pin_again(&self.path, now);
            let offer = known.snapshot.offer(known.number);
            return Ok(Some((Message::Snapshot { epoch, attempt, offer }, None)));
        }
        if self.pauses.get(&node).is_some_and(|pause| pause.is_on(now)) {
            return Ok(None);
        }
        let pin = pin_again(&self.path, PINNED_FOR_MS);
        let snapshot = store.snapshot().inspect_err(|_| self.pauses.entry(node).or_default().begin(now))?;
        self.number = self.number.saturating_add(1);
        let offer = snapshot.offer(self.number);
        let line = format!(
            "the node {node} gets files instead of the log: a snapshot of {} files with {} bytes",
            offer.files.len(),
            offer.bytes
        );
        let sending = Sending { exchange, number: self.number, snapshot, pin, pinned: now, heard: now };
        self.of.insert(node, sending);
        Ok(Some((Message::Snapshot { epoch, attempt, offer }, Some(line))))
    }

    /// True if the node gets a snapshot in this exchange, and asks for it.
    pub(crate) fn is_asked_by(&self, node: NodeId, exchange: Exchange, now: Instant) -> bool {
        let asks = |sending: &Sending| now.duration_since(sending.heard) < OFFER_AGAIN_AFTER;
        self.of.get(&node).is_some_and(|sending| sending.exchange == exchange && asks(sending))
    }

    /// The part of the snapshot of this number that a node asks for. `None` if it asks for another snapshot than its own. After an error,
    /// its snapshot is gone.
    ///
    /// # Errors
    /// As [`OutgoingSnapshot::part`].
    pub(crate) fn part(
        &mut self,
        (node, exchange): (NodeId, Exchange),
        (number, place): (u64, FilePlace),
        now: Instant,
    ) -> Result<Option<FilePart>, Error> {
        let known = self.of.get_mut(&node);
        let Some(known) = known.filter(|known| (known.exchange, known.number) == (exchange, number)) else {
            return Ok(None);
        };
        known.heard = now;
        known.pin_again(&self.path, now);
        known.snapshot.part(place).inspect_err(|_| {
            self.of.remove(&node);
            self.pauses.entry(node).or_default().begin(now);
        })
    }

    /// Lets the files of nodes go that ask for nothing more.
    pub(crate) fn tend(&mut self, now: Instant) {
        self.of.retain(|_, sending| now.duration_since(sending.heard) < KEPT_FOR);
    }
}

impl Sending {
    fn pin_again(&mut self, path: &Path, now: Instant) {
        if now.duration_since(self.pinned) < PIN_AGAIN_AFTER {
            return;
        }
        // The former pin is better than none.
        if let Some(pin) = pin_again(path, PINNED_FOR_MS) {
            (self.pin, self.pinned) = (Some(pin), now);
        }
    }
}
