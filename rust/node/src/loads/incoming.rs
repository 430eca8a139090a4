//! The files of loads that this node receives. It receives those of one load at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delaymq_core::error::Error;
use delaymq_core::replication::{LoadMessage, LoadPart, Message, NodeId};
use delaymq_core::run::{LoadName, StagedRun};
use delaymq_core::storage::Storage;
use delaymq_core::store::IncomingLoad;

use crate::snapshot::Pause;
use crate::snapshot::outgoing::Exchange;

/// A part that has not come for so long was lost, and is asked for again, each time after twice as long.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);
const ASK_AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);

/// Why files are received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// The primary asks for it, for the load of this number.
    Offer(u64),
    /// A batch names them.
    Batch,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Incoming {
    receiving: Option<Receiving>,
    /// After a failure, as that of a full disk, and what the files were for.
    pause: Pause,
    failed: Option<Purpose>,
}

struct Receiving {
    from: NodeId,
    exchange: Exchange,
    purpose: Purpose,
    load: IncomingLoad,
    asked: Instant,
    ask_again_after: Duration,
}

impl Incoming {
    /// Begins to receive those of these files that are not here. Returns the message that asks for the first part, or that says that all
    /// are here. `None` if others are received, or if a failure was a short time ago. A batch comes before an offer, which is made again.
    ///
    /// # Errors
    /// As [`IncomingLoad::begin`].
    pub(crate) fn begin(
        &mut self,
        storage: &Arc<dyn Storage>,
        (from, exchange): (NodeId, Exchange),
        (purpose, runs): (Purpose, &[StagedRun]),
        now: Instant,
    ) -> Result<Option<Message>, Error> {
        let is_busy = |known: &Receiving| {
            (known.from, known.exchange) == (from, exchange)
                && (known.purpose == Purpose::Batch || purpose != Purpose::Batch)
        };
        if self.pause.is_on(now) || self.receiving.as_ref().is_some_and(is_busy) {
            return Ok(None);
        }
        self.receiving = None;
        let begun = IncomingLoad::begin(Arc::clone(storage), runs);
        let load = begun.inspect_err(|_| self.fail(purpose, now))?;
        let (asked, ask_again_after) = (now, ASK_AGAIN_AFTER);
        let receiving = Receiving { from, exchange, purpose, load, asked, ask_again_after };
        match receiving.load.next() {
            Some(place) => {
                self.receiving = Some(receiving);
                Ok(Some(ask(exchange, place)))
            }
            None => Ok(receiving.done()),
        }
    }

    /// The message that asks for the part after this one, to be sent before this one is written.
    pub(crate) fn ask_after(&mut self, part: &LoadPart, now: Instant) -> Option<(NodeId, Message)> {
        let known = self.receiving.as_mut()?;
        let place = known.load.next_after(part)?;
        (known.asked, known.ask_again_after) = (now, ASK_AGAIN_AFTER);
        Some((known.from, ask(known.exchange, place)))
    }

    /// Writes a part. Returns the message that says that all files are here, after the last part of an offer.
    ///
    /// # Errors
    /// As [`IncomingLoad::take`]. Nothing is received any more then.
    pub(crate) fn take(&mut self, part: &LoadPart, now: Instant) -> Result<Option<(NodeId, Message)>, Error> {
        let Some(mut known) = self.receiving.take() else { return Ok(None) };
        known.load.take(part).inspect_err(|_| self.fail(known.purpose, now))?;
        if known.load.next().is_some() {
            self.receiving = Some(known);
            return Ok(None);
        }
        self.pause = Pause::default();
        Ok(known.done().map(|message| (known.from, message)))
    }

    /// The message that asks again for a part which has not come.
    pub(crate) fn ask_again(&mut self, now: Instant) -> Option<(NodeId, Message)> {
        let known = self.receiving.as_mut().filter(|known| now.duration_since(known.asked) >= known.ask_again_after)?;
        let place = known.load.next()?;
        let longer = known.ask_again_after.saturating_mul(2).min(ASK_AGAIN_AFTER_MAX);
        (known.asked, known.ask_again_after) = (now, longer);
        Some((known.from, ask(known.exchange, place)))
    }

    /// True if a batch waits for its files: it need not come before they are here.
    pub(crate) fn is_awaited(&self, now: Instant) -> bool {
        let is_received = self.receiving.as_ref().is_some_and(|known| known.purpose == Purpose::Batch);
        is_received || (self.failed == Some(Purpose::Batch) && self.pause.is_on(now))
    }

    /// Receives nothing that is not of this exchange.
    pub(crate) fn keep(&mut self, followed: Option<(NodeId, Exchange)>) {
        let is_over = |known: &Receiving| followed != Some((known.from, known.exchange));
        if self.receiving.as_ref().is_some_and(is_over) {
            self.receiving = None;
        }
    }

    fn fail(&mut self, purpose: Purpose, now: Instant) {
        self.pause.begin(now);
        (self.receiving, self.failed) = (None, Some(purpose));
    }
}

impl Receiving {
    fn done(&self) -> Option<Message> {
        let Purpose::Offer(number) = self.purpose else { return None };
        let (epoch, attempt) = self.exchange;
        Some(Message::Load { epoch, attempt, message: LoadMessage::Held { number } })
    }
}

fn ask((epoch, attempt): Exchange, (name, offset): (LoadName, u64)) -> Message {
    Message::Load { epoch, attempt, message: LoadMessage::Ask { name, offset } }
}
