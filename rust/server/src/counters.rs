//! What a server counts. All of it on one thread.

use std::cell::Cell;

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(Cell<u64>);

impl Counter {
    pub(crate) fn add(&self, by: u64) {
        self.0.set(self.0.get().wrapping_add(by));
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.get()
    }
}

/// The counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Connections taken.
    pub(crate) accepted: Counter,
    /// Connections closed at once, for want of room.
    pub(crate) refused: Counter,
    /// Connections closed because of what their peers sent, or because they were too slow.
    pub(crate) cut_off: Counter,
    /// Requests.
    pub(crate) requests: Counter,
    /// Requests that were told that too much is under way.
    pub(crate) busy: Counter,
    /// Bytes read.
    pub(crate) bytes_in: Counter,
    /// Bytes written.
    pub(crate) bytes_out: Counter,
    /// Messages sent to subscriptions.
    pub(crate) delivered: Counter,
}
