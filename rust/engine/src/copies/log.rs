//! The log of a store that leads, as the protocol and the other nodes look at it, and what its disk has to do. No look waits for
//! the disk.

use std::sync::atomic::Ordering;

use delaymq_core::message_log::GroupCommit;
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

/// The work of the disk of a store that leads: to be done, and done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskWork {
    /// A fact waits until it is written and durable, or a publish waits for a segment.
    pub is_awaited: bool,
    /// The end of the durable log, and the pieces of segments that were prepared: one of them changes unless the disk hangs.
    pub done: (Sequence, u64),
}

impl Store {
    /// The work of the disk at this moment.
    pub fn disk_work(&self) -> DiskWork {
        let (shared, durable) = (&self.shared, self.durable());
        let background = &shared.background;
        let waits_for_segment = background.hungry_bytes.load(Ordering::Relaxed) > 0;
        let is_awaited =
            waits_for_segment || shared.with_commits(|commits: &mut GroupCommit| commits.next_sequence()) > durable;
        DiskWork { is_awaited, done: (durable, background.prepared_pieces.load(Ordering::Relaxed)) }
    }
}
