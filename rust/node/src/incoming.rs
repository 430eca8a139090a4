//! Files that this node receives from a primary. It asks for one part after the other, so that it decides how fast they come, and nothing
//! is lost with a connection: it asks again.

use std::time::{Duration, Instant};

use delaymq_core::error::Error;
use delaymq_core::replication::{FilePart, FilePlace, Message, NodeId};
use delaymq_core::store::{IncomingFiles, IncomingSnapshot};

use crate::pause::Pause;
use crate::snapshot::outgoing::Exchange;

/// A part that has not come for so long was lost, and is asked for again, each time after twice as long: a slow connection
/// must not carry it many times.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);
const ASK_AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);

/// The files of a snapshot, or those of a load.
pub(crate) trait Received {
    /// Its files.
    fn files(&mut self) -> &mut IncomingFiles;

    /// It is not used.
    fn discard(self);
}

impl Received for IncomingSnapshot {
    fn files(&mut self) -> &mut IncomingFiles {
        self.files()
    }

    fn discard(self) {
        // Files that cannot be removed now are removed before the next snapshot, or by the next process.
        drop(Self::discard(self));
    }
}

impl Received for IncomingFiles {
    fn files(&mut self) -> &mut IncomingFiles {
        self
    }

    fn discard(self) {}
}

/// See the module.
pub(crate) struct Incoming<R> {
    receiving: Option<Receiving<R>>,
    /// After a failure, as that of a full disk.
    pause: Pause,
}

/// A transfer under way, and the node that sends the files.
pub(crate) struct Receiving<R> {
    pub(crate) from: NodeId,
    pub(crate) exchange: Exchange,
    pub(crate) of: R,
    asked: Instant,
    ask_again_after: Duration,
}

impl<R> Default for Incoming<R> {
    fn default() -> Self {
        Self { receiving: None, pause: Pause::default() }
    }
}

impl<R: Received> Incoming<R> {
    /// The transfer under way.
    pub(crate) fn receiving(&self) -> Option<&Receiving<R>> {
        self.receiving.as_ref()
    }

    /// True if everything that is received is here.
    pub(crate) fn is_whole(&mut self) -> bool {
        self.receiving.as_mut().is_some_and(|known| known.of.files().next().is_none())
    }

    /// True if a failure was a short time ago.
    pub(crate) fn is_paused(&self, now: Instant) -> bool {
        self.pause.is_on(now)
    }

    /// Begins to receive files, instead of earlier ones. Returns the message that asks for the first part. `None` if everything is here.
    ///
    /// # Errors
    /// As `begun`.
    pub(crate) fn begin(
        &mut self,
        (from, exchange): (NodeId, Exchange),
        begun: impl FnOnce() -> Result<R, Error>,
        now: Instant,
    ) -> Result<Option<Message>, Error> {
        self.discard();
        let of = begun().inspect_err(|_| self.pause.begin(now))?;
        let known =
            self.receiving.insert(Receiving { from, exchange, of, asked: now, ask_again_after: ASK_AGAIN_AFTER });
        Ok(known.of.files().next().map(|place| ask(exchange, place)))
    }

    /// The message that asks for the part after this one, to be sent before this one is written.
    pub(crate) fn ask_after(&mut self, part: &FilePart, now: Instant) -> Option<(NodeId, Message)> {
        let known = self.receiving.as_mut()?;
        let place = known.of.files().next_after(part)?;
        (known.asked, known.ask_again_after) = (now, ASK_AGAIN_AFTER);
        Some((known.from, ask(known.exchange, place)))
    }

    /// The message that asks again for a part which has not come.
    pub(crate) fn ask_again(&mut self, now: Instant) -> Option<(NodeId, Message)> {
        let known = self.receiving.as_mut().filter(|known| now.duration_since(known.asked) >= known.ask_again_after)?;
        let place = known.of.files().next()?;
        let longer = known.ask_again_after.saturating_mul(2).min(ASK_AGAIN_AFTER_MAX);
        (known.asked, known.ask_again_after) = (now, longer);
        Some((known.from, ask(known.exchange, place)))
    }

    /// Writes a part.
    ///
    /// # Errors
    /// As [`IncomingFiles::take`]. Nothing is received any more then.
    pub(crate) fn take(&mut self, part: &FilePart, now: Instant) -> Result<(), Error> {
        let Some(known) = &mut self.receiving else { return Ok(()) };
        let taken = known.of.files().take(part).map(drop);
        taken.inspect_err(|_| self.fail(now))
    }

    /// The transfer, if all of its files are here.
    pub(crate) fn take_whole(&mut self) -> Option<Receiving<R>> {
        if !self.is_whole() {
            return None;
        }
        self.pause = Pause::default();
        self.receiving.take()
    }

    /// The files cannot be used. None are received for a while.
    pub(crate) fn fail(&mut self, now: Instant) {
        self.pause.begin(now);
        self.discard();
    }

    /// Nothing is received any more.
    pub(crate) fn discard(&mut self) {
        if let Some(known) = self.receiving.take() {
            known.of.discard();
        }
    }
}

fn ask((epoch, attempt): Exchange, place: FilePlace) -> Message {
    Message::AskPart { epoch, attempt, place }
}
