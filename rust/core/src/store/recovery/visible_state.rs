//! Applies the visible part of a store in memory, while another process may write to it: the newest checkpoint and
//! the log after it. Takes no lock and changes no file.
//!
//! In a store alone, all that is durable is visible. A copy in a cluster may have made batches durable, and sealed them,
//! that the other copies do not have: of its log, only what the batches call committed is visible.

use std::sync::Arc;

use super::newest::{Behind, newest_checkpoints};
use crate::error::{Error, Result};
use crate::message_log::{BatchReader, Identity, LogPiece, ScanEnd, ScannedBatch, Scanner, Stream};
use crate::queues::Group;
use crate::storage::Storage;
use crate::store::checkpoint::file::{ReadCheckpoint, read_checkpoint};
use crate::store::checkpoint::paths::checkpoint_path;
use crate::store::owner::{Owner, VisibleBatch};
use crate::store::recovery::restoration::{restored_owner, scan_start};
use crate::store::state::{LogPosition, SegmentStart, State};
use crate::units::{Location, SegmentNumber, Sequence};

/// The visible part of a store: see the module.
pub struct VisibleState {
    /// The state, with the means to list pending messages.
    pub owner: Owner,
    pub(in crate::store) sealed: bool,
    /// Facts after the last visible one; 0 if only a part of the log was read.
    pub(in crate::store) facts_unconfirmed: u64,
    pub(in crate::store) behind: Behind,
    /// The two newest checkpoints, the one that was used first.
    pub(in crate::store) chosen: Vec<ReadCheckpoint>,
}

/// The moment that a state shows. It suffices to make the state again while its files are kept, and to check that the
/// state is the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// Number and check of the two newest checkpoints, the one that was used first.
    pub checkpoints: [Option<(u32, u32)>; 2],
    /// The end of the log.
    pub end: Location,
    /// The chain at the end.
    pub chain: u32,
    /// True if the visible log ended with a seal.
    pub sealed: bool,
}

/// Reads a store up to its last visible fact. Another process that writes to the store may add and remove files
/// during the read, so a file can look damaged and be whole a moment later: the caller retries.
///
/// # Errors
/// `Corrupt`, `MissingFile`, `NewerFormat`, `Storage`, as for recovery.
pub fn visible_state(storage: &Arc<dyn Storage>, identity: &Identity) -> Result<VisibleState> {
    let chosen = newest_checkpoints(storage.as_ref(), &identity.stream)?;
    let mut owner = restored_owner(storage, identity.stream, chosen.first())?;
    owner.state.counts.forget();
    let mut scanner = Scanner::new(Arc::clone(storage), identity.stream, &scan_start(&owner.state().position))?;
    let (sealed, all) = (scanner.ending().sealed, scanner.ending().next_sequence);
    let visible = visible_end(scanner.ending(), identity.clustered);
    let behind = apply_visible(&mut scanner, &mut owner, visible)?;
    let facts_unconfirmed = all.since(owner.state().position.next_sequence);
    Ok(VisibleState { owner, sealed, facts_unconfirmed, behind, chosen })
}

/// Makes the state of an earlier [`visible_state`] again, while its files are kept.
///
/// # Errors
/// `InvalidArgument` if the log or a checkpoint has other content than at that moment; `MissingFile` if files are
/// gone; `Corrupt`, `NewerFormat`, `Storage`.
pub fn visible_state_at(storage: &Arc<dyn Storage>, identity: &Identity, moment: &Moment) -> Result<VisibleState> {
    let mut chosen = Vec::new();
    for (number, check) in moment.checkpoints.into_iter().flatten() {
        let path = checkpoint_path(number);
        match read_checkpoint(storage.as_ref(), &identity.stream, number) {
            Ok(read) if read.check == check => chosen.push(read),
            Ok(read) => return Err(not_the_same(&path, check, read.check)),
            Err(error) if error.is_not_found() => {
                return Err(Error::MissingFile { path, reason: "the snapshot is of it".to_owned() });
            }
            Err(error) => return Err(error),
        }
    }
    let (owner, behind) = applied(storage, identity.stream, chosen.first(), moment.end)?;
    let position = &owner.state().position;
    if (position.end, position.chain) == (moment.end, moment.chain) {
        Ok(VisibleState { owner, sealed: moment.sealed, facts_unconfirmed: 0, behind, chosen })
    } else {
        Err(not_the_same(&format!("the log at {}", moment.end), moment.chain, position.chain))
    }
}

fn not_the_same(what: &str, expected: u32, found: u32) -> Error {
    Error::InvalidArgument {
        argument: "name",
        expected: format!("a snapshot of this store: {what} with check {expected:08x}"),
        found: format!("{found:08x}"),
    }
}

/// Makes the state as of a checkpoint and the log after it up to `end`, which must be visible: an earlier state
/// again, while its files are kept.
///
/// # Errors
/// `Corrupt`, `MissingFile`, `NewerFormat`, `Storage`.
pub fn state_at(storage: &Arc<dyn Storage>, stream: Stream, checkpoint: Option<u32>, end: Location) -> Result<Owner> {
    let read = checkpoint.map(|number| read_checkpoint(storage.as_ref(), &stream, number)).transpose()?;
    Ok(applied(storage, stream, read.as_ref(), end)?.0)
}

