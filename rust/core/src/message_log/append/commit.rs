//! Group commit, as a state machine: which records go into the next batch, when the batch must be synced,
//! when each submission is answered, and what happens after a failure. It calls nothing and waits for
//! nothing.
//!
//! Records are copied once, when they are submitted, into the buffer that will be written. Their sequences
//! are known from then on, since an accepted submission is neither dropped nor overtaken. Only a poisoned log
//! drops its queue.
//!
//! The committing thread holds the appender and repeats: [`GroupCommit::take`], append, sync if
//! [`Commit::must_sync`] is set, [`GroupCommit::written`], [`GroupCommit::synced`], [`GroupCommit::room`],
//! [`GroupCommit::recycle`].

use std::collections::VecDeque;
use std::ops::Range;

use super::commit_options::{GroupCommitOptions, Mark, VisibleOnce};
use super::durability::Durability;
use super::free_room::{FreeRoom, RoomChange};
use super::room::{Place, Room};
use super::submission::{Class, Submission, Submitted};
use crate::error::{Error, Result};
use crate::message_log::segment::records_max;
use crate::planted::{self, Planted};
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::units::{Location, Sequence};

/// The most bytes of used buffers that are kept for later batches.
const SPARE_BYTES: usize = 4 << 20;

/// One batch to write.
#[derive(Debug)]
pub struct Commit {
    /// Room for the batch header, then the records.
    pub bytes: Vec<u8>,
    /// The number of records.
    pub record_count: u32,
    /// The sequence of the first record.
    pub base: Sequence,
    /// The sequence after the last.
    pub end: Sequence,
    /// The last record adopts loaded runs, so that no record may follow it.
    ends_with_adoption: bool,
    /// True if the batch must be synced before any of it is answered.
    pub must_sync: bool,
    /// The end of the visible log when the batch was taken.
    pub committed: Location,
}

/// A batch that is queued or being written.
#[derive(Debug)]
struct Pending {
    commit: Commit,
    charge: u64,
    place: Place,
}

/// The queue in front of the log, and the positions of the log.
#[derive(Debug)]
pub struct GroupCommit {
    options: GroupCommitOptions,
    queue: VecDeque<Pending>,
    in_flight: VecDeque<u64>,
    queued_bytes: usize,
    next: Sequence,
    written: Mark,
    synced: Mark,
    visible: Mark,
    /// The ends of batches that are written and not committed, in order. Only where copies commit.
    uncommitted: VecDeque<Mark>,
    sync_until: Option<Sequence>,
    room: Room,
    disk_full: bool,
    free_room: FreeRoom,
    spare: Vec<Vec<u8>>,
    poison: Option<String>,
    closed: bool,
}

impl GroupCommit {
    /// An empty queue at `options.start`; everything before that position is durable and visible. It accepts
    /// nothing before the first call of [`GroupCommit::room`].
    pub fn new(options: GroupCommitOptions) -> Self {
        Self {
            options,
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            queued_bytes: 0,
            next: options.start.sequence,
            written: options.start,
            synced: options.start,
            visible: options.start,
            uncommitted: VecDeque::new(),
            sync_until: None,
            room: Room::default(),
            disk_full: false,
            free_room: FreeRoom::new(options.marks),
            spare: Vec::new(),
            poison: None,
            closed: false,
        }
    }

    /// Queues records and returns their sequences. Errors: `Poisoned`, `Closed`, `TooLarge`,
    /// `InvalidArgument`, `BelowMark`, and `DiskFull` if there is no room and no segment could be prepared.
    /// Nothing is queued after an error.
    pub fn submit(&mut self, submission: Submission<'_>) -> Result<Submitted> {
        self.refuse_if_done()?;
        let length = submission.records.len();
        let limit = records_max(self.options.segment_bytes);
        if length as u64 > limit {
            return Err(Error::TooLarge { argument: "records", limit, found: length as u64 });
        }
        if submission.record_count == 0 || length == 0 || !length.is_multiple_of(8) {
            let found = format!("{} records in {length} bytes", submission.record_count);
            return Err(Error::InvalidArgument { argument: "records", expected: "padded records".to_owned(), found });
        }
        if let Some(error) = self.free_room.refusal().filter(|_| submission.class == Class::Growing) {
            return Err(error);
        }
        let stops = self.disk_full && planted::is_on(Planted::FullDiskStopsFinishing);
        let growing = submission.class == Class::Growing || stops;
        if growing && self.queued_bytes > self.options.queue_bytes_max {
            return Ok(Submitted::QueueFull);
        }
        let charge = (length as u64).saturating_add(BATCH_HEADER_BYTES as u64);
        let reserve = usize::from(growing);
        let Some(place) = self.room.foresee(charge).filter(|place| self.room.untouched(*place) >= reserve) else {
            return if self.disk_full { Err(Error::DiskFull) } else { Ok(Submitted::NeedRoom) };
        };
        self.room.take(place);
        Ok(Submitted::Accepted(self.enqueue(submission, charge, place)))
    }

