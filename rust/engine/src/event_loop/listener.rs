//! Listeners: each event loop that shares a store has its own, and what one loop waits for or drains is not taken from
//! another.

use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::units::{Millis, Sequence};

use crate::consume::subscription::Subscription;
use crate::event_loop::notifier::{Notifier, Wake, Wakeup};
use crate::shared::Shared;
use crate::store::Store;

/// The wake-ups of one event loop. Dropping it ends them.
pub struct Listener {
    shared: Arc<Shared>,
    notifier: Arc<Notifier>,
}

impl Store {
    /// From now on `wake` is called when there is something to drain, once until it is drained. The call is made under
    /// locks of the store: it must neither wait nor call the store.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn listener(&self, wake: Wake) -> Result<Listener> {
        self.shared.check()?;
        let notifier = Arc::new(Notifier::calling(wake));
        self.shared.notifiers.add(&notifier);
        Ok(Listener { shared: Arc::clone(&self.shared), notifier })
    }

    /// The store's trusted time, now.
    pub fn now(&self) -> Millis {
        self.shared.time.read().now
    }

    /// Checks that the store takes work, without waiting.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn check(&self) -> Result<()> {
        self.shared.check()
    }

    /// True in the process that opened the store, false in a forked child of it.
    pub fn is_here(&self) -> bool {
        self.shared.guard.is_here()
    }
}

impl Listener {
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
}

impl Listener {
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

impl Subscription {
    /// As [`Self::watch`], for an event loop with a listener: only that listener is woken.
    ///
    /// # Errors
    /// `ForkedProcess`.
    pub fn watch_by(&self, listener: &Listener, token: u64) -> Result<()> {
        self.shared.guard.check()?;
        self.member.belongs_to_this_loop();
        self.member.news.listen(Arc::clone(&listener.notifier), token);
        Ok(())
    }
}
