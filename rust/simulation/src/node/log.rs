//! The way of facts: submitted, written, synced, visible, applied.

use std::ops::Range;

use delaymq_core::error::Result;
use delaymq_core::message_log::{AppendMarks, Class, Durability, Submission, Submitted};
use delaymq_core::planted::{self, Planted};
use delaymq_core::record::batch::{BATCH_HEADER_BYTES, BatchHeader};
use delaymq_core::store::{Budget, Outcome, Progress, VisibleBatch};
use delaymq_core::units::{GroupNumber, Location, Sequence};

use super::Node;

/// A batch that is in the log and not yet applied.
pub(super) struct Written {
    header: BatchHeader,
    start: Location,
    end: Sequence,
    bytes: Vec<u8>,
}

/// A batch that was applied.
#[derive(Clone, Debug)]
pub struct AppliedBatch {
    /// Its header.
    pub header: BatchHeader,
    /// Where its header starts.
    pub start: Location,
    /// Header and records.
    pub bytes: Vec<u8>,
}

impl AppliedBatch {
    /// The batch as an owner takes it.
    pub fn visible(&self) -> VisibleBatch<'_> {
        let records = self.bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default();
        VisibleBatch { header: self.header, start: self.start, records }
    }
}

/// What a proposal is, to whoever wants to know its sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Label {
    /// A ready fact, decided when everything below this sequence was applied.
    Ready {
        /// The next sequence to apply at that moment.
        applied: Sequence,
    },
    /// Something that somebody asked for, under a number of theirs.
    Asked(u64),
    /// Anything else.
    Other,
}

/// A proposal that the log's queue has accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentFact {
    /// What it is.
    pub label: Label,
    /// Its sequences.
    pub sequences: Range<Sequence>,
}

impl Node {
    /// Queues records. `None` where they must wait for room.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `DiskFull`, `TooLarge`.
    pub fn submit(
        &mut self,
        records: &[u8],
        record_count: u32,
        class: Class,
        must_sync: bool,
    ) -> Result<Option<Range<Sequence>>> {
        match self.commits.submit(Submission { records, record_count, adopts: 0, class, must_sync })? {
            Submitted::Accepted(range) => Ok(Some(range)),
            Submitted::NeedRoom | Submitted::QueueFull => {
                self.awaited_bytes = records.len() as u64;
                Ok(None)
            }
        }
    }

    /// Names the proposals that were made since the last call.
    pub(super) fn label(&mut self, label: Label) {
        while self.labels.len() < self.proposals.len() {
            self.labels.push_back(label);
        }
    }

