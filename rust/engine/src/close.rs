//! The end of an open store: of its threads and of all waits, with a sealed log or, as `kill -9` does it, without.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::GroupCommit;

use crate::held;
use crate::shared::Shared;
use crate::store::Store;

impl Store {
    /// Ends the store as `kill -9` does: nothing more is written, sealed or vouched for, the queue is lost, and the
    /// lock is released. The operating system keeps what it has.
    ///
    /// # Errors
    /// `Closed` if it is closed already; `ForkedProcess`.
    pub fn abandon(&self) -> Result<()> {
        let shared = &self.shared;
        shared.guard.check()?;
        if shared.closing.swap(true, Ordering::SeqCst) {
            return Err(Error::Closed);
        }
        // A committing thread finishes its batch, as a system call under way does; no thread begins another.
        drop(held(&shared.writer).take());
        self.shut_down(|_| {});
        Ok(())
    }

    /// Opens the store again, with the same files, clock and options.
    ///
    /// # Errors
    /// As [`Self::open`]; `Locked` if this one is still open.
    pub fn reopen(&self) -> Result<Arc<Self>> {
        self.shared.guard.check()?;
        let storage = Arc::clone(&self.shared.storage);
        Self::open_on(storage, &self.path, self.shared.options.clone(), &mut |_| {})
    }

    /// Ends the threads and all waits, calls `last`, and releases the lock.
    pub(crate) fn shut_down(&self, last: impl FnOnce(&Shared)) {
        let shared = &self.shared;
        shared.stopping.store(true, Ordering::SeqCst);
        // Publishes that wait for room hear that there will be none.
        shared.with_commits(GroupCommit::close);
        for signal in [&shared.committer, &shared.driver, &shared.helper] {
            signal.raise();
        }
        for thread in std::mem::take(&mut *held(&self.threads)) {
            // A thread that died has poisoned the store, and the caller hears that.
            drop(thread.join());
        }
        drop(held(&shared.writer).take());
        drop(held(&shared.owner_lock).take());
        shared.positions.end();
        shared.room.notify_all();
        shared.subscribers.notify_all();
        shared.named.clear();
        self.closed.store(true, Ordering::SeqCst);
        shared.reports.wake();
        last(shared);
        drop(held(&self.lock).take());
    }
}
