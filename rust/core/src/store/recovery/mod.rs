//! Recovery: from the files that a stop left on disk to the state that the log gives.
//!
//! In: the files of a store. Out: an owner, and the position at which the log continues.
//! Read this file, then `restoration` (the state as of a checkpoint), `leftovers` (files that no checkpoint names) and
//! `recount`. `rescue` and `ready_rescue` find the entries of a damaged block in the log. `visible_state` reads a store
//! without its lock.
//!
//! Recovery only reads until it has found all files that it needs, so a refused open leaves the files as they were.
//! Then, in this order, it removes each newer checkpoint that it did not use (a later open would trust it), removes
//! files that no kept checkpoint names, repairs the suspect tail, and applies the facts after the checkpoint. No
//! message is dispatched before the whole log is applied.

pub(super) mod leftovers;
pub(super) mod newest;
pub(super) mod opening;
pub(super) mod ready_rescue;
pub(super) mod recount;
pub(super) mod rescue;
pub(super) mod restoration;
pub(super) mod visible_state;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::checkpoint::file::{ReadCheckpoint, read_checkpoint};
use super::options::OwnerOptions;
use super::owner::{Owner, VisibleBatch};
use super::retention::kept_files::KeptFiles;
use super::retention::pins::is_pinned;
use super::retention::stale_loads::Sweep;
use super::state::{LogPosition, State};
use crate::error::{Error, Result};
use crate::message_log::{
    EpochSource, Identity, LOG_FOLDER, SEGMENT_HEADER_BYTES, ScanEnd, ScannedBatch, Scanner, SegmentHeader, Stream,
    list_segments, records_max, repair, segment_path,
};
use crate::planted::failpoint::{Failpoint, reached};
use crate::planted::{Planted, is_on};
use crate::run::RUN_FOLDER;
use crate::storage::{Storage, read_upto};
use crate::store::checkpoint::paths::{CHECKPOINT_FOLDER, checkpoint_path, list_checkpoints};
use crate::units::{Epoch, Location, Millis, SegmentNumber};
use leftovers::remove_unused;
use restoration::{feed_from, restore, scan_start};

/// The progress of a recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveryProgress {
    /// Facts applied so far.
    pub facts: u64,
    /// Log bytes applied so far.
    pub bytes: u64,
    /// Log bytes to apply in all.
    pub bytes_whole: u64,
}

/// What an open found and did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// The checkpoint that was used, if any.
    pub checkpoint: Option<u32>,
    /// Checkpoints that could not be used, with the reason.
    pub checkpoints_refused: Vec<(String, String)>,
    /// Facts applied after the checkpoint.
    pub facts: u64,
    /// Log bytes read after the checkpoint.
    pub bytes: u64,
    /// What the repair of a suspect tail set aside, in words.
    pub set_aside: Vec<String>,
}

/// An owner with the state that the log gives, and the position at which the log continues.
pub struct Recovered {
    /// The owner.
    pub owner: Owner,
    /// The epoch of this opening, already durable.
    pub epoch: Epoch,
    /// The position after the last fact that was kept.
    pub position: LogPosition,
    /// The trusted time of the log's last batch: the clock never starts before it.
    pub trusted: Millis,
    /// The number of the segment to begin next.
    pub next_segment: SegmentNumber,
    /// Bytes of the last two segments that are in use: how much the store was given of late.
    pub given_bytes: u64,
    /// What recovery found and did.
    pub report: RecoveryReport,
}

struct Chosen {
    used: Option<ReadCheckpoint>,
    older: Option<KeptFiles>,
    newer: Vec<u32>,
    refused: Vec<(String, String)>,
}

/// A copy of a log that another node continues: an owner as of what is known to be committed, and the rest of the log.
pub(super) struct RecoveredCopy {
    pub(super) recovered: Recovered,
    /// The end of the log. The owner may be before it.
    pub(super) end: LogPosition,
    /// The batches of the log that the owner has not applied.
    pub(super) tail: VecDeque<ScannedBatch>,
}

