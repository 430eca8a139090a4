//! A store as its clock sees it: the work that a clock turned by hand does and waits for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::units::Millis;

use crate::clock::consumer_presence::ConsumerState;

/// A store on a clock.
pub(crate) trait Timed: Send + Sync {
    /// Does all that is due on the calling thread. Returns true if there was anything to do.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`; `DiskFull` if there is no room for a decision or an occurrence; the error
    /// of a step that failed.
    fn settle(&self) -> Result<bool>;

    /// When the next pending message is due, or a little before, but not while dispatch is held; or when a consumer has
    /// had a message for too long.
    fn next_due(&self) -> Result<Option<Millis>>;

    /// True if there is any active series.
    fn is_recurring(&self) -> Result<bool>;

    /// Number of threads that asked for messages.
    fn consuming_threads(&self) -> usize;

    /// Whether the other threads that consume have seen everything. A thread that does nothing for as long as
    /// `patience` does not count.
    fn consumer_state(&self, patience: Duration) -> ConsumerState;

    /// Wakes the driver, since the clock went on.
    fn raise_driver(&self);

    fn is_stopping(&self) -> bool;
}

/// A store on a clock. The handle keeps the store neither open nor alive.
#[derive(Clone)]
pub struct TimedStore(Weak<dyn Timed>);

impl TimedStore {
    pub(crate) fn new(store: &Arc<impl Timed + 'static>) -> Self {
        let store: Weak<_> = Arc::downgrade(store);
        Self(store)
    }

    /// The store, while it is open.
    pub(crate) fn open(&self) -> Option<Arc<dyn Timed>> {
        self.0.upgrade().filter(|store| !store.is_stopping())
    }

    /// True once the store is dropped.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}
