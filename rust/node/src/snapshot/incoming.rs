//! The snapshot that this node receives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delaymq_core::error::Error;
use delaymq_core::replication::{Message, NodeId, SnapshotOffer, SnapshotPiece, SnapshotPlace};
use delaymq_core::storage::Storage;
use delaymq_core::store::IncomingSnapshot;

use super::outgoing::Exchange;

/// A part that has not come for so long was lost, and is asked for again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// After a failure, as that of a full disk, no snapshot is received for so long.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Default)]
pub(crate) struct Incoming {
    receiving: Option<Receiving>,
    /// Nothing is received before this.
    again: Option<Instant>,
}

struct Receiving {
    from: NodeId,
    exchange: Exchange,
    snapshot: IncomingSnapshot,
    asked: Instant,
}

impl Incoming {
    /// Begins to receive a snapshot, instead of an earlier one. Returns the message that asks for its first part. `None` if that
    /// was done before, or if a failure was a short time ago.
    ///
    /// # Errors
    /// As [`IncomingSnapshot::begin`].
    pub(crate) fn begin(
        &mut self,
        storage: &Arc<dyn Storage>,
        (from, exchange): (NodeId, Exchange),
        offer: SnapshotOffer,
        now: Instant,
    ) -> Result<Option<Message>, Error> {
        let is_known =
            |known: &Receiving| (known.from, known.exchange, known.snapshot.number()) == (from, exchange, offer.number);
        if self.again.is_some_and(|again| now < again) || self.receiving.as_ref().is_some_and(is_known) {
            return Ok(None);
        }
        self.receiving = None;
        let snapshot = IncomingSnapshot::begin(Arc::clone(storage), offer).inspect_err(|_| self.fail(now))?;
        let ask = snapshot.next().map(|place| ask(exchange, place));
        self.receiving = Some(Receiving { from, exchange, snapshot, asked: now });
        Ok(ask)
    }

    /// The message that asks for the part after this one, to be sent before this one is written.
    pub(crate) fn ask_after(&mut self, piece: &SnapshotPiece, now: Instant) -> Option<(NodeId, Message)> {
        let known = self.receiving.as_mut()?;
        let place = known.snapshot.next_after(piece)?;
        known.asked = now;
        Some((known.from, ask(known.exchange, place)))
    }

    /// Writes a part.
    ///
    /// # Errors
    /// Those of the storage. The snapshot is gone then.
    pub(crate) fn take(&mut self, piece: &SnapshotPiece, now: Instant) -> Result<(), Error> {
        let Some(known) = &mut self.receiving else { return Ok(()) };
        let taken = known.snapshot.take(piece).map(drop);
        taken.inspect_err(|_| self.fail(now))
    }

    /// The message that asks again for a part which has not come.
    pub(crate) fn ask_again(&mut self, now: Instant) -> Option<(NodeId, Message)> {
        let known = self.receiving.as_mut().filter(|known| now.duration_since(known.asked) >= ASK_AGAIN_AFTER)?;
        let place = known.snapshot.next()?;
        known.asked = now;
        Some((known.from, ask(known.exchange, place)))
    }

    /// The primary and the exchange of a snapshot of which everything has come.
    pub(crate) fn whole(&self) -> Option<(NodeId, Exchange)> {
        let known = self.receiving.as_ref().filter(|known| known.snapshot.next().is_none())?;
        Some((known.from, known.exchange))
    }

    /// Takes the snapshot of which everything has come.
    pub(crate) fn take_whole(&mut self) -> Option<IncomingSnapshot> {
        self.whole()?;
        self.receiving.take().map(|known| known.snapshot)
    }

    /// The snapshot is of no use: it is of an earlier exchange, or cannot be used.
    pub(crate) fn fail(&mut self, now: Instant) {
        (self.receiving, self.again) = (None, Some(now + AGAIN_AFTER));
    }

    /// Nothing is received any more.
    pub(crate) fn clear(&mut self) {
        self.receiving = None;
    }
}

fn ask((epoch, attempt): Exchange, place: SnapshotPlace) -> Message {
    Message::AskPiece { epoch, attempt, place }
}