/// Applies the log after a checkpoint up to `end`, and returns how much was applied.
fn applied(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    checkpoint: Option<&ReadCheckpoint>,
    end: Location,
) -> Result<(Owner, Behind)> {
    let mut owner = restored_owner(storage, stream, checkpoint)?;
    owner.state.counts.forget();
    let mut reader = BatchReader::new(Arc::clone(storage), stream, owner.state().position.end, end);
    let mut behind = Behind::default();
    while let Some(batch) = reader.next_batch()? {
        apply_one(&mut owner, &batch)?;
        behind.add(&batch.header);
        reader.recycle(batch.bytes);
    }
    Ok((owner, behind))
}

fn apply_one(owner: &mut Owner, batch: &ScannedBatch) -> Result<()> {
    owner.apply_facts(&VisibleBatch::from(batch))?;
    owner.take_outcomes();
    owner.take_woken();
    Ok(())
}

impl VisibleState {
    /// The state as of the last visible fact.
    pub fn state(&self) -> &State {
        self.owner.state()
    }

    /// The number of the checkpoint that was used.
    pub fn checkpoint(&self) -> Option<u32> {
        self.chosen.first().map(|read| read.number)
    }

    /// The moment that this state shows.
    pub fn moment(&self) -> Moment {
        let mut checkpoints = self.chosen.iter().map(|read| (read.number, read.check));
        let LogPosition { end, chain, .. } = self.state().position;
        Moment { checkpoints: [checkpoints.next(), checkpoints.next()], end, chain, sealed: self.is_sealed() }
    }

    /// The visible log from the oldest segment that certainly still exists: one piece for each segment with facts,
    /// and one more for each hole in it. Files that the used checkpoint needs are removed two checkpoints later at
    /// the earliest, and never while a pin exists.
    pub fn pieces(&self) -> Vec<LogPiece> {
        let state = self.state();
        let kept = state.segments.iter().filter(|start| self.is_kept(start.segment));
        let starts: Vec<&SegmentStart> = kept.collect();
        let ends = starts.iter().skip(1).map(|next| Some(next.position)).chain([None]);
        let mut pieces = Vec::new();
        for (start, next) in starts.iter().zip(ends) {
            let mut from = start.position;
            for hole in state.holes.in_segment(start.segment) {
                pieces.push(piece(start.segment, &from, &hole.from, Some(hole.from.end.offset())));
                from = hole.to;
            }
            let to = if next.is_some() { None } else { Some(state.position.end.offset()) };
            pieces.push(piece(start.segment, &from, &next.unwrap_or(state.position), to));
        }
        pieces.retain(|piece| piece.first < piece.end);
        pieces
    }

    /// True if the segment certainly still exists.
    pub fn is_kept(&self, segment: SegmentNumber) -> bool {
        self.chosen.first().is_none_or(|read| segment >= read.files.floor)
    }

    /// True if the visible log ends with a seal.
    pub fn is_sealed(&self) -> bool {
        self.sealed && self.facts_unconfirmed == 0
    }

    /// All current groups and those of the kept checkpoints; the latter may have consumers that have ended since.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        let before = self.chosen.iter().flat_map(|read| read.snapshot.groups.values());
        before.chain(self.state().groups.values())
    }

    /// The first sequence in [`Self::pieces`], or the next sequence if there are no pieces.
    pub fn first_sequence(&self) -> Sequence {
        self.pieces().first().map_or(self.state().position.next_sequence, |piece| piece.first)
    }
}

/// The batches of a segment between two positions. `to` is the offset at which the last batch ends, `None` for the
/// seal.
fn piece(segment: SegmentNumber, from: &LogPosition, end: &LogPosition, to: Option<u32>) -> LogPiece {
    LogPiece {
        segment,
        from: from.end.offset(),
        to,
        first: from.next_sequence,
        end: end.next_sequence,
        chain: from.chain,
        trusted_from: from.trusted,
        trusted_to: end.trusted,
    }
}

/// Applies the batches that end at `visible` or before.
fn apply_visible(scanner: &mut Scanner, owner: &mut Owner, visible: Location) -> Result<Behind> {
    let mut behind = Behind::default();
    while let Some(batch) = scanner.next_batch()? {
        let length = u64::from(batch.header.length.get());
        if Location(batch.start.0.saturating_add(length)) > visible {
            break;
        }
        apply_one(owner, &batch)?;
        behind.add(&batch.header);
        scanner.recycle(batch.bytes);
    }
    Ok(behind)
}

/// The end of the batches that are visible. For a store alone: all if the log was sealed, otherwise those that a later
/// batch calls durable or committed.
fn visible_end(ending: &ScanEnd, clustered: bool) -> Location {
    match (clustered, ending.sealed) {
        (true, _) => ending.committed.min(ending.end),
        (false, true) => ending.end,
        (false, false) => ending.vouched.max(ending.committed).min(ending.end),
    }
}
