//! Listeners: each event loop that shares a store has its own, and what one loop waits for or drains is not taken from
//! another.

use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::units::Sequence;

use crate::event_loop::notifier::{Notifier, Wake, Wakeup};
use crate::shared::Shared;

/// The wake-ups of one event loop. Dropping it ends them.
pub struct Listener {
    shared: Arc<Shared>,
    notifier: Arc<Notifier>,
}

impl Listener {
    pub(crate) fn new(shared: &Arc<Shared>, wake: Wake) -> Self {
        let notifier = Arc::new(Notifier::calling(wake));
        shared.notifiers.add(&notifier);
        Self { shared: Arc::clone(shared), notifier }
    }

    /// What happened since the last call, and how far the log is visible.
    ///
    /// # Errors
    /// `ForkedProcess`: the parent loses no wake-up.
    pub fn drain(&self) -> Result<(Wakeup, Sequence)> {
        self.shared.guard.check()?;
        let wakeup = self.notifier.drain();
        Ok((wakeup, self.shared.positions.visible()))
    }

    /// Everything below this is visible.
    pub fn visible(&self) -> Sequence {
        self.shared.positions.visible()
    }

    /// True if everything below `position` is visible; otherwise the listener is woken when it is.
    /// Only the last position asked for counts, so ask for the smallest.
    ///
    /// # Errors
    /// `Poisoned`, `Closed` if it never will be; `ForkedProcess`.
    pub fn want(&self, position: Sequence) -> Result<bool> {
        self.shared.guard.check()?;
        self.notifier.want(position);
        self.shared.wait_visible(position, Some(Duration::ZERO))
    }

    pub(crate) fn notifier(&self) -> Arc<Notifier> {
        Arc::clone(&self.notifier)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.shared.guard.is_here() {
            self.shared.notifiers.remove(&self.notifier);
        }
    }
}