    fn enqueue(&mut self, submission: Submission<'_>, charge: u64, place: Place) -> Range<Sequence> {
        let base = self.next;
        let end = base.plus(submission.sequences());
        let bytes_max = self.options.batch_bytes_max;
        let joins = self.queue.back().is_some_and(|last| {
            let joined = last.commit.bytes.len().saturating_add(submission.records.len());
            last.place.segment == place.segment && joined <= bytes_max && !last.commit.ends_with_adoption
        });
        if !joins {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.resize(BATCH_HEADER_BYTES, 0);
            let committed = self.visible.location;
            let (record_count, must_sync, ends_with_adoption) = (0, false, false);
            let commit = Commit { bytes, record_count, base, end: base, ends_with_adoption, must_sync, committed };
            self.queue.push_back(Pending { commit, charge: 0, place });
        }
        if let Some(last) = self.queue.back_mut() {
            last.commit.bytes.extend_from_slice(submission.records);
            last.commit.record_count = last.commit.record_count.saturating_add(submission.record_count);
            (last.commit.end, last.commit.ends_with_adoption) = (end, submission.adopts > 0);
            last.commit.must_sync |= submission.must_sync || self.options.durability == Durability::Disk;
            last.charge = last.charge.saturating_add(charge);
        }
        self.queued_bytes = self.queued_bytes.saturating_add(submission.records.len());
        self.next = end;
        base..end
    }

    /// Returns the next batch to write: all submissions that have arrived, up to the limit of a batch. `None`
    /// if there are none, or if the log is poisoned.
    pub fn take(&mut self) -> Option<Commit> {
        if self.poison.is_some() {
            return None;
        }
        let Pending { mut commit, charge, .. } = self.queue.pop_front()?;
        let records = commit.bytes.len().saturating_sub(BATCH_HEADER_BYTES);
        self.queued_bytes = self.queued_bytes.saturating_sub(records);
        self.in_flight.push_back(charge);
        commit.committed = self.visible.location;
        if commit.must_sync {
            self.sync_until = Some(commit.end);
        }
        Some(commit)
    }

    /// Notes that the oldest batch taken was written and ends at `mark`. Call it before `synced` for the same
    /// batch. A copy that becomes primary first calls it for each batch that it has and that is not committed.
    pub fn written(&mut self, mark: Mark) {
        if self.poison.is_some() {
            return;
        }
        self.in_flight.pop_front();
        self.written = self.written.max(mark);
        self.next = self.next.max(mark.sequence);
        if self.options.visible_once == VisibleOnce::Committed {
            self.uncommitted.push_back(mark);
            return;
        }
        let unsynced_matters = self.options.durability == Durability::Disk || self.sync_until.is_some();
        if !unsynced_matters || planted::is_on(Planted::AckBeforeSync) {
            self.visible = self.written;
        }
    }

    /// Notes that everything before `mark` is durable.
    pub fn synced(&mut self, mark: Mark) {
        if self.poison.is_some() {
            return;
        }
        self.synced = self.synced.max(mark);
        if self.options.visible_once == VisibleOnce::Committed {
            if planted::is_on(Planted::UncommittedVisible) {
                self.committed(mark.sequence);
            }
            return;
        }
        self.visible = self.visible.max(self.synced);
        if self.sync_until.is_some_and(|until| until <= self.synced.sequence) {
            self.sync_until = None;
            if self.options.durability == Durability::Os {
                self.visible = self.visible.max(self.written);
            }
        }
    }

    /// Notes that the copies have everything before `end`.
    pub fn committed(&mut self, end: Sequence) {
        while self.poison.is_none()
            && let Some(mark) = self.uncommitted.front().copied().filter(|mark| mark.sequence <= end)
        {
            self.visible = mark;
            self.uncommitted.pop_front();
        }
    }

