//! The disk of a machine: how its store is made and opened, and what it receives.

use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::Identity;
use delaymq_core::record::batch::BatchHeader;
use delaymq_core::replication::{FilePart, FilePlace, NodeId, SentFile, SnapshotOffer};
use delaymq_core::run::StagedRun;
use delaymq_core::store::{Follower, IncomingSnapshot, NewStore, OwnerOptions, adopt_snapshot, open_identity};
use delaymq_core::units::{Location, Millis};

use super::super::host::GROUP;
use crate::disk::Disk;
use crate::node::{AppliedBatch, NodeOptions};

/// The wall clock of all machines at the beginning.
pub(super) const BEGIN: Millis = Millis(1_700_000_000_000);
/// Bytes of a segment, so that logs roll.
const SEGMENT_BYTES: u32 = 8 << 10;
/// How long retention keeps finished messages.
const KEEP_FINISHED_MS: u64 = 1_000;
/// Bytes of a part of a file.
const LOAD_PART_BYTES: usize = 300;

/// Without retention, finished messages are kept for longer than a history lasts. With it, checkpoints also copy the
/// payloads of messages that become due while a checkpoint is written.
pub(super) fn options(retention: bool) -> NodeOptions {
    NodeOptions { segment_bytes: SEGMENT_BYTES, owner: owner_options(retention), ..NodeOptions::default() }
}

fn owner_options(retention: bool) -> OwnerOptions {
    let all = OwnerOptions { checkpoint_bytes: u64::MAX, checkpoint_facts: u64::MAX, ..OwnerOptions::default() };
    if retention {
        OwnerOptions { keep_finished_ms: KEEP_FINISHED_MS, copy_after_ms: KEEP_FINISHED_MS, ..all }
    } else {
        all
    }
}

pub(super) fn open(disk: &Disk, is_copy: bool, retention: bool) -> Result<Follower> {
    let storage = if is_copy { disk.copy() } else { disk.shared() };
    adopt_snapshot(storage.as_ref())?;
    let identity = delaymq_core::store::read_identity(storage.as_ref())?;
    Follower::open(storage, &identity, owner_options(retention), SEGMENT_BYTES, &mut |_| {})
}

pub(super) fn make_store(disk: &Disk, id: NodeId) -> Result<()> {
    let storage = disk.shared();
    let new = NewStore { stream: GROUP.0, node: id.0, segment_bytes: SEGMENT_BYTES };
    let identity = open_identity(storage.as_ref(), Some(new))?;
    Identity { clustered: true, ..identity }.write(storage.as_ref())
}

/// Puts the files of a snapshot into the place of the store's own.
pub(super) fn adopt(disk: &Disk, offer: SnapshotOffer, parts: &[FilePart]) -> Result<()> {
    let storage = disk.shared();
    let mut incoming = IncomingSnapshot::begin(Arc::clone(&storage), offer)?;
    for part in parts {
        incoming.files().take(part)?;
    }
    incoming.check(&delaymq_core::store::read_identity(storage.as_ref())?)?;
    incoming.seal()?;
    adopt_snapshot(storage.as_ref()).map(drop)
}

/// Files of a load, in parts. `None` if one of them is not here.
pub(super) fn load_parts_of(disk: &Disk, runs: &[StagedRun]) -> Option<Vec<FilePart>> {
    let mut parts = Vec::new();
    let mut image = disk.storage().image();
    for run in runs {
        let bytes = image.remove(&run.name.path())?;
        for (piece, number) in bytes.chunks(LOAD_PART_BYTES).zip(0_u64..) {
            let offset = number * LOAD_PART_BYTES as u64;
            let place = FilePlace { file: SentFile::Load(run.name), offset };
            parts.push(FilePart { place, zeros: 0, bytes: piece.to_vec() });
        }
    }
    Some(parts)
}

/// Receives files of a load.
pub(super) fn receive_load(disk: &Disk, runs: &[StagedRun], parts: &[FilePart]) -> Result<()> {
    let mut incoming = delaymq_core::store::receive_load(disk.shared(), runs)?;
    for part in parts {
        incoming.take(part)?;
    }
    Ok(())
}

/// The batches that stand one after the other in these bytes.
pub(super) fn batches_of(bytes: &[u8]) -> Vec<AppliedBatch> {
    let (mut rest, mut batches) = (bytes, Vec::new());
    while let Some(header) = BatchHeader::read(rest) {
        let Some((batch, behind)) = rest.split_at_checked(header.length.get() as usize) else { break };
        batches.push(AppliedBatch { header, start: Location(0), bytes: batch.to_vec() });
        rest = behind;
    }
    batches
}
