//! Group commit, as a state machine: what goes into the next batch, when it must be synced, who is
//! answered when, and what happens after a failure. It calls nothing and waits for nothing.
//!
//! Records are copied once, into the buffer that will be written, when they are submitted; their
//! sequences are known from then on, since nothing that was accepted is dropped or overtaken. Only
//! a poisoned log answers none of what is queued.
//!
//! Whoever commits holds the appender and repeats: [`GroupCommit::take`], append, sync where
//! [`Commit::must_sync`] says so, [`GroupCommit::written`], [`GroupCommit::synced`],
//! [`GroupCommit::room`], [`GroupCommit::recycle`].

use std::collections::VecDeque;
use std::ops::Range;

use super::durability::Durability;
use super::free_room::{FreeMarks, FreeRoom, RoomChange};
use super::room::{Place, Room};
use super::submission::{Class, Submission, Submitted};
use crate::error::{Error, Result};
use crate::message_log::segment::records_max;
use crate::planted::{self, Planted};
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::units::{Location, Sequence};

/// Bytes of buffers that are kept for the next batches, while there are any.
const SPARE_BYTES: usize = 4 << 20;

/// A point between two batches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Mark {
    /// Where the next batch may start.
    pub location: Location,
    /// The sequence of its first fact.
    pub sequence: Sequence,
}

/// One batch to write.
#[derive(Debug)]
pub struct Commit {
    /// Room for the batch header, then the records.
    pub bytes: Vec<u8>,
    /// How many records there are.
    pub record_count: u32,
    /// The sequence of the first.
    pub base: Sequence,
    /// The one behind the last.
    pub end: Sequence,
    /// The last record adopts loaded runs: nothing may stand behind it.
    ends_with_adoption: bool,
    /// True where it must be synced before anybody is answered.
    pub must_sync: bool,
    /// The end of what was visible when it was taken.
    pub committed: Location,
}

/// What does not change while a log is open.
#[derive(Clone, Copy, Debug)]
pub struct GroupCommitOptions {
    /// What an answer waits for.
    pub durability: Durability,
    /// Where the log goes on.
    pub start: Mark,
    /// Bytes of a segment; bounds what one submission may hold.
    pub segment_bytes: u32,
    /// A batch takes no further submission beyond so many bytes.
    pub batch_bytes_max: usize,
    /// Growing submissions wait while more bytes than this are queued.
    pub queue_bytes_max: usize,
    /// Of what is free on the disk.
    pub marks: FreeMarks,
}

impl GroupCommitOptions {
    /// The usual bounds: batches of 1 MiB, which stay in the processor's caches from the copy to
    /// the write, and 64 MiB queued; no marks.
    pub fn new(durability: Durability, start: Mark, segment_bytes: u32) -> Self {
        let marks = FreeMarks::default();
        Self { durability, start, segment_bytes, batch_bytes_max: 1 << 20, queue_bytes_max: 64 << 20, marks }
    }
}

/// A batch that is queued or being written.
#[derive(Debug)]
struct Pending {
    commit: Commit,
    charge: u64,
    place: Place,
}

/// The queue before the log, and the positions behind it.
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
    sync_until: Option<Sequence>,
    room: Room,
    disk_full: bool,
    free_room: FreeRoom,
    spare: Vec<Vec<u8>>,
    poison: Option<String>,
    closed: bool,
}

