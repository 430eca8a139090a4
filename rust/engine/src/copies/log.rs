//! The log of a store that leads, as the protocol and the other nodes look at it. It has a mutex of its own, so that no look
//! waits for a sync.

use delaymq_core::message_log::{Appended, Mark};
use delaymq_core::replication::{History, LogView};
use delaymq_core::store::LogEnds;
use delaymq_core::units::Sequence;

use crate::copies::Copies;
use crate::held;
use crate::store::Store;

/// How far the log is written and durable.
pub(crate) struct WrittenLog {
    pub(crate) ends: LogEnds,
    /// The end of what is written: batches before it may be read.
    pub(crate) written: Mark,
}

impl Copies {
    /// A batch was written, and not synced. The other nodes may have it from now on.
    pub(crate) fn appended(&self, appended: &Appended) {
        {
            let mut log = held(&self.log);
            log.ends.appended(&appended.header);
            log.ends.synced(appended.synced.sequence);
            log.written = appended.end;
        }
        self.tell();
    }

    /// Everything before this sequence is durable, and group commit knows of it: what the node commits then is found there.
    pub(crate) fn synced(&self, durable: Sequence) {
        {
            let mut log = held(&self.log);
            if durable <= log.ends.durable() {
                return;
            }
            log.ends.synced(durable);
        }
        self.tell();
    }

    /// The end of what is written.
    pub(crate) fn written(&self) -> Mark {
        held(&self.log).written
    }
}

/// The log of a store that leads. That of a store alone is empty: no other node has a part of it.
impl LogView for Store {
    fn history(&self) -> History {
        let copies = self.shared.copies.as_ref();
        copies.map_or_else(History::default, |copies| held(&copies.log).ends.history())
    }

    fn end(&self) -> Sequence {
        self.shared.copies.as_ref().map_or(Sequence(1), |copies| held(&copies.log).ends.end())
    }

    fn durable(&self) -> Sequence {
        self.shared.copies.as_ref().map_or(Sequence(1), |copies| held(&copies.log).ends.durable())
    }
}