/// Recovers the store with this identity. The epoch is raised after all checks that can refuse the open, and before
/// the first file is changed.
///
/// # Errors
/// `Corrupt`, `MissingFile`, `NewerFormat`: the open is refused, and no file was changed. `Storage`.
pub fn recover(
    storage: &Arc<dyn Storage>,
    identity: &Identity,
    epochs: &mut dyn EpochSource,
    options: OwnerOptions,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<Recovered> {
    let all = |_: &ScanEnd| Location(u64::MAX);
    recover_to(storage, identity, epochs, options, all, progress).map(|copy| copy.recovered)
}

/// Recovers a copy: applies what its log calls committed, and no more. No epoch is raised.
///
/// # Errors
/// As [`recover`].
pub(super) fn recover_copy(
    storage: &Arc<dyn Storage>,
    identity: &Identity,
    options: OwnerOptions,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<RecoveredCopy> {
    let mut promised = PromisedEpoch(identity.promised_epoch);
    let all = is_on(Planted::UncommittedApplied);
    let limit = |ending: &ScanEnd| if all { Location(u64::MAX) } else { ending.committed };
    recover_to(storage, identity, &mut promised, options, limit, progress)
}

/// The epoch of an opening that begins none.
struct PromisedEpoch(Epoch);

impl EpochSource for PromisedEpoch {
    fn raise(&mut self) -> Result<Epoch> {
        Ok(self.0)
    }
}

/// Recovers, and applies the batches that end at or before the location which `limit` finds.
fn recover_to(
    storage: &Arc<dyn Storage>,
    identity: &Identity,
    epochs: &mut dyn EpochSource,
    options: OwnerOptions,
    limit: impl FnOnce(&ScanEnd) -> Location,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<RecoveredCopy> {
    let stream = identity.stream;
    let options = OwnerOptions { records_bytes_max: records_max(identity.segment_bytes), ..options };
    sync_folders(storage.as_ref())?;
    let chosen = choose_checkpoint(storage.as_ref(), &stream)?;
    let mut report = RecoveryReport {
        checkpoint: chosen.used.as_ref().map(|used| used.number),
        checkpoints_refused: chosen.refused.clone(),
        ..RecoveryReport::default()
    };
    let (state, kept) = restore(storage, stream, chosen.used.as_ref(), chosen.older.as_ref())?;
    check_segments(storage.as_ref(), &stream, chosen.used.as_ref(), &state)?;
    let mut scanner = Scanner::new(Arc::clone(storage), stream, &scan_start(&state.position))?;
    reached(Failpoint::CheckpointRestored);
    let epoch = epochs.raise()?;
    reached(Failpoint::EpochRaised);
    // Pins are judged by the log's own time: files of a pin that expired while the store was closed go at a later
    // open.
    let pinned = is_pinned(storage.as_ref(), scanner.ending().trusted)?;
    let used = chosen.used.as_ref();
    remove_unused(storage.as_ref(), used, &chosen.newer, &kept, pinned)?;
    reached(Failpoint::UnusedRemoved);
    let repaired = repair(storage.as_ref(), stream, scanner.ending(), epoch)?;
    reached(Failpoint::Repaired);
    report.set_aside = repaired.set_aside;
    let next_checkpoint = chosen.used.as_ref().map_or(1, |used| used.number.saturating_add(1));
    let mut owner = Owner::with_state(storage, state, options, kept, next_checkpoint, feed_from(chosen.used.as_ref()));
    let limit = limit(scanner.ending());
    let tail = apply_log(&mut scanner, &mut owner, limit, &mut report, progress)?;
    if !pinned {
        Sweep::of(&owner.state, &owner.kept).sweep(storage.as_ref())?;
    }
    reached(Failpoint::LogApplied);
    let (position, end) = (owner.state().position, end_of(scanner.ending()));
    let known = position.trusted.max(end.trusted);
    let trusted = if is_on(Planted::ClockFloorForgotten) { Millis(0) } else { known };
    let given_bytes = recent_bytes(storage.as_ref(), end.end);
    let next_segment = repaired.next_segment;
    let recovered = Recovered { owner, epoch, position, trusted, next_segment, given_bytes, report };
    Ok(RecoveredCopy { recovered, end, tail })
}

/// A killed process may have renamed or removed files without a sync, and recovery is about to trust the folders.
fn sync_folders(storage: &dyn Storage) -> Result<()> {
    for folder in ["", LOG_FOLDER, RUN_FOLDER, CHECKPOINT_FOLDER] {
        if !is_on(Planted::FoldersTrustedUnsynced) {
            storage.sync_folder(folder)?;
        }
    }
    reached(Failpoint::FoldersSynced);
    Ok(())
}

fn end_of(ending: &ScanEnd) -> LogPosition {
    let ScanEnd { end, chain, next_sequence, epoch, trusted, .. } = *ending;
    LogPosition { end, chain, next_sequence, epoch, trusted }
}

/// Bytes of the last two segments that are in use. The one before the last counts as none if it is not there, or
/// cannot be read: the bytes decide only how large the first prepared segments are.
fn recent_bytes(storage: &dyn Storage, end: Location) -> u64 {
    let before = end.segment().map(|last| segment_path(SegmentNumber(last.0.saturating_sub(1))));
    let room = before.and_then(|path| storage.open(&path).and_then(|file| file.room()).ok());
    u64::from(end.offset()).saturating_add(room.unwrap_or(0))
}

/// Chooses the newest readable checkpoint and the one before it, and lists newer ones that cannot be used.
fn choose_checkpoint(storage: &dyn Storage, stream: &Stream) -> Result<Chosen> {
    let mut chosen = Chosen { used: None, older: None, newer: Vec::new(), refused: Vec::new() };
    for number in list_checkpoints(storage)?.into_iter().rev() {
        match read_checkpoint(storage, stream, number) {
            Ok(read) if chosen.used.is_none() => chosen.used = Some(read),
            Ok(read) => {
                chosen.older = Some(read.kept());
                break;
            }
            Err(error @ (Error::NewerFormat { .. } | Error::Storage { .. })) => return Err(error),
            Err(error) if is_on(Planted::CheckpointStopsStart) => return Err(error),
            Err(error) => {
                chosen.refused.push((checkpoint_path(number), error.to_string()));
                if chosen.used.is_none() {
                    chosen.newer.push(number);
                }
            }
        }
    }
    Ok(chosen)
}

/// Checks that each segment from the floor to the start of the replay exists and has its own header.
pub(in crate::store) fn check_segments(
    storage: &dyn Storage,
    stream: &Stream,
    used: Option<&ReadCheckpoint>,
    state: &State,
) -> Result<()> {
    let there: BTreeSet<SegmentNumber> = list_segments(storage)?.into_iter().collect();
    let replay = state.position.end.segment().unwrap_or(SegmentNumber(1));
    let floor = used.map_or(SegmentNumber(1), |used| used.files.floor);
    for number in (floor.0..=replay.0).map(SegmentNumber) {
        let path = segment_path(number);
        if !there.contains(&number) {
            return Err(Error::MissingFile { path, reason: format!("segments from {floor} on are needed") });
        }
        let file = storage.open(&path)?;
        let block = read_upto(file.as_ref(), 0, SEGMENT_HEADER_BYTES as usize)?;
        SegmentHeader::read(&path, &block)?.check_place(&path, number, stream)?;
    }
    Ok(())
}

/// Applies the batches that end at or before `limit`, and returns the others.
fn apply_log(
    scanner: &mut Scanner,
    owner: &mut Owner,
    limit: Location,
    report: &mut RecoveryReport,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<VecDeque<ScannedBatch>> {
    let bytes_whole = scanner.ending().bytes;
    let mut tail = VecDeque::new();
    while let Some(batch) = scanner.next_batch()? {
        if !tail.is_empty() || batch.end().location > limit {
            tail.push_back(batch);
            continue;
        }
        owner.apply_facts(&VisibleBatch::from(&batch))?;
        report.facts = report.facts.saturating_add(u64::from(batch.header.count.get()));
        report.bytes = report.bytes.saturating_add(u64::from(batch.header.length.get()));
        progress(RecoveryProgress { facts: report.facts, bytes: report.bytes, bytes_whole });
        owner.take_outcomes();
        owner.take_woken();
        scanner.recycle(batch.bytes);
    }
    owner.settle_at_open()?;
    Ok(tail)
}
