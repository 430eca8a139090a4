//! Gives the log an end that can be trusted, after a scan has found no corruption.
//!
//! Everything after the last vouched batch is suspect, even if it reads well: after a failed sync, the page
//! cache may show bytes that the disk does not have. The last segment is therefore copied into a new file
//! with the same number and the same offsets, sealed, synced and renamed over the old one. Locations in it
//! stay valid. If the segment is already sealed, everything before the seal was synced before the seal was
//! written. Then only the seal is written again, and the unused space after it goes back to the disk.

use std::sync::Arc;

use super::append::preparing::TEMPORARY_SUFFIX;
use super::segment::{
    ASIDE_FOLDER, LOG_FOLDER, SEGMENT_HEADER_BYTES, Stream, give_back_rest, segment_name, segment_path,
};
use crate::error::{Error, Result};
use crate::message_log::repair::scan_end::{ScanEnd, TornTail};
use crate::planted::failpoint::{Failpoint, reached};
use crate::planted::{Planted, is_on};
use crate::record::batch::{BATCH_HEADER_BYTES, BatchFields, BatchHeader, LOCAL_SEAL, seal_batch};
use crate::storage::{Storage, StorageFile, read_upto};
use crate::units::{Epoch, SegmentNumber};

/// Bytes of one copying step.
const PIECE: usize = 1 << 20;

/// The result of a repair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repaired {
    /// The number of the segment to begin next.
    pub next_segment: SegmentNumber,
    /// True if the last segment was copied because it had no seal.
    pub copied: bool,
    /// Files that keep the bytes that were taken out of the log. The file of a torn tail has zeros at the
    /// offsets that the log still has.
    pub set_aside: Vec<String>,
    /// Prepared segments that were never used, and are removed.
    pub removed: Vec<SegmentNumber>,
}

/// Repairs the log that ends in `ending`. `epoch` is that of this opening, and is durable already; a copy of another log
/// has an epoch that may be below that of its last batch. A repair that stops at any point can be done again. Errors:
/// those of the storage, and `Corrupt` if the files are not those that were scanned.
pub fn repair(storage: &dyn Storage, stream: Stream, ending: &ScanEnd, epoch: Epoch) -> Result<Repaired> {
    repair_by(storage, stream, ending, epoch, is_on(Planted::OldTailAppendedOver))
}

fn repair_by(
    storage: &dyn Storage,
    stream: Stream,
    ending: &ScanEnd,
    epoch: Epoch,
    in_place: bool,
) -> Result<Repaired> {
    let number = ending.end.segment().unwrap_or_default();
    let mut repaired =
        Repaired { next_segment: number.next(), copied: !ending.sealed, set_aside: Vec::new(), removed: Vec::new() };
    remove_unfinished(storage)?;
    clear_later(storage, ending, epoch, &mut repaired)?;
    if ending.sealed {
        write_seal_again(storage, ending, number)?;
    } else {
        if let Some(torn) = &ending.torn {
            repaired.set_aside.push(set_tail_aside(storage, torn, number, epoch)?);
        }
        copy_and_seal(storage, stream, ending, epoch, in_place)?;
    }
    Ok(repaired)
}

/// Removes the files of unfinished preparations and repairs.
fn remove_unfinished(storage: &dyn Storage) -> Result<()> {
    for name in storage.list(LOG_FOLDER)? {
        if name.ends_with(TEMPORARY_SUFFIX) {
            storage.remove(&format!("{LOG_FOLDER}/{name}"))?;
        }
    }
    storage.sync_folder(LOG_FOLDER)
}

/// Removes or sets aside the segments after the end, the last first, before the end itself is changed. A
/// segment left after a sealed one would be taken for its continuation.
fn clear_later(storage: &dyn Storage, ending: &ScanEnd, epoch: Epoch, repaired: &mut Repaired) -> Result<()> {
    for later in ending.later_segments.iter().rev().filter(|_| !is_on(Planted::LaterSegmentsLeft)) {
        let path = segment_path(later.number);
        if later.has_content {
            make_aside(storage)?;
            let aside = free_aside_path(storage, later.number, epoch)?;
            storage.rename(&path, &aside)?;
            storage.sync_folder(ASIDE_FOLDER)?;
            repaired.set_aside.push(aside);
        } else {
            storage.remove(&path)?;
            repaired.removed.push(later.number);
        }
        reached(Failpoint::LaterCleared);
        storage.sync_folder(LOG_FOLDER)?;
    }
    Ok(())
}

/// A free name for bytes of a segment that are set aside in this epoch. A copy of another log may be opened in one epoch
/// more than once, and cut in between, so that a segment of the same number is set aside again.
fn free_aside_path(storage: &dyn Storage, number: SegmentNumber, epoch: Epoch) -> Result<String> {
    let there = storage.list(ASIDE_FOLDER)?;
    let mut names = aside_names(number, epoch);
    let free = names.find(|name| !there.contains(name)).unwrap_or_default();
    Ok(format!("{ASIDE_FOLDER}/{free}"))
}

fn aside_names(number: SegmentNumber, epoch: Epoch) -> impl Iterator<Item = String> {
    let first = format!("{}.{epoch}", segment_name(number));
    std::iter::once(first.clone()).chain((2_u64..).map(move |again| format!("{first}.{again}")))
}

fn make_aside(storage: &dyn Storage) -> Result<()> {
    storage.create_folder(ASIDE_FOLDER)?;
    storage.sync_folder("")
}

