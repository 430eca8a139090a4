//! Doing all that there is to do at the present time, on the thread that wants it done.

use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::units::Millis;

use crate::shared::Shared;

/// How long to wait for somebody else's commit before looking again whether the store still runs.
const COMMIT_WAIT: Duration = Duration::from_millis(20);

impl Shared {
    /// Drives the store until it is idle: what is due is dispatched, what was decided or acknowledged
    /// is in the log, and all of the log is applied. True where there was anything to do.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`; `DiskFull` where there is no room for a decision, or for what recurs; what
    /// made a step fail.
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
            // What a series owes is nowhere but in the state: with no room for it there is something left to do.
            if !round.no_room && self.is_idle()? {
                return Ok(worked);
            }
            if self.with_commits(|commits| commits.is_disk_full()) {
                return Err(Error::DiskFull);
            }
            self.await_room(room);
        }
    }

    /// When the next pending message is due, or a little before.
    ///
    /// # Errors
    /// `Closed`, `Poisoned`.
    pub(crate) fn next_due(&self) -> Result<Option<Millis>> {
        Ok(self.lock_owner()?.get()?.owner.next_due())
    }

    fn is_idle(&self) -> Result<bool> {
        let mut guard = self.lock_owner()?;
        let locked = guard.get()?;
        let applied = locked.owner.applied();
        Ok(locked.proposals.is_empty() && self.with_commits(|commits| commits.next_sequence() == applied))
    }
}