    /// Queues the owner's proposals, in order. What finds no room stays for the next time. True
    /// where all were accepted.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn send(&mut self) -> Result<bool> {
        for (proposal, label) in self.proposals.iter().zip(&self.labels).skip(self.accepted) {
            let submission = Submission {
                records: proposal.records,
                record_count: proposal.record_count,
                adopts: 0,
                class: Class::Finishing,
                must_sync: proposal.must_sync,
            };
            match self.commits.submit(submission)? {
                Submitted::Accepted(sequences) => self.sent.push(SentFact { label: *label, sequences }),
                Submitted::NeedRoom | Submitted::QueueFull => {
                    self.awaited_bytes = proposal.records.len() as u64;
                    return Ok(false);
                }
            }
            self.accepted = self.accepted.saturating_add(1);
        }
        self.proposals.clear();
        self.labels.clear();
        self.accepted = 0;
        Ok(true)
    }

    /// The proposals that were accepted since the last call.
    pub fn take_sent(&mut self) -> Vec<SentFact> {
        std::mem::take(&mut self.sent)
    }

    /// How many proposals wait for room.
    pub fn unsent(&self) -> usize {
        self.proposals.len().saturating_sub(self.accepted)
    }

    /// Writes one batch, without syncing it; `None` where nothing is queued. `Some(true)` where it
    /// must be synced before anything in it is visible.
    ///
    /// # Errors
    /// Those of the storage; the store is poisoned then.
    pub fn write_batch(&mut self) -> Result<Option<bool>> {
        let Some(mut commit) = self.commits.take() else { return Ok(None) };
        let marks = AppendMarks {
            record_count: commit.record_count,
            trusted: self.reading.now,
            held: self.reading.held,
            committed: commit.committed,
            durability: self.options.durability,
        };
        let appended = match self.appender.append(&mut commit.bytes, &marks) {
            Ok(appended) => appended,
            Err(error) => {
                self.commits.failed(&error.to_string());
                return Err(error);
            }
        };
        self.unreleased.push_back(Written {
            header: appended.header,
            start: appended.start,
            end: appended.end.sequence,
            bytes: commit.bytes,
        });
        self.commits.written(appended.end);
        self.commits.synced(appended.synced);
        self.commits.room(self.appender.tail_room(), self.appender.stock_rooms());
        self.release();
        Ok(Some(commit.must_sync))
    }

    /// Makes everything durable that was written.
    ///
    /// # Errors
    /// Those of the storage; the store is poisoned then.
    pub fn sync(&mut self) -> Result<()> {
        match self.appender.sync() {
            Ok(mark) => {
                self.commits.synced(mark);
                self.release();
                Ok(())
            }
            Err(error) => {
                self.commits.failed(&error.to_string());
                Err(error)
            }
        }
    }

    /// Writes everything that is queued, syncing where it must.
    ///
    /// # Errors
    /// Those of the storage; the store is poisoned then.
    pub fn commit(&mut self) -> Result<()> {
        while let Some(must_sync) = self.write_batch()? {
            if must_sync {
                self.sync()?;
            }
        }
        Ok(())
    }

    /// Vouches for the end of an idle log. True where a witness was written.
    ///
    /// # Errors
    /// Those of the storage; the store is poisoned then.
    pub fn witness(&mut self) -> Result<bool> {
        if !self.commits.is_idle() {
            return Ok(false);
        }
        let visible = self.commits.visible().location;
        let written = match self.appender.append_witness(self.reading.now, self.reading.held, visible) {
            Ok(written) => written,
            Err(error) => {
                self.commits.failed(&error.to_string());
                return Err(error);
            }
        };
        self.commits.synced(self.appender.synced());
        self.commits.room(self.appender.tail_room(), self.appender.stock_rooms());
        self.release();
        Ok(written)
    }

    /// Lets go what is visible. The planted fault lets go what is only written.
    fn release(&mut self) {
        let hasty = planted::is_on(Planted::ReadyVisibleBeforeDurable);
        let visible = if hasty { self.commits.written_mark() } else { self.commits.visible() };
        while let Some(front) = self.unreleased.pop_front() {
            if front.end > visible.sequence {
                self.unreleased.push_front(front);
                return;
            }
            self.inbox.push_back(front);
        }
    }

    /// Batches that are visible and wait to be applied.
    pub fn waiting(&self) -> usize {
        self.inbox.len()
    }

    /// Applies up to so many visible batches, in order. Returns how many.
    ///
    /// # Errors
    /// What the owner gives; the store must not go on then.
    pub fn apply(&mut self, batches_max: usize) -> Result<usize> {
        let mut applied = 0;
        while applied < batches_max {
            let Some(written) = self.inbox.pop_front() else { break };
            let batch = AppliedBatch { header: written.header, start: written.start, bytes: written.bytes };
            if let Err(error) = self.owner.apply(&batch.visible()) {
                self.commits.failed(&error.to_string());
                return Err(error);
            }
            self.outcomes.extend(self.owner.take_outcomes());
            self.woken.extend(self.owner.take_woken());
            self.applied.push(batch);
            applied += 1;
        }
        Ok(applied)
    }

    /// The batches that were applied since the last call.
    pub fn take_applied(&mut self) -> Vec<AppliedBatch> {
        std::mem::take(&mut self.applied)
    }

    /// What became of a fact that somebody asked about, once it is applied.
    pub fn take_outcome(&mut self, sequence: Sequence) -> Option<Outcome> {
        self.outcomes.remove(&sequence)
    }

    /// The groups that have something new since the last call.
    pub fn take_woken(&mut self) -> Vec<GroupNumber> {
        std::mem::take(&mut self.woken).into_iter().collect()
    }

    /// Lets the owner decide what is due.
    ///
    /// # Errors
    /// What reading a run gives, which may pass; as [`Self::submit`].
    pub fn step(&mut self, entries: usize) -> Result<Progress> {
        let applied = self.owner.applied();
        let stepped = self.owner.step(self.reading, Budget { entries }, &mut self.proposals);
        self.label(Label::Ready { applied });
        self.send()?;
        stepped
    }

    /// True where an answer does not wait for the disk.
    pub fn is_os(&self) -> bool {
        self.options.durability == Durability::Os
    }
}