impl GroupCommit {
    /// An empty queue at `options.start`, all before it durable and visible. It accepts nothing
    /// before [`GroupCommit::room`] was told.
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
            sync_until: None,
            room: Room::default(),
            disk_full: false,
            free_room: FreeRoom::new(options.marks),
            spare: Vec::new(),
            poison: None,
            closed: false,
        }
    }

    /// Queues records and says which sequences they have. Errors: `Poisoned`, `Closed`, `TooLarge`,
    /// `DiskFull` where there is no room and none could be prepared, `BelowMark`; nothing is queued then.
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

    /// The next batch to write: all that has arrived, up to the bounds of a batch. `None` where
    /// nothing has, or the log is poisoned.
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

    /// The batch taken first was written and ends at `mark`. Call it before `synced` of the same.
    pub fn written(&mut self, mark: Mark) {
        if self.poison.is_some() {
            return;
        }
        self.in_flight.pop_front();
        self.written = self.written.max(mark);
        let unsynced_matters = self.options.durability == Durability::Disk || self.sync_until.is_some();
        if !unsynced_matters || planted::is_on(Planted::AckBeforeSync) {
            self.visible = self.written;
        }
    }

    /// Everything before `mark` is durable.
    pub fn synced(&mut self, mark: Mark) {
        if self.poison.is_some() {
            return;
        }
        self.synced = self.synced.max(mark);
        self.visible = self.visible.max(self.synced);
        if self.sync_until.is_some_and(|until| until <= self.synced.sequence) {
            self.sync_until = None;
            if self.options.durability == Durability::Os {
                self.visible = self.visible.max(self.written);
            }
        }
    }

    /// A write or sync failed: nothing more becomes visible and nothing more is accepted. The
    /// first reason stands.
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

    /// Accepts nothing more; what is queued is still written.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// The first sequence that nobody may see yet, and where it will be.
    pub fn visible(&self) -> Mark {
        self.visible
    }

    /// The end of what was written.
    pub fn written_mark(&self) -> Mark {
        self.written
    }

    /// The end of what is durable.
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

    /// True where nothing waits and nothing is being written.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty()
    }

    /// True where writing the next batch waits for no disk: it need not be synced, and the segment
    /// that is open has room for it.
    pub fn next_is_quick(&self) -> bool {
        self.queue.front().is_some_and(|next| !next.commit.must_sync && next.place.segment == 0)
    }

    /// Takes a written buffer back, for a later batch, where it is of the usual size.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        let kept: usize = self.spare.iter().map(Vec::capacity).sum();
        let usual = 1..=self.options.batch_bytes_max.saturating_mul(2);
        if usual.contains(&bytes.capacity()) && kept.saturating_add(bytes.capacity()) <= SPARE_BYTES {
            self.spare.push(bytes);
        }
    }

    /// Gives back the memory that is only kept for later.
    pub fn release_spare(&mut self) {
        self.spare = Vec::new();
    }

    /// What the appender has: room in its segment and in each of its stock. Told before the first
    /// submission, after each batch or witness and after each adopted segment, with the appender in
    /// hand, so that both speak of the same moment.
    pub fn room(&mut self, tail: u64, prepared: impl IntoIterator<Item = u64>) {
        self.room.reset(tail, prepared);
        for charge in &self.in_flight {
            place(&mut self.room, *charge);
        }
        for pending in &mut self.queue {
            pending.place = place(&mut self.room, pending.charge);
        }
    }

    /// True where a growing submission of `length` bytes of records would have to wait for room,
    /// or where less than `spare` prepared segments would be left, one below the mark: time to prepare one.
    pub fn needs_segment(&self, length: u64, spare: usize) -> bool {
        let charge = length.saturating_add(BATCH_HEADER_BYTES as u64);
        let spare = if self.free_room.refusal().is_some() { 1 } else { spare.max(1) };
        self.room.foresee(charge).is_none_or(|place| self.room.untouched(place) < spare)
    }

    /// Whether the last try to prepare a segment failed for lack of room on the disk.
    pub fn set_disk_full(&mut self, disk_full: bool) {
        self.disk_full = disk_full;
    }

    /// True while growing submissions that find no room are refused.
    pub fn is_disk_full(&self) -> bool {
        self.disk_full
    }

    /// Notes what is free on the disk, `None` where nobody can tell, while a segment of `preparing` bytes is made, and
    /// says what changed by that.
    pub fn note_free(&mut self, free_bytes: Option<u64>, preparing: u64) -> RoomChange {
        self.free_room.note(free_bytes, self.spare_bytes(preparing))
    }

    /// What the log has of the disk for messages that are not there yet.
    pub fn spare_bytes(&self, preparing: u64) -> u64 {
        self.room.spare_bytes(preparing)
    }

    /// What was free at the last look.
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

/// Places a whole batch; one that fits nowhere uses up everything.
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
