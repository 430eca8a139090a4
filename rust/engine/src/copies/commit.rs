//! Batches become visible once the copies have them. With the first fact of the epoch, the store begins to decide.

use std::sync::atomic::Ordering;

use delaymq_core::error::Result;
use delaymq_core::message_log::GroupCommit;
use delaymq_core::units::Sequence;

use crate::commit::inbox::{BACKLOG_BYTES, CommitUrgency, WakeReason};
use crate::copies::state::CopyCount;
use crate::drive::driver::LockedOwner;
use crate::shared::Shared;
use crate::store::Store;

impl Store {
    /// Notes that everything before `end`, which is durable here, is committed on so many copies. It waits for no sync. The
    /// first call behind the first fact of the epoch applies everything up to there.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`; `InvalidArgument` for a store alone.
    pub fn commit(&self, end: Sequence, count: CopyCount) -> Result<()> {
        let (shared, copies) = (&self.shared, self.copies()?);
        shared.guard.check()?;
        shared.check_poison()?;
        copies.note_committed(end, count);
        shared.make_visible(end);
        if shared.has_begun() || shared.positions.visible() < copies.begun_at() {
            return Ok(());
        }
        shared.apply_until(copies.begun_at())?;
        let mut guard = shared.lock_owner()?;
        let begun = shared.begin_deciding(guard.get()?);
        drop(guard);
        begun.inspect_err(|error| shared.fail(error))?;
        copies.has_begun.store(true, Ordering::SeqCst);
        shared.committer.raise();
        shared.driver.raise();
        Ok(())
    }

    /// True once the first fact of the epoch is committed and applied: the store decides from then on. A store alone always
    /// does.
    pub fn has_begun(&self) -> bool {
        self.shared.has_begun()
    }
}

impl Shared {
    /// Everything before `end` is committed. This thread is the node's: it applies nothing itself, and leaves that to the
    /// driver.
    fn make_visible(&self, end: Sequence) {
        let visible = self.with_commits(|commits| {
            commits.committed(end);
            commits.visible().sequence
        });
        let wake_reason = self.release(visible);
        self.positions.advance(visible);
        self.room.notify_all();
        if wake_reason > WakeReason::None {
            self.driver.raise();
        }
    }

    /// Once the first fact of the epoch is applied: names are those of the whole log, and the facts are proposed that
    /// follow from the end of the last process.
    pub(crate) fn begin_deciding(&self, locked: &mut LockedOwner) -> Result<()> {
        let LockedOwner { owner, proposals, .. } = locked;
        owner.end_passing_consumers(proposals);
        self.names.renew(&owner.state().subjects);
        drop(self.receipts.set(owner.receipt_book()));
        self.send(locked, CommitUrgency::URGENT).map(drop)
    }

    /// True if a store that leads has so much that the copies do not have, or that is not applied, that publishes wait.
    pub(crate) fn is_ahead_of_copies(&self) -> bool {
        self.copies.is_some()
            && (self.unreleased_bytes.load(Ordering::Relaxed) > BACKLOG_BYTES || self.inbox.bytes() > BACKLOG_BYTES)
    }

    /// True if this thread has done all that it can for what is queued below `until`: it is visible, or it is written and
    /// the copies are awaited.
    pub(crate) fn is_led(&self, until: Sequence) -> bool {
        self.is_visible(until)
            || (self.copies.is_some()
                && self.with_commits(|commits: &mut GroupCommit| commits.written_mark().sequence >= until))
    }
}
