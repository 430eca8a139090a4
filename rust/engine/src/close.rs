//! Letting go of a store: the end of its threads and of everybody's waits, with or without a last word.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::GroupCommit;

use crate::held;
use crate::shared::Shared;
use crate::store::Store;

impl Store {
    /// Lets go of the store as a killed process does: nothing more is written, sealed or vouched
    /// for, what was queued is lost, and the lock is free. What the operating system has it keeps.
    ///
    /// # Errors
    /// `Closed` where it is closed already; `ForkedProcess`.
    pub fn abandon(&self) -> Result<()> {
        let shared = &self.shared;
        shared.guard.check()?;
        if shared.closing.swap(true, Ordering::SeqCst) {
            return Err(Error::Closed);
        }
        // Whoever commits finishes its batch, as a system call under way does; nobody begins another.
        drop(held(&shared.writer).take());
        self.shut_down(|_| {});
        Ok(())
    }

    /// Opens the store again, on the same files and clock and with the same options.
    ///
    /// # Errors
    /// As [`Self::open`]; `Locked` where this one was not let go of.
    pub fn reopen(&self) -> Result<Arc<Self>> {
        self.shared.guard.check()?;
        let storage = Arc::clone(&self.shared.storage);
        Self::open_on(storage, &self.path, self.shared.options.clone(), &mut |_| {})
    }

    /// Ends the threads and everybody's waits, does the last thing, and gives the lock back.
    pub(crate) fn shut_down(&self, last: impl FnOnce(&Shared)) {
        let shared = &self.shared;
        shared.stopping.store(true, Ordering::SeqCst);
        // Whoever waits for room hears now that there will be none.
        shared.with_commits(GroupCommit::close);
        for signal in [&shared.committer, &shared.driver, &shared.helper] {
            signal.raise();
        }
        for thread in std::mem::take(&mut *held(&self.threads)) {
            // A thread that died has poisoned the store, which is what the caller hears.
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
