//! The files of loads that this node receives. It receives those of one load at a time.

use std::sync::Arc;
use std::time::Instant;

use delaymq_core::error::Error;
use delaymq_core::replication::{FilePart, LoadMessage, Message, NodeId};
use delaymq_core::run::StagedRun;
use delaymq_core::storage::Storage;
use delaymq_core::store::{IncomingFiles, receive_load};

use crate::incoming::Incoming;
use crate::snapshot::outgoing::Exchange;

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
pub(crate) struct LoadFiles {
    pub(crate) files: Incoming<IncomingFiles>,
    /// Why files were received last.
    purpose: Option<Purpose>,
}

impl LoadFiles {
    /// Begins to receive those of these files that are not here. Returns the message that asks for the first part, or that says that all
    /// are here. `None` if others are received, or if a failure was a short time ago. A batch comes before an offer, which is made again.
    ///
    /// # Errors
    /// As [`receive_load`].
    pub(crate) fn begin(
        &mut self,
        storage: &Arc<dyn Storage>,
        source: (NodeId, Exchange),
        (purpose, runs): (Purpose, &[StagedRun]),
        now: Instant,
    ) -> Result<Option<Message>, Error> {
        let is_first = purpose == Purpose::Batch && self.purpose != Some(Purpose::Batch);
        let is_busy = self.files.receiving().is_some_and(|known| (known.from, known.exchange) == source && !is_first);
        if is_busy || self.files.is_paused(now) {
            return Ok(None);
        }
        self.purpose = Some(purpose);
        let ask = self.files.begin(source, || receive_load(Arc::clone(storage), runs), now)?;
        Ok(ask.or_else(|| self.held().map(|(_, held)| held)))
    }

    /// Writes a part. Returns the message that says that all files are here, after the last part of an offer.
    ///
    /// # Errors
    /// As [`Incoming::take`].
    pub(crate) fn take(&mut self, part: &FilePart, now: Instant) -> Result<Option<(NodeId, Message)>, Error> {
        self.files.take(part, now)?;
        Ok(self.held())
    }

    /// True if a batch waits for its files: it need not come before they are here.
    pub(crate) fn is_awaited(&self, now: Instant) -> bool {
        self.purpose == Some(Purpose::Batch) && (self.files.receiving().is_some() || self.files.is_paused(now))
    }

    /// Receives nothing that is not of this exchange.
    pub(crate) fn keep(&mut self, followed: Option<(NodeId, Exchange)>) {
        if self.files.receiving().is_some_and(|known| followed != Some((known.from, known.exchange))) {
            self.files.discard();
        }
    }

    /// The message to the primary, if all files that it has offered are here.
    fn held(&mut self) -> Option<(NodeId, Message)> {
        let whole = self.files.take_whole()?;
        let Some(Purpose::Offer(number)) = self.purpose else { return None };
        let (epoch, attempt) = whole.exchange;
        Some((whole.from, Message::Load { epoch, attempt, message: LoadMessage::Held { number } }))
    }
}
