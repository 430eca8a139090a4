//! The batches that a machine has written, and its log as the disk has it.

use delaymq_core::error::{Error, Result};
use delaymq_core::replication::LogView;
use delaymq_core::store::Follower;
use delaymq_core::units::Sequence;

use super::super::machine::Mark;
use super::opening::{batches_of, open};
use super::upkeep::Upkeep;
use super::{Role, StoreMachine};
use crate::node::AppliedBatch;

impl StoreMachine {
    /// Notes the batches of a log with this end, of these which stand one after the other.
    pub(super) fn note_written(&mut self, bytes: &[u8], end: Sequence) {
        self.note_batches(batches_of(bytes), end);
    }

    fn note_batches(&mut self, batches: Vec<AppliedBatch>, end: Sequence) {
        for batch in batches {
            if batch.end() > self.marks.end() && batch.end() <= end {
                // No user waits for the first batch of an epoch.
                let is_awaited = self.batches.last().is_some_and(|last| last.header.epoch == batch.header.epoch);
                self.marks.push(Mark { end: batch.end(), chain: batch.header.chain.get(), is_awaited });
                self.batches.push(batch);
            }
        }
    }

    /// Notes the batches of a snapshot that has taken the place of the log. Its own log may begin later than the former one has ended.
    fn note_snapshot(&mut self, end: Sequence, chain: u32) {
        let was = (self.marks.end(), self.marks.chain_at(self.marks.end()).unwrap_or_default());
        let has = |place: (Sequence, u32)| {
            place == (Sequence(1), 0)
                || self.received.iter().any(|batch| (batch.end(), batch.header.chain.get()) == place)
        };
        if has(was) && has((end, chain)) {
            let received = std::mem::take(&mut self.received);
            self.note_batches(received, end);
        }
    }

    /// Notes the batches that this machine has written itself.
    pub(super) fn note_own(&mut self) {
        if let Role::Leading(node) = &self.role {
            let (written, end) = (node.ship(self.marks.end(), usize::MAX), node.ends().end());
            match written {
                Ok(bytes) => self.note_written(&bytes, end),
                Err(error) => self.fail("what was written cannot be read", &error),
            }
        }
    }

    /// The batches of the log that are on the disk: all, or those from a place on.
    fn kept_log(&self) -> Result<Vec<AppliedBatch>> {
        let read = |first| match &self.role {
            Role::Down => Err(Error::Closed),
            Role::Following(follower) => follower.ship(first, usize::MAX),
            Role::Leading(node) => node.ship(first, usize::MAX),
        };
        let bytes = match read(Sequence(1)) {
            Err(Error::NotKept { first, .. }) if self.retention => read(Sequence(first)),
            other => other,
        }?;
        Ok(batches_of(&bytes))
    }

    /// How many of the batches that the machine has written are not in its log any more.
    pub(super) fn removed(&self) -> u64 {
        let (written, kept) = (self.batches.len(), self.kept_log().map_or(0, |kept| kept.len()));
        if kept > 0 { written.saturating_sub(kept) as u64 } else { 0 }
    }

    /// The log on the disk has the same bytes as these batches, and its end is that of all of them. Without retention it has all of them.
    pub(super) fn has_log_of(&self, batches: &[AppliedBatch]) -> Result<bool> {
        let kept = self.kept_log()?;
        let Some(removed) = batches.len().checked_sub(kept.len()) else { return Ok(false) };
        let pairs = || batches.iter().skip(removed).zip(&kept);
        let is_same = |(one, other): (&AppliedBatch, &AppliedBatch)| {
            (one.header.base_sequence, one.visible().records) == (other.header.base_sequence, other.visible().records)
        };
        Ok(pairs().all(is_same) && (removed == 0 || self.retention))
    }

    /// Opens the log as a process that starts does.
    pub(super) fn follow_from_disk(&mut self) {
        (self.role, self.upkeep) = (Role::Down, Upkeep::default());
        match open(&self.disk, false, self.retention) {
            Ok(follower) => {
                let noted = self.cut_marks(&follower);
                self.role = Role::Following(Box::new(follower));
                self.is_well("the log cannot be read", noted);
            }
            Err(error) => self.fail("the copy cannot be opened", &error),
        }
    }

    /// A log on disk is a beginning of the log that was written, or has a batch more if the machine ended while it wrote.
    pub(super) fn cut_marks(&mut self, follower: &Follower) -> Result<()> {
        let (end, chain) = (follower.ends().end(), follower.ends().history().end.chain);
        if end > self.marks.end() {
            self.note_snapshot(end, chain);
            let bytes = follower.ship(self.marks.end(), usize::MAX)?;
            self.note_written(&bytes, end);
        }
        if self.marks.chain_at(end) != Some(chain) {
            self.violations.push(format!("the disk has another log, which ends before {end}"));
        }
        self.marks.cut(end);
        self.batches.retain(|batch| batch.end() <= end);
        Ok(())
    }
}
