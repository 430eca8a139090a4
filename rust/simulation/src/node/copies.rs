//! A node of a group of copies that has become primary: its log goes on where the copy ended, and a batch is visible once it is
//! committed.

use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::{Durability, GroupCommitOptions, Identity, Mark, VisibleOnce};
use delaymq_core::storage::Storage;
use delaymq_core::store::{CheckpointWork, FollowerParts, KeptLog, LogEnds, RecoveryReport, Shipment};
use delaymq_core::units::{Epoch, Sequence};

use super::{AppliedBatch, Node, NodeOptions, Opened};
use crate::chance::Chance;
use crate::clock::ClockReading;

impl Node {
    /// Goes on with the log, and the checkpoint under way, of a copy whose node is primary of this epoch now. The first fact of the epoch is written, and
    /// not synced. Users may call once [`Self::has_begun`].
    pub fn lead(
        (storage, options, identity): (Arc<dyn Storage>, NodeOptions, Identity),
        (parts, checkpoint): (FollowerParts, Option<CheckpointWork>),
        epoch: Epoch,
        (now, random): (ClockReading, &mut Chance),
    ) -> Result<Self> {
        let FollowerParts { owner, mut appender, tail, ends } = parts;
        let end = appender.end();
        appender.begin_epoch(epoch)?;
        let position = owner.state().position;
        let visible = Mark { location: position.end, sequence: position.next_sequence };
        let commit_options = GroupCommitOptions {
            visible_once: VisibleOnce::Committed,
            ..GroupCommitOptions::new(Durability::Disk, visible, identity.segment_bytes)
        };
        let (trusted, report) = (end.trusted, RecoveryReport::default());
        let opened = Opened { epoch, trusted, end, ends, owner, appender, report };
        let mut node = Self::assemble(storage, options, identity, opened, commit_options, (now, random));
        node.checkpoint = checkpoint;
        for batch in tail {
            node.commits.written(batch.end());
            let (header, start, bytes) = (batch.header, batch.start, batch.bytes);
            node.unreleased.push_back(AppliedBatch { header, start, bytes });
        }
        node.commits.synced(node.appender.synced());
        node.keep_room()?;
        node.begin_epoch(&end)?;
        node.write_batch()?;
        Ok(node)
    }

    /// True once the first fact of the epoch is applied.
    pub fn has_begun(&self) -> bool {
        self.owner.applied() > self.first_sequence
    }

    /// The copies have everything before `end`: it becomes visible, and is applied.
    pub fn committed(&mut self, end: Sequence) -> Result<()> {
        let had_begun = self.has_begun();
        self.commits.committed(end);
        self.release();
        self.apply(usize::MAX)?;
        if self.has_begun() && !had_begun { self.epoch_begun() } else { Ok(()) }
    }

    /// The log, as the protocol looks at it.
    pub fn ends(&self) -> &LogEnds {
        &self.ends
    }

    /// Keeps the log from this sequence on, for nodes that lag. The next checkpoint begins to do so.
    pub fn keep_log_from(&mut self, first: Option<Sequence>) {
        self.kept_from = first;
    }

    /// The batches from this sequence on, for another node.
    pub fn ship(&self, first: Sequence, bytes_max: usize) -> Result<Vec<u8>> {
        let written = self.appender.written();
        let mut batches = KeptLog::of(self.owner.state()).batches_from(&self.storage, first, written)?;
        Shipment::read(&mut batches, bytes_max).map(|shipment| shipment.bytes)
    }
}
