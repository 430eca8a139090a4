//! The log of a store that leads, as the protocol and the other nodes look at it. It has a mutex of its own, so that no look
//! waits for a sync.

use delaymq_core::replication::{History, LogView};
use delaymq_core::units::Sequence;

use crate::held;
use crate::store::Store;

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
