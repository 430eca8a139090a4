//! Driving a store until it is idle, on the calling thread.

use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::units::Millis;

use crate::clock::consumer_presence::ConsumerState;
use crate::clock::timed_store::Timed;
use crate::shared::Shared;

/// How long to wait for the commit of another thread before this one checks again that the store still runs.
const COMMIT_WAIT: Duration = Duration::from_millis(20);

impl Shared {
    /// Drives the store until it is idle: due messages are dispatched, decisions and acknowledgements are in the log,
    /// and all of the log is applied. Returns true if there was anything to do.
    /// Fails with `Poisoned`, `Closed`, `ForkedProcess`; `DiskFull` if there is no room for a decision or an
    /// occurrence; the error of a step that failed.
    pub(crate) fn settle(&self) -> Result<bool> {
        let mut worked = false;
        loop {
            self.check()?;
            let room = self.room.count();
            let round = self.round(self.time.read())?;
            if let Some(error) = round.failed {
                return Err(error);
            }
            let accepted = self.with_commits(|commits| commits.next_sequence());
            self.lead(accepted);
            if !self.wait_visible(accepted, Some(COMMIT_WAIT))? {
                self.committer.raise();
                continue;
            }
            let did = round.applied || round.sent.is_some() || round.progress.more || round.progress.proposed > 0;
            worked |= did;
            if did {
                continue;
            }
            // An occurrence that is due is only in the state: without room for it there is still something to do.
            if !round.no_room && self.is_idle()? {
                return Ok(worked);
            }
            if self.with_commits(|commits| commits.is_disk_full()) {
                return Err(Error::DiskFull);
            }
            self.await_room(room);
        }
    }

    fn is_idle(&self) -> Result<bool> {
        let mut guard = self.lock_owner()?;
        let locked = guard.get()?;
        let applied = locked.owner.applied();
        Ok(locked.proposals.is_empty() && self.with_commits(|commits| commits.next_sequence() == applied))
    }
}

impl Timed for Shared {
    fn settle(&self) -> Result<bool> {
        self.settle()
    }

    fn next_due(&self) -> Result<Option<Millis>> {
        // While dispatch is held, nothing happens when a message is due.
        let is_held = self.time.read().held;
        let next_due = self.lock_owner()?.get()?.owner.next_due();
        Ok(next_due.filter(|_| !is_held).into_iter().chain(self.next_hold()).min())
    }

    fn is_recurring(&self) -> Result<bool> {
        Ok(!self.lock_owner()?.get()?.owner.state().recurring.is_empty())
    }

    fn consuming_threads(&self) -> usize {
        self.subscribers.consuming_threads()
    }

    fn consumer_state(&self, patience: Duration) -> ConsumerState {
        self.subscribers.consumer_state(patience)
    }

    fn raise_driver(&self) {
        self.driver.raise();
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping()
    }
}
