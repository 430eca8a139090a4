//! How long a client may have a message before it settles it, and what follows of that for its messages.

use std::collections::BTreeMap;

/// The limit, and what the client knows of its messages because of it.
#[derive(Debug, Default)]
pub(super) struct Limit {
    pub(super) within_ms: Option<u64>,
    /// When each message that it holds must be settled, and each that waits must be taken, by its clock.
    pub(super) ends: BTreeMap<u128, u64>,
    /// Messages of this connection that it had for too long.
    pub(super) late: Vec<u128>,
}

impl Limit {
    pub(super) fn new(within_ms: Option<u64>) -> Self {
        Self { within_ms, ..Self::default() }
    }

    /// A message arrives, or is taken.
    pub(super) fn begin(&mut self, key: u128, now_ms: u64) {
        if let Some(within_ms) = self.within_ms {
            self.ends.insert(key, now_ms.saturating_add(within_ms));
        }
    }

    /// It holds nothing any more.
    pub(super) fn end(&mut self) {
        self.ends.clear();
        self.late.clear();
    }
}
