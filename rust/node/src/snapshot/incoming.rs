//! The snapshot that this node receives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delaymq_core::error::Error;
use delaymq_core::message_log::Identity;
use delaymq_core::replication::{Message, NodeId, SnapshotOffer, SnapshotPiece, SnapshotPlace};
use delaymq_core::storage::Storage;
use delaymq_core::store::IncomingSnapshot;

use super::Pause;
use super::outgoing::Exchange;

/// A part that has not come for so long was lost, and is asked for again, each time after twice as long: a slow connection
/// must not carry it many times.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);
const ASK_AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Default)]
pub(crate) struct Incoming {
    receiving: Option<Receiving>,
    /// After a failure, as that of a full disk.
    pause: Pause,
}

struct Receiving {
    from: NodeId,
    exchange: Exchange,
    snapshot: IncomingSnapshot,
    asked: Instant,
    ask_again_after: Duration,
    is_checked: bool,
    /// Readers of this node's files are waited for, and that was reported.
    waits: bool,
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
        let is_known = |known: &Receiving| {
            (known.from, known.exchange, known.snapshot.offer().number) == (from, exchange, offer.number)
        };
        if self.pause.is_on(now) || self.receiving.as_ref().is_some_and(is_known) {
            return Ok(None);
        }
        self.drop_files();
        let snapshot = IncomingSnapshot::begin(Arc::clone(storage), offer).inspect_err(|_| self.pause.begin(now))?;
        let ask = snapshot.next().map(|place| ask(exchange, place));
        let (asked, ask_again_after) = (now, ASK_AGAIN_AFTER);
        let (is_checked, waits) = (false, false);
        self.receiving = Some(Receiving { from, exchange, snapshot, asked, ask_again_after, is_checked, waits });
        Ok(ask)
    }

    /// The message that asks for the part after this one, to be sent before this one is written.
    pub(crate) fn ask_after(&mut self, piece: &SnapshotPiece, now: Instant) -> Option<(NodeId, Message)> {
        let known = self.receiving.as_mut()?;
        let place = known.snapshot.next_after(piece)?;
        (known.asked, known.ask_again_after) = (now, ASK_AGAIN_AFTER);
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
        let known = self.receiving.as_mut().filter(|known| now.duration_since(known.asked) >= known.ask_again_after)?;
        let place = known.snapshot.next()?;
        let longer = known.ask_again_after.saturating_mul(2).min(ASK_AGAIN_AFTER_MAX);
        (known.asked, known.ask_again_after) = (now, longer);
        Some((known.from, ask(known.exchange, place)))
    }

    /// The primary, the exchange and the offer of the snapshot that is received.
    pub(crate) fn received(&self) -> Option<(NodeId, Exchange, &SnapshotOffer)> {
        self.receiving.as_ref().map(|known| (known.from, known.exchange, known.snapshot.offer()))
    }

    /// True if everything has come. The snapshot is checked then, once.
    ///
    /// # Errors
    /// As [`IncomingSnapshot::check`]. The snapshot is gone then.
    pub(crate) fn is_whole(&mut self, identity: &Identity, now: Instant) -> Result<bool, Error> {
        let Some(known) = self.receiving.as_mut().filter(|known| known.snapshot.next().is_none()) else {
            return Ok(false);
        };
        if !known.is_checked {
            known.snapshot.check(identity).inspect_err(|_| self.fail(now))?;
        }
        if let Some(known) = &mut self.receiving {
            known.is_checked = true;
        }
        Ok(true)
    }

    /// Notes that a whole snapshot waits for the readers of this node. True if it has just begun to wait.
    pub(crate) fn waits(&mut self) -> bool {
        self.receiving.as_mut().is_some_and(|known| !std::mem::replace(&mut known.waits, true))
    }

    /// Takes the snapshot, to adopt it.
    pub(crate) fn take_whole(&mut self) -> Option<IncomingSnapshot> {
        self.pause = Pause::default();
        self.receiving.take().map(|known| known.snapshot)
    }

    /// The snapshot cannot be used. None is received for a while.
    fn fail(&mut self, now: Instant) {
        self.pause.begin(now);
        self.drop_files();
    }

    /// Nothing is received any more, and what has come is removed.
    pub(crate) fn drop_files(&mut self) {
        if let Some(known) = self.receiving.take() {
            // Files that cannot be removed now are removed before the next snapshot, or by the next process.
            drop(known.snapshot.discard());
        }
    }
}

fn ask((epoch, attempt): Exchange, place: SnapshotPlace) -> Message {
    Message::AskPiece { epoch, attempt, place }
}
