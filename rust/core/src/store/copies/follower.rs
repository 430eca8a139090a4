//! A copy that follows a primary.

use std::collections::VecDeque;
use std::sync::Arc;

use super::load_files::lacking_of_batch;
use super::log_ends::LogEnds;
use super::shipment::{KeptLog, Shipment};
use crate::error::{Error, Result};
use crate::message_log::{
    Appended, AppenderStart, CutPoint, DamagedPayload, Identity, LogPosition, Mark, ScannedBatch, SegmentAppender,
    Stream, Taken, cut_after, note_epoch,
};
use crate::planted::{Planted, is_on};
use crate::record::batch::BatchHeader;
use crate::replication::LogView;
use crate::run::StagedRun;
use crate::storage::Storage;
use crate::store::checkpoint::work::CheckpointWork;
use crate::store::options::OwnerOptions;
use crate::store::owner::{Owner, VisibleBatch};
use crate::store::recovery::restoration::scan_start;
use crate::store::recovery::{RecoveredCopy, RecoveryProgress, RecoveryReport, recover_copy};
use crate::units::{Epoch, SegmentNumber, Sequence};

/// The parts of a copy whose node becomes primary.
pub struct FollowerParts {
    /// The owner, which has applied what is known to be committed.
    pub owner: Owner,
    /// The writer of the log.
    pub appender: SegmentAppender,
    /// The batches behind what was applied.
    pub tail: VecDeque<ScannedBatch>,
    /// The log, as the protocol looks at it.
    pub ends: LogEnds,
}

/// See the module.
pub struct Follower {
    storage: Arc<dyn Storage>,
    stream: Stream,
    segment_bytes: u32,
    opening_bytes: u32,
    report: RecoveryReport,
    damaged: Vec<DamagedPayload>,
    parts: FollowerParts,
}

impl Follower {
    /// Opens the copy with this identity. It applies what its log calls committed. A segment has at least `opening_bytes` at
    /// first.
    ///
    /// # Errors
    /// As [`crate::store::recover`].
    pub fn open(
        storage: Arc<dyn Storage>,
        identity: &Identity,
        options: OwnerOptions,
        opening_bytes: u32,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<Self> {
        let (stream, segment_bytes) = (identity.stream, identity.segment_bytes);
        let RecoveredCopy { recovered, end, tail } = recover_copy(&storage, identity, options, progress)?;
        let next =
            Next { number: recovered.next_segment, given_bytes: recovered.given_bytes, segment_bytes, opening_bytes };
        let appender = next.segment(&storage, stream, &end)?;
        let owner = recovered.owner;
        let mut epochs = owner.state().epoch_table();
        for batch in &tail {
            note_epoch(&mut epochs, &batch.header);
        }
        let ends = LogEnds::new(epochs, &end);
        let parts = FollowerParts { owner, appender, tail, ends };
        Ok(Self { storage, stream, segment_bytes, opening_bytes, report: recovered.report, damaged: Vec::new(), parts })
    }

    /// Appends batches of the primary, which stand one after the other, without syncing them. It stops before a batch that names
    /// files of a load which are not here, and returns them. Otherwise, it returns none.
    ///
    /// # Errors
    /// Those of [`SegmentAppender::append_foreign`], and of the storage. The batches before the one that is refused are in the log.
    pub fn append(&mut self, batches: &[u8]) -> Result<Vec<StagedRun>> {
        let mut rest = batches;
        while !rest.is_empty() {
            let header = BatchHeader::read(rest);
            let split = header.and_then(|header| Some((header, rest.split_at_checked(header.length.get() as usize)?)));
            let Some((header, (batch, behind))) = split else {
                return Err(Error::InvalidArgument {
                    argument: "batch",
                    expected: "whole batches".to_owned(),
                    found: format!("{} bytes that hold none", rest.len()),
                });
            };
            if header.base_sequence.get() == self.parts.ends.end().0 {
                let lacking = lacking_of_batch(self.storage.as_ref(), &header, batch)?;
                if !lacking.is_empty() {
                    return Ok(lacking);
                }
            }
            self.append_one(batch.to_vec())?;
            rest = behind;
        }
        Ok(Vec::new())
    }

    fn append_one(&mut self, mut bytes: Vec<u8>) -> Result<()> {
        let committed = self.parts.owner.state().position.end;
        let Taken { appended, damaged } = self.parts.appender.append_foreign(&mut bytes, committed)?;
        self.damaged.extend(damaged);
        let Appended { header, start, synced, .. } = appended;
        self.parts.ends.appended(&header);
        self.parts.ends.synced(synced.sequence);
        self.parts.tail.push_back(ScannedBatch { header, start, behind_hole: false, bytes });
        Ok(())
    }

    /// Makes everything durable that was appended.
    ///
    /// # Errors
    /// Those of the storage. The copy must be opened again then.
    pub fn sync(&mut self) -> Result<()> {
        let synced = self.parts.appender.sync()?;
        self.parts.ends.synced(synced.sequence);
        Ok(())
    }

    /// Vouches for the end of the log, durably, if everything in it is committed: readers without the lock then see all of it.
    /// A batch says only what was committed before it. Call it while no batches come. Returns true if it wrote something.
    ///
    /// # Errors
    /// Those of the storage. The copy must be opened again then.
    pub fn witness(&mut self) -> Result<bool> {
        if !self.parts.tail.is_empty() || !self.parts.appender.witness_due() {
            return Ok(false);
        }
        let position = self.parts.owner.state().position;
        let has_written = self.parts.appender.append_witness(position.trusted, false, position.end)?;
        self.parts.ends.synced(self.parts.appender.synced().sequence);
        Ok(has_written)
    }

    /// Applies everything before `end`, which is committed.
    ///
    /// # Errors
    /// As [`Owner::apply`]: the copy must stop.
    pub fn commit(&mut self, end: Sequence) -> Result<()> {
        while let Some(batch) = self.parts.tail.front().filter(|batch| batch.end().sequence <= end) {
            let owner = &mut self.parts.owner;
            owner.apply(&VisibleBatch::from(batch))?;
            // No caller of this node waits for an outcome, and no pull is parked here.
            owner.take_outcomes();
            owner.take_woken();
            owner.take_named();
            self.parts.tail.pop_front();
        }
        Ok(())
    }

    /// Begins a checkpoint of what is committed. `None` if there can be none now, as [`Owner::freeze`] says.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn freeze(&mut self) -> Result<Option<CheckpointWork>> {
        if is_on(Planted::CheckpointPastCommitted) {
            self.commit(self.parts.ends.end())?;
        }
        Ok(self.parts.owner.freeze())
    }

