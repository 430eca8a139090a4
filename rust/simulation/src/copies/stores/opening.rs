//! The disk of a machine: how its store is made and opened, and its checkpoints.

use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::{Identity, Mark};
use delaymq_core::record::batch::BatchHeader;
use delaymq_core::replication::{FilePart, FilePlace, NodeId, SentFile, SnapshotOffer};
use delaymq_core::run::StagedRun;
use delaymq_core::storage::Storage;
use delaymq_core::store::{
    CheckpointProgress, CheckpointWork, Follower, IncomingSnapshot, NewStore, OutgoingSnapshot, OwnerOptions,
    PIN_FOLDER, adopt_snapshot, open_identity,
};
use delaymq_core::units::{Location, Millis};

use super::super::host::GROUP;
use crate::disk::Disk;
use crate::node::{AppliedBatch, NodeOptions};

/// The wall clock of all machines at the beginning.
pub(super) const BEGIN: Millis = Millis(1_700_000_000_000);
/// Bytes of a segment, so that logs roll.
const SEGMENT_BYTES: u32 = 8 << 10;
/// Bytes of a part of a file.
const LOAD_PART_BYTES: usize = 300;

pub(super) fn options() -> NodeOptions {
    NodeOptions { segment_bytes: SEGMENT_BYTES, owner: owner_options(), ..NodeOptions::default() }
}

fn owner_options() -> OwnerOptions {
    OwnerOptions { checkpoint_bytes: u64::MAX, checkpoint_facts: u64::MAX, ..OwnerOptions::default() }
}

pub(super) fn open(disk: &Disk, is_copy: bool) -> Result<Follower> {
    let storage = if is_copy { disk.copy() } else { disk.shared() };
    adopt_snapshot(storage.as_ref())?;
    let identity = delaymq_core::store::read_identity(storage.as_ref())?;
    Follower::open(storage, &identity, owner_options(), SEGMENT_BYTES, &mut |_| {})
}

pub(super) fn make_store(disk: &Disk, id: NodeId) -> Result<()> {
    let storage = disk.shared();
    let new = NewStore { stream: GROUP.0, node: id.0, segment_bytes: SEGMENT_BYTES };
    let identity = open_identity(storage.as_ref(), Some(new))?;
    // A node that was away catches up from the log, so nothing is removed.
    storage.create(&format!("{PIN_FOLDER}/{}-copies", u64::MAX))?;
    storage.sync_folder(PIN_FOLDER)?;
    Identity { clustered: true, ..identity }.write(storage.as_ref())
}

/// A snapshot of a store that leads, with all its parts.
pub(super) fn snapshot_of(disk: &Disk, written: Mark, number: u64) -> Result<(SnapshotOffer, Vec<FilePart>)> {
    let stream = delaymq_core::store::read_identity(disk.shared().as_ref())?.stream;
    let mut outgoing = OutgoingSnapshot::of(disk.shared(), stream, || written)?;
    let (offer, mut parts) = (outgoing.offer(number), Vec::new());
    for (file, length) in (0..).zip(offer.files.iter().map(|file| file.length)) {
        let mut offset = 0;
        let place = |offset| FilePlace { file: SentFile::Snapshot { number, file }, offset };
        while let Some(part) = outgoing.part(place(offset))?.filter(|_| offset < length) {
            offset = part.end();
            parts.push(part);
        }
    }
    Ok((offer, parts))
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

/// Files of a load, in parts. Those that are not here have none.
pub(super) fn load_parts_of(disk: &Disk, runs: &[StagedRun]) -> Vec<FilePart> {
    let mut parts = Vec::new();
    let mut image = disk.storage().image();
    for run in runs {
        let bytes = image.remove(&run.name.path()).unwrap_or_default();
        for (piece, number) in bytes.chunks(LOAD_PART_BYTES).zip(0_u64..) {
            let offset = number * LOAD_PART_BYTES as u64;
            let place = FilePlace { file: SentFile::Load(run.name), offset };
            parts.push(FilePart { place, zeros: 0, bytes: piece.to_vec() });
        }
    }
    parts
}

/// Receives files of a load.
pub(super) fn receive_load(disk: &Disk, runs: &[StagedRun], parts: &[FilePart]) -> Result<()> {
    let mut incoming = delaymq_core::store::receive_load(disk.shared(), runs)?;
    for part in parts {
        incoming.take(part)?;
    }
    Ok(())
}

/// Vouches for the log of a copy, and begins a checkpoint of it, or does a piece of the one under way. True if that was the last.
pub(super) fn tend_follower(
    follower: &mut Follower,
    under_way: &mut Option<CheckpointWork>,
    storage: &Arc<dyn Storage>,
    budget_bytes: u64,
) -> Result<bool> {
    follower.witness()?;
    if under_way.is_none() {
        *under_way = follower.freeze()?;
    }
    let Some(work) = under_way else { return Ok(false) };
    match work.write_piece(storage, budget_bytes, follower.synced().location)? {
        CheckpointProgress::More => Ok(false),
        CheckpointProgress::WaitForSync(_) => follower.sync().map(|()| false),
        CheckpointProgress::Finished(finished) => {
            *under_way = None;
            // What may go is held by the pin.
            follower.owner_mut().install(finished).map(|_| true)
        }
    }
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
