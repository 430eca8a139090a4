//! The snapshot that this node receives.

use std::sync::Arc;
use std::time::Instant;

use delaymq_core::error::Error;
use delaymq_core::message_log::Identity;
use delaymq_core::replication::{Message, NodeId, SnapshotOffer};
use delaymq_core::storage::Storage;
use delaymq_core::store::IncomingSnapshot;

use super::outgoing::Exchange;
use crate::incoming::Incoming;

/// See the module.
#[derive(Default)]
pub(crate) struct SnapshotFiles {
    pub(crate) files: Incoming<IncomingSnapshot>,
    is_checked: bool,
    /// Readers of this node's files are waited for, and that was reported.
    waits: bool,
}

impl SnapshotFiles {
    /// Begins to receive a snapshot, instead of an earlier one. Returns the message that asks for its first part. `None` if that
    /// was done before, or if a failure was a short time ago.
    ///
    /// # Errors
    /// As [`IncomingSnapshot::begin`].
    pub(crate) fn begin(
        &mut self,
        storage: &Arc<dyn Storage>,
        source: (NodeId, Exchange),
        offer: SnapshotOffer,
        now: Instant,
    ) -> Result<Option<Message>, Error> {
        let is_known = self
            .received()
            .is_some_and(|(from, exchange, known)| ((from, exchange), known.number) == (source, offer.number));
        if is_known || self.files.is_paused(now) {
            return Ok(None);
        }
        (self.is_checked, self.waits) = (false, false);
        self.files.begin(source, || IncomingSnapshot::begin(Arc::clone(storage), offer), now)
    }

    /// The primary, the exchange and the offer of the snapshot that is received.
    pub(crate) fn received(&self) -> Option<(NodeId, Exchange, &SnapshotOffer)> {
        self.files.receiving().map(|known| (known.from, known.exchange, known.of.offer()))
    }

    /// True if everything has come. The snapshot is checked then, once.
    ///
    /// # Errors
    /// As [`IncomingSnapshot::check`]. The snapshot is gone then.
    pub(crate) fn is_whole(&mut self, identity: &Identity, now: Instant) -> Result<bool, Error> {
        if !self.files.is_whole() {
            return Ok(false);
        }
        if let Some(known) = self.files.receiving().filter(|_| !self.is_checked) {
            known.of.check(identity).inspect_err(|_| self.files.fail(now))?;
            self.is_checked = true;
        }
        Ok(true)
    }

    /// Notes that a whole snapshot waits for the readers of this node. True if it has just begun to wait.
    pub(crate) fn waits(&mut self) -> bool {
        !std::mem::replace(&mut self.waits, true)
    }
}