    /// Cuts everything behind the last fact before `end`, which has this epoch, and returns the file that keeps it. The log was
    /// cut in any case if the copy is given back.
    ///
    /// # Errors
    /// As [`cut_after`], of which `committed` means that the logs are not of one history. The copy must be opened again.
    pub fn cut_after(self, epoch: Epoch, end: Sequence) -> Result<(Self, Option<String>)> {
        let Self { storage, stream, segment_bytes, opening_bytes, report, mut damaged, parts } = self;
        let FollowerParts { owner, appender, mut tail, mut ends } = parts;
        drop(appender);
        let last = |next: Sequence| Sequence(next.0.saturating_sub(1));
        let point = CutPoint { epoch, sequence: last(end), committed: last(owner.applied()) };
        let cut = cut_after(&storage, stream, &scan_start(&owner.state().position), &point)?;
        tail.retain(|batch| batch.end().sequence <= end);
        damaged.retain(|one| one.sequence < end);
        ends.cut(&cut.position);
        let next = Next { number: cut.next_segment, given_bytes: 0, segment_bytes, opening_bytes };
        let appender = next.segment(&storage, stream, &cut.position)?;
        let parts = FollowerParts { owner, appender, tail, ends };
        Ok((Self { storage, stream, segment_bytes, opening_bytes, report, damaged, parts }, cut.evidence))
    }

    /// The log, as the protocol looks at it.
    pub fn ends(&self) -> &LogEnds {
        &self.parts.ends
    }

    /// The owner, as of what is known to be committed.
    pub fn owner(&self) -> &Owner {
        &self.parts.owner
    }

    /// The owner, for checkpoints: it must decide nothing.
    pub fn owner_mut(&mut self) -> &mut Owner {
        &mut self.parts.owner
    }

    /// The end of the durable log.
    pub fn synced(&self) -> Mark {
        self.parts.appender.synced()
    }

    /// The batches from this sequence on, one after the other: as many as fit into `bytes_max`, and at least one.
    ///
    /// # Errors
    /// As [`KeptLog::batches_from`].
    pub fn ship(&self, first: Sequence, bytes_max: usize) -> Result<Vec<u8>> {
        let kept = KeptLog::of(self.parts.owner.state());
        let mut batches = kept.batches_from(&self.storage, first, self.parts.appender.written())?;
        Shipment::read(&mut batches, bytes_max).map(|shipment| shipment.bytes)
    }

    /// The messages that came damaged since the last call. Another copy may have them whole.
    pub fn take_damaged(&mut self) -> Vec<DamagedPayload> {
        std::mem::take(&mut self.damaged)
    }

    /// The report of the opening.
    pub fn report(&self) -> &RecoveryReport {
        &self.report
    }

    /// Takes the copy apart, for a store that decides.
    pub fn lead(self) -> FollowerParts {
        self.parts
    }
}

/// The segment that an opening or a cut begins.
struct Next {
    number: SegmentNumber,
    given_bytes: u64,
    segment_bytes: u32,
    opening_bytes: u32,
}

impl Next {
    fn segment(&self, storage: &Arc<dyn Storage>, stream: Stream, end: &LogPosition) -> Result<SegmentAppender> {
        let start = AppenderStart {
            stream,
            epoch: end.epoch,
            number: self.number,
            chain: end.chain,
            next_sequence: end.next_sequence,
            trusted: end.trusted,
            segment_bytes: self.segment_bytes,
            opening_bytes: self.opening_bytes,
            given_bytes: self.given_bytes,
        };
        SegmentAppender::open(Arc::clone(storage), &start)
    }
}