/// Keeps the torn bytes, at their own offsets, as evidence. A file has its name only once it is whole, so a file of a
/// repair that was stopped has the same bytes, and is kept.
fn set_tail_aside(storage: &dyn Storage, torn: &TornTail, number: SegmentNumber, epoch: Epoch) -> Result<String> {
    make_aside(storage)?;
    let segment = storage.open(&segment_path(number))?;
    let there = storage.list(ASIDE_FOLDER)?;
    for name in aside_names(number, epoch).take_while(|name| there.contains(name)) {
        let path = format!("{ASIDE_FOLDER}/{name}");
        if has_tail(&*storage.open(&path)?, &*segment, torn)? {
            storage.sync_folder(ASIDE_FOLDER)?;
            return Ok(path);
        }
    }
    let path = free_aside_path(storage, number, epoch)?;
    let temporary = format!("{}.aside{TEMPORARY_SUFFIX}", segment_path(number));
    let aside = create_anew(storage, &temporary)?;
    copy(&*segment, &*aside, torn.start.offset(), torn.end)?;
    aside.sync_data()?;
    storage.rename(&temporary, &path)?;
    storage.sync_folder(ASIDE_FOLDER)?;
    // Both folders: the name that a power cut would bring back is one that the next repair removes.
    storage.sync_folder(LOG_FOLDER)?;
    Ok(path)
}

/// True if a file that was set aside has the same torn bytes as the segment.
fn has_tail(aside: &dyn StorageFile, segment: &dyn StorageFile, torn: &TornTail) -> Result<bool> {
    let (start, end) = (u64::from(torn.start.offset()), u64::from(torn.end));
    if aside.length()? != end {
        return Ok(false);
    }
    let mut at = start;
    while at < end {
        let piece = (end - at).min(PIECE as u64);
        if read_upto(aside, at, piece as usize)? != read_upto(segment, at, piece as usize)? {
            return Ok(false);
        }
        at = at.saturating_add(piece);
    }
    Ok(true)
}

fn copy_and_seal(storage: &dyn Storage, stream: Stream, ending: &ScanEnd, epoch: Epoch, in_place: bool) -> Result<()> {
    let number = ending.end.segment().unwrap_or_default();
    let path = segment_path(number);
    let temporary = format!("{path}.repair{TEMPORARY_SUFFIX}");
    let end = ending.end.offset();
    let segment = storage.open(&path)?;
    let sealed = if in_place { Arc::clone(&segment) } else { create_anew(storage, &temporary)? };
    if !in_place {
        copy(&*segment, &*sealed, 0, end)?;
    }
    reached(Failpoint::RepairCopied);
    let mut seal = [0; BATCH_HEADER_BYTES];
    let fields = BatchFields {
        stream: stream.id,
        epoch: epoch.max(ending.epoch),
        base_sequence: ending.next_sequence,
        record_count: 0,
        trusted: ending.trusted,
        held: false,
        chain_before: ending.chain,
        durability: 0,
        synced: ending.end,
        // The repair makes the rest durable here, which says nothing about other copies.
        committed: ending.committed.min(ending.end),
        segment: number,
        local_flags: LOCAL_SEAL,
    };
    if seal_batch(&mut seal, &fields).is_none() {
        return Err(Error::corrupt(&path, u64::from(end), "room for a seal", "none"));
    }
    sealed.write_at(u64::from(end), &seal)?;
    sealed.sync_data()?;
    reached(Failpoint::RepairSealed);
    if in_place {
        return Ok(());
    }
    storage.rename(&temporary, &path)?;
    reached(Failpoint::RepairRenamed);
    storage.sync_folder(LOG_FOLDER)
}

fn write_seal_again(storage: &dyn Storage, ending: &ScanEnd, number: SegmentNumber) -> Result<()> {
    let path = segment_path(number);
    let segment = storage.open(&path)?;
    let offset = u64::from(ending.end.offset());
    let seal = read_upto(&*segment, offset, BATCH_HEADER_BYTES)?;
    if !BatchHeader::read(&seal).is_some_and(|header| header.is_seal()) {
        return Err(Error::corrupt(&path, offset, "the seal that was scanned", "other bytes"));
    }
    segment.write_at(offset, &seal)?;
    segment.sync_data()?;
    give_back_rest(&*segment, offset.saturating_add(BATCH_HEADER_BYTES as u64))
}

fn create_anew(storage: &dyn Storage, path: &str) -> Result<Arc<dyn StorageFile>> {
    match storage.remove(path) {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    storage.create(path)
}

/// Copies the bytes from `start` to `end` to the same offsets.
fn copy(from: &dyn StorageFile, to: &dyn StorageFile, start: u32, end: u32) -> Result<()> {
    debug_assert!(end == 0 || end >= SEGMENT_HEADER_BYTES);
    let (mut at, end) = (u64::from(start), u64::from(end));
    while at < end {
        let piece = (end - at).min(PIECE as u64);
        let bytes = read_upto(from, at, piece as usize)?;
        if bytes.len() as u64 != piece {
            let found = at.saturating_add(bytes.len() as u64);
            return Err(Error::corrupt(from.path(), found, format!("{end} bytes"), "the end of the file"));
        }
        to.write_at(at, &bytes)?;
        at = at.saturating_add(piece);
    }
    Ok(())
}

pub(super) mod cut;
pub(super) mod payload;
pub(super) mod scan_end;
pub(super) mod scanner;
pub(super) mod search;
pub(super) mod tail_scan;
#[cfg(test)]
#[path = "tests.rs"]
mod tests;
