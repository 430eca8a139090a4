//! The batches that a machine has written, and its log as the disk has it.

use delaymq_core::error::Result;
use delaymq_core::replication::LogView;
use delaymq_core::store::Follower;
use delaymq_core::units::Sequence;

use super::super::machine::Mark;
use super::opening::{batches_of, open};
use super::{Role, StoreMachine};
use crate::node::AppliedBatch;

impl StoreMachine {
    /// Notes the batches of a log with this end, of these which stand one after the other.
    pub(super) fn note_written(&mut self, bytes: &[u8], end: Sequence) {
        for batch in batches_of(bytes) {
            if batch.end() > self.marks.end() && batch.end() <= end {
                // No user waits for the first batch of an epoch.
                let is_awaited = self.batches.last().is_some_and(|last| last.header.epoch == batch.header.epoch);
                self.marks.push(Mark { end: batch.end(), chain: batch.header.chain.get(), is_awaited });
                self.batches.push(batch);
            }
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

    /// All batches of the log, as they are on the disk.
    pub(super) fn whole_log(&self) -> Result<Vec<AppliedBatch>> {
        let bytes = match &self.role {
            Role::Down => Vec::new(),
            Role::Following(follower) => follower.ship(Sequence(1), usize::MAX)?,
            Role::Leading(node) => node.ship(Sequence(1), usize::MAX)?,
        };
        Ok(batches_of(&bytes))
    }

    /// Opens the log as a process that starts does.
    pub(super) fn follow_from_disk(&mut self) {
        self.role = Role::Down;
        match open(&self.disk, false) {
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
