//! The way of facts: submitted, written, synced, visible, applied.

use std::ops::Range;

use delaymq_core::error::Result;
use delaymq_core::message_log::{AppendMarks, Class, Submission, Submitted};
use delaymq_core::planted::{self, Planted};
use delaymq_core::record::batch::{BATCH_HEADER_BYTES, BatchHeader};
use delaymq_core::store::{Budget, Outcome, Progress, VisibleBatch};
use delaymq_core::units::{GroupNumber, Location, Sequence};

use super::Node;

/// A batch of the log.
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
    /// The sequence behind its last record.
    pub fn end(&self) -> Sequence {
        self.header.next_sequence()
    }

    /// The batch as an owner takes it.
    pub fn visible(&self) -> VisibleBatch<'_> {
        let records = self.bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default();
        VisibleBatch { header: self.header, start: self.start, records }
    }
}

/// The kind of a proposal, for a caller that needs its sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Label {
    /// A ready fact, decided when everything below this sequence was applied.
    Ready {
        /// The next sequence to apply at that moment.
        applied: Sequence,
    },
    /// A request of the caller, under the caller's number.
    Asked(u64),
    /// Anything else.
    Other,
}

/// A proposal that the log's queue has accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentFact {
    /// Its kind.
    pub label: Label,
    /// Its sequences.
    pub sequences: Range<Sequence>,
}

impl Node {
    /// Queues records. `None` if they must wait for room. `Poisoned`, `Closed`, `DiskFull` and `TooLarge` are its
    /// errors.
    pub fn submit(
        &mut self,
        records: &[u8],
        record_count: u32,
        class: Class,
        must_sync: bool,
    ) -> Result<Option<Range<Sequence>>> {
        self.queue(Submission { records, record_count, adopts: 0, class, must_sync })
    }

    /// As [`Self::submit`]. A submission that must wait makes the next prepared segment large enough for it.
    pub(super) fn queue(&mut self, submission: Submission<'_>) -> Result<Option<Range<Sequence>>> {
        match self.commits.submit(submission)? {
            Submitted::Accepted(range) => Ok(Some(range)),
            Submitted::NeedRoom | Submitted::QueueFull => {
                self.awaited_bytes = submission.records.len() as u64;
                Ok(None)
            }
        }
    }

    /// Labels the proposals that were made since the last call.
    pub(super) fn label(&mut self, label: Label) {
        while self.labels.len() < self.proposals.len() {
            self.labels.push_back(label);
        }
    }

    /// Queues the owner's proposals, in order. True if all were accepted. Proposals that find no room stay for the next
    /// call.
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

    /// Writes one batch, without syncing it; `None` if nothing is queued. `Some(true)` if the batch must be synced
    /// before it is visible. An error poisons the store.
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
        self.ends.appended(&appended.header);
        self.ends.synced(appended.synced.sequence);
        let batch = AppliedBatch { header: appended.header, start: appended.start, bytes: commit.bytes };
        self.unreleased.push_back(batch);
        self.commits.written(appended.end);
        self.commits.synced(appended.synced);
        self.commits.room(self.appender.tail_room(), self.appender.stock_rooms());
        self.release();
        Ok(Some(commit.must_sync))
    }

    /// Syncs everything that was written. An error poisons the store.
    pub fn sync(&mut self) -> Result<()> {
        match self.appender.sync() {
            Ok(mark) => {
                self.ends.synced(mark.sequence);
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

    /// Writes everything that is queued, and syncs the batches that must be. An error poisons the store.
    pub fn commit(&mut self) -> Result<()> {
        while let Some(must_sync) = self.write_batch()? {
            if must_sync {
                self.sync()?;
            }
        }
        Ok(())
    }

    /// Writes a witness if the log is idle and has none yet. True if it was written. An error poisons the store.
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

    /// Hands visible batches on to `apply`. The planted fault also hands on batches that are only written.
    pub(super) fn release(&mut self) {
        let hasty = planted::is_on(Planted::ReadyVisibleBeforeDurable);
        let visible = if hasty { self.commits.written_mark() } else { self.commits.visible() };
        while let Some(front) = self.unreleased.pop_front() {
            if front.end() > visible.sequence {
                self.unreleased.push_front(front);
                return;
            }
            self.inbox.push_back(front);
        }
    }

    /// Applies up to so many visible batches, in order. Returns how many. An error poisons the store.
    pub fn apply(&mut self, batches_max: usize) -> Result<usize> {
        let mut applied = 0;
        while applied < batches_max {
            let Some(batch) = self.inbox.pop_front() else { break };
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

    /// The outcome of a fact, once it is applied.
    pub fn take_outcome(&mut self, sequence: Sequence) -> Option<Outcome> {
        self.outcomes.remove(&sequence)
    }

    /// The groups with news since the last call.
    pub fn take_woken(&mut self) -> Vec<GroupNumber> {
        std::mem::take(&mut self.woken).into_iter().collect()
    }

    /// Lets the owner decide what is due. An error of reading a run may pass.
    pub fn step(&mut self, entries: usize) -> Result<Progress> {
        let applied = self.owner.applied();
        let stepped = self.owner.step(self.reading, Budget { entries }, &mut self.proposals);
        self.label(Label::Ready { applied });
        self.send()?;
        stepped
    }
}