    /// Notes that a write or sync failed. Nothing more becomes visible and nothing more is accepted. The
    /// reason of the first failure is kept.
    pub fn failed(&mut self, reason: &str) {
        self.poison.get_or_insert_with(|| reason.to_owned());
        self.queue.clear();
        self.in_flight.clear();
        self.queued_bytes = 0;
    }

    /// Why the log is poisoned, if it is.
    pub fn poison(&self) -> Option<&str> {
        self.poison.as_deref()
    }

    /// Accepts no more submissions. Queued ones are still written.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// The first sequence that is not visible yet, and its location.
    pub fn visible(&self) -> Mark {
        self.visible
    }

    /// The end of the written log.
    pub fn written_mark(&self) -> Mark {
        self.written
    }

    /// The end of the durable log.
    pub fn synced_mark(&self) -> Mark {
        self.synced
    }

    /// The sequence of the next fact to be submitted.
    pub fn next_sequence(&self) -> Sequence {
        self.next
    }

    /// Bytes of records that wait to be taken.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// True if nothing is queued and nothing is being written.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty()
    }

    /// True if writing the next batch does not wait for the disk: the batch need not be synced, and the open
    /// segment has room for it.
    pub fn next_is_quick(&self) -> bool {
        self.queue.front().is_some_and(|next| !next.commit.must_sync && next.place.segment == 0)
    }

    /// Takes back a written buffer of the usual size, for a later batch.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        let kept: usize = self.spare.iter().map(Vec::capacity).sum();
        let usual = 1..=self.options.batch_bytes_max.saturating_mul(2);
        if usual.contains(&bytes.capacity()) && kept.saturating_add(bytes.capacity()) <= SPARE_BYTES {
            self.spare.push(bytes);
        }
    }

    /// Frees the buffers that are kept for later batches.
    pub fn release_spare(&mut self) {
        self.spare = Vec::new();
    }

    /// Sets the room that the appender has: in its segment and in each prepared one. Call it before the first
    /// submission, after each batch or witness, and after each adopted segment, while holding the appender,
    /// so that the queue and the appender describe the same moment.
    pub fn room(&mut self, tail: u64, prepared: impl IntoIterator<Item = u64>) {
        self.room.reset(tail, prepared);
        for charge in &self.in_flight {
            place(&mut self.room, *charge);
        }
        for pending in &mut self.queue {
            pending.place = place(&mut self.room, pending.charge);
        }
    }

    /// True if it is time to prepare a segment: a growing submission of `length` bytes of records would wait
    /// for room, or would leave fewer than `spare` prepared segments (one if the disk is below its refusal
    /// mark).
    pub fn needs_segment(&self, length: u64, spare: usize) -> bool {
        let charge = length.saturating_add(BATCH_HEADER_BYTES as u64);
        let spare = if self.free_room.refusal().is_some() { 1 } else { spare.max(1) };
        self.room.foresee(charge).is_none_or(|place| self.room.untouched(place) < spare)
    }

    /// Sets whether the last attempt to prepare a segment failed because the disk was full.
    pub fn set_disk_full(&mut self, disk_full: bool) {
        self.disk_full = disk_full;
    }

    /// True while growing submissions that find no room are refused.
    pub fn is_disk_full(&self) -> bool {
        self.disk_full
    }

    /// Notes the free bytes of the disk, `None` if they are unknown, while a segment of `preparing` bytes is
    /// being made. Returns what changed.
    pub fn note_free(&mut self, free_bytes: Option<u64>, preparing: u64) -> RoomChange {
        self.free_room.note(free_bytes, self.spare_bytes(preparing))
    }

    /// Bytes of disk that the log has allocated for future messages, with the `preparing` bytes of a segment
    /// being made.
    pub fn spare_bytes(&self, preparing: u64) -> u64 {
        self.room.spare_bytes(preparing)
    }

    /// The free room at the last check of the disk.
    pub fn free_room(&self) -> &FreeRoom {
        &self.free_room
    }

    fn refuse_if_done(&self) -> Result<()> {
        match &self.poison {
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }),
            None if self.closed => Err(Error::Closed),
            None => Ok(()),
        }
    }
}

/// Places a whole batch. A batch that does not fit anywhere uses up all room.
fn place(room: &mut Room, charge: u64) -> Place {
    match room.foresee(charge) {
        Some(place) => room.take(place),
        None => room.exhaust(),
    }
    room.end()
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
